"""Guard: tensors between two bands of poisoned memory, so that a write beside them is seen.

A kernel gets pointers and writes where its arithmetic leads it. Arguments are therefore laid into larger blocks, and so
is what a function allocates while it runs: what lies around a tensor's elements (in front, behind, and between rows
that have gaps) holds a pattern, and must still hold it afterwards. Fresh memory holds the pattern too: an element that
nobody wrote shows it, and under two patterns it cannot be right by luck. The first pattern is NaN in every
floating-point type, and -1 in every integer type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.layout import Shape, span
from harness.tensors import SAME_WIDTH
from harness.verdict import Difference

PATTERNS: Final = (0xFF, 0x7E)
"""Bytes that poisoned memory holds; the second makes large finite numbers of most types."""
BAND: Final = 4096
"""Bytes in front of a guarded tensor and behind it, at least."""
WIDEST: Final = 1 << 20
"""Bytes of the widest band: one row of the outermost axis, if that is not wider."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The block that a tensor lies in. ``start`` is its first element, counted in elements from the block's begin."""

    name: str
    memory: torch.Tensor
    dtype: torch.dtype
    shape: Shape
    strides: Shape
    start: int
    pattern: int

    def view(self, memory: torch.Tensor) -> torch.Tensor:
        """The tensor, in this block or in a copy of it."""
        return memory.view(self.dtype).as_strided(self.shape, self.strides, self.start)

    def written(self) -> torch.Tensor:
        """How many bytes around the tensor do not hold the pattern any more; on the tensor's device, not waited for."""
        elements = self.view(self.memory).clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8)
        everywhere = torch.count_nonzero(self.memory != self.pattern)
        return everywhere - torch.count_nonzero(elements != self.pattern)

    def disturbed(self) -> tuple[int, int] | None:
        """How many bytes around the tensor were written, and where the first of them is, from its first element on."""
        outside = self.memory.clone()
        inside = Guard("", outside, SAME_WIDTH[self.dtype.itemsize], self.shape, self.strides, self.start, self.pattern)
        fill(inside.view(outside), self.pattern)
        written = (outside != self.pattern).nonzero()
        if len(written) == 0:
            return None
        return len(written), int(written[0]) - self.start * self.dtype.itemsize


def guarded(
    name: str, dtype: torch.dtype, shape: Shape, strides: Shape, offset: int, device: torch.device, pattern: int
) -> tuple[torch.Tensor, Guard]:
    """A tensor whose elements all hold ``pattern``, between two bands that do, too."""
    size = dtype.itemsize
    widest = max((stride for stride, length in zip(strides, shape, strict=True) if length), default=0)
    band = BAND + min(widest * size, WIDEST)
    band += -band % 256
    start = band // size + offset
    total = band + (offset + span(shape, strides)) * size + band
    memory = torch.full((total + -total % 256,), pattern, dtype=torch.uint8, device=device)
    guard = Guard(name, memory, dtype, shape, strides, start, pattern)
    return guard.view(memory), guard


def out_of_bounds(guards: Iterable[Guard]) -> Difference | None:
    """The first write beside a guarded tensor, or None."""
    by_device: dict[torch.device, list[Guard]] = {}
    for guard in guards:
        by_device.setdefault(guard.memory.device, []).append(guard)
    # A device is waited for once, not once for each tensor.
    counts = [torch.stack([guard.written() for guard in group]).tolist() for group in by_device.values()]
    for guard, count in zip(chain(*by_device.values()), chain(*counts), strict=True):
        found = guard.disturbed() if count else None
        if found is not None:
            count, first = found
            where = f"{_bytes(-first)} in front of it" if first < 0 else f"{_bytes(first)} past its first element"
            written = f"{_bytes(count)} written beside it, the first {where}"
            return Difference(guard.name, "out of bounds", "nothing written outside of the tensor", written)
    return None


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, what torch allocates is poisoned and lies between guard bands.

    ``guards`` are those of every allocation so far. With ``trusted`` that is only memory handed out as it is, where
    poison can be seen; not what comes with something in it, a loop's many small values.
    """

    def __init__(self, pattern: int, *, trusted: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.guards: list[Guard] = []
        self._pattern = pattern
        self._names = _FRESH if trusted else _FRESH | _FILLED

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        name = getattr(func, "_overloadpacket", func).__name__
        if name not in self._names or type(made) is not torch.Tensor or not _plain(made):
            return made
        # Page-locked memory is asked for on purpose, and a copy into it may still be on its way.
        if any(made is arg for arg in args) or (kwargs or {}).get("pin_memory") or _page_locked(made):
            return made
        label = f"memory that it allocated, {list(made.shape)} of {made.dtype}"
        tensor, guard = guarded(label, made.dtype, tuple(made.shape), made.stride(), 0, made.device, self._pattern)
        self.guards.append(guard)
        return tensor.copy_(made) if name in _FILLED else tensor


def fill(tensor: torch.Tensor, pattern: int) -> None:
    """Overwrite every byte of every element."""
    width = tensor.element_size()
    bits = tensor.detach().view(SAME_WIDTH[width])
    bits.fill_(int.from_bytes(bytes([pattern]) * width, "little", signed=width > 1))


def _page_locked(tensor: torch.Tensor) -> bool:
    return tensor.is_cpu and torch.cuda.is_available() and tensor.is_pinned()


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"


def _plain(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or math.prod(tensor.shape) == 0:
        return False
    return tensor.dtype.itemsize in SAME_WIDTH and all(stride >= 0 for stride in tensor.stride())


_FRESH: Final = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"})
"""Operations that return memory as it is."""
_FILLED: Final = frozenset(
    {
        *("full", "full_like", "new_full", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
        *("clone", "_to_copy"),
    }
)
"""Operations that return memory of their own with something in it, which a kernel is often given to write to."""
