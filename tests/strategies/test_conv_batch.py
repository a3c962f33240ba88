"""Descriptions of a convolution's batch: what they say, and which of them are refused."""

from __future__ import annotations

import dataclasses

import pytest

from strategies.conv_batch import ConvBatch, Row, other_values, rows_of

BATCH = ConvBatch(rows=(Row(9, 3, True), Row(0, 1), Row(8, 0)), lines=4, padding=2, seed=6)


def test_cumulative_lengths_and_programs_follow_from_the_rows() -> None:
    assert BATCH.query_start_loc == (0, 9, 9, 17)
    assert [row.programs for row in BATCH.rows] == [2, 0, 1]
    assert BATCH.programs == 3
    assert ConvBatch(rows=(), lines=1).query_start_loc == (0,)


def test_rows_lie_on_other_lines_than_their_numbers() -> None:
    rows = rows_of([4, 0, 9], null=[1])
    assert rows == (Row(4, 3, True), Row(0, 0, False), Row(9, 1, True))
    assert rows_of([1, 1], continues=[False, True]) == (Row(1, 2, False), Row(1, 1, True))


def test_flags_must_be_as_many_as_rows() -> None:
    with pytest.raises(ValueError, match="shorter"):
        rows_of([1, 2], continues=[True])


def test_other_values_have_the_same_shapes_and_as_many_programs() -> None:
    other = other_values(BATCH)
    assert other.rows == (Row(8, 0, True), Row(0, 1, True), Row(9, 3, False))
    assert dataclasses.replace(other, rows=BATCH.rows, seed=BATCH.seed) == BATCH
    assert other.seed != BATCH.seed
    assert (other.programs, other.query_start_loc[-1]) == (BATCH.programs, BATCH.query_start_loc[-1])
    assert other_values(other) == BATCH


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"dtype": "float64"}, "float64"),
        ({"width": 5}, "width=5"),
        ({"width": 1}, "width=1"),
        ({"numbers": "primes"}, "primes"),
        ({"activation": "gelu"}, "'gelu': give 'silu' or None"),
        ({"dim": 0}, "dim=0"),
        ({"lines": 0}, "lines=0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 1 << 30}, "seed="),
        ({"padding": -1}, "negative"),
        ({"token_gap": -1}, "negative"),
        ({"index_offset": -1}, "negative"),
        ({"rows": (Row(-1, 1),)}, "negative"),
        ({"rows": (Row(1, 4),)}, r"\[4\].*lines=4"),
        ({"rows": (Row(1, -1),)}, r"\[-1\]"),
        ({"rows": (Row(1, 2), Row(1, 2))}, r"\[2, 2\].*line of its own"),
    ],
)
def test_a_batch_outside_of_the_domain_is_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(BATCH, **changed)  # type: ignore[arg-type]


def test_any_number_of_rows_may_share_the_null_line() -> None:
    assert ConvBatch(rows=(Row(1, 0), Row(2, 0, True)), lines=1).programs == 2
