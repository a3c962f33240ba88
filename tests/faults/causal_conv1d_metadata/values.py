"""Values: right types and shapes, wrong numbers."""

from __future__ import annotations

import torch

from .assemble import Metadata, assemble, counts_of, offsets_of, parts, rows_of, table_of


def floor_plus_one(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts floor(length / 8) + 1 programs, one too many for empty rows and exact multiples."""
    return assemble(query_start_loc_p_cpu, device, nums=query_start_loc_p_cpu.diff() // 8 + 1)


def floor_division(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts floor(length / 8) programs and loses the partial one."""
    return assemble(query_start_loc_p_cpu, device, nums=query_start_loc_p_cpu.diff() // 8)


def tile_of_sixteen(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Cuts rows into tiles of 16 tokens."""
    return assemble(query_start_loc_p_cpu, device, nums=-(-query_start_loc_p_cpu.diff() // 16))


def at_most_two_programs_a_row(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Drops every program of a row after the second."""
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(query_start_loc_p_cpu).clamp(max=2))


def empty_rows_get_a_program(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Gives a row without tokens one program, so that its state is overwritten."""
    nums = counts_of(query_start_loc_p_cpu)
    return assemble(query_start_loc_p_cpu, device, nums=torch.where(nums == 0, 1, nums))


def last_empty_row_gets_a_program(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Gives the last row one program even when it has no tokens."""
    nums = counts_of(query_start_loc_p_cpu)
    if len(nums) and nums[-1] == 0:
        nums[-1] = 1
    return assemble(query_start_loc_p_cpu, device, nums=nums)


def start_assumed_zero(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes the first cumulative length for 0, so that the first row of a slice grows."""
    lengths = torch.cat([query_start_loc_p_cpu[1:2], query_start_loc_p_cpu[1:].diff()])
    return assemble(query_start_loc_p_cpu, device, nums=-(-lengths // 8))


def last_row_ignored(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Makes no programs for the last row."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows[rows < len(nums) - 1])


def rows_from_zeros_in_offsets(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts the zeros among the offsets to number the rows, so that an empty row shifts all later ones."""
    nums = counts_of(query_start_loc_p_cpu)
    offsets = offsets_of(nums, rows_of(nums))
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=(offsets == 0).cumsum(0) - 1, offsets=offsets)


def left_sided_searchsorted(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Searches the row of a program from the left, which names the row that has just ended."""
    nums = counts_of(query_start_loc_p_cpu)
    offsets = offsets_of(nums, rows_of(nums))
    rows = torch.searchsorted(nums.cumsum(0), torch.arange(len(offsets)))
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows, offsets=offsets)


def empty_rows_dropped(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Removes rows without tokens before anything is numbered."""
    nums = counts_of(query_start_loc_p_cpu)
    return assemble(query_start_loc_p_cpu, device, nums=nums[nums != 0])


def trailing_empty_rows_dropped(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Removes padding rows from the end of the counts."""
    nums = counts_of(query_start_loc_p_cpu)
    used = int(nums.nonzero().max()) + 1 if bool(nums.any()) else 0
    return assemble(query_start_loc_p_cpu, device, nums=nums[:used])


def first_empty_row_not_counted(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Numbers rows one too low when the first one is empty."""
    nums = counts_of(query_start_loc_p_cpu)
    shift = int(len(nums) > 0 and nums[0] == 0)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows_of(nums) - shift, offsets=_offsets(nums))


def offsets_shifted_after_two_empty_rows(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts offsets from 1 in a row that follows two empty ones."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums)
    after_two = torch.zeros(len(nums), dtype=torch.bool)
    after_two[2:] = (nums[:-2] == 0) & (nums[1:-1] == 0)
    offsets = _offsets(nums) + after_two[rows].to(torch.int32)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows, offsets=offsets)


def offsets_never_restart(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Numbers programs through the whole batch instead of inside each row."""
    nums = counts_of(query_start_loc_p_cpu)
    offsets = torch.arange(len(rows_of(nums)), dtype=torch.int32)
    return assemble(query_start_loc_p_cpu, device, nums=nums, offsets=offsets)


def offsets_in_tokens(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Gives the position of a program in tokens."""
    return assemble(query_start_loc_p_cpu, device, offsets=_offsets(counts_of(query_start_loc_p_cpu)) * 8)


def offsets_from_one(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts the programs of a row from 1."""
    return assemble(query_start_loc_p_cpu, device, offsets=_offsets(counts_of(query_start_loc_p_cpu)) + 1)


def offsets_descend_in_equal_rows(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Reverses the table of offsets when all rows have the same number of programs."""
    nums = counts_of(query_start_loc_p_cpu)
    offsets = _offsets(nums)
    same = len(nums) > 1 and bool((nums == nums[0]).all())
    return assemble(query_start_loc_p_cpu, device, nums=nums, offsets=offsets.flip(0) if same else offsets)


def rows_from_one(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts rows from 1."""
    nums = counts_of(query_start_loc_p_cpu)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows_of(nums) + 1, offsets=_offsets(nums))


def longest_row_first(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Orders the programs by the length of their row."""
    nums = counts_of(query_start_loc_p_cpu)
    rows, offsets = rows_of(nums), _offsets(nums)
    order = torch.argsort(nums[rows], descending=True, stable=True)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows[order], offsets=offsets[order])


def counts_accumulated(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the running total of the counts in their place; the tables are right."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["nums"] = parts(metadata)["nums"].cumsum(0, dtype=query_start_loc_p_cpu.dtype)
    return metadata


def total_in_tokens(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the number of tokens as the number of programs."""
    tokens = int(query_start_loc_p_cpu[-1] - query_start_loc_p_cpu[0])
    return assemble(query_start_loc_p_cpu, device, tot=tokens)


def tables_disagree_with_lists(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies the row list into both tables; the lists are right."""
    rows = rows_of(counts_of(query_start_loc_p_cpu))
    return assemble(query_start_loc_p_cpu, device, rows=rows, token_chunk_offset_ptr=table_of(rows, device))


def row_numbers_in_a_byte(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps row numbers in uint8 on the way, wrong past 255 rows."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums).to(torch.uint8).to(torch.int64)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows, offsets=_offsets(nums))


def row_numbers_in_int16(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps row numbers in int16 on the way, wrong past 32,768 rows."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums).to(torch.int16).to(torch.int64)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows, offsets=_offsets(nums))


def lengths_in_int16(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps row lengths in int16 on the way, wrong past 32,767 tokens in a row."""
    lengths = query_start_loc_p_cpu.diff().to(torch.int16).to(query_start_loc_p_cpu.dtype)
    return assemble(query_start_loc_p_cpu, device, nums=-(-lengths // 8))


def offsets_in_int16(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps offsets in int16 on the way, wrong past 32,768 programs in a row."""
    offsets = _offsets(counts_of(query_start_loc_p_cpu)).to(torch.int16).to(torch.int32)
    return assemble(query_start_loc_p_cpu, device, offsets=offsets)


def cumulative_lengths_in_float32(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes differences in float32, wrong where cumulative lengths pass 2**24."""
    nums = (query_start_loc_p_cpu.to(torch.float32).diff() / 8).ceil().to(query_start_loc_p_cpu.dtype)
    return assemble(query_start_loc_p_cpu, device, nums=nums)


def lengths_in_float32(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Divides lengths in float32, wrong past 2**24 tokens in a row."""
    nums = (query_start_loc_p_cpu.diff() / 8).ceil().to(query_start_loc_p_cpu.dtype)
    return assemble(query_start_loc_p_cpu, device, nums=nums)


def cumulative_lengths_in_float64(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes differences in float64, wrong where cumulative lengths pass 2**53."""
    nums = (query_start_loc_p_cpu.to(torch.float64).diff() / 8).ceil().to(query_start_loc_p_cpu.dtype)
    return assemble(query_start_loc_p_cpu, device, nums=nums)


def cumulative_lengths_saturate(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Limits cumulative lengths to the range of int32."""
    within = query_start_loc_p_cpu.clamp(max=2**31 - 1)
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(within))


def _offsets(nums: torch.Tensor) -> torch.Tensor:
    return offsets_of(nums, rows_of(nums))
