"""Every small batch of a convolution is there once, in a stable order, with everything else varied."""

from __future__ import annotations

from collections import Counter

import pytest

from strategies.conv_batch import DTYPES, NULL_LINE, WIDTHS, ConvBatch
from strategies.small_conv_batches import DIMS, KINDS, SmallConvBatches, in_turn


def kinds_of(batch: ConvBatch) -> tuple[tuple[int, str], ...]:
    kinds = []
    for row in batch.rows:
        kind = "null" if row.line == NULL_LINE else "continues" if row.continues else "new"
        kinds.append((row.length, kind))
    return tuple(kinds)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize(("widths", "dtypes"), [(True, True), (True, False), (False, True), (False, False)])
def test_there_are_as_many_as_stated_and_all_are_different(rows: int, widths: bool, dtypes: bool) -> None:
    part = SmallConvBatches(rows, (0, 3), widths=widths, dtypes=dtypes)
    batches = list(part)
    keys = {(kinds_of(b), b.width if widths else 0, b.dtype if dtypes else "") for b in batches}
    assert len(batches) == len(part) == len(keys) == 6**rows * (3 if widths else 1) * (3 if dtypes else 1)
    assert all(len(batch.rows) == rows for batch in batches)


def test_every_length_meets_every_kind_width_and_type() -> None:
    counts = Counter((kinds_of(b), b.width, b.dtype) for b in SmallConvBatches(1, (0, 5, 9)))
    wanted = {
        (((length, kind),), width, dtype)
        for length in (0, 5, 9)
        for kind in KINDS
        for width in WIDTHS
        for dtype in DTYPES
    }
    assert set(counts) == wanted
    assert set(counts.values()) == {1}


def test_batches_come_in_order_of_their_tokens() -> None:
    totals = [batch.query_start_loc[-1] for batch in SmallConvBatches(2, (0, 2, 9))]
    assert totals == sorted(totals)


def test_the_rest_varies_independently_of_what_is_complete() -> None:
    batches = list(SmallConvBatches(2, (0, 1, 2, 9), widths=False, dtypes=False))
    assert {batch.width for batch in batches} == set(WIDTHS)
    assert {batch.dtype for batch in batches} == set(DTYPES)
    assert {batch.dim for batch in batches} == set(DIMS)
    assert {batch.has_bias for batch in batches} == {False, True}
    for name in ("padding", "token_gap", "column_gap", "line_gap"):
        assert {0, 1} <= {getattr(batch, name) for batch in batches}, name
    for name in ("x_offset", "weight_offset", "state_offset", "index_offset"):
        assert {0, 1, 2, 4} <= {getattr(batch, name) for batch in batches}, name
    # Rows of one kind see every type and width: nothing goes round in step with the kinds.
    seen = {(kinds_of(batch)[0][1], batch.dtype, batch.width) for batch in batches}
    assert len(seen) == 27


def test_what_follows_from_a_number_is_the_same_on_every_machine() -> None:
    batch = in_turn([2, 9], ["continues", "null"], 5)
    assert [(row.length, row.line, row.continues) for row in batch.rows] == [(2, 1, True), (9, 0, True)]
    assert (batch.lines, batch.dim, batch.width, batch.dtype) == (2, 17, 4, "float16")
    assert in_turn([2, 9], ["continues", "null"], 5) == batch


def test_what_is_chosen_is_kept_and_changes_nothing_else() -> None:
    chosen = in_turn([3], ["new"], 8, dtype="float16", activation="silu", numbers="steep")
    plain = in_turn([3], ["new"], 8)
    assert (chosen.dtype, chosen.activation, chosen.numbers) == ("float16", "silu", "steep")
    assert (chosen.dim, chosen.lines, chosen.layout) == (plain.dim, plain.lines, plain.layout)
