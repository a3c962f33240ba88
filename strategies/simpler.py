"""Simpler cumulative lengths: the steps by which a failing batch is made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, islice, pairwise

Batch = tuple[int, tuple[int, ...]]

COARSE = 14
"""Parts that are dropped before single lengths are looked at: halves, quarters and eighths."""


def simpler(values: tuple[int, ...], *, tile: int = 8) -> Iterator[tuple[int, ...]]:
    """Cumulative lengths that are simpler than ``values``, the most drastic step first, each yielded once.

    Steps: start at 0 or lower; drop runs of rows (halves first, single rows last); make all lengths smaller; join rows;
    set single lengths to 0, to 1, to a multiple of ``tile``, and make them smaller by powers of two, down to 1. Lengths
    may be negative: those move towards 0, and the lowest start is the one that keeps every entry non-negative.

    Every result is smaller than ``values`` in the measure (number of rows, sum of the lengths' magnitudes, distance of
    the start from its lowest value), compared from left to right. These are natural numbers, so a loop that goes from
    a batch to any simpler one ends. Deterministic.
    """
    if not values:
        return
    lengths = tuple(after - before for before, after in pairwise(values))
    excess = values[0] - _lowest_start(lengths)
    seen = {hash(values)}
    for slack, shorter in _steps(excess, lengths, tile):
        result = tuple(accumulate(shorter, initial=slack + _lowest_start(shorter)))
        if hash(result) not in seen:
            seen.add(hash(result))
            yield result


def measure(values: tuple[int, ...]) -> tuple[int, int, int]:
    """What every step of :func:`simpler` lowers: rows, sum of the lengths' magnitudes, start above its lowest value."""
    lengths = tuple(after - before for before, after in pairwise(values))
    return len(lengths), sum(map(abs, lengths)), abs(values[0] - _lowest_start(lengths)) if values else 0


def _lowest_start(lengths: tuple[int, ...]) -> int:
    return max(0, -min(accumulate(lengths, initial=0)))


def _steps(excess: int, lengths: tuple[int, ...], tile: int) -> Iterator[Batch]:
    """Starts above the lowest one, and lengths."""
    if excess:
        yield 0, lengths
    # Large parts first; with thousands of rows there are more small ones than anybody has the time to try.
    parts = _fewer_rows(lengths)
    for fewer in islice(parts, COARSE):
        yield excess, fewer
    yield excess, tuple(0 for _ in lengths)
    yield excess, tuple(max(-1, min(length, 1)) for length in lengths)
    yield excess, tuple(_towards_zero(length, 2) // 2 for length in lengths)
    yield excess, tuple(_towards_zero(length, tile) for length in lengths)
    for fewer in parts:
        yield excess, fewer
    for joined in _joined_rows(lengths):
        yield excess, joined
    for row, length in enumerate(lengths):
        for shorter in _smaller(length, tile):
            yield excess, (*lengths[:row], shorter, *lengths[row + 1 :])
    for lower in _smaller(excess, tile):
        yield lower, lengths


def _fewer_rows(lengths: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Without each run of half the rows, of a quarter, ..., of one."""
    run = (len(lengths) + 1) // 2
    while run:
        for first in range(0, len(lengths), run):
            yield lengths[:first] + lengths[first + run :]
        run = run // 2


def _joined_rows(lengths: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Rows joined into one, two by two, and one pair at a time: fewer rows with the same total."""
    if len(lengths) < 2:
        return
    yield (sum(lengths),)
    yield tuple(sum(lengths[row : row + 2]) for row in range(0, len(lengths), 2))
    for row in range(len(lengths) - 1):
        yield (*lengths[:row], lengths[row] + lengths[row + 1], *lengths[row + 2 :])


def _smaller(number: int, tile: int) -> list[int]:
    """Numbers of the same sign nearer to 0: 0, 1, the multiple of a tile below, and less by powers of two."""
    size, sign = abs(number), -1 if number < 0 else 1
    sizes = {0, 1, size - size % tile, *(size - (1 << power) for power in range(size.bit_length()))}
    return [sign * smaller for smaller in sorted(sizes) if smaller < size]


def _towards_zero(number: int, multiple: int) -> int:
    return number - number % multiple if number >= 0 else number + -number % multiple
