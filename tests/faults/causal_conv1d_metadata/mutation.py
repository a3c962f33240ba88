"""Mutation: right results, but the input tensor is left changed."""

from __future__ import annotations

import torch

from .assemble import Metadata, assemble, counts_of


def start_subtracted_in_place(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Moves the input's start to 0 and leaves it there."""
    query_start_loc_p_cpu -= query_start_loc_p_cpu[0].clone()
    return assemble(query_start_loc_p_cpu, device)


def start_restored_from_itself(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Moves the input's start to 0 and adds the start back after it has become 0."""
    start = query_start_loc_p_cpu[:1]
    query_start_loc_p_cpu -= start.clone()
    metadata = assemble(query_start_loc_p_cpu, device)
    query_start_loc_p_cpu += start.clone()
    return metadata


def start_not_restored_after_an_error(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Moves the input's start and restores it only when nothing was raised."""
    query_start_loc_p_cpu += 1
    metadata = assemble(query_start_loc_p_cpu, device)
    query_start_loc_p_cpu -= 1
    return metadata


def sorted_in_place(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Sorts the input after use, which shows only where it decreases."""
    metadata = assemble(query_start_loc_p_cpu, device)
    query_start_loc_p_cpu.copy_(query_start_loc_p_cpu.sort().values)
    return metadata


def counts_written_over_the_input(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Uses the input's memory as scratch for the counts."""
    metadata = assemble(query_start_loc_p_cpu, device)
    query_start_loc_p_cpu[1:] = counts_of(query_start_loc_p_cpu)
    return metadata


def written_through_numpy(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Adds 1 to the last cumulative length through a numpy view when the last row is empty."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if len(query_start_loc_p_cpu) > 1 and query_start_loc_p_cpu[-1] == query_start_loc_p_cpu[-2]:
        query_start_loc_p_cpu.numpy()[-1] += 1
    return metadata


def input_becomes_int64(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Changes the dtype of the caller's tensor object."""
    metadata = assemble(query_start_loc_p_cpu, device)
    query_start_loc_p_cpu.data = query_start_loc_p_cpu.to(torch.int64)
    return metadata


def input_gains_a_dimension(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves the caller's tensor with shape (1, rows + 1)."""
    metadata = assemble(query_start_loc_p_cpu, device)
    query_start_loc_p_cpu.unsqueeze_(0)
    return metadata


def input_shrinks(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves the caller's tensor without its last element when the first row is empty."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if len(query_start_loc_p_cpu) > 1 and query_start_loc_p_cpu[0] == query_start_loc_p_cpu[1]:
        query_start_loc_p_cpu.resize_(len(query_start_loc_p_cpu) - 1)
    return metadata
