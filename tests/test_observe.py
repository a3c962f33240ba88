"""A call is observed whatever it does, and in this process alone."""

from __future__ import annotations

import json
import os
import sys
from types import FunctionType, TracebackType
from typing import Any

import numpy as np
import pytest
import torch

from harness.case import Case
from harness.errors import HarnessError
from harness.observe import Raised, call, check_observable, claim_process, launched, outcome_difference
from harness.verdict import Symptom

CASE = Case("toy", {})


def raising(error: BaseException) -> Any:
    def function() -> None:
        raise error

    return function


class Custom(ValueError):
    """An exception of nobody's library."""


@pytest.fixture(autouse=True)
def _claimed() -> None:
    claim_process()


def test_a_value_is_returned_as_it_is() -> None:
    value = object()
    assert call(lambda given, *, named: (given, named), (value,), {"named": 1}) == (value, 1)


@pytest.mark.parametrize(
    "error",
    [ValueError("a"), Custom("b"), SystemExit(0), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()],
)
def test_an_exception_of_any_kind_is_an_outcome(error: BaseException) -> None:
    outcome = call(raising(error), (), {})
    assert type(outcome) is Raised
    assert outcome.kind is type(error)


def test_where_an_exception_was_raised_is_known_to_the_line_of_its_own_code() -> None:
    error = ValueError("a")
    function = raising(error)
    place = f"test_observe.py:{function.__code__.co_firstlineno + 1}"
    outcome = call(function, (), {})
    assert outcome.where == place
    assert outcome.message == "a"
    assert difference(1, outcome) == (Symptom.RAISED, "a returned value", f"raises ValueError: a at {place}")
    assert difference(Raised(ValueError("b")), outcome) is None
    assert Raised(ValueError("never raised")).where == ""


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.nn.functional.interpolate(torch.zeros(1)),
        lambda: np.testing.assert_equal(1, 2),
        lambda: json.loads("{"),
        lambda: check_observable(CASE, {1}),
        lambda: exec("raise ValueError"),
    ],
    ids=["torch", "numpy", "the standard library", "harness", "no file"],
)
def test_the_lines_of_libraries_are_not_where_it_was_raised(function: Any) -> None:
    outcome = call(function, (), {})
    assert outcome.where == f"test_observe.py:{function.__code__.co_firstlineno}"


class Liar(Exception):
    """Answers for its traceback."""

    __traceback__ = property(lambda self: sys.exit("run"))

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit("run")


class Name(str):
    """A file's name that answers for itself."""

    def startswith(self, *_: Any) -> bool:
        raise SystemExit("run")

    rpartition = startswith  # type: ignore[assignment]


def test_an_exception_cannot_answer_for_where_it_was_raised() -> None:
    outcome = call(raising(Liar()), (), {})
    assert outcome.kind is Liar
    assert outcome.where.startswith("test_observe.py:")


def test_a_file_with_an_endless_or_a_strange_name_is_harmless() -> None:
    def function() -> None:
        raise ValueError

    for name in ("/x/" + "y" * 10**6, Name("/x/y.py"), "", "/", "\ud800"):
        outcome = call(FunctionType(function.__code__.replace(co_filename=name), {}), (), {})
        assert outcome.kind is ValueError
        assert len(outcome.where) < 120


def test_an_endless_traceback_is_followed_only_so_far() -> None:
    with pytest.raises(ValueError, match="a") as caught:
        raise ValueError("a")
    first = caught.tb
    traceback = first
    for _ in range(100_000):
        traceback = TracebackType(traceback, first.tb_frame, 0, 7)
    assert Raised(caught.value.with_traceback(traceback)).where == "test_observe.py:7"


def test_endless_recursion_is_an_outcome() -> None:
    def recurse() -> Any:
        return recurse()

    outcome = call(recurse, (), {})
    assert type(outcome) is Raised
    assert outcome.kind is RecursionError


def difference(expected: Any, got: Any) -> tuple[Symptom, str, str] | None:
    found = outcome_difference(expected, got, check_pinned=False)
    if found is None:
        return None
    assert found[1].aspect == "exception"
    return found[0], found[1].expected, found[1].got


def test_the_type_of_an_exception_must_be_the_same_and_its_message_need_not() -> None:
    assert difference(Raised(ValueError("a")), Raised(ValueError("b"))) is None
    assert difference(Raised(ValueError("a")), Raised(Custom("a"))) == (
        Symptom.RAISED,
        "raises ValueError: a",
        f"raises {__name__}.Custom: a",
    )
    assert difference(Raised(Custom("a")), Raised(ValueError("a"))) is not None
    assert difference(Raised(IndexError("a")), Raised(LookupError("a"))) is not None


def test_raising_and_returning_are_different() -> None:
    assert difference([1], Raised(KeyError("k"))) == (Symptom.RAISED, "a returned value", "raises KeyError: k")
    assert difference(Raised(KeyError("k")), [1]) == (
        Symptom.DID_NOT_RAISE,
        "raises KeyError: k",
        "returned list [1]",
    )
    assert difference(Raised(ValueError()), None) == (
        Symptom.DID_NOT_RAISE,
        "raises ValueError",
        "returned NoneType None",
    )
    assert difference(None, Raised(SystemExit(0))) == (Symptom.RAISED, "a returned value", "raises SystemExit: 0")


def test_a_returned_exception_is_a_value() -> None:
    with pytest.raises(HarnessError, match="cannot be compared"):
        outcome_difference(ValueError("a"), ValueError("a"), check_pinned=False)


def test_a_long_message_is_cut() -> None:
    assert len(Raised(ValueError("x" * 10**6)).message) == 500
    assert Raised(OSError(2, "No such file")).message == "2, No such file"


def test_what_the_launch_reads_is_all_that_is_observed() -> None:
    def reference(*, n: int) -> Any:
        return {"table": [n], "other": 5}, "rest"

    select = launched(reference, lambda returned: {"table": returned[0]["table"]})
    assert call(select, (), {"n": 3}) == {"table": [3]}
    broken = call(launched(lambda n: None, lambda returned: {"table": returned[0]}), (1,), {})
    assert type(broken) is Raised
    assert broken.kind is TypeError


def test_a_reference_must_return_what_can_be_observed() -> None:
    check_observable(CASE, [torch.tensor([float("nan")]), float("nan")])
    check_observable(CASE, Raised(ValueError()))
    with pytest.raises(HarnessError, match="cannot be compared"):
        check_observable(CASE, {1, 2})


def test_a_copy_that_the_candidate_forks_ends_where_the_call_ends() -> None:
    reader, writer = os.pipe()
    outcome = call(os.fork, (), {})
    os.write(writer, b"once,")
    _, status = os.waitpid(outcome, 0)
    os.close(writer)
    written = os.read(reader, 100)
    os.close(reader)
    assert os.waitstatus_to_exitcode(status) == 0
    assert written == b"once,"
