"""Memory that nobody has written shows the pattern, under which no value is right by luck."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from harness.poison import PATTERNS, poison_array_cache, set_pattern


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    set_pattern(0)


def test_no_byte_that_an_unwritten_element_can_show_is_the_same_under_both_patterns() -> None:
    shown = [{pattern, pattern ^ 0xFF} for pattern in PATTERNS]
    assert not shown[0] & shown[1]
    assert not {0, 0xFF} & (shown[0] | shown[1])


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("size", [8, 100, 1_000, 1_023, 1_024, 1_032, 1_033, 5_000, 300_000, 20_000_000])
def test_fresh_memory_shows_the_pattern(size: int, pattern: int) -> None:
    assert set_pattern(pattern)
    gc.collect()
    poison_array_cache([size], pattern)
    tensor, array = torch.empty(size, dtype=torch.uint8), np.empty(size, dtype=np.uint8)
    # The first bytes of a block can hold the allocator's own list.
    for held in (tensor.numpy(), array):
        values = set(np.unique(held[16:]).tolist())
        assert len(values) <= 1
        assert values <= {pattern, pattern ^ 0xFF}


@pytest.mark.parametrize("size", [8, 500, 1_023, 1_024, 1_032])
def test_every_block_that_is_kept_for_arrays_is_filled(size: int) -> None:
    del (kept := [np.full(size, 0x77, dtype=np.uint8) for _ in range(7)])[:]
    poison_array_cache([size], PATTERNS[1])
    kept = [np.empty(size, dtype=np.uint8) for _ in range(7)]
    assert {number for block in kept for number in block[16:].tolist()} <= {PATTERNS[1], PATTERNS[1] ^ 0xFF}


def test_only_cached_sizes_are_filled() -> None:
    poison_array_cache([0, -8, 10**12], PATTERNS[0])
    poison_array_cache(iter([16, 16]), PATTERNS[0])
    assert set(np.empty(16, dtype=np.uint8).tolist()) == {PATTERNS[0]}
