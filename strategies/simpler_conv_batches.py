"""Simpler conv batches: the steps by which a failing batch of a convolution is made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from strategies.conv_batch import DTYPES, NULL_LINE, NUMBERS, TILE, ConvBatch, Row

_PLAIN: Final[dict[str, Any]] = {
    **{"token_gap": 0, "column_gap": 0, "line_gap": 0},
    **{"x_offset": 0, "weight_offset": 0, "state_offset": 0, "index_offset": 0},
}


def simpler_conv_batches(batch: ConvBatch) -> Iterator[ConvBatch]:
    """Batches that are simpler than ``batch``, the most drastic step first, each yielded once. Deterministic.

    Every result is smaller in :func:`measure`, compared from left to right; these are natural numbers, so a loop that
    goes from a batch to any simpler one ends.
    """
    seen = {batch}
    for changed in _steps(batch):
        if changed not in seen:
            seen.add(changed)
            yield changed


def measure(batch: ConvBatch) -> tuple[int, ...]:
    """What every step of :func:`simpler_conv_batches` lowers."""
    return (
        len(batch.rows),
        sum(row.length for row in batch.rows) + batch.padding,
        batch.dim,
        batch.width,
        (batch.activation is not None) + batch.has_bias + sum(row.continues for row in batch.rows),
        sum(batch.layout),
        batch.lines,
        batch.null_block != 0,
        sum(abs(row.line - number) for number, row in enumerate(batch.rows, start=1) if row.line != NULL_LINE),
        DTYPES.index(batch.dtype),
        NUMBERS.index(batch.numbers),
        batch.seed,
    )


def _steps(batch: ConvBatch) -> Iterator[ConvBatch]:
    rows = batch.rows
    run = (len(rows) + 1) // 2
    while run:
        for first in range(0, len(rows), run):
            yield replace(batch, rows=rows[:first] + rows[first + run :])
        run //= 2
    for most in (0, 1):
        yield _resized(batch, [min(row.length, most) for row in rows])
    yield _resized(batch, [row.length // 2 for row in rows])
    yield _resized(batch, [row.length - row.length % TILE for row in rows])
    for fewer in _lower(batch.padding):
        yield replace(batch, padding=fewer)
    for dim in _lower(batch.dim):
        if dim:
            yield replace(batch, dim=dim)
    for width in range(2, batch.width):
        yield replace(batch, width=width)
    yield replace(batch, activation=None)
    yield replace(batch, has_bias=False)
    yield replace(batch, rows=tuple(Row(row.length, row.line) for row in rows))
    yield replace(batch, **_PLAIN)
    yield _compact(batch)
    yield replace(batch, dtype=DTYPES[0])
    yield replace(batch, numbers=NUMBERS[0])
    yield replace(batch, null_block=0)
    yield replace(batch, seed=0)
    for number, row in enumerate(rows):
        for length in _lower(row.length):
            yield replace(batch, rows=(*rows[:number], replace(row, length=length), *rows[number + 1 :]))
    for number, row in enumerate(rows):
        yield replace(batch, rows=(*rows[:number], replace(row, continues=False), *rows[number + 1 :]))
    for name in _PLAIN:
        for value in _lower(getattr(batch, name)):
            changed: dict[str, Any] = {name: value}
            yield replace(batch, **changed)
    least = 1 + max((row.line for row in rows), default=0)
    least = max(least, 1 + (batch.null_block or 0))
    for lines in sorted({least, max(least, batch.lines // 2)}):
        yield replace(batch, lines=lines)


def _resized(batch: ConvBatch, lengths: list[int]) -> ConvBatch:
    pairs = zip(batch.rows, lengths, strict=True)
    return replace(batch, rows=tuple(replace(row, length=length) for row, length in pairs))


def _compact(batch: ConvBatch) -> ConvBatch:
    """Every row that exists on the line after its number, and no further lines."""
    rows = [row if row.line == NULL_LINE else replace(row, line=n) for n, row in enumerate(batch.rows, start=1)]
    lines = max(1 + (batch.null_block or 0), 1 + max((row.line for row in rows), default=0))
    # Where many rows do not exist, the lines after the rows' numbers can be more than there were.
    return replace(batch, rows=tuple(rows), lines=lines) if lines <= batch.lines else batch


def _lower(number: int) -> list[int]:
    """Smaller numbers from 0 on: 0, 1, half, the multiple of a tile below, and less by powers of two."""
    lower = {
        0,
        1,
        number // 2,
        number - number % TILE,
        *(number - (1 << power) for power in range(number.bit_length())),
    }
    return sorted(value for value in lower if 0 <= value < number)
