"""Small conv batches: every small batch of a convolution that there is, for an exhaustive search, smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Final, Literal, TypeAlias, TypeVar

from strategies.conv_batch import DTYPES, NULL_LINE, WIDTHS, ConvBatch, Row

_T = TypeVar("_T")
Kind: TypeAlias = Literal["new", "continues", "null"]

KINDS: Final[tuple[Kind, ...]] = ("new", "continues", "null")
"""A row that begins, one that continues what its cache line holds, one that does not exist."""
DIMS: Final = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24)
GAPS: Final = (0, 0, 0, 1, 8, 5, 16)
OFFSETS: Final = (0, 0, 0, 1, 2, 4, 8, 3)


@dataclass(frozen=True, slots=True)
class SmallConvBatches:
    """Every batch of so many rows, each of one of ``lengths`` tokens and of one of three kinds.

    For each of them every width and every element type, if ``widths`` and ``dtypes`` say so; otherwise these vary from
    batch to batch, as does everything else: number of channels (1 to 24), bias, number and order of cache lines, number
    of the null line, tokens behind the last row, gaps, alignment, seed. What a batch has follows from its number.
    """

    rows: int
    lengths: tuple[int, ...] = ()
    widths: bool = True
    dtypes: bool = True

    def __len__(self) -> int:
        every: int = (len(KINDS) * len(self.lengths)) ** self.rows
        return every * (len(WIDTHS) if self.widths else 1) * (len(DTYPES) if self.dtypes else 1)

    def __iter__(self) -> Iterator[ConvBatch]:
        """The batches in order of their number of tokens."""
        number = 0
        for lengths in sorted(product(self.lengths, repeat=self.rows), key=sum):
            for kinds in product(KINDS, repeat=self.rows):
                for width, dtype in product(WIDTHS if self.widths else [0], DTYPES if self.dtypes else [""]):
                    chosen: dict[str, Any] = {"width": width} if width else {}
                    chosen |= {"dtype": dtype} if dtype else {}
                    yield in_turn(lengths, kinds, number, **chosen)
                    number += 1


def in_turn(lengths: Sequence[int], kinds: Sequence[Kind], number: int, **chosen: Any) -> ConvBatch:
    """A batch of such rows; what is not ``chosen`` follows from ``number``."""
    random = Random((number << 4) + len(lengths))

    # Of this generator nothing but ``random()`` gives the same numbers in every version of Python.
    def pick(options: Sequence[_T]) -> _T:
        return options[int(random.random() * len(options))]

    exist = sum(kind != "null" for kind in kinds)
    # The number of lines is a multiple of 16, and 1, and neither.
    lines = pick([exist + 1, exist + 1, exist + 2, exist + 5, 16, 32])
    free = iter(sorted(range(1, lines), key=lambda _: random.random()))
    rows = tuple(
        Row(length, NULL_LINE, pick([False, True])) if kind == "null" else Row(length, next(free), kind == "continues")
        for length, kind in zip(lengths, kinds, strict=True)
    )
    blocks = [0, 0, 0, lines - 1, lines // 2, *([] if "null" in kinds else [None])]
    turned: dict[str, Any] = {
        "null_block": pick(blocks),
        "dim": pick(DIMS),
        "width": pick(WIDTHS),
        "dtype": pick(DTYPES),
        "has_bias": pick([False, True]),
        "padding": pick([0, 0, 0, 1, 3, 8]),
        "token_gap": pick(GAPS),
        "column_gap": pick(GAPS),
        "line_gap": pick(GAPS),
        "x_offset": pick(OFFSETS),
        "weight_offset": pick(OFFSETS),
        "state_offset": pick(OFFSETS),
        "index_offset": pick(OFFSETS),
        "seed": number,
    }
    return ConvBatch(rows=rows, lines=lines, **turned | chosen)
