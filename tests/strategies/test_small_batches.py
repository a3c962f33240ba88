"""Exhaustive tables: complete, without repetition, smallest first."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from strategies.small_batches import malformed_batches, small_batches


def test_every_batch_of_up_to_three_rows_is_listed_once() -> None:
    tables = list(small_batches(max_rows=3, lengths=range(18)))
    assert [table.shape for table in tables] == [(1, 1), (18, 2), (324, 3), (5832, 4)]
    assert sum(map(len, tables)) == 6175
    for rows, table in enumerate(tables):
        lengths = {tuple(row) for row in np.diff(table, axis=1).tolist()}
        assert lengths == set(product(range(18), repeat=rows))


def test_batches_are_in_order_of_their_total_and_then_of_their_lengths() -> None:
    *_, table = small_batches(max_rows=3, lengths=(0, 1, 7, 8, 9))
    keys = [(sum(lengths), lengths) for lengths in np.diff(table, axis=1).tolist()]
    assert all(before < after for before, after in pairwise(keys))


def test_tables_begin_with_the_start_and_hold_64_bit_integers() -> None:
    tables = list(small_batches(max_rows=2, lengths=(9, 0), start=2**31 + 3, min_rows=1))
    assert [table.shape for table in tables] == [(2, 2), (4, 3)]
    assert all(table.dtype == np.int64 and (table[:, 0] == 2**31 + 3).all() for table in tables)
    assert tables[0].tolist() == [[2**31 + 3, 2**31 + 3], [2**31 + 3, 2**31 + 12]]


def test_repeated_lengths_count_once() -> None:
    assert [len(table) for table in small_batches(max_rows=1, lengths=[3, 3, 0])] == [1, 2]


def test_malformed_batches_are_those_with_a_decrease_smallest_first() -> None:
    tables = list(malformed_batches(max_rows=2, lengths=range(-9, 10), start=18))
    assert [len(table) for table in tables] == [9, 19**2 - 10**2]
    for table in tables:
        lengths = np.diff(table, axis=1)
        assert (lengths < 0).any(axis=1).all()
        assert table.min() >= 0
        sizes = np.abs(lengths).sum(axis=1)
        assert (np.diff(sizes) >= 0).all()
    assert tables[0][0].tolist() == [18, 17]


def test_a_start_that_lets_an_entry_become_negative_is_refused_with_one_that_does_not() -> None:
    with pytest.raises(ValueError, match="start at 18 or more"):
        list(malformed_batches(max_rows=2, lengths=range(-9, 10), start=17))


def test_each_function_refuses_the_other_ones_lengths() -> None:
    with pytest.raises(ValueError, match="malformed_batches"):
        list(small_batches(max_rows=1, lengths=[-1, 0]))
    with pytest.raises(ValueError, match="small_batches"):
        list(malformed_batches(max_rows=1, lengths=[0, 1], start=3))


@pytest.mark.parametrize(
    ("max_rows", "min_rows", "lengths", "start"), [(1, 2, [0], 0), (1, -1, [0], 0), (1, 0, [], 0), (1, 0, [0], -1)]
)
def test_arguments_out_of_range_are_refused(max_rows: int, min_rows: int, lengths: list[int], start: int) -> None:
    with pytest.raises(ValueError, match="give"):
        list(small_batches(max_rows=max_rows, min_rows=min_rows, lengths=lengths, start=start))
