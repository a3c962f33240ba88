"""Exceptions: raises where the reference returns, returns where it raises, or raises another type."""

from __future__ import annotations

import torch

from .assemble import Metadata, assemble, counts_of, has_empty_row, offsets_of, rows_of


def malformed_batch_swallowed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes a negative number of programs for 0."""
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(query_start_loc_p_cpu).clamp(min=0))


def malformed_rows_mirrored(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes the absolute value of a negative number of programs."""
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(query_start_loc_p_cpu).abs())


def only_the_total_checked(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises only when the sum of all counts is negative."""
    nums = counts_of(query_start_loc_p_cpu)
    if nums.sum() < 0:
        raise ValueError("negative total")
    return assemble(query_start_loc_p_cpu, device, nums=nums.clamp(min=0))


def decrease_of_eight_swallowed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Rounds towards zero, so that a decrease of 8 to 14 tokens passes."""
    nums = torch.div(query_start_loc_p_cpu.diff() + 7, 8, rounding_mode="trunc")
    return assemble(query_start_loc_p_cpu, device, nums=nums)


def small_decrease_refused(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises for every decrease, also for one that rounds to 0 programs."""
    if bool((query_start_loc_p_cpu.diff() < 0).any()):
        raise ValueError("query_start_loc decreases")
    return assemble(query_start_loc_p_cpu, device)


def malformed_raises_runtime_error(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves the check to torch.repeat_interleave, which raises RuntimeError."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = torch.arange(len(nums)).repeat_interleave(nums)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows)


def malformed_raises_index_error(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises IndexError for a malformed batch."""
    if bool((counts_of(query_start_loc_p_cpu) < 0).any()):
        raise IndexError("row out of range")
    return assemble(query_start_loc_p_cpu, device)


def malformed_fails_an_assertion(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Asserts that no count is negative."""
    assert bool((counts_of(query_start_loc_p_cpu) >= 0).all())
    return assemble(query_start_loc_p_cpu, device)


def malformed_raises_a_subclass(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises a subclass of ValueError for a malformed batch."""
    if bool((counts_of(query_start_loc_p_cpu) < 0).any()):
        raise _MalformedBatchError
    return assemble(query_start_loc_p_cpu, device)


def malformed_raises_a_namesake(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises a class that is called ValueError and is not the built-in one."""
    if bool((counts_of(query_start_loc_p_cpu) < 0).any()):
        raise _Namesake("negative repeats")
    return assemble(query_start_loc_p_cpu, device)


def malformed_returns_none(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata | None:
    """Returns None for a malformed batch."""
    try:
        return assemble(query_start_loc_p_cpu, device)
    except ValueError:
        return None


def malformed_returns_the_exception(
    query_start_loc_p_cpu: torch.Tensor, *, device: torch.device
) -> Metadata | ValueError:
    """Returns the ValueError for a malformed batch instead of raising it."""
    try:
        return assemble(query_start_loc_p_cpu, device)
    except ValueError as error:
        return error


def int64_refused(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Handles int32 only."""
    if query_start_loc_p_cpu.dtype != torch.int32:
        raise TypeError(f"expected torch.int32, got {query_start_loc_p_cpu.dtype}")
    return assemble(query_start_loc_p_cpu, device)


def int32_refused(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Scatters into an int64 table, which fails for int32 row lengths."""
    nums = torch.zeros(len(query_start_loc_p_cpu) - 1, dtype=torch.int64)
    nums.scatter_(0, torch.arange(len(nums)), counts_of(query_start_loc_p_cpu))
    return assemble(query_start_loc_p_cpu, device, nums=nums)


def empty_batch_raises(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes the maximum of the counts, which fails when there are no rows."""
    nums = counts_of(query_start_loc_p_cpu)
    longest = int(nums.max())
    return assemble(query_start_loc_p_cpu, device, nums=nums.clamp(max=longest))


def no_programs_raise(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Reads the row of the last program, which fails when there are only empty rows."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums)
    last = int(rows[-1])
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows.clamp(max=last))


def start_other_than_zero_refused(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Refuses a slice that does not start at 0."""
    if query_start_loc_p_cpu[0] != 0:
        raise ValueError("query_start_loc must start at 0")
    return assemble(query_start_loc_p_cpu, device)


def tables_of_fixed_size_overflow(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies the rows into a buffer of 1024 entries, which fails from 1025 programs on."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums)
    buffer = torch.empty(1024, dtype=torch.int64)
    buffer[: len(rows)].copy_(rows)
    offsets = offsets_of(nums, rows)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=buffer[: len(rows)].clone(), offsets=offsets)


def exception_without_text(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises an exception that cannot be printed when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        raise _UnprintableError
    return assemble(query_start_loc_p_cpu, device)


def recursion_without_end(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Calls itself for ever when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        return recursion_without_end(query_start_loc_p_cpu, device=device)
    return assemble(query_start_loc_p_cpu, device)


class _MalformedBatchError(ValueError):
    pass


class _UnprintableError(Exception):
    __module__ = "builtins"

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


_Namesake = type("ValueError", (Exception,), {"__module__": "builtins"})
