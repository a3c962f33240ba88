"""Structure: right parts in another container, under another key, or in another order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import torch

from .assemble import Metadata, assemble, has_empty_row, parts


def list_instead_of_tuple(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Returns the three parts in a list."""
    return list(assemble(query_start_loc_p_cpu, device))


def named_tuple(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Returns the three parts in a named tuple, which compares equal to a tuple."""
    return _Named(*assemble(query_start_loc_p_cpu, device))


def tables_returned_in_swapped_order(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the offsets table before the row table."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    return nums_dict, offset_ptr, batch_ptr


def returns_only_the_dictionary(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Returns the dictionary without the tables."""
    return assemble(query_start_loc_p_cpu, device)[0]


def nothing_for_an_empty_batch(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Returns None when the batch has no rows."""
    return assemble(query_start_loc_p_cpu, device) if len(query_start_loc_p_cpu) > 1 else None


def key_float(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Files the entry under 8.0, which finds it under 8 too."""
    nums_dict, *tables = assemble(query_start_loc_p_cpu, device)
    return ({8.0: nums_dict[8]}, *tables)


def key_numpy_integer(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Files the entry under numpy's 8, which finds it under 8 too."""
    nums_dict, *tables = assemble(query_start_loc_p_cpu, device)
    return ({np.int64(8): nums_dict[8]}, *tables)


def key_of_another_tile(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Adds the same entry for tiles of 16 tokens."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    return {**nums_dict, 16: nums_dict[8]}, batch_ptr, offset_ptr


def mlist_len_missing(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves out the length of the row list."""
    metadata = assemble(query_start_loc_p_cpu, device)
    del parts(metadata)["mlist_len"]
    return metadata


def offsetlist_missing_without_programs(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves out the offsets when there are none."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if parts(metadata)["tot"] == 0:
        del parts(metadata)["offsetlist"]
    return metadata


def key_more(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Adds the size of the tables to the entry."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["size"] = len(metadata[1])
    return metadata


def default_dictionary(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a defaultdict, which answers for tiles that were never computed."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    return defaultdict(dict, nums_dict), batch_ptr, offset_ptr


def generator_of_parts(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Returns a generator of the three parts when some row is empty."""
    metadata = assemble(query_start_loc_p_cpu, device)
    return (part for part in metadata) if has_empty_row(query_start_loc_p_cpu) else metadata


def tot_nested_beyond_recursion(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a list nested 100,000 deep as the number of programs when some row is empty."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if has_empty_row(query_start_loc_p_cpu):
        for _ in range(100_000):
            parts(metadata)["tot"] = [parts(metadata)["tot"]]
    return metadata


def dictionary_holds_itself(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a dictionary that is its own entry when some row is empty."""
    metadata = assemble(query_start_loc_p_cpu, device)
    nums_dict: dict[int, Any] = metadata[0]
    if has_empty_row(query_start_loc_p_cpu):
        nums_dict[8] = nums_dict
    return metadata


class _Named(NamedTuple):
    nums_dict: dict[int, dict[str, Any]]
    batch_ptr: torch.Tensor
    token_chunk_offset_ptr: torch.Tensor
