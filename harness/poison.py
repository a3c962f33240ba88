"""Poison: fill fresh and freed memory with a pattern, so that an element nobody wrote cannot be right by luck.

glibc fills what ``free`` gives back with a byte chosen by ``M_PERTURB`` and what ``malloc`` hands out with its
complement; PyTorch's CPU allocator goes through it. NumPy keeps freed blocks of less than 1,024 bytes in a cache of its
own, seven for each size, which glibc never sees, and glibc keeps seven of up to 1,032 bytes that it fills only once:
those are filled by allocating, writing and freeing all seven.
Source: glibc's ``mallopt(3)`` and ``malloc.c`` (tcache); NumPy's ``numpy/_core/src/multiarray/alloc.c``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Final

import numpy as np

PATTERNS: Final = (0x11, 0x44)
"""Bytes whose complements differ too, so that no byte an unwritten element can show is the same under both."""

_M_PERTURB: Final = -6
_CACHED_BLOCKS: Final = 7
_CACHED_BYTES: Final = 1032
_empty = np.empty
_mallopt = getattr(ctypes.CDLL(None), "mallopt", None)


def set_pattern(pattern: int) -> bool:
    """Fill memory with ``pattern`` from now on. False where the C library has no such switch (it is not glibc)."""
    return bool(_mallopt is not None and _mallopt(_M_PERTURB, pattern))


def poison_array_cache(sizes: Iterable[int], pattern: int) -> None:
    """Fill the cached free blocks for arrays of the given sizes in bytes with ``pattern``."""
    for size in {size for size in sizes if 0 < size <= _CACHED_BYTES}:
        blocks = [_empty(size, dtype=np.uint8) for _ in range(_CACHED_BLOCKS)]
        for block in blocks:
            block.fill(pattern)
        del blocks
