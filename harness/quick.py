"""Quick: a comparison compiled for values of one structure, for the millions of times when both sides are the same.

:func:`harness.compare.compare` decides and explains. It walks two values of any form; most of its time goes into
finding out, again and again, what form they have. A quick comparison is generated from one example. It says True only
where ``compare`` would find no difference; False means nothing but "ask ``compare``".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_, le
from typing import Any, Final, TypeAlias

import torch

from harness.memory import extents_of, overlaps
from harness.tensors import INTEGERS, memcmp

Beside: TypeAlias = tuple[list[int], list[int]]
"""Memory that a returned value must not overlap: the first byte of each piece, and one past the last of each."""
Same: TypeAlias = Callable[[Any, Any, Beside], bool]
"""``same(expected, got, beside)``, where ``beside`` lies on the candidate's side."""

COMPILED: Final = 3
"""Comparisons compiled at most in one search: a reference whose values have ever new forms is compared by walking."""

_SCALARS: Final = (type(None), bool, int, str)


class Quick:
    """The quick comparison of one search; ``learn`` gives it the form of a value that ``compare`` had to judge."""

    __slots__ = ("_left", "same")

    def __init__(self, compiled: int = COMPILED) -> None:
        self.same: Same = never
        self._left = compiled

    def learn(self, example: Any) -> None:
        """Compile a comparison for values like ``example``, while there is any left to compile."""
        if self._left:
            self._left -= 1
            self.same = compile_quick(example)


@dataclass(slots=True)
class _Source:
    """Statements of the comparison being generated, and the objects that they refer to."""

    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=lambda: iter(range(1 << 30)))
    known: dict[int, int] = field(default_factory=dict)
    """Number of each identified object that was met, by its ``id``."""
    tensors: list[int] = field(default_factory=list)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return False")


def never(expected: Any, got: Any, beside: Beside) -> bool:
    """The quick comparison that always leaves the answer to ``compare``."""
    return False


def compile_quick(example: Any) -> Same:
    """The quick comparison for values like ``example``; :func:`never` if it holds what only ``compare`` can judge."""
    source = _Source()
    try:
        _emit(example, next(source.names), source)
    except _Unsupported:
        return never
    # The candidate's aliasing is looked at in every case. The frozen reference's is that of the example: whether it is
    # so in other cases too is what complete examinations look at.
    if len(overlaps(extents_of(example))) > 0:
        return never
    identities = ", ".join(f"id(g{number})" for number in source.known.values())
    if identities:
        source.require(f"len({{{identities}}}) == {len(source.known)}")
    starts = "".join(f"p{number}, " for number in source.tensors)
    ends = "".join(f"p{number} + n{number}, " for number in source.tensors)
    source.require(f"disjoint([{starts}*beside[0]], [{ends}*beside[1]])")
    body = "\n        ".join([*source.lines, "return True"])
    # A tensor without plain memory, such as a sparse one, raises.
    text = f"def same(e0, g0, beside):\n    try:\n        {body}\n    except RuntimeError:\n        return False\n"
    namespace = {"disjoint": _disjoint, "memcmp": memcmp, "INTEGERS": INTEGERS, "is_": is_, **source.constants}
    exec(compile(text, "<quick>", "exec"), namespace)
    same: Same = namespace["same"]
    return same


class _Unsupported(Exception):
    """The example holds something that a quick comparison does not cover."""


def _emit(example: Any, number: int, source: _Source) -> None:
    """Generate the comparison of ``e{number}`` and ``g{number}``, which stand where ``example`` stands."""
    kind = type(example)
    left, right = f"e{number}", f"g{number}"
    if kind in (list, dict, torch.Tensor):
        first = source.known.setdefault(id(example), number)
        if first != number:
            source.require(f"{left} is e{first} and {right} is g{first}")
            return
    name = source.constant(kind)
    source.require(f"type({left}) is {name} and type({right}) is {name}")
    if kind in _SCALARS:
        source.require(f"{left} == {right}")
    elif kind is torch.Tensor:
        _emit_tensor(example, number, source)
    elif kind in (tuple, list):
        source.require(f"len({left}) == {len(example)} and len({right}) == {len(example)}")
        _emit_items([(f"{left}[{i}]", f"{right}[{i}]", item) for i, item in enumerate(example)], source)
    elif kind is dict:
        if not all(type(key) in (int, str) for key in example):
            raise _Unsupported
        keys = source.constant(list(example))
        for side in (left, right):
            # The very same keys, as names and small numbers are: to compare others could run their own code.
            source.require(f"len({side}) == {len(example)} and all(map(is_, {side}, {keys}))")
        _emit_items([(f"{left}[{key!r}]", f"{right}[{key!r}]", item) for key, item in example.items()], source)
    else:
        raise _Unsupported


def _emit_items(items: Sequence[tuple[str, str, Any]], source: _Source) -> None:
    for left, right, item in items:
        number = next(source.names)
        source.lines += [f"e{number} = {left}", f"g{number} = {right}"]
        _emit(item, number, source)


def _emit_tensor(example: torch.Tensor, number: int, source: _Source) -> None:
    if example.dtype not in INTEGERS or not example.is_cpu or example.is_inference():
        raise _Unsupported
    left, right = f"e{number}", f"g{number}"
    source.tensors.append(number)
    source.lines.append(f"dtype = {left}.dtype")
    # The reference's own tensors lie where those of the example lie: the device is the same in all cases.
    source.require(f"dtype is {right}.dtype and dtype in INTEGERS and {right}.is_cpu and not {right}.is_inference()")
    source.require(f"{left}.shape == {right}.shape and {left}.stride() == {right}.stride() and {right}.is_contiguous()")
    source.lines.append(f"n{number} = {right}.nbytes; p{number} = {right}.data_ptr()")
    source.require(f"not n{number} or (p{number} and not memcmp({left}.data_ptr(), p{number}, n{number}))")


def _disjoint(starts: list[int], ends: list[int]) -> bool:
    """Whether no two of the spans share bytes: in order, each then starts after the one before it has ended."""
    starts.sort()
    ends.sort()
    return all(map(le, ends, starts[1:]))
