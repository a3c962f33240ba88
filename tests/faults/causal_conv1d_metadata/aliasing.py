"""Aliasing: right values in memory or objects that are shared where they should not be, or not where they should."""

from __future__ import annotations

import torch

from .assemble import Metadata, assemble, counts_of, parts, table_size


def batch_ptr_cloned(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Puts a copy of the row table into the dictionary."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["batch_ptr"] = metadata[1].clone()
    return metadata


def token_chunk_offset_ptr_cloned(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a copy of the offsets table that the dictionary holds."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    return nums_dict, batch_ptr, offset_ptr.clone()


def batch_ptr_another_view(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Puts another tensor object over the same memory into the dictionary."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["batch_ptr"] = metadata[1].view(-1)
    return metadata


def tables_cloned_for_an_empty_batch(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns early when there is nothing to do, with tables of their own."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    if nums_dict[8]["tot"] == 0:
        return nums_dict, batch_ptr.clone(), offset_ptr.clone()
    return nums_dict, batch_ptr, offset_ptr


def one_table_for_both_when_equal(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns one tensor twice when both tables have the same entries."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if not torch.equal(metadata[1], metadata[2]):
        return metadata
    return assemble(query_start_loc_p_cpu, device, batch_ptr=metadata[1], token_chunk_offset_ptr=metadata[1])


def empty_tables_overlap(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Cuts both tables out of one stretch of padding when there are no programs."""
    if bool(counts_of(query_start_loc_p_cpu).any()):
        return assemble(query_start_loc_p_cpu, device)
    size = table_size(0)
    padding = torch.full((size + 1,), -1, dtype=torch.int32, device=device)
    return assemble(query_start_loc_p_cpu, device, batch_ptr=padding[:size], token_chunk_offset_ptr=padding[1:])


def offsetlist_inside_its_table(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the first entries of the table as the list of offsets."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["offsetlist"] = metadata[2][: parts(metadata)["mlist_len"]]
    return metadata


def nums_inside_the_input(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a view of the input as the counts where the numbers happen to agree."""
    nums = counts_of(query_start_loc_p_cpu)
    tail = query_start_loc_p_cpu[1:]
    return assemble(query_start_loc_p_cpu, device, nums=tail if torch.equal(nums, tail) else nums)


def tables_swapped_in_the_dictionary(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Files each table under the other's key."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    nums_dict[8] |= {"batch_ptr": offset_ptr, "token_chunk_offset_ptr": batch_ptr}
    return nums_dict, batch_ptr, offset_ptr
