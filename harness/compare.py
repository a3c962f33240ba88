"""Compare two observed values bit for bit, and say where they part."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import torch

from harness.errors import HarnessError
from harness.verdict import Difference, Element

SHOWN: Final = 8
"""How many differing elements a difference lists."""

# Taken before any candidate is loaded: one that replaces torch's functions must not replace ours.
_equal = torch.equal
_Tensor, _Array, _Scalar = torch.Tensor, np.ndarray, np.generic

# Raw bytes of any element type in one step, and several times faster than torch.equal on small tensors. PyDLL keeps the
# interpreter lock, which costs more to give back than the comparison takes.
_memcmp = ctypes.PyDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

_SAME_WIDTH: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PLAIN: Final = frozenset({type(None), bool, int, str, bytes, torch.dtype, torch.device, torch.Size, range, slice})


class Seen:
    """What one comparison has met so far: which object of one side stands where which of the other does."""

    __slots__ = ("check_pinned", "left", "left_extents", "right", "right_extents")

    def __init__(self, check_pinned: bool) -> None:
        self.left: dict[int, Any] = {}
        self.right: dict[int, Any] = {}
        self.left_extents: list[Extent] = []
        self.right_extents: list[Extent] = []
        self.check_pinned = check_pinned


Extent: TypeAlias = tuple[int, int, Any]
"""First byte and one past the last byte that a tensor's or array's elements can touch, and the object itself."""
Handler: TypeAlias = Callable[[Any, Any, Seen], Difference | None]


def compare(expected: Any, got: Any, *, check_pinned: bool = False) -> Difference | None:
    """The first difference between two values, or None when they are the same to the last bit.

    Observed: exact types (``bool`` is not ``int``, a list is not a tuple, an array is not a tensor), dictionary keys
    with their types (their order is not observed), element types, shapes, strides (where there are elements), devices,
    raw bits of every element, which positions hold the same object, and which tensors overlap in memory.
    ``check_pinned`` adds whether tensors lie in page-locked memory, which only a machine with an accelerator can tell.

    Raises:
        HarnessError: ``expected`` holds an object of a type that cannot be observed.
    """
    seen = Seen(check_pinned)
    found = _walk(expected, got, seen)
    return _overlap_difference(expected, got, seen) if found is None else found


def _walk(expected: Any, got: Any, seen: Seen) -> Difference | None:
    kind = type(expected)
    if kind is not type(got):
        return Difference("", "type", _type_name(expected), f"{_type_name(got)} {describe(got)}")
    handler = _HANDLERS.get(kind)
    if handler is None:
        handler = _adopt(kind)
    return handler(expected, got, seen)


def _plain(expected: Any, got: Any, seen: Seen) -> Difference | None:
    return None if expected == got else Difference("", "value", describe(expected), describe(got))


def _float(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if struct.pack("<d", expected) == struct.pack("<d", got):
        return None
    return Difference("", "value", f"{expected!r} ({expected.hex()})", f"{got!r} ({got.hex()})")


def _complex(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if struct.pack("<dd", expected.real, expected.imag) == struct.pack("<dd", got.real, got.imag):
        return None
    return Difference("", "value", repr(expected), repr(got))


def _scalar(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if expected.dtype == got.dtype and expected.tobytes() == got.tobytes():
        return None
    return Difference("", "value", repr(expected), repr(got))


def _alias(expected: Any, got: Any, seen: Seen) -> Difference | bool:
    """Whether this pair was met before (so that nothing is left to compare), or how the identities differ."""
    known = seen.left.get(id(expected))
    if known is not None:
        return known is got or Difference("", "aliasing", "the same object as at an earlier path", "another object")
    if id(got) in seen.right:
        return Difference("", "aliasing", "an object of its own", "the same object as at an earlier path")
    seen.left[id(expected)] = got
    seen.right[id(got)] = expected
    return False


def _list(expected: Any, got: Any, seen: Seen) -> Difference | None:
    met = _alias(expected, got, seen)
    if met is not False:
        return None if met is True else met
    return _sequence(expected, got, seen)


def _sequence(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if len(expected) != len(got):
        return Difference("", "length", f"{len(expected)} items", f"{len(got)} items")
    for index, item in enumerate(expected):
        found = _walk(item, got[index], seen)
        if found is not None:
            return _below(f"[{index}]", found)
    return None


def _dict(expected: Any, got: Any, seen: Seen) -> Difference | None:
    met = _alias(expected, got, seen)
    if met is not False:
        return None if met is True else met
    if len(expected) != len(got):
        return Difference("", "keys", describe(list(expected)), describe(list(got)))
    keys = {key: key for key in got}
    for key, item in expected.items():
        other = keys.get(key, _MISSING)
        if other is _MISSING or type(other) is not type(key):
            return Difference("", "keys", _typed_keys(expected), _typed_keys(got))
        found = _walk(item, got[key], seen)
        if found is not None:
            return _below(f"[{key!r}]", found)
    return None


def _tensor(expected: Any, got: Any, seen: Seen) -> Difference | None:
    if id(expected) in seen.left or id(got) in seen.right:
        met = _alias(expected, got, seen)
        return met if isinstance(met, Difference) else None
    seen.left[id(expected)] = got
    seen.right[id(got)] = expected
    metadata = _metadata(expected)
    if metadata != _metadata(got):
        return _explain_tensor(expected, got, seen)
    if expected.layout is not torch.strided:
        raise HarnessError(
            f"a tensor of layout {expected.layout} cannot be compared bit for bit: return a strided one."
        )
    size = metadata[-1]
    # The strides of a tensor without elements address nothing, and differ between torch and NumPy.
    if (size and expected.stride() != got.stride()) or (seen.check_pinned and expected.is_pinned() != got.is_pinned()):
        return _explain_tensor(expected, got, seen)
    if not size:
        return None
    left, right = expected.data_ptr(), got.data_ptr()
    if expected.is_contiguous():
        same = not _memcmp(left, right, size) if expected.is_cpu else _equal(_bits(expected), _bits(got))
    else:
        reach = 1 + sum((n - 1) * stride for n, stride in zip(expected.shape, expected.stride(), strict=True))
        size = reach * expected.element_size()
        same = _equal(_bits(expected), _bits(got))
    seen.left_extents.append((left, left + size, expected))
    seen.right_extents.append((right, right + size, got))
    return None if same else _explain_tensor(expected, got, seen)


def _array(expected: Any, got: Any, seen: Seen) -> Difference | None:
    met = _alias(expected, got, seen)
    if met is not False:
        return None if met is True else met
    for aspect, left, right in (
        ("dtype", expected.dtype.str, got.dtype.str),
        ("shape", expected.shape, got.shape),
        ("strides", expected.strides if expected.size else (), got.strides if got.size else ()),
        ("writeable", expected.flags.writeable, got.flags.writeable),
    ):
        if left != right:
            return Difference("", aspect, str(left), str(right))
    if expected.dtype.hasobject:
        raise HarnessError("an array of Python objects cannot be compared bit for bit: return numbers instead.")
    if expected.size == 0:
        return None
    seen.left_extents.append((*_byte_bounds(expected), expected))
    seen.right_extents.append((*_byte_bounds(got), got))
    if expected.tobytes() == got.tobytes():
        return None
    width = expected.dtype.itemsize
    left, right = (np.frombuffer(side.tobytes(), dtype=f"V{width}").reshape(side.shape) for side in (expected, got))
    return _elements(np.argwhere(left != right), expected, got, expected.size)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.detach().view(_SAME_WIDTH[tensor.element_size()])


def _explain_tensor(expected: torch.Tensor, got: torch.Tensor, seen: Seen) -> Difference | None:
    aspects: list[tuple[str, Callable[[torch.Tensor], object]]] = [
        ("dtype", lambda tensor: tensor.dtype),
        ("shape", lambda tensor: list(tensor.shape)),
        ("layout", lambda tensor: tensor.layout),
        ("strides", lambda tensor: list(tensor.stride()) if tensor.numel() else []),
        ("device", lambda tensor: tensor.device),
        ("requires_grad", lambda tensor: tensor.requires_grad),
    ]
    if seen.check_pinned:
        aspects.append(("pinned", lambda tensor: tensor.is_pinned()))
    for aspect, read in aspects:
        left, right = read(expected), read(got)
        if left != right:
            return Difference("", aspect, str(left), str(right))
    left_cpu, right_cpu = expected.detach().cpu(), got.detach().cpu()
    differs = _bits(left_cpu) != _bits(right_cpu)
    if expected.dtype.is_complex:
        differs = differs.any(dim=-1)
    return _elements(differs.nonzero().numpy(), left_cpu, right_cpu, expected.numel())


def _elements(indices: Any, expected: Any, got: Any, total: int) -> Difference | None:
    if len(indices) == 0:
        return None
    shown = tuple(
        Element(index, _element(expected, index), _element(got, index))
        for index in (tuple(int(part) for part in row) for row in indices[:SHOWN])
    )
    first = shown[0]
    return Difference("", "value", first.expected, first.got, count=len(indices), total=total, elements=shown)


def _element(values: Any, index: tuple[int, ...]) -> str:
    number = values[index].item()
    if isinstance(number, float):
        return f"{number!r} ({number.hex()})"
    return repr(number)


def _overlap_difference(expected: Any, got: Any, seen: Seen) -> Difference | None:
    left, right = _overlaps(seen.left_extents), _overlaps(seen.right_extents)
    if left == right:
        return None
    first, second = min(left ^ right)
    paths = {id(leaf): path for path, leaf in leaves(expected)}
    names = [paths[id(seen.left_extents[number][2])] for number in (first, second)]
    texts = ["separate memory", f"memory that overlaps {names[0]}"]
    wanted, found = texts if (first, second) in right else reversed(texts)
    return Difference(names[1], "aliasing", wanted, found)


def _overlaps(extents: list[Extent]) -> frozenset[tuple[int, int]]:
    """Pairs (i, j), i < j, of extents that share bytes."""
    reach = 0
    for start, end, _ in sorted(extents, key=_start):
        if start < reach:
            break
        reach = end
    else:
        return _NO_OVERLAP
    numbered = list(enumerate(extents))
    return frozenset((i, j) for i, (a, b, _) in numbered for j, (c, d, _) in numbered[i + 1 :] if max(a, c) < min(b, d))


def shares_memory(earlier: Any, later: Any) -> str | None:
    """The path of the first tensor in ``later`` that overlaps one in ``earlier`` in memory, or None."""
    taken = [extent for _, leaf in leaves(earlier) if (extent := _extent(leaf)) is not None]
    for path, leaf in leaves(later):
        extent = _extent(leaf)
        if extent is not None and any(max(extent[0], start) < min(extent[1], end) for start, end, _ in taken):
            return path or "returned value"
    return None


def _extent(leaf: Any) -> Extent | None:
    seen = Seen(False)
    _walk(leaf, leaf, seen)
    return seen.left_extents[0] if seen.left_extents else None


def _byte_bounds(array: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor and array inside a value of lists, tuples and dictionaries, with its path."""
    if isinstance(value, _Tensor | _Array):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")


