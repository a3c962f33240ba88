"""The engine knows no helper: lists, arrays, floats, and state that is changed in place are data like any other.

Every helper here goes through all four searches, once as a correct rewrite and once for each of its faults.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from harness.case import ArrayValue, Case, CaseFile, ListValue, TensorValue, Value
from harness.contract import Contract
from harness.examine import Subject, examine
from harness.journal import Entry
from harness.search.exhaustive import search_space
from harness.search.listed import search_listed
from harness.search.property import search_property
from harness.search.space import Block, Space, ValueColumn
from harness.verdict import Symptom

Function: TypeAlias = Callable[..., Any]
NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]


# A list of ints in, lists of ints out.
def totals(lengths: list[int], start: int = 0) -> tuple[list[int], list[int]]:
    sums, empty = [start], []
    for row, length in enumerate(lengths):
        sums.append(sums[-1] + length)
        if not length:
            empty.append(row)
    return sums, empty


def totals_by_numpy(lengths: list[int], start: int = 0) -> tuple[list[int], list[int]]:
    sums = np.cumsum([start, *lengths], dtype=np.int64)
    return sums.tolist(), [row for row, length in enumerate(lengths) if length == 0]


def totals_of_numpy_numbers(lengths: list[int], start: int = 0) -> tuple[list[int], list[int]]:
    return [*np.cumsum([start, *lengths])], totals(lengths, start)[1]


_last: list[int] = []


def totals_in_one_list(lengths: list[int], start: int = 0) -> tuple[list[int], list[int]]:
    sums, empty = totals(lengths, start)
    _last[:] = sums
    return _last, empty


def totals_that_pop(lengths: list[int], start: int = 0) -> tuple[list[int], list[int]]:
    value = totals(lengths, start)
    while lengths and lengths[-1] == 0:
        lengths.pop()
    return value


# Arrays in, arrays out.
def pieces(starts: Any, table: Any, *, page: int) -> tuple[Any, Any]:
    pages = [[int(table[row, start // page % table.shape[1]])] for row, start in enumerate(starts.tolist())]
    return np.array(pages, dtype=np.int32).reshape(len(starts), 1), starts % page


def pieces_at_once(starts: Any, table: Any, *, page: int) -> tuple[Any, Any]:
    columns = (starts // page % table.shape[1])[:, None]
    return np.take_along_axis(table, columns, axis=1).astype(np.int32), starts - starts // page * page


def pieces_by_columns(starts: Any, table: Any, *, page: int) -> tuple[Any, Any]:
    pages, rest = pieces(starts, table, page=page)
    return np.concatenate([pages, pages], axis=1)[:, :1], rest


def pieces_unwritten(starts: Any, table: Any, *, page: int) -> tuple[Any, Any]:
    pages, rest = pieces(starts, table, page=page)
    fresh = np.empty_like(pages)
    fresh[:2] = pages[:2]
    return fresh, rest


def pieces_in_place(starts: Any, table: Any, *, page: int) -> tuple[Any, Any]:
    pages, _ = pieces(starts, table, page=page)
    starts %= page
    return pages, starts


# A state that is shifted in place; nothing is returned.
def shift(state: torch.Tensor, row: torch.Tensor) -> None:
    for place in range(len(state) - 1):
        state[place] = state[place + 1].clone()
    if len(state):
        state[-1] = row[0]


def shift_at_once(state: torch.Tensor, row: torch.Tensor) -> None:
    state.copy_(torch.cat([state, row[:1]])[1:])


def shift_nothing(state: torch.Tensor, row: torch.Tensor) -> None:
    pass


def shift_too_far(state: torch.Tensor, row: torch.Tensor) -> None:
    shift_at_once(state, row)
    row[-1] = row[0]


def shift_and_return(state: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    shift_at_once(state, row)
    return state


# The same, with another tensor returned.
def pushed(state: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    out = state[:1].clone()
    shift(state, row)
    return out


def pushed_at_once(state: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    out = torch.narrow_copy(state, 0, 0, min(1, len(state)))
    shift_at_once(state, row)
    return out


def pushed_view(state: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    shift_at_once(state, row)
    return state[:1]


# Floats out, to the last bit.
def extremes(x: torch.Tensor) -> dict[str, Any]:
    values = x.tolist()
    return {"low": min(values, default=-0.0), "missing": NAN, "zero": x * 0, "pair": np.array([-0.0, NAN])}


def extremes_at_once(x: torch.Tensor) -> dict[str, Any]:
    low = x.min().item() if len(x) else -0.0
    return {"zero": torch.zeros_like(x).copysign(x), "pair": np.array([-0.0, NAN]), "low": low, "missing": NAN}


def extremes_with_another_nan(x: torch.Tensor) -> dict[str, Any]:
    return extremes(x) | {"missing": float("nan")}


def extremes_without_sign(x: torch.Tensor) -> dict[str, Any]:
    return extremes(x) | {"zero": x * 0 + 0.0}


def extremes_with_sum(x: torch.Tensor) -> dict[str, Any]:
    return extremes(x) | {"pair": np.array([-0.0, NAN]) + 0.0}


def ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def other_values(case: Case) -> Case:
    """The same types and shapes, with every number of a list, a tensor or an array one larger."""
    arguments: dict[str, Value] = {}
    for name, value in case.arguments.items():
        if isinstance(value, ListValue):
            value = ListValue(tuple(number + 1 for number in value.data))
        elif isinstance(value, TensorValue):
            value = TensorValue(value.dtype, tuple(number + 1 for number in value.data), value.shape)
        elif isinstance(value, ArrayValue):
            value = ArrayValue(value.dtype, tuple(number + 1 for number in value.data), value.shape)
        elif isinstance(value, int):
            value += 1
        arguments[name] = value
    return Case(case.contract, arguments)


@dataclass(frozen=True, slots=True)
class Helper:
    """A reference, a correct rewrite, faults, and arguments made from a few small numbers."""

    reference: Function
    correct: Function
    arguments: Callable[[tuple[int, ...]], dict[str, Value]]
    faults: dict[Function, Symptom] = field(default_factory=dict)


def states(numbers: tuple[int, ...]) -> dict[str, Value]:
    return {"state": TensorValue("int16", numbers), "row": TensorValue("int16", (7, 8))}


def starts(numbers: tuple[int, ...]) -> dict[str, Value]:
    table = ArrayValue("int64", tuple(range(3 * len(numbers))), (len(numbers), 3))
    return {"starts": ArrayValue("int32", numbers), "table": table, "page": 2}


HELPERS = [
    Helper(
        totals,
        totals_by_numpy,
        lambda numbers: {"lengths": ListValue(numbers), "start": 5},
        {
            totals_of_numpy_numbers: Symptom.DIFFERENT,
            totals_in_one_list: Symptom.REUSED_OUTPUT,
            totals_that_pop: Symptom.MUTATED_INPUT,
        },
    ),
    Helper(
        pieces,
        pieces_at_once,
        starts,
        dict.fromkeys([pieces_by_columns, pieces_unwritten, pieces_in_place], Symptom.DIFFERENT),
    ),
    Helper(
        shift,
        shift_at_once,
        states,
        {
            shift_nothing: Symptom.MUTATED_INPUT,
            shift_too_far: Symptom.MUTATED_INPUT,
            shift_and_return: Symptom.DIFFERENT,
        },
    ),
    Helper(pushed, pushed_at_once, states, {pushed_view: Symptom.DIFFERENT, shift_at_once: Symptom.DIFFERENT}),
    Helper(
        extremes,
        extremes_at_once,
        lambda numbers: {"x": TensorValue("float32", tuple(number - 2.0 for number in numbers))},
        dict.fromkeys([extremes_with_another_nan, extremes_without_sign, extremes_with_sum], Symptom.DIFFERENT),
    ),
]
SMALL = [(), (0,), (1,), (3, 0), (0, 0), (2, 5), (4, 1, 0)]
WRONG = [(helper, fault) for helper in HELPERS for fault in helper.faults]


def case_of(helper: Helper, numbers: tuple[int, ...]) -> Case:
    return Case("toy", helper.arguments(numbers))


def subject(helper: Helper, candidate: Function, contract_of: Any, subject_of: Any) -> tuple[Subject, Space]:
    """The candidate's subject; its space has one block for every length."""
    blocks = []
    for length in range(4):
        cases = [case_of(helper, numbers) for numbers in SMALL if len(numbers) == length]
        columns = {name: ValueColumn([case.arguments[name] for case in cases]) for name in cases[0].arguments}
        blocks.append(Block("toy", columns))
    numbers = st.lists(st.integers(0, 5), max_size=4).map(ints)
    strategy = numbers.map(lambda drawn: case_of(helper, drawn))
    contract: Contract = contract_of(*blocks, twin=other_values, strategy=strategy)
    made: Subject = subject_of(contract, helper.reference, candidate)
    return made, contract.space("gate")


