"""Assemble: builds the right metadata from parts, any of which a fault may replace by a wrong one."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import torch

Metadata: TypeAlias = tuple[dict[int, dict[str, Any]], torch.Tensor, torch.Tensor]

TILE: Final = 8
PADDING: Final = -1


def counts_of(query_start_loc: torch.Tensor) -> torch.Tensor:
    """Programs of each row, in the dtype of the cumulative lengths."""
    return -(-query_start_loc.diff() // TILE)


def rows_of(nums: torch.Tensor) -> torch.Tensor:
    """Row number of every program (int64); a negative count is a ValueError."""
    if bool((nums < 0).any()):
        raise ValueError("a row has a negative number of programs")
    ends = nums.cumsum(0, dtype=torch.int64)
    return torch.searchsorted(ends, torch.arange(int(nums.sum())), right=True)


def offsets_of(nums: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Position of every program inside its row (int32)."""
    starts = nums.cumsum(0, dtype=torch.int64) - nums
    return (torch.arange(len(rows)) - starts[rows]).to(torch.int32)


def table_size(programs: int) -> int:
    """Entries of a program table."""
    return 2 * max(1024, programs)


def table_of(
    entries: torch.Tensor, device: torch.device, *, size: int | None = None, padding: int = PADDING
) -> torch.Tensor:
    """A program table (int32): the entries, then padding."""
    table = torch.full((table_size(len(entries)) if size is None else size,), padding, dtype=torch.int32, device=device)
    table[: len(entries)] = entries.to(device)
    return table


def has_empty_row(query_start_loc: torch.Tensor) -> bool:
    """Whether some row has no tokens: the condition under which many of these faults show."""
    return bool((query_start_loc.diff() == 0).any())


def parts(metadata: Metadata) -> dict[str, Any]:
    """The inner dictionary."""
    return metadata[0][TILE]


def assemble(
    query_start_loc: torch.Tensor,
    device: torch.device,
    *,
    nums: torch.Tensor | None = None,
    rows: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    batch_ptr: torch.Tensor | None = None,
    token_chunk_offset_ptr: torch.Tensor | None = None,
    **replaced: Any,
) -> Metadata:
    """The metadata of a batch. A part that is not given follows from those that are; ``replaced`` has the last word."""
    if nums is None:
        nums = counts_of(query_start_loc)
    if rows is None:
        rows = rows_of(nums)
    if offsets is None:
        offsets = offsets_of(nums, rows)
    if device.type == "cuda":
        rows, offsets = rows.pin_memory(), offsets.pin_memory()
    if batch_ptr is None:
        batch_ptr = table_of(rows, device)
    if token_chunk_offset_ptr is None:
        token_chunk_offset_ptr = table_of(offsets, device)
    entry = {
        "nums": nums,
        "tot": int(nums.sum()),
        "mlist": rows,
        "mlist_len": len(rows),
        "offsetlist": offsets,
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {TILE: entry | replaced}, batch_ptr, token_chunk_offset_ptr
