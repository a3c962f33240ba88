"""Memory: elements that nobody wrote, whose values are whatever the memory held before."""

from __future__ import annotations

import numpy as np
import torch

from .assemble import Metadata, assemble, counts_of, offsets_of, parts, rows_of, table_size


def table_padding_unwritten(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Writes only the programs into the row table."""
    rows = rows_of(counts_of(query_start_loc_p_cpu))
    table = torch.empty(table_size(len(rows)), dtype=torch.int32, device=device)
    table[: len(rows)] = rows
    return assemble(query_start_loc_p_cpu, device, batch_ptr=table)


def table_padding_unwritten_in_numpy(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Writes only the programs into an offsets table made by numpy."""
    offsets = parts(assemble(query_start_loc_p_cpu, device))["offsetlist"].numpy()
    table = np.empty(table_size(len(offsets)), dtype=np.int32)
    table[: len(offsets)] = offsets
    return assemble(query_start_loc_p_cpu, device, token_chunk_offset_ptr=torch.from_numpy(table).to(device))


def last_padding_unwritten(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Writes all of the row table but its last entry."""
    right = assemble(query_start_loc_p_cpu, device)[1]
    table = torch.empty_like(right)
    table[:-1] = right[:-1]
    return assemble(query_start_loc_p_cpu, device, batch_ptr=table)


def table_end_unwritten_when_grown(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Grows a padded table in place, which leaves the new entries unwritten."""
    rows = rows_of(counts_of(query_start_loc_p_cpu))
    table = torch.full((2048,), -1, dtype=torch.int32, device=device)
    table.resize_(table_size(len(rows)))
    table[: len(rows)] = rows
    return assemble(query_start_loc_p_cpu, device, batch_ptr=table)


def table_unwritten_without_programs(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns before it pads when there are no programs."""
    if bool(counts_of(query_start_loc_p_cpu).any()):
        return assemble(query_start_loc_p_cpu, device)
    batch_ptr = torch.empty(table_size(0), dtype=torch.int32, device=device)
    return assemble(query_start_loc_p_cpu, device, batch_ptr=batch_ptr)


def empty_rows_unwritten_in_nums(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Writes the counts of rows with tokens only."""
    metadata = assemble(query_start_loc_p_cpu, device)
    right = parts(metadata)["nums"]
    nums = torch.empty_like(right)
    nums[right > 0] = right[right > 0]
    parts(metadata)["nums"] = nums
    return metadata


def first_offsets_unwritten(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Writes the offsets from 1 up and takes the zeros for granted."""
    nums = counts_of(query_start_loc_p_cpu)
    right = offsets_of(nums, rows_of(nums))
    offsets = torch.empty_like(right)
    offsets[right > 0] = right[right > 0]
    return assemble(query_start_loc_p_cpu, device, nums=nums, offsets=offsets)


def rows_unwritten_after_the_first(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Writes only the first row's programs into a numpy row list; the table is right."""
    metadata = assemble(query_start_loc_p_cpu, device)
    right = parts(metadata)["mlist"].numpy()
    rows = np.empty(len(right), dtype=np.int64)
    rows[right == 0] = 0
    parts(metadata)["mlist"] = torch.from_numpy(rows)
    return metadata


def reads_past_the_end(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Fills the last padding entry with the number that lies behind the input in memory."""
    metadata = assemble(query_start_loc_p_cpu, device)
    values = query_start_loc_p_cpu.numpy()
    longer = np.lib.stride_tricks.as_strided(values, shape=(len(values) + 1,))
    metadata[1][-1] = int(longer[-1]) & 0x7FFFFFFF
    return metadata