def describe(value: Any, limit: int = 120, depth: int = 3) -> str:
    """A short text for a value that came from a candidate; never runs code of an unknown type."""
    kind = type(value)
    if kind in _PLAIN or kind is float:
        text = repr(value)
    elif kind is _Tensor or kind is _Array:
        text = f"of {value.dtype}, shape {list(value.shape)}"
    elif kind in (list, tuple, dict) and len(value) <= 64 and depth:
        items = value.items() if kind is dict else enumerate(value)
        parts = [(describe(key, limit, depth - 1), describe(item, limit, depth - 1)) for key, item in items]
        text = ", ".join(f"{key}: {item}" if kind is dict else item for key, item in parts)
        text = f"[{text}]" if kind is list else f"{{{text}}}" if kind is dict else f"({text})"
    elif issubclass(kind, _Scalar):
        text = str(value)
    else:
        text = ""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _typed_keys(mapping: dict[Any, Any]) -> str:
    return describe([f"{_type_name(key)} {describe(key)}" for key in mapping], 400)


def _below(step: str, found: Difference) -> Difference:
    return replace(found, path=step + found.path)


def _adopt(kind: type) -> Handler:
    if issubclass(kind, np.generic):
        handler: Handler = _scalar
    elif issubclass(kind, tuple):
        handler = _sequence
    else:
        raise HarnessError(
            f"a value of type {kind.__module__}.{kind.__qualname__} cannot be compared bit for bit: "
            "return tensors, arrays, numbers, strings, lists, tuples or dictionaries."
        )
    _HANDLERS[kind] = handler
    return handler


_start = itemgetter(0)
_metadata = attrgetter("dtype", "shape", "device", "requires_grad", "layout", "nbytes")
_MISSING: Final = object()
_NO_OVERLAP: Final[frozenset[tuple[int, int]]] = frozenset()
_HANDLERS: Final[dict[type, Handler]] = {
    **dict.fromkeys(_PLAIN, _plain),
    float: _float,
    complex: _complex,
    tuple: _sequence,
    list: _list,
    dict: _dict,
    _Tensor: _tensor,
    _Array: _array,
}
