"""Dtypes: right numbers in another element type, or in another kind of object."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .assemble import Metadata, assemble, counts_of, offsets_of, parts, rows_of


def offsetlist_int64(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Leaves the list of offsets in int64."""
    right = assemble(query_start_loc_p_cpu, device)
    return assemble(query_start_loc_p_cpu, device, offsets=parts(right)["offsetlist"].to(torch.int64))


def offsetlist_float_when_empty(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Builds the offsets from a Python list without a dtype, which is float32 for an empty list."""
    offsets = torch.tensor(parts(assemble(query_start_loc_p_cpu, device))["offsetlist"].tolist())
    return assemble(query_start_loc_p_cpu, device, offsets=offsets.to(torch.int32) if len(offsets) else offsets)


def mlist_int32(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Narrows the list of row numbers to int32."""
    nums = counts_of(query_start_loc_p_cpu)
    rows = rows_of(nums)
    offsets = offsets_of(nums, rows)
    return assemble(query_start_loc_p_cpu, device, nums=nums, rows=rows.to(torch.int32), offsets=offsets)


def nums_always_int32(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the counts in int32 whatever the input's dtype."""
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(query_start_loc_p_cpu).to(torch.int32))


def nums_always_int64(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the counts in int64 whatever the input's dtype."""
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(query_start_loc_p_cpu).to(torch.int64))


def nums_float64(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the counts as floating-point numbers."""
    return assemble(query_start_loc_p_cpu, device, nums=(query_start_loc_p_cpu.diff().to(torch.float64) / 8).ceil())


def nums_list(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the counts as a Python list."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["nums"] = parts(metadata)["nums"].tolist()
    return metadata


def nums_array(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the counts as a numpy array."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["nums"] = parts(metadata)["nums"].numpy()
    return metadata


def mlist_array(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the row numbers as a numpy array."""
    metadata = assemble(query_start_loc_p_cpu, device)
    parts(metadata)["mlist"] = parts(metadata)["mlist"].numpy()
    return metadata


def tables_int64(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns both tables in int64."""
    _, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    wide = {"batch_ptr": batch_ptr.to(torch.int64), "token_chunk_offset_ptr": offset_ptr.to(torch.int64)}
    return assemble(query_start_loc_p_cpu, device, **wide)


def tables_unsigned(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns both tables in uint32, where the padding has the same bits as -1."""
    _, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    same_bits = {"batch_ptr": batch_ptr.view(torch.uint32), "token_chunk_offset_ptr": offset_ptr.view(torch.uint32)}
    return assemble(query_start_loc_p_cpu, device, **same_bits)


def tables_arrays(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
    """Returns both tables as numpy arrays."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    rows, offsets = batch_ptr.cpu().numpy(), offset_ptr.cpu().numpy()
    nums_dict[8] |= {"batch_ptr": rows, "token_chunk_offset_ptr": offsets}
    return nums_dict, rows, offsets


def table_parameter(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a table as a Parameter, a subclass of Tensor."""
    table = assemble(query_start_loc_p_cpu, device)[1]
    return assemble(query_start_loc_p_cpu, device, batch_ptr=torch.nn.Parameter(table, requires_grad=False))


def table_without_memory(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a table on the meta device, which has a shape and no elements."""
    table = assemble(query_start_loc_p_cpu, device)[2]
    return assemble(query_start_loc_p_cpu, device, token_chunk_offset_ptr=table.to("meta"))


def tot_numpy_integer(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the number of programs as numpy's int64."""
    return assemble(query_start_loc_p_cpu, device, tot=np.int64(counts_of(query_start_loc_p_cpu).sum()))


def tot_tensor(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the number of programs as a tensor without dimensions."""
    return assemble(query_start_loc_p_cpu, device, tot=counts_of(query_start_loc_p_cpu).sum())


def tot_float(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the number of programs as a float."""
    return assemble(query_start_loc_p_cpu, device, tot=float(counts_of(query_start_loc_p_cpu).sum()))


def tot_bool(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns False and True for 0 and 1 programs; both compare equal to the number."""
    total = int(counts_of(query_start_loc_p_cpu).sum())
    return assemble(query_start_loc_p_cpu, device, tot=bool(total) if total < 2 else total)


def tot_claims_to_equal_everything(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns an object that says it is an int and compares equal to every number."""
    return assemble(query_start_loc_p_cpu, device, tot=_Impostor())


def mlist_len_tensor(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the length of the row list as a tensor without dimensions."""
    return assemble(query_start_loc_p_cpu, device, mlist_len=counts_of(query_start_loc_p_cpu).sum())


class _Impostor:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0
