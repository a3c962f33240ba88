"""SGLang's Triton kernel: launched over rows and tiles with the rows' lengths, without program tables.

It skips rows whose cache line is its padding number, and knows no null block: such rows get that number. Its grid is as
long as the longest row, for every row. It joins blocks of conditions and scalar ones, of which Triton's interpreter
makes masks that it refuses, so that this runs on CUDA alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

UPSTREAM = "sglang.kernels.ops.mamba.causal_conv1d_triton:causal_conv1d_fn"
DEVICES = ("cuda",)


def causal_conv1d_fn(
    upstream: Callable[..., torch.Tensor],
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor,
    activation: str | None,
    pad_slot_id: int,
    null_block_id: int | None,
    *,
    metadata: Any,
) -> torch.Tensor:
    """Convolve a batch of rows; the other arguments and the result are the reference's. ``metadata`` is not read."""
    lengths = query_start_loc.diff().tolist()
    if not any(lengths):
        # The engine launches nothing without tokens; CUDA refuses an empty grid.
        return torch.empty_like(x)
    if null_block_id is not None:
        cache_indices = cache_indices.masked_fill(cache_indices == null_block_id, pad_slot_id)
    return upstream(
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        lengths,
        cache_indices,
        has_initial_state,
        activation,
        pad_slot_id,
    )
