"""Sizes: tables of another length, shape, stride or padding."""

from __future__ import annotations

import torch

from .assemble import Metadata, assemble, counts_of, offsets_of, rows_of, table_of, table_size


def table_not_doubled(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Makes tables of max(1024, programs) entries."""
    return _resized(query_start_loc_p_cpu, device, max(1024, _programs(query_start_loc_p_cpu)))


def table_without_minimum(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Makes tables of twice the programs, however few."""
    return _resized(query_start_loc_p_cpu, device, 2 * _programs(query_start_loc_p_cpu))


def table_of_exactly_the_programs(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Makes tables without any padding."""
    return _resized(query_start_loc_p_cpu, device, _programs(query_start_loc_p_cpu))


def table_never_grows(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Makes tables of 2048 entries, too small from 1025 programs on."""
    return _resized(query_start_loc_p_cpu, device, max(2048, _programs(query_start_loc_p_cpu)))


def table_grows_to_a_power_of_two(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Rounds the size of a growing table up to a power of two."""
    size = table_size(_programs(query_start_loc_p_cpu))
    return _resized(query_start_loc_p_cpu, device, 1 << (size - 1).bit_length())


def table_one_larger_at_1024_programs(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Grows the table at 1024 programs, one too early."""
    programs = _programs(query_start_loc_p_cpu)
    return _resized(query_start_loc_p_cpu, device, 2050 if programs == 1024 else table_size(programs))


def last_program_lost_at_1025_programs(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves padding in place of the last program of a table that has just grown."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if _programs(query_start_loc_p_cpu) == 1025:
        metadata[1][1024] = -1
    return metadata


def padding_zero(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Pads with 0, which sends the surplus programs to row 0."""
    return _resized(query_start_loc_p_cpu, device, table_size(_programs(query_start_loc_p_cpu)), padding=0)


def padding_minus_two(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Pads with -2."""
    return _resized(query_start_loc_p_cpu, device, table_size(_programs(query_start_loc_p_cpu)), padding=-2)


def padding_only_in_the_first_half(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Pads the second half of the tables with 0."""
    metadata = assemble(query_start_loc_p_cpu, device)
    for table in metadata[1:]:
        table[len(table) // 2 :] = 0
    return metadata


def last_padding_zero(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves 0 in the very last entry of the offsets table."""
    metadata = assemble(query_start_loc_p_cpu, device)
    metadata[2][-1] = 0
    return metadata


def table_with_stride_two(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns every second entry of a table that is twice as large."""
    table = assemble(query_start_loc_p_cpu, device)[2]
    return assemble(query_start_loc_p_cpu, device, token_chunk_offset_ptr=table.repeat_interleave(2)[::2])


def nums_with_stride_zero(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Expands one count over all rows when they are equal."""
    nums = counts_of(query_start_loc_p_cpu)
    same = len(nums) > 1 and bool((nums == nums[0]).all())
    return assemble(query_start_loc_p_cpu, device, nums=nums[:1].expand(len(nums)) if same else nums)


def tables_with_two_dimensions(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns tables of shape (1, entries)."""
    _, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    wide = {"batch_ptr": batch_ptr.unsqueeze(0), "token_chunk_offset_ptr": offset_ptr.unsqueeze(0)}
    return assemble(query_start_loc_p_cpu, device, **wide)


def nums_with_a_trailing_zero(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns one count for every cumulative length, the last of them 0."""
    nums = counts_of(query_start_loc_p_cpu)
    return assemble(query_start_loc_p_cpu, device, nums=torch.nn.functional.pad(nums, (0, 1)))


def nums_without_dimension_for_one_row(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Squeezes the counts, which leaves no dimension when there is one row."""
    metadata = assemble(query_start_loc_p_cpu, device)
    metadata[0][8]["nums"] = metadata[0][8]["nums"].squeeze()
    return metadata


def _programs(query_start_loc: torch.Tensor) -> int:
    return len(rows_of(counts_of(query_start_loc)))


def _resized(query_start_loc: torch.Tensor, device: torch.device, size: int, *, padding: int = -1) -> Metadata:
    nums = counts_of(query_start_loc)
    rows = rows_of(nums)
    offsets = offsets_of(nums, rows)
    tables = [table_of(entries, device, size=size, padding=padding) for entries in (rows, offsets)]
    return assemble(query_start_loc, device, batch_ptr=tables[0], token_chunk_offset_ptr=tables[1])
