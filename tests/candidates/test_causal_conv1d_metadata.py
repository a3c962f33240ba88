"""The candidates against the reference with a plain loop that owes nothing to the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import candidates.causal_conv1d_metadata as folder
from harness.case import Case, TensorValue
from harness.contracts import contract_named
from references.causal_conv1d_metadata import compute_causal_conv1d_metadata

CONTRACT = contract_named("causal_conv1d_metadata")
NAMES = sorted(path.stem for path in Path(folder.__path__[0]).glob("[a-z]*.py"))
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def candidate_module(name: str) -> Any:
    return import_module(f"{folder.__name__}.{name}")


def query_start_loc_of(case: Case) -> torch.Tensor:
    value = case.arguments["query_start_loc_p_cpu"]
    assert isinstance(value, TensorValue)
    return torch.tensor(value.data, dtype={"int32": torch.int32, "int64": torch.int64}[value.dtype])


def assert_equal_on(cases: Iterable[Case], function: Any, device: torch.device) -> int:
    """Compare a function with the reference on each case; returns how many there were."""
    count = 0
    for case in cases:
        count += 1
        query_start_loc = query_start_loc_of(case)
        try:
            expected = compute_causal_conv1d_metadata(query_start_loc, device=device)
        except ValueError:
            with pytest.raises(ValueError, match=r"negative|decrease"):
                function(query_start_loc, device=device)
            continue
        got = function(query_start_loc.clone(), device=device)
        assert list(got[0]) == [8], case
        assert list(got[0][8]) == list(expected[0][8]), case
        assert got[0][8]["batch_ptr"] is got[1], case
        assert got[0][8]["token_chunk_offset_ptr"] is got[2], case
        for name, value in expected[0][8].items():
            other = got[0][8][name]
            if isinstance(value, torch.Tensor):
                assert (value.dtype, value.device, value.shape) == (other.dtype, other.device, other.shape), (
                    name,
                    case,
                )
                assert value.is_pinned() == other.is_pinned(), (name, case)
                assert torch.equal(value, other), (name, case)
            else:
                assert (type(value), value) == (type(other), other), (name, case)
    return count


def commit_cases() -> Iterator[Case]:
    space = CONTRACT.space("commit")
    yield from (space[index] for index in range(len(space)))
    yield from CONTRACT.scale("commit")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_a_candidate_equals_the_reference_on_everything_that_a_commit_searches(name: str, device: str) -> None:
    function = candidate_module(name).compute_causal_conv1d_metadata
    count = assert_equal_on(commit_cases(), function, torch.device(device))
    assert count > 1000


@pytest.mark.parametrize("name", NAMES)
def test_a_candidate_equals_the_reference_on_many_rows_and_many_programs(name: str) -> None:
    function = candidate_module(name).compute_causal_conv1d_metadata
    cases = [case for case in CONTRACT.scale("gate") if case.size() > 1000]
    assert assert_equal_on(cases, function, torch.device("cpu")) >= 6


@pytest.mark.parametrize("name", NAMES)
def test_a_candidate_says_its_idea_in_one_line(name: str) -> None:
    first_line = str(candidate_module(name).__doc__).splitlines()[0]
    assert ":" in first_line
    assert first_line.endswith(".")


def test_the_three_first_ideas_are_there() -> None:
    assert {"numpy_prefix_sums", "searchsorted", "torch_repeat_interleave"} <= set(NAMES)
