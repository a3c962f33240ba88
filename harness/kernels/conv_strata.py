"""Conv strata: the kinds of case that a check of a causal convolution must hit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.case import DrawnValue
from harness.contract import Stratum
from harness.kernels.conv_cases import Facts, Floats, facts_of
from harness.search.space import Block
from strategies.conv_batch import DTYPES, TILE, WIDTHS

_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_VECTOR: Final = 16
"""A pointer to a multiple of so many bytes, or a stride of so many elements, makes Triton compile another kernel."""


def _where(holds: Callable[[Facts], bool]) -> Callable[[Block], NDArray[np.bool_]]:
    """Cases of which something holds."""

    def select(block: Block) -> NDArray[np.bool_]:
        columns = block.columns.items()
        cases = ({name: column.value(index) for name, column in columns} for index in range(len(block)))
        return np.fromiter((holds(facts_of({**block.fixed, **case})) for case in cases), np.bool_, len(block))

    return select


def _with_row(holds: Callable[[Facts, int, bool], bool], *, exists: bool = True) -> Callable[[Facts], bool]:
    """Cases with a row of which something holds, given its length and whether it continues; it may have to exist."""
    return lambda facts: any(
        (line != facts.null_block) is exists and holds(facts, length, continues)
        for length, line, continues in zip(facts.lengths, facts.lines, facts.continues, strict=True)
    )


def _empty_row(place: str) -> Callable[[Facts], bool]:
    """Cases with a row of no tokens in front of all rows with tokens, between two of them, or behind them."""

    def holds(facts: Facts) -> bool:
        full = [number for number, length in enumerate(facts.lengths) if length]
        if not full:
            return False
        last = len(facts.lengths) - 1
        return {"front": full[0] > 0, "end": full[-1] < last, "middle": full[-1] - full[0] >= len(full)}[place]

    return holds


def _in_order(facts: Facts) -> bool:
    return all(a < b for a, b in pairwise(line for line in facts.lines if line != facts.null_block))


def _numbers(*words: str) -> Callable[[Facts], bool]:
    return lambda facts: isinstance(facts.x, DrawnValue) and facts.x.numbers in words


def _aligned(value: Floats) -> bool:
    return value.offset * _BYTES[value.dtype] % _VECTOR == 0


def _dtype(name: str) -> Stratum:
    return Stratum(name, _where(lambda facts: facts.x.dtype == name))


def _width(width: int) -> Stratum:
    return Stratum(f"width {width}", _where(lambda facts: facts.weight.shape[1] == width))


STRATA: Final = (
    *map(_dtype, DTYPES),
    *map(_width, WIDTHS),
    Stratum("bias", _where(lambda facts: facts.bias is not None)),
    Stratum("no bias", _where(lambda facts: facts.bias is None)),
    Stratum("SiLU", _where(lambda facts: facts.activation == "silu")),
    Stratum("no activation", _where(lambda facts: facts.activation is None)),
    Stratum("small whole numbers", _where(_numbers("integers or -0.0"))),
    Stratum("ordinary numbers", _where(_numbers("ordinary"))),
    Stratum("large numbers", _where(_numbers("steep"))),
    Stratum("infinities and overflow", _where(_numbers("extreme"))),
    Stratum("no rows", _where(lambda facts: not facts.lengths)),
    Stratum("no tokens", _where(lambda facts: facts.x.shape[1] == 0)),
    Stratum("leading row without tokens", _where(_empty_row("front"))),
    Stratum("row without tokens in the middle", _where(_empty_row("middle"))),
    Stratum("trailing row without tokens", _where(_empty_row("end"))),
    Stratum("row without tokens that continues", _where(_with_row(lambda _, n, continues: n == 0 and continues))),
    Stratum("row without tokens that does not", _where(_with_row(lambda _, n, continues: n == 0 and not continues))),
    Stratum("row shorter than the state, continuing", _where(_with_row(lambda f, n, c: 0 < n < f.taps_before and c))),
    Stratum("row shorter than the state, new", _where(_with_row(lambda f, n, c: 0 < n < f.taps_before and not c))),
    Stratum("row as long as the state, continuing", _where(_with_row(lambda f, n, c: n == f.taps_before and c))),
    Stratum("row as long as the state, new", _where(_with_row(lambda f, n, c: n == f.taps_before and not c))),
    Stratum("length one below a multiple of 8", _where(_with_row(lambda _, n, __: n % TILE == TILE - 1)), "gate"),
    Stratum("length a multiple of 8", _where(_with_row(lambda _, n, __: n > 0 and n % TILE == 0))),
    Stratum(
        "length one above a multiple of 8, continuing", _where(_with_row(lambda _, n, c: n > 1 and n % TILE == 1 and c))
    ),
    Stratum(
        "length one above a multiple of 8, new", _where(_with_row(lambda _, n, c: n > 1 and n % TILE == 1 and not c))
    ),
    Stratum("row of more than 64 tokens", _where(_with_row(lambda _, n, __: n > 64)), "gate"),
    Stratum(
        "16 rows or more, all of one token", _where(lambda f: len(f.lengths) >= 16 and set(f.lengths) == {1}), "gate"
    ),
    Stratum("row with tokens on the null line", _where(_with_row(lambda _, n, __: n > 0, exists=False))),
    Stratum("row without tokens on the null line", _where(_with_row(lambda _, n, __: n == 0, exists=False))),
    Stratum("several rows on the null line", _where(lambda f: sum(line == f.null_block for line in f.lines) > 1)),
    Stratum("null line other than 0", _where(lambda facts: bool(facts.null_block))),
    Stratum("no null line", _where(lambda facts: facts.null_block is None)),
    Stratum("row on line 0", _where(lambda facts: facts.null_block != 0 and 0 in facts.lines)),
    Stratum("tokens behind the last row", _where(lambda facts: facts.padding > 0)),
    Stratum("no tokens behind the last row", _where(lambda facts: facts.padding == 0)),
    Stratum("cache lines out of order", _where(lambda facts: not _in_order(facts))),
    Stratum("number of cache lines a multiple of 16", _where(lambda facts: facts.states.shape[0] % _VECTOR == 0)),
    Stratum("number of cache lines no multiple of 16", _where(lambda facts: facts.states.shape[0] % _VECTOR != 0)),
    Stratum("cache of one line", _where(lambda facts: facts.states.shape[0] == 1)),
    Stratum("aligned tokens", _where(lambda facts: _aligned(facts.x))),
    Stratum("unaligned tokens", _where(lambda facts: not _aligned(facts.x))),
    Stratum("unaligned weights", _where(lambda facts: not _aligned(facts.weight))),
    Stratum("unaligned cache", _where(lambda facts: not _aligned(facts.states))),
    Stratum("unaligned rows", _where(lambda facts: facts.index_offset % 4 != 0)),
    Stratum("gap between tokens", _where(lambda facts: facts.x.strides[1] > facts.x.shape[0])),
    Stratum("gap between cache lines", _where(lambda f: f.states.strides[0] > f.states.strides[2] * f.taps_before)),
    Stratum("gap inside cache lines", _where(lambda facts: facts.states.strides[2] > facts.states.shape[1])),
    Stratum("stride of tokens a multiple of 16", _where(lambda facts: facts.x.strides[1] % _VECTOR == 0)),
    Stratum("stride of tokens no multiple of 16", _where(lambda facts: facts.x.strides[1] % _VECTOR != 0)),
    Stratum("stride of tokens 1", _where(lambda facts: facts.x.strides[1] == 1)),
    Stratum("one channel", _where(lambda facts: facts.x.shape[0] == 1)),
    Stratum("channels a multiple of 64", _where(lambda facts: facts.x.shape[0] % 64 == 0)),
    Stratum("more than 64 tokens behind the last row", _where(lambda facts: facts.padding > 64)),
    Stratum("more than 64 channels", _where(lambda facts: facts.x.shape[0] > 64)),
    Stratum("more than 256 channels", _where(lambda facts: facts.x.shape[0] > 256), "gate"),
)
