"""Conv batch: one batch of a causal convolution, in the few words from which all of its tensors follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

TILE: Final = 8
"""Tokens of a row that one program works on."""
NULL_LINE: Final = 0
"""The cache line of rows that do not exist; the number that a call gives it is another matter."""
DTYPES: Final = ("float32", "bfloat16", "float16")
WIDTHS: Final = (2, 3, 4)
NUMBERS: Final = ("integers", "ordinary", "steep", "extreme")
"""What the elements are: small whole numbers, on which the convolution is exact; fractions; numbers that overflow."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence: its tokens in this batch, its line in the cache, and whether it continues what the line holds."""

    length: int
    line: int
    continues: bool = False

    @property
    def programs(self) -> int:
        """Programs that the row takes per block of channels."""
        return -(-self.length // TILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvBatch:
    """A batch: its rows, the shapes, layout and element type of its tensors, and where their elements come from.

    All tensors have elements of type ``dtype`` and lie at ``offset`` elements past an aligned address; ``gap`` counts
    unused elements in between. Two rows share no cache line but the null line.
    """

    rows: tuple[Row, ...]
    lines: int
    """Lines of the cache, the null line among them."""
    dim: int = 1
    width: int = 4
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    has_bias: bool = False
    activation: Literal["silu"] | None = None
    numbers: str = "integers"
    seed: int = 0
    null_block: int | None = 0
    """What a call says is the number of the null line, or None: there is none, and every row exists."""
    padding: int = 0
    """Tokens behind the last row that belong to no row."""
    token_gap: int = 0
    """Behind every token of ``x``."""
    column_gap: int = 0
    """Behind every token in a cache line."""
    line_gap: int = 0
    """Behind every cache line."""
    x_offset: int = 0
    weight_offset: int = 0
    """Of the weights and of the bias."""
    state_offset: int = 0
    index_offset: int = 0
    """Of the cumulative lengths, of the rows' lines, and of the flags whether they continue."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES or self.width not in WIDTHS or self.numbers not in NUMBERS:
            raise ValueError(f"dtype={self.dtype!r}, width={self.width}, numbers={self.numbers!r}: not in the domain")
        if self.activation not in (None, "silu"):
            raise ValueError(f"activation={self.activation!r}: give 'silu' or None")
        if self.dim < 1 or self.lines < 1 or not 0 <= self.seed < 1 << 30:
            raise ValueError(f"dim={self.dim}, lines={self.lines}, seed={self.seed}: give 1, 1 and 0 or more")
        if min(self.padding, *self.layout, *(row.length for row in self.rows)) < 0:
            raise ValueError("a length, a gap or an offset is negative")
        used = [row.line for row in self.rows if row.line != NULL_LINE]
        if len(used) != len(set(used)) or not all(0 < line < self.lines for line in used):
            raise ValueError(f"rows use the lines {used}: give each a line of its own below lines={self.lines}")
        if self.null_block is None and len(used) < len(self.rows):
            raise ValueError("null_block=None: without a null line, every row needs a line")
        if self.null_block is not None and not 0 <= self.null_block < self.lines:
            raise ValueError(f"null_block={self.null_block}: give a number below lines={self.lines}")

    def renumbered(self, line: int) -> int:
        """The number that a call gives a line, and the other way round.

        The null line changes places with another one; where there is none, lines come in the opposite order, so that
        line 0 is one like every other.
        """
        if self.null_block is None:
            return self.lines - 1 - line
        return {NULL_LINE: self.null_block, self.null_block: NULL_LINE}.get(line, line)

    @property
    def layout(self) -> tuple[int, ...]:
        """All gaps and offsets."""
        gaps = self.token_gap, self.column_gap, self.line_gap
        return (*gaps, self.x_offset, self.weight_offset, self.state_offset, self.index_offset)

    @property
    def query_start_loc(self) -> tuple[int, ...]:
        """Cumulative lengths of the rows, in tokens."""
        return tuple(accumulate((row.length for row in self.rows), initial=0))

    @property
    def programs(self) -> int:
        """Programs of the whole batch per block of channels."""
        return sum(row.programs for row in self.rows)


def rows_of(lengths: Iterable[int], *, continues: Iterable[bool] = (), null: Iterable[int] = ()) -> tuple[Row, ...]:
    """Rows of these lengths on the last lines first, so that no row's line is its number.

    Args:
        lengths: tokens of each row.
        continues: which rows continue what their line holds; every other one by default.
        null: numbers of the rows that do not exist.
    """
    every, absent = tuple(lengths), frozenset(null)
    flags = tuple(continues) or tuple(number % 2 == 0 for number in range(len(every)))
    return tuple(
        Row(length, NULL_LINE if number in absent else len(every) - number, flag)
        for number, (length, flag) in enumerate(zip(every, flags, strict=True))
    )


def other_values(batch: ConvBatch) -> ConvBatch:
    """A batch with tensors of the same shapes and as many programs, but other elements.

    The rows come in the opposite order, those that continued begin anew and the other way round, and all numbers are
    drawn from another seed: what was captured in a CUDA graph on one batch can be replayed with the other.
    """
    rows = tuple(Row(row.length, row.line, not row.continues) for row in reversed(batch.rows))
    return replace(batch, rows=rows, seed=batch.seed ^ 1)
