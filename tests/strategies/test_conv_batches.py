"""The Hypothesis strategy for batches of a convolution draws what it promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from strategies.conv_batch import DTYPES, NULL_LINE, NUMBERS, WIDTHS, ConvBatch
from strategies.conv_batches import conv_batches

EXAMPLES = settings(
    max_examples=500,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def drawn() -> list[ConvBatch]:
    batches: list[ConvBatch] = []

    @EXAMPLES
    @given(conv_batches())
    def collect(batch: ConvBatch) -> None:
        batches.append(batch)

    collect()
    return batches


def test_batches_are_small_enough_for_an_interpreter(drawn: list[ConvBatch]) -> None:
    assert max(batch.programs for batch in drawn) == 6
    assert max(batch.dim for batch in drawn) <= 24
    assert max(batch.query_start_loc[-1] for batch in drawn) <= 48


def test_everything_varies(drawn: list[ConvBatch]) -> None:
    assert {batch.dtype for batch in drawn} == set(DTYPES)
    assert {batch.width for batch in drawn} == set(WIDTHS)
    assert {batch.numbers for batch in drawn} == set(NUMBERS)
    assert {(batch.activation, batch.has_bias) for batch in drawn} == {
        (activation, bias) for activation in (None, "silu") for bias in (False, True)
    }
    assert {batch.x_offset for batch in drawn} == set(range(9))
    assert {batch.lines % 16 == 0 for batch in drawn} == {False, True}
    assert {0, 1} <= {batch.lines - 1 - sum(row.line != NULL_LINE for row in batch.rows) for batch in drawn}
    assert {batch.padding > 0 for batch in drawn} == {False, True}
    assert {None, 0, 1, 2} <= {batch.null_block for batch in drawn}


def test_rows_of_every_kind_are_drawn(drawn: list[ConvBatch]) -> None:
    rows = [row for batch in drawn for row in batch.rows]
    kinds = {(row.length > 0, row.line != NULL_LINE, row.continues) for row in rows}
    assert len(kinds) == 8
    assert {0, 1, 7, 8, 9, 16} <= {row.length for row in rows}


def test_exact_and_plain_batches_are_common(drawn: list[ConvBatch]) -> None:
    exact = sum(batch.numbers == "integers" and batch.activation is None for batch in drawn)
    plain = sum(not any(batch.layout) for batch in drawn)
    assert len(drawn) / 4 < exact < len(drawn)
    assert len(drawn) / 8 < plain < len(drawn)


def test_most_batches_have_a_program_to_run(drawn: list[ConvBatch]) -> None:
    idle = sum(batch.programs == 0 for batch in drawn)
    assert 0 < idle < len(drawn) / 3


def test_the_simplest_batch_has_no_rows() -> None:
    assert find(conv_batches(), lambda batch: True, settings=settings(database=None, derandomize=True)).rows == ()


@pytest.mark.parametrize("bounds", [{"max_programs": 0}, {"max_rows": 0}, {"max_dim": 0}])
def test_bounds_must_leave_something_to_draw(bounds: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        conv_batches(**bounds)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(conv_batches(max_programs=2, max_rows=3, max_dim=5))
def test_bounds_are_kept(batch: ConvBatch) -> None:
    assert batch.programs <= 2
    assert batch.dim <= 5
