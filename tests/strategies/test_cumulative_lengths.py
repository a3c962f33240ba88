"""What the strategies of cumulative lengths can draw, and what failures shrink to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings

from strategies.cumulative_lengths import cumulative_length_tensors, cumulative_lengths

Feature = Callable[[list[int]], bool]


def drawn(strategy: Any, examples: int) -> list[Any]:
    """What a strategy draws in a deterministic run."""
    seen: list[Any] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(strategy)
    def collect(example: Any) -> None:
        seen.append(example)

    collect()
    return seen


def simplest(strategy: Any, condition: Callable[[Any], bool]) -> Any:
    quiet = settings(database=None, max_examples=5000, suppress_health_check=list(HealthCheck), deadline=None)
    return find(strategy, condition, settings=quiet, random=Random(0))


def lengths_of(values: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(values)]


@pytest.fixture(scope="module")
def ordinary() -> list[list[int]]:
    return drawn(cumulative_lengths(max_value=2**63 - 1), 2500)


FEATURES: dict[str, Feature] = {
    "no rows": lambda v: len(v) == 1,
    "one below a multiple": lambda v: any(n % 8 == 7 for n in lengths_of(v)),
    "a multiple": lambda v: any(n and n % 8 == 0 for n in lengths_of(v)),
    "one above a multiple": lambda v: any(n > 1 and n % 8 == 1 for n in lengths_of(v)),
    "a length far from a multiple": lambda v: any(2 <= n % 8 <= 6 for n in lengths_of(v)),
    "an empty row in front": lambda v: lengths_of(v)[:1] == [0] and v[-1] > v[0],
    "an empty row at the end": lambda v: lengths_of(v)[-1:] == [0] and v[-1] > v[0],
    "an empty row in the middle": lambda v: len(v) > 3 and 0 in lengths_of(v)[1:-1] and v[1] > v[0] and v[-1] > v[-2],
    "empty rows only": lambda v: len(v) > 2 and v[0] == v[-1],
    "no empty row among several": lambda v: len(v) > 4 and 0 not in lengths_of(v),
    "a start of 0": lambda v: v[0] == 0,
    "a small start": lambda v: 0 < v[0] <= 100,
    "a start past 2**24": lambda v: 2**24 < v[0] < 2**25,
    "a start just below 2**31": lambda v: v[0] == 2**31 - 1,
    "a start past 2**31": lambda v: 2**31 < v[0] < 2**32,
    "a start past 2**53": lambda v: 2**53 < v[0] < 2**54,
    "an end at the largest value": lambda v: v[-1] == 2**63 - 1,
    "a thousand rows": lambda v: len(v) > 1000,
    "a long row": lambda v: max(lengths_of(v), default=0) > 1000,
    "more than 1024 tiles in a row": lambda v: max(lengths_of(v), default=0) > 8192,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_drawn_and_none_is_always_there(feature: str, ordinary: list[list[int]]) -> None:
    share = sum(map(FEATURES[feature], ordinary)) / len(ordinary)
    assert 0 < share < 0.95


def test_entries_are_never_negative_never_decrease_and_fit(ordinary: list[list[int]]) -> None:
    int32 = drawn(cumulative_lengths(), 600)
    for examples, largest in ((ordinary, 2**63 - 1), (int32, 2**31 - 1)):
        assert all(values[0] >= 0 and values[-1] <= largest for values in examples)
        assert all(min(lengths_of(values), default=0) >= 0 for values in examples)
    assert any(values[-1] == 2**31 - 1 and len(values) > 1 for values in int32)


def test_bounds_on_rows_start_and_length_hold() -> None:
    examples = drawn(cumulative_lengths(min_rows=2, max_rows=3, max_length=5, many_rows=0, long_length=0, start=7), 300)
    assert {len(values) - 1 for values in examples} == {2, 3}
    assert {values[0] for values in examples} == {7}
    assert max(max(lengths_of(values)) for values in examples) == 5


def test_many_rows_and_a_long_row_stay_within_their_bounds() -> None:
    examples = drawn(cumulative_lengths(many_rows=300, long_length=900), 1500)
    assert 75 <= max(len(values) - 1 for values in examples) <= 300
    assert 100 < max(max(lengths_of(values), default=0) for values in examples) <= 900


def test_a_batch_that_does_not_fit_is_clipped_at_the_largest_value() -> None:
    examples = drawn(cumulative_lengths(max_value=20, many_rows=0, long_length=0), 300)
    assert max(values[-1] for values in examples) == 20
    assert all(min(lengths_of(values), default=0) >= 0 for values in examples)


def test_malformed_batches_decrease_by_less_than_a_tile_and_by_more() -> None:
    examples = drawn(cumulative_lengths(malformed=True, max_rows=4), 400)
    falls = [min(lengths_of(values)) for values in examples]
    assert max(falls) < 0
    assert set(range(-9, 0)) <= set(falls)
    assert all(min(values) >= 0 and max(values) < 2**31 for values in examples)
    assert any(min(lengths_of(values)[1:], default=0) < 0 <= lengths_of(values)[0] for values in examples)


@pytest.mark.parametrize(
    ("condition", "minimal"),
    [
        (lambda v: True, [0]),
        (lambda v: v[0] > 0, [1]),
        (lambda v: len(v) > 3, [0, 0, 0, 0]),
        (lambda v: v[-1] - v[0] >= 8, [0, 8]),
        (
            lambda v: any(a and not b and c for a, b, c in zip(*(lengths_of(v)[i:] for i in range(3)), strict=False)),
            [0, 1, 1, 2],
        ),
    ],
)
def test_failures_shrink_to_the_smallest_batch(condition: Feature, minimal: list[int]) -> None:
    assert simplest(cumulative_lengths(), condition) == minimal


def test_malformed_batches_shrink_to_one_step_down() -> None:
    assert simplest(cumulative_lengths(malformed=True), lambda _: True) == [1, 0]


def test_tensors_are_of_both_types_and_use_their_range() -> None:
    tensors = drawn(cumulative_length_tensors(many_rows=0), 800)
    assert {tensor.dtype for tensor in tensors} == {torch.int32, torch.int64}
    assert all(tensor.dim() == 1 and tensor.device.type == "cpu" for tensor in tensors)
    largest = {tensor.dtype: max(int(t[-1]) for t in tensors if t.dtype is tensor.dtype) for tensor in tensors}
    assert largest == {torch.int32: 2**31 - 1, torch.int64: 2**63 - 1}
    assert all(bool((tensor.diff() >= 0).all()) for tensor in tensors)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tile": 0}, "tile=0"),
        ({"max_length": 0}, "max_length=0"),
        ({"min_rows": 3, "max_rows": 2}, "min_rows=3, max_rows=2"),
        ({"min_rows": -1}, "min_rows=-1"),
        ({"malformed": True, "max_rows": 0}, "max_rows"),
        ({"malformed": True, "tile": 1}, "tile of 2 or more"),
        ({"many_rows": -1}, "many_rows=-1"),
        ({"start": -1}, "start=-1"),
        ({"start": 9, "max_value": 8}, "max_value=8"),
    ],
)
def test_arguments_out_of_range_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cumulative_lengths(**options)


@pytest.mark.parametrize("dtypes", [(), ("int16",), ("int32", "float32")])
def test_element_types_other_than_int32_and_int64_are_refused(dtypes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="int32, int64"):
        cumulative_length_tensors(dtypes=dtypes)


def test_importing_the_strategies_does_not_import_torch() -> None:
    modules = (
        "strategies.cumulative_lengths, strategies.small_batches, strategies.simpler, strategies.scheduler_batches"
    )
    program = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
