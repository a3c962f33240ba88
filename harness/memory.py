"""Memory: which objects and which bytes the two sides of a comparison use, and where these overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import torch

Extent: TypeAlias = tuple[int, int, Any]
"""First byte and one past the last byte that a tensor's or array's elements can touch, and the object itself."""

_Tensor, _Array = torch.Tensor, np.ndarray


class Seen:
    """What one comparison has met so far: which object of one side stands where which of the other does, and bytes."""

    __slots__ = ("check_pinned", "left", "left_extents", "right", "right_extents")

    def __init__(self, check_pinned: bool, left_extents: Sequence[Extent], right_extents: Sequence[Extent]) -> None:
        self.left: dict[int, Any] = {}
        self.right: dict[int, Any] = {}
        self.left_extents = [*left_extents]
        self.right_extents = [*right_extents]
        self.check_pinned = check_pinned


def extent_of(leaf: Any) -> Extent | None:
    """The bytes of a tensor or array; None if it has no elements or no plain memory."""
    if isinstance(leaf, _Array):
        if leaf.size == 0:
            return None
        low, high = np.lib.array_utils.byte_bounds(leaf)
        return int(low), int(high), leaf
    if leaf.layout is not torch.strided or leaf.device.type == "meta" or leaf.numel() == 0:
        return None
    start, size = leaf.data_ptr(), leaf.nbytes if leaf.is_contiguous() else reach(leaf) * leaf.element_size()
    return start, start + size, leaf


def reach(tensor: Any) -> int:
    """How many elements lie between the first and one past the last that a strided tensor's elements can touch."""
    span: int = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return span


def extents_of(value: Any) -> list[Extent]:
    """The bytes of every tensor and array inside a value, each object once."""
    objects = {id(leaf): leaf for _, leaf in leaves(value)}
    return [extent for leaf in objects.values() if (extent := extent_of(leaf)) is not None]


def overlaps(extents: list[Extent]) -> frozenset[tuple[int, int]]:
    """Pairs (i, j), i < j, of extents that share bytes."""
    end = 0
    for start, stop, _ in sorted(extents, key=_start):
        if start < end:
            break
        end = stop
    else:
        return _NO_OVERLAP
    numbered = list(enumerate(extents))
    return frozenset((i, j) for i, (a, b, _) in numbered for j, (c, d, _) in numbered[i + 1 :] if max(a, c) < min(b, d))


def shared(earlier: list[Extent], later: list[Extent]) -> Any:
    """The first tensor or array of ``later`` that shares bytes with one of ``earlier``, or None."""
    if not overlaps([*earlier, *later]):
        return None
    both = [c for c in later if any(max(a[0], c[0]) < min(a[1], c[1]) for a in earlier)]
    return both[0][2] if both else None


def shared_container(earlier: Any, later: Any) -> Any:
    """The first list or dictionary inside ``later`` that is also inside ``earlier``, or None."""
    taken = {id(part) for _, part in parts(earlier) if isinstance(part, list | dict)}
    return next((part for _, part in parts(later) if id(part) in taken), None)


def leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Every tensor and array inside a value of lists, tuples and dictionaries, with its path; a list only once."""
    return ((path, part) for path, part in parts(value) if isinstance(part, _Tensor | _Array))


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Every tensor, array, list, tuple and dictionary inside a value, with its path; a list only once."""
    return _parts(value, "", set())


def _parts(value: Any, path: str, met: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _Tensor | _Array):
        yield path, value
    elif isinstance(value, dict | list | tuple):
        if id(value) in met:
            return
        met.add(id(value))
        yield path, value
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _parts(item, f"{path}[{key!r}]", met)


_start = itemgetter(0)
_NO_OVERLAP: Final[frozenset[tuple[int, int]]] = frozenset()
