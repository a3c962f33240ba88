"""Hypothesis strategies for batches of a causal convolution."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from strategies.conv_batch import DTYPES, NULL_LINE, NUMBERS, TILE, WIDTHS, ConvBatch, Row
from strategies.scheduler_batches import SchedulerBatch, caller_arguments, scheduler_batches


def conv_batches(*, max_programs: int = 6, max_rows: int = 5, max_dim: int = 24) -> st.SearchStrategy[ConvBatch]:
    """Batches of a causal convolution with a cache of states, small enough for an interpreted kernel.

    Rows are drawn one by one, with lengths around a tile of 8 tokens and around the convolution's width, or are those
    of a whole scheduler batch as one of its callers cuts it: decodes of one token, prefills, padding rows of no tokens
    on the null line. Element types, widths, bias, activation, the numbers' size, gaps, alignment, the number and order
    of cache lines and tokens behind the last row vary too; each example first switches some of these features off. The
    simplest example has no rows.

    Args:
        max_programs: most programs of a batch per block of channels; rows that would need more are left out.
        max_rows: most rows drawn one by one.
        max_dim: most channels.

    Raises:
        ValueError: an argument is not positive.
    """
    if min(max_programs, max_rows, max_dim) < 1:
        raise ValueError(f"max_programs={max_programs}, max_rows={max_rows}, max_dim={max_dim}: give 1 or more")
    return _conv_batches(max_programs, max_rows, max_dim)


def small_scheduler_batches() -> st.SearchStrategy[SchedulerBatch]:
    """Scheduler batches of a few decodes and short prefills."""
    return scheduler_batches(max_decodes=3, max_speculative=1, max_prefills=2, max_length=14, max_padding=2)


@st.composite
def _conv_batches(draw: st.DrawFn, max_programs: int, max_rows: int, max_dim: int) -> ConvBatch:
    # False, the simpler choice, switches a feature off.
    scheduled, gaps, unaligned, fractions = (draw(st.booleans()) for _ in range(4))
    width = draw(st.sampled_from(WIDTHS))
    # A batch without rows is worth few of the calls, which are slow.
    least = draw(st.sampled_from([0] + [1] * 9))
    kinds = draw(_scheduled() if scheduled else st.lists(_row(width), min_size=least, max_size=max_rows))

    kept: list[tuple[int, bool, bool]] = []
    for length, exists, continues in kinds:
        if sum(-(-other // TILE) for other, _, _ in kept) - (-length // TILE) <= max_programs:
            kept.append((length, exists, continues))
    exist = sum(exists for _, exists, _ in kept)
    lines = draw(st.integers(exist + 1, exist + 6) | st.sampled_from([16, 32, 48]))
    used = iter(draw(st.permutations(range(1, lines))) if exist else [])
    rows = tuple(Row(length, next(used) if exists else NULL_LINE, continues) for length, exists, continues in kept)
    null_block = draw(st.just(0) | st.integers(0, lines - 1) | (st.none() if exist == len(rows) else st.just(0)))

    # A gap that makes a stride a multiple of 16 is as likely as one that does not.
    dim = draw(st.integers(1, max_dim) | st.sampled_from([size for size in (1, 8, 16, 24) if size <= max_dim]))
    gap = st.integers(0, 9) | st.just(-dim % 16) if gaps else st.just(0)
    offset = st.integers(0, 8) if unaligned else st.just(0)
    return ConvBatch(
        rows=rows,
        lines=lines,
        null_block=null_block,
        dim=dim,
        width=width,
        dtype=draw(st.sampled_from(DTYPES)),
        has_bias=draw(st.booleans()),
        activation=draw(st.sampled_from((None, "silu"))) if fractions else None,
        numbers=draw(st.sampled_from(NUMBERS)) if fractions else NUMBERS[0],
        seed=draw(st.integers(0, (1 << 16) - 1)),
        padding=draw(st.integers(0, 9)) if gaps else 0,
        token_gap=draw(gap),
        column_gap=draw(gap),
        line_gap=draw(gap),
        x_offset=draw(offset),
        weight_offset=draw(offset),
        state_offset=draw(offset),
        index_offset=draw(offset),
    )


def _row(width: int) -> st.SearchStrategy[tuple[int, bool, bool]]:
    """Tokens of a row, whether it exists, whether it continues what its line holds."""
    near = sorted({0, 1, width - 2, width - 1, width, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 2 * TILE, 2 * TILE + 1})
    lengths = st.integers(0, 2 * TILE + 1) | st.sampled_from(near)
    return st.tuples(lengths, st.sampled_from([True] * 5 + [False]), st.booleans())


def _scheduled() -> st.SearchStrategy[list[tuple[int, bool, bool]]]:
    """The same for all rows that a caller passes: those without tokens fill the batch up and do not exist."""

    def rows(values: list[int], new: bool) -> list[tuple[int, bool, bool]]:
        lengths = [after - before for before, after in pairwise(values)]
        # A decode always continues; a prefill does unless it is the first part of its sequence.
        return [(length, length > 0, length == 1 or not new) for length in lengths]

    return st.builds(rows, caller_arguments(small_scheduler_batches()), st.booleans())
