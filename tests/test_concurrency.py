"""First calls from several threads at once give the reference's bits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from threading import Lock
from typing import Any

import pytest
import torch

from harness.case import Case, TensorValue
from harness.concurrency import CACHE, TOGETHER, examine_concurrency, search_concurrency, why_not
from harness.contract import Contract
from harness.contracts import contract_named
from harness.examine import Subject
from harness.verdict import Symptom

CASES = [Case("toy", {"x": TensorValue("int32", numbers, device="target")}) for numbers in ((1, 2), (3, 4), (5,))]


def reference(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.fixture
def toy(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]) -> Callable[..., Subject]:
    """The subject of a candidate that doubles a tensor."""
    return lambda candidate: subject_of(contract_of(), reference, candidate)


@pytest.fixture
def on_cuda(toy: Callable[..., Subject]) -> Callable[..., Subject]:
    """The same on a GPU."""
    if not torch.cuda.is_available():
        pytest.skip("kernels are compiled for a CUDA device only")
    return lambda candidate: replace(toy(candidate), device=torch.device("cuda"))


def test_without_a_gpu_it_says_why_it_does_not_run(toy: Callable[..., Subject]) -> None:
    assert why_not(toy(reference)) == "it needs a CUDA device"


def test_right_calls_are_not_accused_and_kernels_are_kept_in_a_new_folder(on_cuda: Callable[..., Subject]) -> None:
    before, seen = os.environ.get(CACHE), set()

    def candidate(x: torch.Tensor) -> torch.Tensor:
        seen.add(os.environ[CACHE])
        return x + x

    assert examine_concurrency(on_cuda(candidate), CASES) is None
    assert len(seen) == 1
    assert before not in seen
    assert os.environ.get(CACHE) == before


def test_calls_that_get_into_each_others_way_are_unstable(on_cuda: Callable[..., Subject]) -> None:
    inside: list[object] = []
    lock = Lock()

    def candidate(x: torch.Tensor) -> torch.Tensor:
        with lock:
            inside.append(x)
        time.sleep(0.2)
        alone = len(inside) == 1
        time.sleep(0.2)
        with lock:
            inside.pop()
        return x * 2 if alone else x

    finding = examine_concurrency(on_cuda(candidate), CASES)
    assert finding is not None
    assert (finding.symptom, finding.step) == (Symptom.UNSTABLE, TOGETHER)


def test_what_a_single_call_gets_wrong_too_is_left_to_other_searches(on_cuda: Callable[..., Subject]) -> None:
    assert examine_concurrency(on_cuda(lambda x: x * 3), CASES) is None


def test_the_convolutions_kernels_can_be_compiled_at_once(
    on_cuda: Callable[..., Subject], subject_of: Callable[..., Subject]
) -> None:
    pytest.importorskip("triton")
    contract = contract_named("causal_conv1d_prefill")
    truth = import_module("references.causal_conv1d_prefill").causal_conv1d_fn
    kernel, peer = (
        import_module(f"candidates.causal_conv1d_prefill.{name}").causal_conv1d_fn
        for name in ("programmatic_launch", "rolling_taps")
    )
    subject: Any = replace(subject_of(contract, truth, kernel), device=on_cuda(reference).device, peer=peer)
    deadline = time.monotonic() + 500
    stage, _, found = search_concurrency(subject, "commit", done=0, changed=lambda: None, deadline=deadline)
    assert (stage.search, found) == ("concurrency", [])
    assert stage.cases > 0
