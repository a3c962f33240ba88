"""Binary search: each program looks its row up among the rows' last programs.

Program p belongs to the first row whose inclusive prefix sum of program counts is greater than p. A row without
programs has the same prefix sum as the row before it, so a right-sided search steps over it. No program depends on
another one, so that the same idea would run on a device.
"""

from __future__ import annotations

from typing import Any

import torch


def compute_causal_conv1d_metadata(
    query_start_loc_p_cpu: torch.Tensor, *, device: torch.device
) -> tuple[dict[int, dict[str, Any]], torch.Tensor, torch.Tensor]:
    """Program tables for tiles of 8 tokens; arguments and result are the reference's."""
    nums = -(-query_start_loc_p_cpu.diff() // 8)
    if bool((nums < 0).any()):
        raise ValueError("cumulative lengths must not decrease")
    ends = nums.cumsum(0, dtype=torch.int64)
    n = int(ends[-1]) if len(ends) else 0
    programs = torch.arange(n, dtype=torch.int64)
    mlist = torch.searchsorted(ends, programs, right=True)
    offsetlist = (programs - (ends - nums)[mlist]).to(torch.int32)

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
