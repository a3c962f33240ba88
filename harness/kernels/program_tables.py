"""Program tables: what a causal convolution is launched with, as callers hand it over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch


class ProgramTables(NamedTuple):
    """The three values that ``compute_causal_conv1d_metadata`` returns, under the names that kernels read them by."""

    nums_dict: dict[int, dict[str, Any]]
    batch_ptr: torch.Tensor
    token_chunk_offset_ptr: torch.Tensor


def program_tables(query_start_loc: torch.Tensor) -> ProgramTables:
    """The frozen reference's tables for cumulative lengths on any device, with tables on that device."""
    # On first use: contracts are listed in a process that has not imported torch.
    from references.causal_conv1d_metadata import compute_causal_conv1d_metadata

    return ProgramTables(*compute_causal_conv1d_metadata(query_start_loc.cpu(), device=query_start_loc.device))


def tables_of_case(arguments: Mapping[str, Any]) -> ProgramTables:
    """The tables for the live arguments of one call of ``causal_conv1d_prefill``."""
    return program_tables(arguments["query_start_loc"])
