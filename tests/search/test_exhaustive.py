"""The loop over a space sees in every case what the first step of a complete examination would see in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.case import ArrayValue, Case, ListValue, TensorValue, Value
from harness.contract import Contract, Stratum
from harness.examine import Subject, examine
from harness.journal import Entry
from harness.search.exhaustive import CHUNK, EXAMINED_EVERY, search_space
from harness.search.space import Block, Column, Space, TensorColumn, ValueColumn
from harness.verdict import StageReport

MARK, SHOWS = 23, 61
"""The first element of the one case that shows a fault, and this case's number."""


def no_change() -> str | None:
    return None


def block(*numbers: int, width: int = 2, **fixed: Value) -> Block:
    """Cases that begin with the given numbers."""
    table = np.array([[number, *range(width - 1)] for number in numbers], dtype=np.int64).reshape(-1, width)
    columns: dict[str, Column] = {
        "x": TensorColumn("int32", table),
        "names": ValueColumn([ListValue((number, number + 1)) for number in numbers]),
        "limits": ValueColumn([ArrayValue("int64", (number, 5)) for number in numbers]),
        "none": ValueColumn([TensorValue("int64", ())] * len(numbers)),
    }
    return Block("toy", columns, {"state": TensorValue("int32", (7, 8)), "seven": 7, **fixed})


def without_lists(block: Block) -> Block:
    """The same cases with nothing but arguments that lie in memory, for which comparisons are compiled."""
    return Block("toy", {name: block.columns[name] for name in ("x", "limits")}, block.fixed)


SPACE = Space("toy cases", (block(*range(100, 150)), block(), block(*[1] * 11, MARK, *[1] * 20, width=3)))
IN_MEMORY = Space("toy cases", tuple(map(without_lists, SPACE.blocks)))


def ints(
    x: torch.Tensor, names: list[int], *, limits: Any, state: torch.Tensor, none: torch.Tensor, seven: int = 7
) -> dict[str, Any]:
    """What integer helpers return; the number 13 is malformed, and ``state`` is counted up in place."""
    state += 1
    if seven == 13:
        raise ValueError("malformed")
    rows = x.repeat(2)
    return {"rows": rows, "again": rows, "names": [*names], "none": none.clone(), "tot": len(x), "state": state.clone()}


def floats(
    x: torch.Tensor, names: list[int], *, limits: Any, state: torch.Tensor, none: torch.Tensor, seven: int = 7
) -> dict[str, Any]:
    """The same, with what only the complete comparison can judge."""
    more = {"floats": torch.tensor([0.0, float("nan")]), "limits": limits * 2, "zero": 0.0, "pair": (1, True)}
    return ints(x, names, limits=limits, state=state, none=none, seven=seven) | more


def tables(x: torch.Tensor, *, limits: Any, state: torch.Tensor, seven: int = 7) -> dict[str, Any]:
    """The same as ``ints`` of arguments that lie in memory."""
    return ints(x, [1, 2], limits=limits, state=state, none=torch.empty(0, dtype=torch.int64), seven=seven)


