"""Captured calls: replays with other values must give what plain calls give."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from harness.case import Case, TensorValue
from harness.contract import Contract
from harness.contracts import contract_named
from harness.examine import Subject
from harness.graph import CAPTURE, REPLAY, examine_graph, search_graphs, why_not
from harness.verdict import Symptom


def case_of(*numbers: int) -> Case:
    return Case("toy", {"x": TensorValue("int32", numbers, device="target")})


def reference(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def twin(case: Case) -> Case:
    value = case.arguments["x"]
    assert isinstance(value, TensorValue)
    return case_of(*(int(number) + 5 for number in value.data))


@pytest.fixture
def toy(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]) -> Callable[..., Subject]:
    """The subject of a candidate that doubles a tensor."""
    return lambda candidate: subject_of(contract_of(twin=twin, scale=[case_of(1, 2, 3)]), reference, candidate)


@pytest.fixture
def on_cuda(toy: Callable[..., Subject]) -> Callable[..., Subject]:
    """The same on a GPU."""
    if not torch.cuda.is_available():
        pytest.skip("there are no graphs without a CUDA device")
    return lambda candidate: replace(toy(candidate), device=torch.device("cuda"))


def test_without_a_gpu_it_says_why_it_does_not_run(toy: Callable[..., Subject]) -> None:
    assert why_not(toy(reference)) == "it needs a CUDA device"


def test_a_call_that_can_be_captured_is_replayed_with_other_values(on_cuda: Callable[..., Subject]) -> None:
    subject = on_cuda(lambda x: x + x)
    deadline = time.monotonic() + 100
    stage, _, found = search_graphs(subject, "commit", done=0, changed=lambda: None, deadline=deadline)
    assert (stage.search, stage.cases, found) == ("graph", 1, [])


def test_a_call_that_reads_its_argument_on_the_host_cannot_be_captured(on_cuda: Callable[..., Subject]) -> None:
    finding = examine_graph(on_cuda(lambda x: torch.tensor([2 * each for each in x.tolist()])), case_of(1, 2))
    assert finding is not None
    assert (finding.symptom, finding.step) == (Symptom.RAISED, CAPTURE)


def test_a_value_that_is_kept_from_an_earlier_call_shows_in_a_replay(on_cuda: Callable[..., Subject]) -> None:
    kept: list[torch.Tensor] = []

    def candidate(x: torch.Tensor) -> torch.Tensor:
        kept[1:] = []
        kept.append(x * 2)
        return kept[0] + 0

    finding = examine_graph(on_cuda(candidate), case_of(1, 2))
    assert finding is not None
    assert (finding.symptom, finding.step) == (Symptom.DIFFERENT, REPLAY)
    assert finding.case == case_of(6, 7)
    assert finding.before == (case_of(1, 2),)


def test_an_argument_that_a_replay_leaves_otherwise_is_found(on_cuda: Callable[..., Subject]) -> None:
    finding = examine_graph(on_cuda(lambda x: x.mul_(2).clone()), case_of(1, 2))
    assert finding is not None
    assert (finding.symptom, finding.step) == (Symptom.MUTATED_INPUT, REPLAY)


def test_the_convolution_can_be_captured(on_cuda: Callable[..., Subject], subject_of: Callable[..., Subject]) -> None:
    pytest.importorskip("triton")
    contract = contract_named("causal_conv1d_prefill")
    truth = import_module("references.causal_conv1d_prefill").causal_conv1d_fn
    kernel, peer = (
        import_module(f"candidates.causal_conv1d_prefill.{name}").causal_conv1d_fn
        for name in ("tile_of_tokens", "rolling_taps")
    )
    subject: Any = replace(subject_of(contract, truth, kernel), device=on_cuda(reference).device, peer=peer)
    deadline = time.monotonic() + 500
    stage, _, found = search_graphs(subject, "commit", done=0, changed=lambda: None, deadline=deadline)
    assert found == []
    assert stage.cases > 0
