"""Hypothesis strategies for the cumulative lengths of a batch (``query_start_loc``, ``cu_seqlens``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    import torch

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

DTYPE_MAX: Final = {"int32": INT32_MAX, "int64": INT64_MAX}

RARELY: Final = 24
"""Expensive features (many rows, a long row) are taken in one of this many examples in which they are not off."""


def cumulative_lengths(
    *,
    min_rows: int = 0,
    max_rows: int = 8,
    tile: int = 8,
    max_length: int | None = None,
    many_rows: int = 4096,
    long_length: int = 32768,
    start: int | None = None,
    max_value: int = INT32_MAX,
    malformed: bool = False,
) -> st.SearchStrategy[list[int]]:
    """Cumulative lengths ``[start, start + len[0], ...]`` of a batch: one more entry than rows, non-negative.

    The search is biased to where index arithmetic goes wrong: lengths one below, at and one above a multiple of
    ``tile``; lengths 0 and 1; rows of no tokens in front, in the middle, at the end, everywhere; batches that do not
    start at 0 but at a small number, past 2**24, past 2**31 and past 2**53, or end exactly at ``max_value``. Each
    example first switches some of these features off, so that the others meet undiluted. The simplest example is
    ``[0]``, and failures shrink towards few, short rows that start at 0.

    Args:
        min_rows, max_rows: bounds on the number of rows of an ordinary example.
        tile: tokens per tile, chunk or block of the code under test.
        max_length: tokens of an ordinary row; ``4 * tile + 1`` by default.
        many_rows: now and then a short pattern of rows is repeated up to this many rows; 0 for never.
        long_length: now and then one row is up to this long, near a power of two tiles; 0 for never.
        start: the first entry; None varies it.
        max_value: largest entry, for instance the largest number of an element type.
        malformed: only entries that decrease at least once, by less than a tile or by more.

    Raises:
        ValueError: an argument is out of range.

    Example::

        @given(cumulative_lengths(tile=64))
        def test_my_chunk_table(cu_seqlens):
            assert my_chunk_table(cu_seqlens, 64) == slow_chunk_table(cu_seqlens, 64)
    """
    max_length = 4 * tile + 1 if max_length is None else max_length
    if tile < 1:
        raise ValueError(f"tile={tile} is not a number of tokens: give 1 or more")
    if max_length < 1:
        raise ValueError(f"max_length={max_length} leaves no row to draw: give 1 or more")
    if not 0 <= min_rows <= max_rows:
        raise ValueError(f"min_rows={min_rows}, max_rows={max_rows}: give 0 <= min_rows <= max_rows")
    if malformed and max_rows < 1:
        raise ValueError(f"malformed=True needs a row to be malformed: give max_rows of 1 or more, not {max_rows}")
    if malformed and tile < 2:
        raise ValueError(f"malformed=True needs a decrease below a tile: give a tile of 2 or more, not {tile}")
    if many_rows < 0 or long_length < 0:
        raise ValueError(f"many_rows={many_rows}, long_length={long_length}: give 0 for never, or a bound")
    if not 0 <= (start or 0) <= max_value:
        raise ValueError(f"start={start} is not between 0 and max_value={max_value}")
    entries = _cumulative_lengths(
        min_rows, max_rows, tile, max_length, many_rows, long_length, start, max_value, malformed
    )
    # Clipping at the bounds can take a decrease away, where they are that narrow.
    return entries.filter(_decreases) if malformed else entries


def cumulative_length_tensors(
    *,
    dtypes: Sequence[str] = ("int32", "int64"),
    min_rows: int = 0,
    max_rows: int = 8,
    tile: int = 8,
    max_length: int | None = None,
    many_rows: int = 4096,
    long_length: int = 32768,
    start: int | None = None,
    malformed: bool = False,
) -> st.SearchStrategy[torch.Tensor]:
    """Cumulative lengths as a tensor on the CPU, shape (rows + 1,), of one of ``dtypes``.

    Entries use the whole range of their element type. The other arguments are those of :func:`cumulative_lengths`.

    Raises:
        ValueError: an argument is out of range, or an element type is neither ``int32`` nor ``int64``.

    Example::

        @given(cumulative_length_tensors(tile=64, min_rows=1))
        def test_my_kernel(cu_seqlens):
            ...
    """
    unknown = [dtype for dtype in dtypes if dtype not in DTYPE_MAX]
    if unknown or not dtypes:
        raise ValueError(f"dtypes={tuple(dtypes)} must name one or more of {', '.join(DTYPE_MAX)}")

    def tensors(dtype: str) -> st.SearchStrategy[torch.Tensor]:
        values = cumulative_lengths(
            min_rows=min_rows,
            max_rows=max_rows,
            tile=tile,
            max_length=max_length,
            many_rows=many_rows,
            long_length=long_length,
            start=start,
            max_value=DTYPE_MAX[dtype],
            malformed=malformed,
        )
        return values.map(lambda entries: _tensor(entries, dtype))

    return st.one_of([tensors(dtype) for dtype in dtypes])


def _tensor(values: list[int], dtype: str) -> torch.Tensor:
    import torch  # on first use, so that this module can be imported where there is no torch

    return torch.tensor(values, dtype={"int32": torch.int32, "int64": torch.int64}[dtype])


def _decreases(values: list[int]) -> bool:
    return any(before > after for before, after in pairwise(values))


@st.composite
def _cumulative_lengths(
    draw: st.DrawFn,
    min_rows: int,
    max_rows: int,
    tile: int,
    max_length: int,
    many_rows: int,
    long_length: int,
    start: int | None,
    max_value: int,
    malformed: bool,
) -> list[int]:
    # False, the simpler choice, switches a feature off.
    boundaries, empty_rows, varied_start, large = (draw(st.booleans()) for _ in range(4))

    row = st.integers(0, max_length)
    if boundaries:
        row |= _boundary_lengths(tile, max_length)
    lengths = draw(st.lists(row, min_size=min_rows, max_size=max_rows))
    if empty_rows and lengths:
        _place_empty_rows(draw, lengths)
    if large and lengths and many_rows > len(lengths) and draw(st.integers(1, RARELY)) == RARELY:
        rows = draw(st.integers(max(many_rows // 4, len(lengths)), many_rows))
        lengths = (lengths * (rows // len(lengths) + 1))[:rows]
    if large and lengths and long_length and draw(st.integers(1, RARELY)) == RARELY:
        lengths[draw(st.integers(0, len(lengths) - 1))] = draw(_long_lengths(tile, long_length))
    if malformed:
        _decrease(draw, lengths, tile, max_rows)

    return _accumulated(draw, lengths, start, varied_start, max_value)


def _boundary_lengths(tile: int, max_length: int) -> st.SearchStrategy[int]:
    multiples = range(0, max_length + 2, tile)
    near = {multiple + step for multiple in multiples for step in (-1, 0, 1)} | {0, 1}
    return st.sampled_from(sorted(length for length in near if 0 <= length <= max_length))


def _long_lengths(tile: int, long_length: int) -> st.SearchStrategy[int]:
    powers = (tile << exponent for exponent in range(7, 63))
    near = [power + step for power in powers if power < long_length for step in (-1, 0, 1, tile)]
    lengths = st.integers(0, long_length)
    return lengths | st.sampled_from([length for length in near if length <= long_length]) if near else lengths


def _place_empty_rows(draw: st.DrawFn, lengths: list[int]) -> None:
    rows = len(lengths)
    count = draw(st.integers(1, max(1, rows // 2)))
    place = draw(st.sampled_from(["front", "end", "middle", "everywhere"]))
    first = {"front": 0, "end": rows - count, "middle": (rows - count) // 2, "everywhere": 0}[place]
    count = rows if place == "everywhere" else count
    lengths[first : first + count] = [0] * count


def _decrease(draw: st.DrawFn, lengths: list[int], tile: int, max_rows: int) -> None:
    for _ in range(draw(st.integers(1, 2))):
        decrease = draw(st.integers(1, tile - 1) | st.integers(tile, 3 * tile))
        if len(lengths) < max_rows:
            lengths.insert(draw(st.integers(0, len(lengths))), -decrease)
        else:
            lengths[draw(st.integers(0, len(lengths) - 1))] = -decrease


def _accumulated(
    draw: st.DrawFn, lengths: list[int], start: int | None, varied_start: bool, max_value: int
) -> list[int]:
    offsets = list(accumulate(lengths, initial=0))
    first = max(0, -min(offsets)) if start is None else start
    if start is None and varied_start:
        # Where floats and narrower integers lose the last bit.
        last = max_value - max(offsets)
        corners = [corner for corner in (2**24 + 1, 2**31 - 1, 2**31 + 3, 2**53 + 1, last) if first <= corner <= last]
        starts = st.integers(first, first + 100)
        first = draw(starts | st.sampled_from(corners) if corners else starts)
    # A batch that the bounds do not hold is clipped at them: its rows become shorter, and never decrease by it.
    return [min(max(first + offset, 0), max_value) for offset in offsets]
