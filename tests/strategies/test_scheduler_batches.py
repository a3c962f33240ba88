"""Scheduler batches and what each caller cuts from them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import find, given, settings

from strategies.scheduler_batches import SchedulerBatch, caller_arguments, scheduler_batches

QUIET = settings(derandomize=True, database=None, max_examples=100)
BATCH = SchedulerBatch(decodes=2, speculative=(3, 2), prefills=(9, 8), padding=1)


def test_rows_are_in_the_order_of_the_scheduler() -> None:
    assert BATCH.query_start_loc() == [0, 1, 2, 5, 7, 16, 24, 24]


def test_each_caller_cuts_its_own_rows_from_a_batch() -> None:
    assert BATCH.of_prefills() == [0, 9, 17]
    assert BATCH.without_speculation() == [0, 1, 2, 11, 19, 19]
    assert BATCH.active_without_speculation() == [0, 1, 2, 11, 19]


def test_without_speculation_gdn_passes_the_batch_itself() -> None:
    batch = SchedulerBatch(decodes=1, speculative=(), prefills=(5,), padding=2)
    assert batch.without_speculation() == batch.query_start_loc() == [0, 1, 6, 6, 6]


def test_of_prefills_is_the_end_of_the_batch_less_its_decode_tokens() -> None:
    batch = SchedulerBatch(decodes=3, speculative=(), prefills=(5, 70), padding=0)
    assert [value - 3 for value in batch.query_start_loc()[-3:]] == batch.of_prefills()


@QUIET
@given(caller_arguments())
def test_callers_pass_cumulative_lengths_that_start_at_0(values: list[int]) -> None:
    assert values[0] == 0
    assert all(before <= after for before, after in pairwise(values))


@pytest.mark.parametrize("kind", ["decodes", "speculative", "prefills", "padding"])
def test_every_kind_of_row_is_drawn(kind: str) -> None:
    found = find(scheduler_batches(), lambda batch: bool(getattr(batch, kind)), settings=QUIET, random=Random(0))
    rows = len(found.query_start_loc()) - 1
    assert rows == 1
