"""Steps of shrinking: every one leads down, and together they lead to a minimal batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.cumulative_lengths import cumulative_lengths
from strategies.simpler import measure, simpler

Values = tuple[int, ...]

well_formed = cumulative_lengths(many_rows=40, long_length=2000, max_value=2**63 - 1)
malformed = cumulative_lengths(many_rows=40, malformed=True)
anything = st.lists(st.integers(-50, 50), min_size=1, max_size=6)


def lengths_of(values: Values) -> list[int]:
    return [after - before for before, after in pairwise(values)]


def shrunk(values: Values, fails: Callable[[Values], bool]) -> Values:
    """Greedy shrinking: go to the first simpler batch that fails, for as long as there is one."""
    steps = 0
    while (smaller := next(filter(fails, simpler(values)), None)) is not None:
        values, steps = smaller, steps + 1
        assert steps < 500
    return values


@settings(deadline=None, derandomize=True, database=None, max_examples=150)
@given(well_formed | malformed | anything)
def test_every_step_lowers_the_measure_and_comes_once(values: list[int]) -> None:
    steps = list(simpler(tuple(values)))
    assert all(measure(step) < measure(tuple(values)) for step in steps)
    assert len(set(steps)) == len(steps)


@settings(deadline=None, derandomize=True, database=None, max_examples=100)
@given(well_formed | malformed)
def test_steps_keep_entries_non_negative_and_well_formed_batches_well_formed(values: list[int]) -> None:
    intact = min(lengths_of(tuple(values)), default=0) >= 0
    for step in simpler(tuple(values)):
        assert min(step) >= 0
        assert not intact or min(lengths_of(step), default=0) >= 0


@settings(deadline=None, derandomize=True, database=None, max_examples=100)
@given(well_formed | malformed)
def test_everything_shrinks_to_the_empty_batch_when_everything_fails(values: list[int]) -> None:
    assert shrunk(tuple(values), lambda _: True) == (0,)


@pytest.mark.parametrize(
    ("values", "fails", "minimal"),
    [
        ((3, 8, 19, 19, 90), lambda v: len(v) > 2 and 0 in lengths_of(v)[1:-1], (0, 0, 0, 0)),
        ((7, 5000, 20000), lambda v: v[-1] - v[0] > 8192, (0, 8193)),
        (tuple(range(0, 9000, 3)), lambda v: len(v) > 1001, tuple([0] * 1002)),
        ((2**31 + 900, 2**31 + 905), lambda v: v[-1] > 2**24, (2**24 + 1,)),
        ((40, 60, 45, 70), lambda v: min(lengths_of(v), default=0) <= -8, (8, 0)),
        ((40, 60, 55, 70), lambda v: -8 < min(lengths_of(v), default=0) < 0, (1, 0)),
        ((0, 3, 20, 64), lambda v: v[-1] > v[0] and (v[-1] - v[0]) % 8 == 0, (0, 8)),
    ],
)
def test_greedy_shrinking_ends_at_the_minimal_failure(
    values: Values, fails: Callable[[Values], bool], minimal: Values
) -> None:
    assert fails(values)
    assert shrunk(values, fails) == minimal


def test_the_first_steps_are_the_most_drastic() -> None:
    steps = list(simpler((3, 8, 19, 19, 90)))
    assert steps[0] == (0, 5, 16, 16, 87)
    assert steps[1:3] == [(3, 3, 74), (3, 8, 19)]


def test_the_simplest_batch_has_no_simpler_one() -> None:
    assert list(simpler((0,))) == []
    assert list(simpler(())) == []


def test_entries_below_zero_are_mended_first() -> None:
    first = next(iter(simpler((-4, -9, 3))))
    assert first == (5, 0, 12)
