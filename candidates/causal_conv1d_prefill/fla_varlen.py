"""FLA's kernel for rows of different lengths: it cuts them into chunks by itself.

It has no cache lines: states go in as [rows, channels, width], whose first column it never reads, and come out alike.
It adds the bias last and multiplies in float32, so that its roundings are its own. It is autotuned, for which Triton
needs a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

UPSTREAM = "fla.modules.causal_conv1d.ops:causal_conv1d_fwd"
DEVICES = ("cuda",)
PEER = "causal_conv1d_prefill/fla_given_indices"


def causal_conv1d_fn(
    upstream: Callable[..., tuple[torch.Tensor, torch.Tensor]],
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
    out = torch.empty_like(x)
    lengths = query_start_loc.long().diff()
    if not lengths.any():
        return out
    # Rows of the null block are convolved like the others, and what comes of it is dropped.
    written = lengths > 0
    if null_block_id is not None:
        written &= cache_indices != null_block_id
    lines = cache_indices.long()
    continued = written & has_initial_state
    initial = conv_states.new_zeros(len(lines), *weight.shape)
    initial[continued, :, 1:] = conv_states[lines[continued]]

    values, final = upstream(
        x.t()[None],
        weight,
        bias,
        None,
        initial_state=initial,
        output_final_state=True,
        activation=activation,
        # A copy, because FLA remembers the chunks of a tensor and would not see that it has changed.
        cu_seqlens=query_start_loc.to(torch.int64, copy=True),
    )
    owned = torch.repeat_interleave(written, lengths)
    out.t()[: len(owned)][owned] = values[0, : len(owned)][owned]
    conv_states[lines[written]] = final[written, :, 1:]
    return out
