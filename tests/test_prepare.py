"""Prepare: who stands in for the reference of a kernel, and how kernels are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.contracts import contract_named
from harness.errors import HarnessError, LoadError
from harness.load.spec import parse_spec
from harness.prepare import peer_of
from harness.verdict import Result, Symptom

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "candidates" / "causal_conv1d_prefill"
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("candidate", "peer"),
    [
        ("causal_conv1d_prefill/tile_of_tokens", "rolling_taps"),
        ("causal_conv1d_prefill/rolling_taps", "tile_of_tokens"),
        ("causal_conv1d_prefill/programmatic_launch", "tile_of_tokens"),
        (f"{FOLDER}/tile_of_tokens.py::causal_conv1d_fn", "rolling_taps"),
    ],
)
def test_a_kernel_is_compared_with_another_one_never_with_itself(candidate: str, peer: str) -> None:
    name, found = peer_of(contract_named("causal_conv1d_prefill"), parse_spec(candidate, root=ROOT), CPU)
    assert name == f"causal_conv1d_prefill/{peer}"
    assert found is not None
    assert found.__module__.endswith(f".{peer}")


def test_where_results_are_exact_the_reference_needs_no_peer() -> None:
    spec = parse_spec("causal_conv1d_metadata/searchsorted", root=ROOT)
    assert peer_of(contract_named("causal_conv1d_metadata"), spec, CPU) == ("", None)


def test_a_contract_that_names_only_the_candidate_itself_is_an_error() -> None:
    contract = replace(contract_named("causal_conv1d_prefill"), peers=("causal_conv1d_prefill/rolling_taps",))
    with pytest.raises(HarnessError, match="no peer"):
        peer_of(contract, parse_spec("causal_conv1d_prefill/rolling_taps", root=ROOT), CPU)


def test_a_torch_version_of_the_loop_is_told_that_it_was_compared_with_a_peer(
    quick_check: Callable[..., Result],
) -> None:
    # PyTorch's exp and the interpreter's differ in the last bit.
    spec = f"{ROOT}/references/causal_conv1d_prefill.py::causal_conv1d_fn"
    result = quick_check(spec, contract="causal_conv1d_prefill", case_timeout=10.0, memory_limit="4G")
    assert result.symptom is Symptom.DIFFERENT, result
    assert result.finding is not None
    assert result.finding.case.arguments["activation"] == "silu"
    assert "expected is what the peer causal_conv1d_prefill/tile_of_tokens gives" in result.finding.message


def test_a_peer_that_cannot_be_loaded_is_the_harness_failure_not_the_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LoadError("no such thing")

    monkeypatch.setattr("harness.prepare.load", broken)
    with pytest.raises(HarnessError, match="its peer cannot be loaded: no such thing"):
        peer_of(
            contract_named("causal_conv1d_prefill"), parse_spec("causal_conv1d_prefill/rolling_taps", root=ROOT), CPU
        )
