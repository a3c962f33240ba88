"""Tensors: compare two tensors, or two arrays, to the last bit, and list the elements that differ."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from harness.describe import number_text
from harness.errors import HarnessError
from harness.memory import Seen, extent_of, reach
from harness.verdict import Difference, Element

SHOWN: Final = 8
"""How many differing elements a difference lists."""

# Taken before any candidate is loaded: one that replaces torch's functions must not replace ours.
_equal = torch.equal

# Raw bytes of any element type in one step, and several times faster than torch.equal on small tensors. PyDLL keeps the
# interpreter lock, which costs more to give back than the comparison takes.
memcmp = ctypes.PyDLL(None).memcmp
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

INTEGERS: Final = frozenset({torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
"""Element types whose tensors cannot require a gradient."""
SAME_WIDTH: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types by size in bytes: what raw bits are seen as."""


def tensor_difference(expected: Any, got: Any, seen: Seen) -> Difference | None:
    """How two tensors that were not met before differ, or None; notes the bytes of both in ``seen``."""
    dtype = expected.dtype
    try:
        if dtype is not got.dtype or expected.shape != got.shape or expected.device != got.device:
            return _explain_tensor(expected, got, seen)
        # The strides of a tensor without elements address nothing, and differ between torch and NumPy.
        if expected.stride() != got.stride() and _strides(expected) != _strides(got):
            return _explain_tensor(expected, got, seen)
        size, left, right = expected.nbytes, expected.data_ptr(), got.data_ptr()
    except RuntimeError:  # a tensor without plain memory, such as a sparse one
        return _explain_tensor(expected, got, seen)
    if seen.check_pinned and expected.is_pinned() != got.is_pinned():
        return _explain_tensor(expected, got, seen)
    # Only floating-point tensors have gradients, and only they or complex ones are negated or conjugated lazily.
    if dtype not in INTEGERS and any(read(expected) != read(got) for read in _FLAGS):
        return _explain_tensor(expected, got, seen)
    if expected.is_inference() is not got.is_inference():
        return _explain_tensor(expected, got, seen)
    if not size:
        return None
    if not right:
        return _explain_tensor(expected, got, seen)
    if expected.is_contiguous():
        same = not memcmp(left, right, size) if expected.is_cpu else _equal(_bits(expected), _bits(got))
    else:
        size = reach(expected) * expected.element_size()
        same = _equal(_bits(expected), _bits(got))
    seen.left_extents.append((left, left + size, expected))
    seen.right_extents.append((right, right + size, got))
    return None if same else _explain_tensor(expected, got, seen)


def array_difference(expected: Any, got: Any, seen: Seen) -> Difference | None:
    """How two arrays that were not met before differ, or None; notes the bytes of both in ``seen``."""
    for aspect, left, right in (
        ("dtype", element_layout(expected.dtype), element_layout(got.dtype)),
        ("shape", expected.shape, got.shape),
        ("strides", expected.strides if expected.size else (), got.strides if got.size else ()),
        ("writeable", expected.flags.writeable, got.flags.writeable),
    ):
        if left != right:
            return Difference("", aspect, str(left), str(right))
    if expected.dtype.hasobject:
        raise HarnessError("an array of Python objects cannot be compared bit for bit: return numbers instead.")
    for side, extents in ((expected, seen.left_extents), (got, seen.right_extents)):
        extent = extent_of(side)
        if extent is not None:
            extents.append(extent)
    if expected.tobytes() == got.tobytes():
        return None
    width = expected.dtype.itemsize
    raw, other = (np.frombuffer(side.tobytes(), dtype=f"V{width}").reshape(side.shape) for side in (expected, got))
    return _elements(np.argwhere(raw != other), expected, got, expected.size)


def element_layout(dtype: Any) -> str:
    """The element type of an array with its byte order; of a structured one, where each field lies and what it is."""
    if dtype.names is not None:
        fields = [(name, *dtype.fields[name][:2]) for name in dtype.names]
        parts = (f"{str.__str__(name)!r}: {element_layout(kind)} at {offset}" for name, kind, offset in fields)
        return f"{dtype.str} {{{', '.join(parts)}}}"
    if dtype.subdtype is not None:
        return f"{element_layout(dtype.base)} {list(dtype.shape)}"
    # Types that other packages add share one code for all types of one width.
    return f"{dtype.str}" if dtype.kind != "V" else f"{dtype.str} {dtype.name}"


def _explain_tensor(expected: torch.Tensor, got: torch.Tensor, seen: Seen) -> Difference | None:
    aspects: list[tuple[str, Callable[[torch.Tensor], object]]] = [
        ("dtype", lambda tensor: tensor.dtype),
        ("shape", lambda tensor: list(tensor.shape)),
        ("layout", lambda tensor: tensor.layout),
        ("device", lambda tensor: tensor.device),
        ("strides", _strides),
        *zip(("requires_grad", "conjugated", "negated"), _FLAGS, strict=True),
        ("inference tensor", lambda tensor: tensor.is_inference()),
        ("memory", lambda tensor: "plain" if tensor.data_ptr() or not tensor.numel() else _NO_MEMORY),
    ]
    if seen.check_pinned:
        aspects.append(("pinned", lambda tensor: tensor.is_pinned()))
    for aspect, read in aspects:
        left, right = _read(read, expected), _read(read, got)
        if left != right:
            return Difference("", aspect, str(left), str(right))
        if left in (_UNREADABLE, _NO_MEMORY) or (aspect == "layout" and expected.layout is not torch.strided):
            kind = f"{expected.layout} on {expected.device}"
            raise HarnessError(f"a tensor of {kind} cannot be compared bit for bit: return a strided one in memory.")
    left_cpu, right_cpu = expected.detach().cpu(), got.detach().cpu()
    differs = _bits(left_cpu) != _bits(right_cpu)
    if expected.dtype.is_complex:
        differs = differs.any(dim=-1)
    return _elements(differs.nonzero().numpy(), left_cpu, right_cpu, expected.numel())


def _read(read: Callable[[torch.Tensor], object], tensor: torch.Tensor) -> object:
    try:
        return read(tensor)
    except RuntimeError:
        return _UNREADABLE


def _strides(tensor: torch.Tensor) -> list[int]:
    """The strides that address anything: those of axes with more than one element, of a tensor that has elements."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1] if tensor.numel() else []


def _requires_grad(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.detach().view(SAME_WIDTH[tensor.element_size()])


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
    return number_text(values[index].item())


_FLAGS: Final[tuple[Callable[[torch.Tensor], bool], ...]] = (_requires_grad, torch.is_conj, torch.is_neg)
_UNREADABLE: Final = "not to be read"
_NO_MEMORY: Final = "none"