def put(name: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda value, *_: value | {name: change(value[name])}


def raises(error: type[BaseException]) -> Callable[..., Any]:
    def fault(*_: Any) -> Any:
        raise error

    return fault


def touch(argument: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    def fault(value: Any, given: dict[str, Any]) -> Any:
        change(given[argument])
        return value

    return fault


def element(value: Any) -> Any:
    value = value.clone() if isinstance(value, torch.Tensor) else value.copy()
    value[-1] += 1
    return value


def write(value: Any) -> None:
    value[0] = 99


FAULTS: dict[str, Callable[..., Any]] = {
    "value": put("tot", lambda tot: tot + 1),
    "type": put("tot", float),
    "NumPy number": put("tot", np.int64),
    "element": put("names", lambda names: [*names[:-1], True]),
    "length": put("names", lambda names: names[:-1]),
    "tuple": put("names", tuple),
    "tensor element": put("state", element),
    "dtype": put("rows", lambda rows: rows.long()),
    "shape": put("rows", lambda rows: rows.reshape(1, -1)),
    "strides": put("rows", lambda rows: rows.reshape(1, -1).repeat(2, 1).T[:, 0]),
    "array for tensor": put("rows", lambda rows: rows.numpy()),
    "empty dtype": put("none", lambda none: none.int()),
    "keys": lambda value, _: {key: item for key, item in value.items() if key != "tot"},
    "more keys": lambda value, _: value | {"more": 1},
    "None": lambda *_: None,
    "aliasing lost": put("again", lambda again: again.clone()),
    "aliasing gained": lambda value, _: value | {"state": value["rows"][:2].copy_(value["state"])},
    "raised": raises(ValueError),
    "exited": raises(SystemExit),
    "tensor written": touch("x", write),
    "list written": touch("names", write),
    "list extended": touch("names", lambda names: names.append(1)),
    "array written": touch("limits", write),
    "fixed tensor written": touch("state", write),
    "argument returned": lambda value, given: value | {"state": given["state"]},
    "view of an argument": lambda value, given: value | {"state": given["state"][:]},
    "list returned": lambda value, given: value | {"names": given["names"]},
    "empty argument returned": lambda value, given: value | {"none": given["none"]},
}
FLOAT_FAULTS: dict[str, Callable[..., Any]] = {
    "-0.0": put("floats", lambda value: value * -1),
    "NaN": put("floats", lambda value: torch.tensor([0, 0x7FC00001], dtype=torch.int32).view(torch.float32)),
    "gradient": put("floats", lambda value: value.requires_grad_()),
    "float -0.0": put("zero", lambda zero: -zero),
    "pair": put("pair", lambda pair: (True, True)),
    "array dtype": put("limits", lambda limits: limits.astype(np.int32)),
    "byte order": put("limits", lambda limits: limits.astype(">i8")),
    "read-only": put("limits", lambda limits: limits.setflags(write=False) or limits),
    "tensor for array": put("limits", torch.from_numpy),
    "array element": put("limits", element),
    "array argument returned": lambda value, given: [given["limits"].__imul__(2), value | given][1],
}


def faulty(reference: Callable[..., Any], fault: Callable[..., Any]) -> Callable[..., Any]:
    """The reference, with a fault in the one case that begins with ``MARK``."""

    def candidate(x: torch.Tensor, *names: list[int], **named: Any) -> Any:
        shows = x.tolist()[0] == MARK
        given = {"x": x, **dict(zip(["names"], names, strict=False)), **named}
        try:
            value = reference(x, *names, **named)
        except ValueError:
            if shows:
                fault(None, given)
            raise
        return fault(value, given) if shows else value

    return candidate


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        *((ints, name) for name in FAULTS),
        *((tables, name) for name in FAULTS if not name.startswith(("list", "empty argument"))),
        *((floats, name) for name in FAULTS | FLOAT_FAULTS),
    ],
)
def test_a_fault_of_one_case_is_found_in_that_case(
    reference: Callable[..., Any],
    name: str,
    contract_of: Callable[..., Contract],
    subject_of: Callable[..., Subject],
) -> None:
    space = IN_MEMORY if reference is tables else SPACE
    subject = subject_of(contract_of(*space.blocks), reference, faulty(reference, (FAULTS | FLOAT_FAULTS)[name]))
    report, _, suspects = search_space(subject, space, changed=no_change, deadline=time.monotonic() + 60)
    assert suspects == [SHOWS]
    assert not report.complete
    found = examine(subject, space[SHOWS])
    assert found is not None
    assert found.step == ""


