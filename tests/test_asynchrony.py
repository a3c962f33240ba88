"""Calls while streams are stalled: what does not wait as it should is late, and what does is not accused."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from harness.asynchrony import Mode, examine_asynchrony, search_asynchrony, spread, why_not
from harness.audit import listed_faults
from harness.contracts import contract_named
from harness.contracts.causal_conv1d_metadata import CONTRACT, case
from harness.examine import Subject
from harness.load import load
from harness.load.spec import parse_spec
from harness.load.stubs import builtin_stubs
from harness.materialise import signature_of
from harness.verdict import Finding, Symptom
from references.causal_conv1d_metadata import compute_causal_conv1d_metadata as reference

TESTS: Final = Path(__file__).parent
FAULTS: Final = [fault for fault in listed_faults(CONTRACT, TESTS.parent) if fault.device == "cuda"]
CORRECT: Final = TESTS / "correct" / f"{CONTRACT.name}.py"
BATCHES: Final = ((0, 20, 23), (0, 8, 8, 17, 90), (0, 8192), (0, 3, 9000))


@pytest.fixture
def subject(subject_of: Callable[..., Subject]) -> Callable[..., Subject]:
    """The subject of a candidate on the CPU."""
    return lambda candidate: subject_of(CONTRACT, reference, candidate)


@pytest.fixture
def on_cuda(subject: Callable[..., Subject]) -> Callable[..., Subject]:
    """The subject of a candidate on a GPU."""
    if not torch.cuda.is_available():
        pytest.skip("nothing is asynchronous without a CUDA device")
    return lambda candidate: replace(subject(candidate), device=torch.device("cuda"), check_pinned=True)


def loaded(spec: str) -> Callable[..., Any]:
    parsed = parse_spec(spec, root=TESTS)
    return load(parsed, function=CONTRACT.function, device="cuda", stubs=builtin_stubs()).function


def first_finding(subject: Subject) -> Finding | None:
    findings = (examine_asynchrony(subject, case(batch, dtype)) for batch in BATCHES for dtype in ("int32", "int64"))
    return next((finding for finding in findings if finding is not None), None)


def searched(subject: Subject) -> list[Finding]:
    deadline = time.monotonic() + 500
    stage, strata, found = search_asynchrony(subject, "commit", done=0, changed=lambda: None, deadline=deadline)
    assert (stage.search, stage.complete) == ("asynchrony", not found)
    assert stage.cases > 0
    assert sum(strata.values()) > 0
    return found


def test_without_a_gpu_it_says_why_it_does_not_run(subject: Callable[..., Subject]) -> None:
    reason = why_not(subject(reference))
    assert reason is not None
    assert "CUDA device" in reason or "_sleep" in reason


def test_cases_are_spread_over_the_space_and_have_twins(subject: Callable[..., Subject]) -> None:
    cases = [*spread(subject(reference), "commit", 20)]
    assert 10 <= len(cases) <= 20
    assert all(CONTRACT.twin(each) is not None for each in cases)
    assert max(each.size() for each in cases) > 100
    assert len({each.size() for each in cases}) >= 4


def test_there_are_enough_faults_that_only_a_gpu_can_show() -> None:
    assert len(FAULTS) >= 5
    assert all(Symptom.LATE in fault.symptoms for fault in FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_asynchrony_is_late(fault: Any, on_cuda: Callable[..., Subject]) -> None:
    finding = first_finding(on_cuda(loaded(fault.spec)))
    assert finding is not None
    assert finding.symptom in fault.symptoms, finding
    assert finding.symptom is not Symptom.LATE or finding.step.startswith(tuple(mode.value for mode in Mode))


@pytest.mark.parametrize("name", ["pinned_buffer_behind_an_event", "side_stream_that_is_waited_for", "private_scratch"])
def test_a_version_that_waits_is_not_accused(name: str, on_cuda: Callable[..., Subject]) -> None:
    assert searched(on_cuda(loaded(f"{CORRECT}::{name}"))) == []


def test_the_reference_is_not_accused(on_cuda: Callable[..., Subject]) -> None:
    assert searched(on_cuda(reference)) == []


def test_a_kernel_is_given_arguments_that_have_not_arrived(
    on_cuda: Callable[..., Subject], subject_of: Callable[..., Subject]
) -> None:
    pytest.importorskip("triton")
    contract = contract_named("causal_conv1d_prefill")
    truth = import_module("references.causal_conv1d_prefill").causal_conv1d_fn
    kernel, peer = (
        import_module(f"candidates.causal_conv1d_prefill.{name}").causal_conv1d_fn
        for name in ("tile_of_tokens", "rolling_taps")
    )

    def on_default_stream(*given: Any, **named: Any) -> Any:
        with torch.cuda.stream(torch.cuda.default_stream()):
            return kernel(*given, **named)

    device = on_cuda(reference).device
    for candidate, accused in ((kernel, False), (on_default_stream, True)):
        subject = replace(
            subject_of(contract, truth, candidate), device=device, peer=peer, signature=signature_of(truth)
        )
        found = searched(subject)
        assert [finding.symptom for finding in found] == ([Symptom.LATE] if accused else [])
