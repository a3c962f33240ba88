"""A well-behaved candidate, whose source tests put in front of a function that misbehaves on some input."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def right(query_start_loc_p_cpu: torch.Tensor, device: torch.device) -> Any:
    """What the reference returns."""
    nums = -(-np.diff(query_start_loc_p_cpu.numpy()) // 8)
    rows = np.repeat(np.arange(len(nums)), nums)
    tiles = np.arange(len(rows)) - np.repeat(np.cumsum(nums, dtype=np.int64) - nums, nums)
    mlist, offsetlist = torch.from_numpy(rows), torch.from_numpy(tiles.astype(np.int32))
    size = 2 * max(1024, len(rows))
    batch_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    token_chunk_offset_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    batch_ptr[: len(rows)].copy_(mlist)
    token_chunk_offset_ptr[: len(rows)].copy_(offsetlist)
    tables = {
        "nums": torch.from_numpy(nums),
        "tot": len(rows),
        "mlist": mlist,
        "mlist_len": len(rows),
        "offsetlist": offsetlist,
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {8: tables}, batch_ptr, token_chunk_offset_ptr


def lengths(query_start_loc_p_cpu: torch.Tensor) -> list[int]:
    """Tokens of each row."""
    return [int(length) for length in np.diff(query_start_loc_p_cpu.numpy())]
