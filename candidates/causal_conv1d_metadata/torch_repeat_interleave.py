"""Repeat-interleave in torch: ones with a jump back at the start of each row, summed up, give the tiles.

Rows come from ``torch.repeat_interleave`` of the program counts. The tile rises by one from program to program, except
that the first program of a row falls back by as many as the non-empty row before had: one scatter, one running sum.
"""

from __future__ import annotations

from typing import Any

import torch


def compute_causal_conv1d_metadata(
    query_start_loc_p_cpu: torch.Tensor, *, device: torch.device
) -> tuple[dict[int, dict[str, Any]], torch.Tensor, torch.Tensor]:
    """Program tables for tiles of 8 tokens; arguments and result are the reference's."""
    nums = -(-query_start_loc_p_cpu.diff() // 8)
    # repeat_interleave would raise RuntimeError here.
    if bool((nums < 0).any()):
        raise ValueError("cumulative lengths must not decrease")
    counts = nums.long()
    mlist = torch.repeat_interleave(counts)
    n = len(mlist)

    filled = counts[counts > 0]
    steps = torch.ones(n, dtype=torch.int32)
    if n:
        steps[0] = 0
        steps[filled.cumsum(0)[:-1]] -= filled[:-1].int()
    offsetlist = steps.cumsum(0, dtype=torch.int32)

    if device.type == "cuda":
        mlist, offsetlist = mlist.pin_memory(), offsetlist.pin_memory()

    size = 2 * max(1024, n)
    batch_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    token_chunk_offset_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    batch_ptr[:n].copy_(mlist, non_blocking=True)
    token_chunk_offset_ptr[:n].copy_(offsetlist, non_blocking=True)

    tables = {
        "nums": nums,
        "tot": n,
        "mlist": mlist,
        "mlist_len": n,
        "offsetlist": offsetlist,
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {8: tables}, batch_ptr, token_chunk_offset_ptr
