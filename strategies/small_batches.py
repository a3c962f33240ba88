"""Every small batch there is, as tables of cumulative lengths for an exhaustive search, smallest first."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray


def small_batches(
    *, max_rows: int, lengths: Collection[int], start: int = 0, min_rows: int = 0
) -> Iterator[NDArray[np.int64]]:
    """Every batch of ``min_rows`` to ``max_rows`` rows whose lengths are in ``lengths``, in tokens.

    Yields:
        For B = ``min_rows``, ..., ``max_rows`` one int64 table, shape (``len(lengths)`` ** B, B + 1): row i holds the
        cumulative lengths of batch i, beginning with ``start``. Batches are in order of their total length, those of
        one total in lexicographic order of their lengths, so that the first failure found is already minimal.

    Raises:
        ValueError: a length is negative (see :func:`malformed_batches`), or an argument is out of range.

    Example::

        for table in small_batches(max_rows=2, lengths=range(18)):
            for query_start_loc in table:
                ...
    """
    if any(length < 0 for length in lengths):
        raise ValueError(f"lengths={sorted(lengths)} holds a negative length: use malformed_batches for those")
    yield from _tables(min_rows, max_rows, lengths, start)


def malformed_batches(*, max_rows: int, lengths: Collection[int], start: int) -> Iterator[NDArray[np.int64]]:
    """Every batch of 1 to ``max_rows`` rows with at least one negative length: cumulative lengths that decrease.

    Tables are as in :func:`small_batches`, with total length replaced by the sum of the lengths' magnitudes.

    Raises:
        ValueError: no length is negative, or ``start`` is so small that an entry would be negative.
    """
    if min(lengths, default=0) >= 0:
        raise ValueError(f"lengths={sorted(lengths)} holds no negative length: use small_batches for those")
    lowest = start + max_rows * min(lengths)
    if lowest < 0:
        raise ValueError(f"start={start} lets an entry fall to {lowest}: start at {start - lowest} or more")
    for table in _tables(1, max_rows, lengths, start):
        yield table[(np.diff(table) < 0).any(axis=1)]


def _tables(min_rows: int, max_rows: int, lengths: Collection[int], start: int) -> Iterator[NDArray[np.int64]]:
    if not 0 <= min_rows <= max_rows:
        raise ValueError(f"min_rows={min_rows}, max_rows={max_rows}: give 0 <= min_rows <= max_rows")
    if not lengths or start < 0:
        raise ValueError(f"lengths={sorted(lengths)}, start={start}: give at least one length and a start of 0 or more")
    choices = np.array(sorted(set(lengths)), dtype=np.int64)
    for rows in range(min_rows, max_rows + 1):
        picks = np.indices((len(choices),) * rows).reshape(rows, len(choices) ** rows)
        batches = choices[picks.T]
        # The picks are in lexicographic order already; a stable sort keeps it within one total.
        batches = batches[np.argsort(np.abs(batches).sum(axis=1), kind="stable")]
        table = np.full((len(batches), rows + 1), start, dtype=np.int64)
        table[:, 1:] += np.cumsum(batches, axis=1)
        yield table
