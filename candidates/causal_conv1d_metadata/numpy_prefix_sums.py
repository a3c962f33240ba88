"""Prefix sums in NumPy: number the programs from 0 and subtract the number of each row's first one.

Rows come from repeating each row number as often as the row has programs; tiles from repeating, in the same way, the
exclusive prefix sum of the program counts, and taking it off the running number. Nothing loops in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def compute_causal_conv1d_metadata(
    query_start_loc_p_cpu: torch.Tensor, *, device: torch.device
) -> tuple[dict[int, dict[str, Any]], torch.Tensor, torch.Tensor]:
    """Program tables for tiles of 8 tokens; arguments and result are the reference's."""
    nums = -(-np.diff(query_start_loc_p_cpu.numpy()) // 8)
    # np.repeat raises ValueError on a negative count, which is what a row of negative length must do.
    rows = np.repeat(np.arange(len(nums)), nums)
    n = len(rows)
    first = np.cumsum(nums, dtype=np.int64) - nums
    tiles = (np.arange(n) - np.repeat(first, nums)).astype(np.int32)

    mlist, offsetlist = torch.from_numpy(rows), torch.from_numpy(tiles)
    if device.type == "cuda":
        mlist, offsetlist = mlist.pin_memory(), offsetlist.pin_memory()

    size = 2 * max(1024, n)
    batch_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    token_chunk_offset_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    batch_ptr[:n].copy_(mlist, non_blocking=True)
    token_chunk_offset_ptr[:n].copy_(offsetlist, non_blocking=True)

    tables = {
        "nums": torch.from_numpy(nums),
        "tot": n,
        "mlist": mlist,
        "mlist_len": n,
        "offsetlist": offsetlist,
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {8: tables}, batch_ptr, token_chunk_offset_ptr
