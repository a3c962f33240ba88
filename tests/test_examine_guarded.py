"""The protocol on one case of a function that launches kernels: guard bands, unwritten elements, peers, measures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
import torch

from harness.case import Case, DrawnValue, TensorValue
from harness.contract import Contract, Derived
from harness.errors import HarnessError
from harness.examine import Subject, examine, examine_once
from harness.verdict import Symptom

Function: TypeAlias = Callable[..., Any]
MakeContract: TypeAlias = Callable[..., Contract]
MakeSubject: TypeAlias = Callable[[Contract, Function, Function], Subject]

CASE = Case("toy", {"x": DrawnValue("float32", (6,), "integers", seed=3), "used": TensorValue("int64", (4,))})
TWIN = Case("toy", {"x": DrawnValue("float32", (6,), "integers", seed=4), "used": TensorValue("int64", (4,))})


def double(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """Twice the first ``used`` elements; what is behind them is never written."""
    out = torch.empty_like(x)
    out[: int(used)] = 2 * x[: int(used)]
    return out


@pytest.fixture
def subject(contract_of: MakeContract, subject_of: MakeSubject) -> Callable[..., Subject]:
    def make(candidate: Function, *, reference: Function = double, **fields: Any) -> Subject:
        contract = replace(contract_of(twin=lambda case: TWIN if case == CASE else CASE), guarded=True, **fields)
        return subject_of(contract, reference, candidate)

    return make


def test_elements_that_neither_side_writes_are_the_same(subject: Callable[..., Subject]) -> None:
    def other(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        out = x.new_empty(x.shape)
        out[: int(used)] = x[: int(used)] + x[: int(used)]
        return out

    assert examine(subject(other), CASE) is None


def test_an_element_that_only_the_reference_leaves_alone_is_different(subject: Callable[..., Subject]) -> None:
    finding = examine(subject(lambda x, used: 2 * x), CASE)
    assert finding is not None
    assert finding.symptom is Symptom.DIFFERENT
    assert finding.difference is not None
    assert (finding.difference.count, finding.difference.elements[0].index) == (2, (4,))


def test_an_element_that_was_not_written_is_different(subject: Callable[..., Subject]) -> None:
    finding = examine_once(subject(lambda x, used: torch.empty_like(x)), CASE)
    assert finding is not None
    assert finding.symptom is Symptom.DIFFERENT


@pytest.mark.parametrize("distance", [-4, 24])
def test_a_write_beside_an_argument_is_out_of_bounds(subject: Callable[..., Subject], distance: int) -> None:
    def wild(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        ctypes.c_float.from_address(x.data_ptr() + distance).value = 1.0
        return double(x, used)

    finding = examine_once(subject(wild), CASE)
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS
    assert finding.difference is not None
    assert finding.difference.path == "argument x"


def test_a_write_beside_what_it_returns_is_out_of_bounds(subject: Callable[..., Subject]) -> None:
    def wild(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        out = double(x, used)
        ctypes.c_float.from_address(out.data_ptr() + 24).value = 1.0
        return out

    finding = examine_once(subject(wild), CASE)
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS
    assert finding.difference is not None
    assert finding.difference.path == "memory that it allocated, [6] of torch.float32"


def test_a_write_beside_an_argument_in_a_later_call_is_out_of_bounds(subject: Callable[..., Subject]) -> None:
    calls = []

    def wild(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 4:
            ctypes.c_float.from_address(x.data_ptr() - 4).value = 1.0
        return double(x, used)

    finding = examine(subject(wild), CASE)
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS


def test_a_reference_that_writes_out_of_bounds_is_the_harness_failure(subject: Callable[..., Subject]) -> None:
    def wild(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        ctypes.c_float.from_address(x.data_ptr() - 4).value = 1.0
        return double(x, used)

    with pytest.raises(HarnessError, match="the reference writes out of bounds"):
        examine_once(subject(double, reference=wild), CASE)


def test_tables_derived_from_the_arguments_are_guarded_too(subject: Callable[..., Subject]) -> None:
    def scaled(x: torch.Tensor, used: torch.Tensor, *, factor: torch.Tensor) -> torch.Tensor:
        return double(x, used) * factor

    def wild(x: torch.Tensor, used: torch.Tensor, *, factor: torch.Tensor) -> torch.Tensor:
        ctypes.c_float.from_address(factor.data_ptr() + 24).value = 1.0
        return double(x, used) * factor

    derived = {"factor": Derived(lambda values: torch.ones_like(values["x"]), "torch.ones_like(x)")}
    assert examine(subject(scaled, reference=scaled, derived=derived), CASE) is None
    finding = examine_once(subject(wild, reference=scaled, derived=derived), CASE)
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS


def test_a_peer_says_what_is_right_where_results_are_not_exact(subject: Callable[..., Subject]) -> None:
    def peer(x: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        return double(x, used) + 1

    inexact = replace(subject(peer, exact=lambda case: case == TWIN), peer=peer)
    assert examine_once(inexact, CASE) is None
    finding = examine_once(inexact, TWIN)
    assert finding is not None
    assert finding.symptom is Symptom.DIFFERENT


def test_only_inexact_results_are_measured_and_the_largest_number_is_kept(subject: Callable[..., Subject]) -> None:
    made = subject(
        double, exact=lambda case: case == TWIN, measure=lambda case, returned: {"sum": float(returned[:4].sum())}
    )
    measured = replace(made, peer=double)
    assert examine(measured, TWIN) is None
    assert measured.measures == {}
    assert examine(measured, CASE) is None
    expected = float(double(torch.from_numpy(CASE.arguments["x"].elements()), torch.tensor(4))[:4].sum())  # type: ignore[union-attr]
    assert measured.measures == {"sum": expected}
