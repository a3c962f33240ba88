"""Landmarks lie on both sides of every size at which blocked code is cut."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.large_batches import POWERS, from_lengths, landmark_batches, malformed_landmarks

BATCHES = [np.diff(values) for values in landmark_batches()]


@pytest.mark.parametrize("step", [-1, 0, 1])
@pytest.mark.parametrize("power", POWERS)
def test_rows_tokens_and_tiles_meet_every_power_of_two(power: int, step: int) -> None:
    size = power + step
    assert any(len(lengths) == size for lengths in BATCHES)
    assert any(size in lengths for lengths in BATCHES)
    assert any((-(-lengths // 8)).sum() == size for lengths in BATCHES)


def test_decodes_padding_and_alternation_come_in_several_sizes() -> None:
    long = [lengths for lengths in BATCHES if len(lengths) > 32]
    assert sum((lengths == 1).all() for lengths in long) >= 5
    assert sum((lengths[-8:] == 0).all() and lengths[0] == 1 for lengths in long) >= 5
    assert sum((lengths == 0).all() for lengths in long) >= 5
    assert sum((lengths[::2] == 1).all() and (lengths[1::2] == 0).all() for lengths in long) >= 5


def test_landmarks_are_well_formed_and_start_at_0() -> None:
    assert all(values[0] == 0 for values in landmark_batches())
    assert all((lengths >= 0).all() for lengths in BATCHES)
    assert len(set(landmark_batches())) == len(BATCHES)


def test_malformed_landmarks_decrease_and_stay_non_negative() -> None:
    for values in malformed_landmarks():
        assert min(values) >= 0
        assert (np.diff(values) < 0).any()
    falls = [int(np.diff(values).min()) for values in malformed_landmarks()]
    assert min(falls) < -1000
    assert sum(fall > -8 for fall in falls) >= 3


def test_lengths_accumulate_from_the_start() -> None:
    assert from_lengths(3, 0, 4, start=2) == (2, 5, 5, 9)
