"""A contract counts its strata, and refuses cases that are not its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.case import TARGET_DEVICE, Case, ListValue, TensorValue
from harness.contract import PROFILES, Contract, Stratum
from harness.errors import UsageError
from harness.search.space import Block, TensorColumn, ValueColumn

TABLE = np.array([[0, 1], [0, 2], [3, 3]])
BLOCK = Block("toy", {"x": TensorColumn("int32", TABLE)}, {"device": TARGET_DEVICE})
LEFT_OUT = Block("toy", {"x": TensorColumn("int32", TABLE), "n": ValueColumn([1, None, 2])}, {"device": TARGET_DEVICE})
STRATA = (
    Stratum("starts at 0", lambda block: block.integers("x")[:, 0] == 0),
    Stratum("empty", lambda block: np.diff(block.integers("x")).sum(axis=1) == 0, required_from="premerge"),
)


def case(**arguments: Any) -> Case:
    return Case("toy", {"x": TensorValue("int32", (0, 1)), "device": TARGET_DEVICE, **arguments})


def test_a_stratum_is_required_from_its_profile_on() -> None:
    assert [STRATA[0].required(name) for name in PROFILES] == [True, True, True, True]
    assert [STRATA[1].required(name) for name in PROFILES] == [False, False, True, True]


def test_strata_are_counted_up_to_where_a_search_stopped(contract_of: Callable[..., Contract]) -> None:
    contract = contract_of(BLOCK, strata=STRATA)
    assert contract.count_strata(BLOCK) == {"starts at 0": 2, "empty": 1}
    assert contract.count_strata(BLOCK, stop=1) == {"starts at 0": 1, "empty": 0}
    assert contract.count_strata(BLOCK, stop=0) == {"starts at 0": 0, "empty": 0}


def test_cases_of_the_space_and_with_arguments_left_out_are_accepted(contract_of: Callable[..., Contract]) -> None:
    contract = contract_of(BLOCK, LEFT_OUT, strata=STRATA)
    for accepted in (BLOCK[0], LEFT_OUT[0], LEFT_OUT[1], case(), case(n=None), case(n=7)):
        contract.check_case(accepted)
    assert contract.function == "reference"


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (Case("toy", {}), "has the arguments"),
        (Case("toy", {"x": TensorValue("int32", (0,))}), "has the arguments"),
        (case(more=1), "not x, device, more"),
        (case(x=ListValue((0, 1))), "'x' .* is a TensorValue, not a ListValue"),
        (case(x=None), "not a NoneType"),
        (case(n=1.5), "'n' .* is a NoneType or a int, not a float"),
        (case(n=True), "not a bool"),
        (case(device="cpu"), "not a str"),
        (case(x=TensorValue("float32", (0.0, float("nan")))), "cannot hold these values"),
        (case(x=TensorValue("float32", (0.0, float("inf")))), "cannot hold these values"),
    ],
)
def test_a_case_with_other_arguments_is_a_usage_error(
    refused: Case, words: str, contract_of: Callable[..., Contract]
) -> None:
    with pytest.raises(UsageError, match=words):
        contract_of(BLOCK, LEFT_OUT, strata=STRATA).check_case(refused)
