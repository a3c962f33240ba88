"""Observe one call: what it returned or raised, and what it left in its arguments."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeAlias

import numpy as np
import torch

from harness.case import Case
from harness.compare import compare
from harness.describe import describe, type_name
from harness.errors import BitgateError, HarnessError
from harness.verdict import Difference, Symptom

Function: TypeAlias = Callable[..., Any]
Select: TypeAlias = Callable[[Any], Mapping[str, Any]]

_args = BaseException.__dict__["args"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
_getpid, _getppid = os.getpid, os.getppid
_exit = os._exit
_PROCESS: Final = [os.getpid(), os.getppid()]
_MOST_FRAMES: Final = 10_000
"""Frames of a traceback that are looked at; Python's own recursion limit is far lower."""


def _folder(file: str | None) -> str:
    return f"{os.path.dirname(file or '')}{os.sep}"


# Triton may not be imported before it is known whether its interpreter is to be used.
_TRITON: Final = importlib.util.find_spec("triton")
_LIBRARIES: Final = tuple(
    folder
    for folder in map(_folder, (__file__, torch.__file__, np.__file__, _TRITON.origin if _TRITON else None))
    if folder != os.sep
)
_STANDARD: Final = f"{sysconfig.get_path('stdlib')}{os.sep}"
_PACKAGES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Raised:
    """Stands in for a returned value when the call raised.

    ``where`` is the innermost line that belongs to no library, as ``file:line``; empty where there is none.
    """

    __slots__ = ("kind", "message", "where")

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error)
        self.where = _where(error)
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
    text = f"raises {name}: {raised.message}" if raised.message else f"raises {name}"
    return f"{text} at {raised.where}" if raised.where else text


def _where(error: BaseException) -> str:
    """The innermost line of a traceback that is neither a library's nor the harness's, as ``file:line``.

    A candidate can attach any traceback that it likes to an exception. Attributes are read past its own class; and
    an audit hook that it has installed must not be able to raise from here.
    """
    found = ""
    try:
        traceback: TracebackType | None = _traceback(error)
        for _ in range(_MOST_FRAMES):
            if traceback is None:
                break
            file, line = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
            if type(file) is str and type(line) is int and _is_own(file):
                found = f"{file.rpartition(os.sep)[2][:100]}:{line}"
            traceback = traceback.tb_next
    except BaseException:
        return ""
    return found


def _is_own(file: str) -> bool:
    if file.startswith(("<", *_LIBRARIES)):
        return False
    return not file.startswith(_STANDARD) or any(part in file for part in _PACKAGES)