@pytest.mark.parametrize("helper", HELPERS, ids=lambda helper: helper.reference.__name__)
def test_a_correct_rewrite_passes_every_search(helper: Helper, contract_of: Any, subject_of: Any) -> None:
    for candidate in (helper.correct, helper.reference):
        made, space = subject(helper, candidate, contract_of, subject_of)
        deadline = time.monotonic() + 60
        _, _, suspects = search_space(made, space, changed=lambda: None, deadline=deadline)
        assert suspects == []
        listed = [CaseFile(space[index], (space[0], space[index])) for index in range(len(space))]
        report, _, found = search_listed(
            made, listed, entry=Entry.SCALE, done=0, changed=lambda: None, deadline=deadline
        )
        assert (report.cases, found) == (len(SMALL), [])
        report, _, found = search_property(
            made, examples=40, seed=0, deadline=deadline, database=None, done=0, changed=lambda: None
        )
        assert (report.complete, found) == (True, [])


@pytest.mark.parametrize(("helper", "fault"), WRONG, ids=lambda item: getattr(item, "__name__", ""))
def test_a_fault_is_found_by_every_search(helper: Helper, fault: Function, contract_of: Any, subject_of: Any) -> None:
    made, space = subject(helper, fault, contract_of, subject_of)
    deadline, symptom = time.monotonic() + 60, helper.faults[fault]
    if symptom is not Symptom.REUSED_OUTPUT:
        _, _, suspects = search_space(made, space, changed=lambda: None, deadline=deadline)
        assert suspects
        assert all(examine(made, space[index]) is not None for index in suspects)
    listed = [CaseFile(space[index]) for index in range(len(space))]
    _, _, found = search_listed(made, listed, entry=Entry.SCALE, done=0, changed=lambda: None, deadline=deadline)
    assert [finding.symptom for finding in found] == [symptom]
    _, _, found = search_property(
        made, examples=60, seed=0, deadline=deadline, database=None, done=0, changed=lambda: None
    )
    assert [finding.symptom for finding in found] == [symptom]
    assert found[0].case.size() <= 12
