"""Compare two observed values bit for bit, and say where they part."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import torch

from harness.describe import describe, is_one_of, number_text, type_name, typed_keys
from harness.errors import HarnessError
from harness.memory import Extent, Seen, leaves, overlaps
from harness.tensors import array_difference, element_layout, tensor_difference
from harness.verdict import Difference

Handler: TypeAlias = Callable[[Any, Any, Seen], Difference | None]

_Tensor: Final = torch.Tensor


def compare(
    expected: Any,
    got: Any,
    *,
    check_pinned: bool = False,
    beside: tuple[Sequence[Extent], Sequence[Extent]] = ((), ()),
    arguments: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
) -> Difference | None:
    """The first difference between two values, or None when they are the same to the last bit.

    Observed: exact types (``bool`` is not ``int``, a list is not a tuple, an array is not a tensor), dictionary keys
    with their types (their order is not observed), element types, shapes, strides (where there are elements), devices,
    raw bits of every element, which positions hold the same object, and which tensors overlap in memory.
    ``check_pinned`` adds whether tensors lie in page-locked memory, which only a machine with an accelerator can tell.
    ``beside`` is memory that belongs to each side without being compared, such as a call's arguments: overlap with it
    is observed too. ``arguments`` are objects of each side, not compared either, that the values may hold again.

    Raises:
        HarnessError: ``expected`` holds an object of a type that cannot be observed, or is nested too deeply.
    """
    seen = Seen(check_pinned, *beside)
    for left_argument, right_argument in zip(*arguments, strict=True):
        if type(left_argument) in _IDENTIFIED:
            seen.left[id(left_argument)] = right_argument
            seen.right[id(right_argument)] = left_argument
    try:
        found = _walk(expected, got, seen)
    except RecursionError:
        raise HarnessError("a value nested this deeply cannot be compared: return flatter lists.") from None
    if found is None:
        left, right = overlaps(seen.left_extents), overlaps(seen.right_extents)
        if left != right:
            found = _overlap_difference(expected, min(left ^ right), min(left ^ right) in right, seen)
    return found


def _walk(expected: Any, got: Any, seen: Seen) -> Difference | None:
    kind = type(expected)
    if kind is not type(got):
        return Difference("", "type", type_name(kind), f"{type_name(type(got))} {describe(got)}".rstrip())
    if kind in _PLAIN:
        return None if expected == got else Difference("", "value", describe(expected), describe(got))
    if kind in _IDENTIFIED:
        # Objects that can be changed: each is compared once, where it is met first, and must stand in the same places.
        left, right = seen.left, seen.right
        known = left.get(id(expected))
        if known is not None or id(got) in right:
            return None if known is got else _identity_difference(known)
        left[id(expected)] = got
        right[id(got)] = expected
    return (_HANDLERS.get(kind) or _adopt(kind))(expected, got, seen)


def _identity_difference(known: Any) -> Difference:
    if known is not None:
        return Difference("", "aliasing", "the same object as at an earlier path", "another object")
    return Difference("", "aliasing", "an object of its own", "the same object as at an earlier path")


def _float(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if struct.pack("<d", expected) == struct.pack("<d", got):
        return None
    return Difference("", "value", number_text(expected), number_text(got))


def _complex(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if struct.pack("<dd", expected.real, expected.imag) == struct.pack("<dd", got.real, got.imag):
        return None
    return Difference("", "value", repr(expected), repr(got))


def _scalar(expected: Any, got: Any, seen: Seen) -> Difference | None:
    left, right = element_layout(expected.dtype), element_layout(got.dtype)
    if left != right:
        return Difference("", "dtype", left, right)
    if expected.dtype.hasobject:
        raise HarnessError("a NumPy scalar of Python objects cannot be compared bit for bit: return numbers instead.")
    if expected.tobytes() == got.tobytes():
        return None
    left, right = (f"{side!r} (bytes {side.tobytes().hex()})" for side in (expected, got))
    return Difference("", "value", left, right)


def _span(expected: Any, got: Any, seen: Seen) -> Difference | None:
    parts = ((side.start, side.stop, side.step) for side in (expected, got))
    if all(_walk(left, right, seen) is None for left, right in zip(*parts, strict=True)):
        return None
    return Difference("", "value", describe(expected), describe(got))


def _sequence(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if len(expected) != len(got):
        return Difference("", "length", str(len(expected)), str(len(got)))
    for index, item in enumerate(expected):
        found = _walk(item, got[index], seen)
        if found is not None:
            return _below(f"[{index}]", found)
    return None


def _dict(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if len(expected) != len(got):
        return Difference("", "keys", typed_keys(expected), typed_keys(got))
    for (key, item), (other_key, other) in zip(expected.items(), got.items(), strict=True):
        if key is not other_key:
            break
        found = _walk(item, other, seen)
        if found is not None:
            return _below(f"[{key!r}]", found)
    else:
        return None
    # Not the same keys in the same order; the order is not observed. To look a key up runs its type's code.
    kinds = [type(key) for key in expected]
    keys = {key: key for key in got} if all(_tame(key, kinds) for key in got) else {}
    for key in expected:
        other = keys.get(key, _MISSING)
        if other is not key and (other is _MISSING or _walk(key, other, seen) is not None):
            return Difference("", "keys", typed_keys(expected), typed_keys(got))
    for key, item in expected.items():
        found = _walk(item, got[key], seen)
        if found is not None:
            return _below(f"[{key!r}]", found)
    return None


def _tame(key: Any, kinds: Sequence[type]) -> bool:
    """Whether a key of the candidate's is of one of these types, and a tuple of nothing but plain values."""
    kind = type(key)
    if not is_one_of(kind, kinds):
        return False
    return not issubclass(kind, tuple) or all(_tame(part, _KEY_PARTS) for part in key)


def _overlap_difference(expected: Any, pair: tuple[int, int], gained: bool, seen: Seen) -> Difference:
    paths: dict[int, str] = {}
    for path, leaf in leaves(expected):
        paths.setdefault(id(leaf), path)
    first, second = (paths.get(id(seen.left_extents[number][2]), "an argument") for number in pair)
    apart, together = "separate memory", f"memory that overlaps {first}"
    return Difference(second, "aliasing", *((apart, together) if gained else (together, apart)))


def _below(step: str, found: Difference) -> Difference:
    return replace(found, path=step + found.path)


def _adopt(kind: type) -> Handler:
    """The handler of a type that is met for the first time."""
    if issubclass(kind, np.generic):
        handler: Handler = _scalar
    elif issubclass(kind, tuple):
        handler = _sequence
    else:
        raise HarnessError(
            f"a value of type {type_name(kind)} cannot be compared bit for bit: "
            "return tensors, arrays, numbers, strings, lists, tuples or dictionaries."
        )
    _HANDLERS[kind] = handler
    return handler


_MISSING: Final = object()
_PLAIN: Final = frozenset({type(None), bool, int, str, bytes, torch.dtype, torch.device})
"""Types whose own equality is exact, once both sides have the same type."""
_KEY_PARTS: Final = (*_PLAIN, float, complex, tuple)
_IDENTIFIED: Final = frozenset({list, dict, _Tensor, np.ndarray})
_HANDLERS: Final[dict[type, Handler]] = {
    float: _float,
    complex: _complex,
    tuple: _sequence,
    list: _sequence,
    dict: _dict,
    torch.Size: _sequence,
    range: _span,
    slice: _span,
    _Tensor: tensor_difference,
    np.ndarray: array_difference,
}
