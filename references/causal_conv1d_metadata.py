"""Program tables of the causal convolution: which row, and which tile of that row, each program works on."""

from __future__ import annotations

from typing import Any

import torch

TILE = 8
"""Tokens that one program of the convolution kernel handles."""


def compute_causal_conv1d_metadata(
    query_start_loc_p_cpu: torch.Tensor, *, device: torch.device
) -> tuple[dict[int, dict[str, Any]], torch.Tensor, torch.Tensor]:
    """Cut every row of a batch into tiles of 8 tokens and list the resulting programs, row by row.

    Args:
        query_start_loc_p_cpu: cumulative lengths in tokens, shape (B + 1,), int32 or int64, on the CPU. Row r holds
            ``query_start_loc_p_cpu[r + 1] - query_start_loc_p_cpu[r]`` tokens. The first entry may be any number from 0
            on.
        device: where the kernel runs.

    Returns:
        ``({8: tables}, batch_ptr, token_chunk_offset_ptr)``. With n programs in all, ``tables`` holds

        - ``nums``: programs of each row, shape (B,), dtype of the input;
        - ``tot`` and ``mlist_len``: n as an int;
        - ``mlist``: row of each program, shape (n,), int64; pinned if ``device`` is a CUDA device;
        - ``offsetlist``: tile of each program inside its row, shape (n,), int32; pinned likewise;
        - ``batch_ptr``, ``token_chunk_offset_ptr``: the two returned tensors themselves.

        The two returned tensors are int32 on ``device``, shape (2 * max(1024, n),): the first n entries are ``mlist``
        and ``offsetlist``, the others -1. The copy to a CUDA device may still be under way on return.

    Raises:
        ValueError: the cumulative lengths decrease by 8 tokens or more, which makes a row's number of programs
            negative. A decrease of 1 to 7 tokens rounds to no program and passes.
    """
    assert query_start_loc_p_cpu.device.type == "cpu", "query_start_loc_p_cpu must be on the CPU"
    pinned = device.type == "cuda"

    starts = query_start_loc_p_cpu.tolist()
    nums = []
    rows = []
    tiles = []
    for row in range(len(starts) - 1):
        length = starts[row + 1] - starts[row]
        programs = -(-length // TILE)
        if programs < 0:
            raise ValueError(f"row {row} has {length} tokens: cumulative lengths must not decrease")
        nums.append(programs)
        for tile in range(programs):
            rows.append(row)
            tiles.append(tile)

    n = len(rows)
    mlist = torch.tensor(rows, dtype=torch.int64, pin_memory=pinned)
    offsetlist = torch.tensor(tiles, dtype=torch.int32, pin_memory=pinned)

    # Twice the number of programs: the kernel's launch grid may be larger than n, and an entry of -1 does nothing.
    size = 2 * max(1024, n)
    batch_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    token_chunk_offset_ptr = torch.full((size,), -1, dtype=torch.int32, device=device)
    # The pinned sources stay alive while the copies run, because they are returned.
    batch_ptr[:n].copy_(mlist, non_blocking=True)
    token_chunk_offset_ptr[:n].copy_(offsetlist, non_blocking=True)

    tables = {
        "nums": torch.tensor(nums, dtype=query_start_loc_p_cpu.dtype),
        "tot": n,
        "mlist": mlist,
        "mlist_len": n,
        "offsetlist": offsetlist,
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {TILE: tables}, batch_ptr, token_chunk_offset_ptr
