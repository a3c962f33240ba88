"""Steps of shrinking a convolution's batch: all simpler, all in the domain, and enough to get to the smallest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from strategies.conv_batch import ConvBatch, Row, rows_of
from strategies.conv_batches import conv_batches
from strategies.simpler_conv_batches import measure, simpler_conv_batches

SMALLEST = ConvBatch(rows=(), lines=1, width=2)
LARGE = ConvBatch(
    rows=rows_of([17, 0, 9, 3], null=[1]),
    lines=32,
    dim=24,
    dtype="bfloat16",
    has_bias=True,
    activation="silu",
    numbers="steep",
    seed=77,
    padding=8,
    token_gap=5,
    column_gap=3,
    line_gap=16,
    x_offset=1,
    weight_offset=2,
    state_offset=3,
    index_offset=4,
)


def shrunk(batch: ConvBatch, fails: Callable[[ConvBatch], bool]) -> ConvBatch:
    """The batch that is left when no simpler one fails."""
    assert fails(batch)
    while True:
        smaller = next((other for other in simpler_conv_batches(batch) if fails(other)), None)
        if smaller is None:
            return batch
        batch = smaller


@settings(derandomize=True, deadline=None, max_examples=150)
@given(conv_batches())
def test_every_step_is_smaller_and_comes_once(batch: ConvBatch) -> None:
    steps = list(simpler_conv_batches(batch))
    assert all(measure(step) < measure(batch) for step in steps)
    assert len(set(steps)) == len(steps)


def test_a_failure_on_everything_shrinks_to_the_smallest_batch() -> None:
    assert shrunk(LARGE, lambda batch: True) == SMALLEST
    assert list(simpler_conv_batches(SMALLEST)) == []


@pytest.mark.parametrize(
    ("fails", "smallest"),
    [
        (lambda b: len(b.rows) > 1, ConvBatch(rows=(Row(0, 1), Row(0, 2)), lines=3, width=2)),
        (lambda b: any(r.length > 8 for r in b.rows), ConvBatch(rows=(Row(9, 1),), lines=2, width=2)),
        (lambda b: any(r.continues and r.line for r in b.rows), ConvBatch(rows=(Row(0, 1, True),), lines=2, width=2)),
        (lambda b: any(r.line == 0 for r in b.rows), ConvBatch(rows=(Row(0, 0),), lines=1, width=2)),
        (lambda b: b.dim > 16, ConvBatch(rows=(), lines=1, dim=17, width=2)),
        (lambda b: b.width > 2, ConvBatch(rows=(), lines=1, width=3)),
        (lambda b: b.activation is not None, ConvBatch(rows=(), lines=1, width=2, activation="silu")),
        (lambda b: b.has_bias, ConvBatch(rows=(), lines=1, width=2, has_bias=True)),
        (lambda b: b.numbers == "steep", ConvBatch(rows=(), lines=1, width=2, numbers="steep")),
        (lambda b: b.dtype == "bfloat16", ConvBatch(rows=(), lines=1, width=2, dtype="bfloat16")),
        (lambda b: b.padding > 2, ConvBatch(rows=(), lines=1, width=2, padding=3)),
        (lambda b: b.line_gap > 4, ConvBatch(rows=(), lines=1, width=2, line_gap=5)),
        (lambda b: b.state_offset % 2 == 1, ConvBatch(rows=(), lines=1, width=2, state_offset=1)),
        (lambda b: b.seed > 0, ConvBatch(rows=(), lines=1, width=2, seed=77)),
    ],
)
def test_what_matters_is_kept_and_nothing_else(fails: Callable[[ConvBatch], bool], smallest: ConvBatch) -> None:
    assert shrunk(LARGE, fails) == smallest


def test_fewer_rows_come_first() -> None:
    first = next(simpler_conv_batches(LARGE))
    assert first.rows == LARGE.rows[2:]
