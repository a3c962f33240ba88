"""Cumulative lengths of batches at the sizes where blocked, padded and cached code goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, cycle, islice
from typing import Final

MIXED: Final = (0, 1, 7, 8, 9, 0, 0, 64, 65, 1, 1, 127)
"""Lengths of rows around the boundaries of tiles of 8 tokens, empty ones among them."""
POWERS: Final = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Sizes of blocks, warps and buffers that code is cut into."""


def landmark_batches(*, tile: int = 8) -> Iterator[tuple[int, ...]]:
    """Batches on both sides of every power of two from 32 to 4096, counted in rows, in tokens of a row, and in tiles.

    And batches as engines make them by the thousand: decodes alone (one token a row), decodes padded with rows of no
    tokens to the size of a captured graph, padding alone, every other row empty. All start at 0; lengths are in tokens.
    """
    near = sorted({power + step for power in POWERS for step in (-1, 0, 1)})
    for rows in near:
        yield from_lengths(*islice(cycle(MIXED), rows - 1), 5)
    for rows in (9, 33, 64, 256, 257, 1025, 4097):
        yield from_lengths(*[1] * rows)
        yield from_lengths(*[1] * rows, *[0] * (rows // 2 + 8))
        yield from_lengths(*[0] * rows)
        yield from_lengths(*islice(cycle((1, 0)), rows))
    for length in (100, *near):
        yield from_lengths(length)
        yield from_lengths(3, length, 0, 9)
    for tiles in near:
        yield from_lengths(tile * (tiles // 2), 0, tile * (tiles - tiles // 2))
    for length in (255 * tile, 255 * tile + 1, 256 * tile, 256 * tile + 1):
        yield from_lengths(length, 1)


def malformed_landmarks(*, tile: int = 8) -> Iterator[tuple[int, ...]]:
    """Decreasing batches of more than two rows, with large decreases, and beside many tiles; no entry is negative."""
    yield from_lengths(16, 5, -3, 9, 0, -7, 8)
    yield from_lengths(3, 20, -9, 5)
    yield from_lengths(*[tile] * 5, -20, 3)
    yield from_lengths(5000, -2000, 10)
    yield from_lengths(2050 * tile, -2048 * tile, 4)
    yield from_lengths(1030 * tile, -tile, 5)
    yield from_lengths(1030 * tile, 1 - tile, 5)
    yield from_lengths(*[1] * 300, 1 - tile, *[1] * 9)
    yield from_lengths(*[1] * 300, -tile, *[1] * 9)


def from_lengths(*lengths: int, start: int = 0) -> tuple[int, ...]:
    """Cumulative lengths of rows with these lengths, in tokens."""
    return tuple(accumulate(lengths, initial=start))
