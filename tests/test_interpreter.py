"""Interpreted programs run in the opposite order where that is asked for."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from harness.interpreter import reversed_programs


@triton.jit
def _last_one_wins(out_ptr, order_ptr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0) * 3 + tl.program_id(1)
    count = tl.load(order_ptr)
    tl.store(out_ptr + place, count)
    tl.store(order_ptr, count + 1)


def launched() -> list[int]:
    """The number of programs that had run before each of the six."""
    out, order = torch.zeros(6, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    _last_one_wins[2, 3](out, order)
    return out.tolist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, this process compiles its kernels")
def test_programs_run_backwards_while_it_is_entered_and_forwards_after_it() -> None:
    assert launched() == [0, 1, 2, 3, 4, 5]
    with reversed_programs():
        assert launched() == [5, 4, 3, 2, 1, 0]
    assert launched() == [0, 1, 2, 3, 4, 5]
