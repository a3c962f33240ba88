"""Layout: how a tensor argument lies in memory, where that is not simply row after row from an aligned start."""

from __future__ import annotations

import math
from typing import Final

Shape = tuple[int, ...]
FARTHEST: Final = 1 << 36
"""Elements of memory that a tensor can take, gaps included."""


def row_major(shape: Shape) -> Shape:
    """The strides, in elements, of a contiguous tensor of that shape."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def span(shape: Shape, strides: Shape) -> int:
    """Elements from the first one of a tensor to one past the last, gaps between rows included."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def check_layout(shape: Shape, strides: Shape, offset: int) -> None:
    """Check that a tensor of that shape can lie in memory so, with no two elements in one place.

    ``strides`` are in elements, empty for a contiguous tensor; ``offset`` is how many elements its first element lies
    past a well-aligned address.

    Raises:
        ValueError: it cannot.
    """
    if offset < 0:
        raise ValueError(f"offset {offset} is negative")
    room = offset + (span(shape, strides) if len(strides) == len(shape) else math.prod(shape))
    if room > FARTHEST:
        raise ValueError(f"a tensor of shape {list(shape)} takes {room} elements of memory, gaps and offset included")
    if not strides:
        return
    if len(strides) != len(shape):
        raise ValueError(f"strides {list(strides)} do not belong to shape {list(shape)}")
    reached = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride < reached:
                raise ValueError(f"with strides {list(strides)}, elements of shape {list(shape)} overlap")
            reached = stride * (size - 1) + reached


def layout_to_python(source: str, shape: Shape, strides: Shape, offset: int, *, dtype: str, device: str) -> str:
    """``source``, a Python expression of a contiguous tensor in main memory, laid out as described on a device."""
    if not strides and not offset:
        return source if device == "cpu" else f'{source}.to("{device}")'
    strides = strides or row_major(shape)
    place = "" if device == "cpu" else f', device="{device}"'
    room = f"torch.empty({offset + span(shape, strides)}, dtype={dtype}{place})"
    return f"{room}.as_strided({list(shape)}, {list(strides)}, {offset}).copy_({source})"
