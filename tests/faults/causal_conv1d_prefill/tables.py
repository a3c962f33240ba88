"""Tables: program tables made anew from any number of programs per row."""

from __future__ import annotations

import torch


def tables_of(counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row of each program, and tile in its row (int32), for so many programs of each row."""
    counts = counts.long()
    rows = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    starts = counts.cumsum(0) - counts
    tiles = torch.arange(len(rows), device=counts.device) - starts[rows]
    return rows.to(torch.int32), tiles.to(torch.int32)
