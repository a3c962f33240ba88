"""Observe one call: what it returned or raised, and what it left in its arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from harness.case import Case
from harness.compare import compare
from harness.describe import describe, type_name
from harness.errors import BitgateError, HarnessError
from harness.verdict import Difference, Symptom

Function: TypeAlias = Callable[..., Any]
Select: TypeAlias = Callable[[Any], Mapping[str, Any]]

_args = BaseException.__dict__["args"].__get__
_getpid, _getppid = os.getpid, os.getppid
_exit = os._exit
_PROCESS: Final = [os.getpid(), os.getppid()]


class Raised:
    """Stands in for a returned value when the call raised."""

    __slots__ = ("kind", "message")

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error)
        # Not str(error): that may run the candidate's code.
        self.message = ", ".join(arg if type(arg) is str else describe(arg) for arg in _args(error))[:500]


@dataclass(slots=True)
class Arguments:
    """The live arguments of one call, by position and by keyword."""

    positional: tuple[Any, ...]
    keyword: dict[str, Any]

    def named(self, names: tuple[str, ...]) -> dict[str, Any]:
        """All arguments by name."""
        return {**dict(zip(names, self.positional, strict=False)), **self.keyword}


def claim_process() -> None:
    """Declare the current process to be the one that observes; a copy that a candidate forks ends itself instead.

    So does a process whose parent a candidate has killed, before it can be taken for another case's doing.
    """
    _PROCESS[:] = _getpid(), _getppid()


def end_copy() -> None:
    """End the current process if it is a copy that a candidate has forked, or has lost its parent."""
    if _getpid() != _PROCESS[0] or _getppid() != _PROCESS[1]:
        _exit(0)


def call(function: Function, positional: tuple[Any, ...], keyword: dict[str, Any]) -> Any:
    """Call ``function``; an exception of any kind becomes a :class:`Raised`.

    Where the function forked and returned twice, the copy ends here.
    """
    try:
        value = function(*positional, **keyword)
    except BaseException as error:
        value = Raised(error)
    end_copy()
    return value


def outcome_difference(expected: Any, got: Any, *, check_pinned: bool) -> tuple[Symptom, Difference] | None:
    """How two outcomes of :func:`call` differ, or None."""
    if type(got) is Raised:
        if type(expected) is not Raised:
            return Symptom.RAISED, Difference("", "exception", "a returned value", _exception(got))
        if expected.kind is got.kind:
            return None
        return Symptom.RAISED, Difference("", "exception", _exception(expected), _exception(got))
    if type(expected) is Raised:
        returned = f"returned {type_name(type(got))} {describe(got)}".rstrip()
        return Symptom.DID_NOT_RAISE, Difference("", "exception", _exception(expected), returned)
    found = compare(expected, got, check_pinned=check_pinned)
    return None if found is None else (Symptom.DIFFERENT, found)


def launched(function: Function, select: Select) -> Function:
    """``function``, reduced to what ``select`` picks from its returned value: the ``launch`` level of observation.

    A value that has not what the launch reads gives the exception that the launch would meet.
    """

    def reduced(*positional: Any, **keyword: Any) -> dict[str, Any]:
        return dict(select(function(*positional, **keyword)))

    return reduced


def check_observable(case: Case, value: Any) -> None:
    """Raise HarnessError if the reference's own outcome on ``case`` cannot be observed or is not equal to itself."""
    if type(value) is Raised and issubclass(value.kind, BitgateError):
        raise HarnessError(f"the reference failed on case {case.digest} with {value.kind.__qualname__}. Correct it.")
    found = None if type(value) is Raised else compare(value, value)
    if found is not None:
        raise HarnessError(f"the reference's value on case {case.digest} is not equal to itself: {found}.")


def _exception(raised: Raised) -> str:
    name = type_name(raised.kind)
    return f"raises {name}: {raised.message}" if raised.message else f"raises {name}"