@pytest.mark.parametrize("name", ["tensor written", "list written", "array written", "list extended"])
def test_arguments_are_looked_at_where_both_sides_raise(
    name: str, contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    space = Space("malformed", tuple(block(*range(start, start + 30), seven=13) for start in (0, 30)))
    subject = subject_of(contract_of(*space.blocks), ints, faulty(ints, FAULTS[name]))
    _, _, suspects = search_space(subject, space, changed=no_change, deadline=time.monotonic() + 60)
    assert suspects == [MARK]


@pytest.mark.parametrize("reference", [ints, floats])
def test_a_correct_candidate_runs_on_every_case_in_order(
    reference: Callable[..., Any], contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    seen: list[tuple[list[int], int, int]] = []

    def candidate(x: torch.Tensor, *given: Any, **named: Any) -> Any:
        reading = subject.journal.read()
        assert reading.entry is Entry.SPACE
        seen.append((x.tolist(), reading.index, reading.done))
        return reference(x, *given, **named)

    strata = (
        Stratum("one", lambda block: block.integers("x")[:, 0] == 1),
        Stratum("none", lambda _: np.zeros(0, bool)),
    )
    subject = subject_of(contract_of(*SPACE.blocks, strata=strata), reference, candidate)
    report, hits, suspects = search_space(subject, SPACE, changed=no_change, deadline=time.monotonic() + 60)
    assert suspects == []
    assert report == StageReport("exhaustive", len(SPACE), report.seconds, "toy cases", complete=True)
    assert hits == {"one": 31, "none": 0}
    values = [SPACE[index].arguments["x"] for index in range(len(SPACE))]
    rows = [[*value.data] for value in values if isinstance(value, TensorValue)]
    # The first case is also examined: two calls more.
    assert seen == [(rows[index], index, index) for index in (0, 0, *range(len(SPACE)))]


def test_only_executed_cases_count(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]) -> None:
    strata = (Stratum("all", lambda block: np.ones(len(block), dtype=bool)),)
    subject = subject_of(contract_of(*SPACE.blocks, strata=strata), ints, faulty(ints, FAULTS["value"]))
    report, hits, _ = search_space(subject, SPACE, changed=no_change, deadline=time.monotonic() + 60)
    assert (report.cases, hits) == (SHOWS + 1, {"all": SHOWS + 1})


def test_a_space_is_not_complete_when_its_last_case_fails(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    space = Space("toy", (block(1, 2, MARK),))
    subject = subject_of(contract_of(*space.blocks), ints, faulty(ints, FAULTS["value"]))
    report, _, suspects = search_space(subject, space, changed=no_change, deadline=time.monotonic() + 60)
    assert (report.cases, report.complete, suspects) == (3, False, [2])


def test_the_deadline_ends_a_search_incomplete(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    strata = (Stratum("all", lambda block: np.ones(len(block), dtype=bool)),)
    long = Block("toy", {"n": ValueColumn([*range(CHUNK + 5)])})
    space = Space("toy", (long, long))
    subject = subject_of(contract_of(long, long, strata=strata), lambda n: n, lambda n: n)
    report, hits, suspects = search_space(subject, space, changed=no_change, deadline=time.monotonic() - 1)
    assert (report.cases, report.complete, suspects) == (CHUNK, False, [])
    assert hits == {"all": CHUNK}
    report, hits, _ = search_space(subject, space, changed=no_change, deadline=time.monotonic() + 60)
    assert (report.cases, report.complete, hits) == (len(space), True, {"all": len(space)})


@pytest.mark.parametrize("offset", [-1, 3])
def test_a_write_into_a_neighbour_is_found(
    offset: int, contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def candidate(x: torch.Tensor) -> torch.Tensor:
        if x.tolist()[0] == 5 and x._base is not None:
            torch.as_strided(x, (1,), (1,), x.storage_offset() + offset)[0] = -9
        return x * 2

    table = np.repeat(np.arange(10, dtype=np.int64), 3).reshape(10, 3)
    space = Space("toy", (Block("toy", {"x": TensorColumn("int32", table)}),))
    subject = subject_of(contract_of(*space.blocks), reference, candidate)
    _, _, suspects = search_space(subject, space, changed=no_change, deadline=time.monotonic() + 60)
    assert suspects == [5 + (1 if offset > 0 else -1)]


def test_a_change_of_the_surroundings_makes_every_case_since_the_last_look_suspicious(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    subject = subject_of(contract_of(*SPACE.blocks), ints, ints)
    looks = iter(range(1000))
    report, _, suspects = search_space(
        subject, SPACE, changed=lambda: f"changed {next(looks)}", deadline=time.monotonic() + 60
    )
    assert suspects == [*range(report.cases)]
    assert not report.complete
    long = Space("toy", (Block("toy", {"n": ValueColumn([*range(9 * CHUNK)])}),))
    subject = subject_of(contract_of(*long.blocks), lambda n: n, lambda n: n)
    seen: list[int] = []

    def changed() -> str | None:
        seen.append(subject.journal.read().index + 1)
        return "changed" if len(seen) == 2 else None

    report, _, suspects = search_space(subject, long, changed=changed, deadline=time.monotonic() + 60)
    assert suspects == [*range(seen[0], seen[1])]
    assert report.cases == seen[1]


def test_fixed_arguments_do_not_carry_over_from_case_to_case(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    states: set[tuple[int, ...]] = set()

    def candidate(*given: Any, **named: Any) -> Any:
        states.add((*named["state"].tolist(),))
        return ints(*given, **named)

    subject = subject_of(contract_of(*SPACE.blocks), ints, candidate)
    _, _, suspects = search_space(subject, SPACE, changed=no_change, deadline=time.monotonic() + 60)
    assert suspects == []
    # Once more in the complete examination of the first case, with the same arguments.
    assert states == {(7, 8), (8, 9)}


def test_one_case_in_so_many_is_examined_completely(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    calls: dict[int, int] = {}

    def candidate(n: int) -> int:
        calls[n] = calls.get(n, 0) + 1
        return n + (n == EXAMINED_EVERY and calls[n] == 2 + 1)

    space = Space("toy", (Block("toy", {"n": ValueColumn([*range(3 * EXAMINED_EVERY)])}),))
    subject = subject_of(contract_of(*space.blocks), lambda n: n, candidate)
    _, _, suspects = search_space(subject, space, changed=no_change, deadline=time.monotonic() + 60)
    assert suspects == [EXAMINED_EVERY]
    assert [n for n, count in calls.items() if count > 1] == [0, EXAMINED_EVERY]
    assert isinstance(space[0], Case)
