"""vLLM's Triton kernel: launched with the program tables that it is given, as its engine does.

Its launcher puts the tables into the kernel's arguments while Triton asks it for the grid. The interpreter has made its
own copies of the arguments by then, so that this runs on CUDA alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

UPSTREAM = "vllm.model_executor.layers.mamba.ops.causal_conv1d:causal_conv1d_fn"
DEVICES = ("cuda",)
CUDA_GRAPH = True


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
    """Convolve a batch of rows; the other arguments and the result are the reference's."""
    if metadata.nums_dict[8]["tot"] == 0:
        # The engine launches nothing without tokens; CUDA refuses an empty grid.
        return torch.empty_like(x)
    return upstream(
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        cache_indices,
        has_initial_state,
        activation,
        pad_slot_id,
        null_block_id,
        metadata=metadata,
    )
