"""Causal convolution of a batch of rows: every output token, and the state that each row leaves behind."""

from __future__ import annotations

from typing import Any, Literal

import torch


def causal_conv1d_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor,
    activation: Literal["silu"] | None,
    pad_slot_id: int,
    null_block_id: int | None,
    *,
    metadata: Any,
) -> torch.Tensor:
    """Convolve every row of a batch with its channels' weights, and keep the last tokens of each row in the cache.

    A token's output is the bias plus, tap by tap, the weight times one of the ``width`` tokens that end with it; the
    tokens before a row come from the row's cache line if it has an initial state, and are 0 otherwise. Each product is
    rounded to the element type; the sum is float32, taps in ascending order; so is SiLU, ``y / (1 + exp(-y))``. The
    line then receives the last ``width - 1`` tokens of what was there (or zeros) followed by the row.

    Args:
        x: tokens of all rows, one after the other, shape (dim, tokens), channels contiguous; float32, bfloat16 or
            float16. May be longer than the rows.
        weight: shape (dim, width), width 2 to 4; element type of ``x``, as are ``bias`` and ``conv_states``.
        bias: shape (dim,), or None.
        conv_states: the cache, shape (lines, dim, width - 1); changed in place.
        query_start_loc: cumulative lengths in tokens, shape (B + 1,), int32 or int64, starting at 0.
        cache_indices: line of each row, shape (B,), int32. No two rows share a line, except the null block.
        has_initial_state: whether a row continues what its line holds, shape (B,), bool.
        activation: ``"silu"`` or None.
        pad_slot_id: what a program table holds where there is no program; without meaning here.
        null_block_id: a row whose line this is does not exist: it has no output and leaves the cache alone. Or None.
        metadata: the program tables that a kernel is launched with. Not read: they say how the work is divided, and
            what is true of a batch must not depend on that.

    Returns:
        Shape, element type and device of ``x``. Tokens of no row, and those of rows that do not exist, are not written.
        A row without tokens leaves its line as it was. Elements of the cache other than those of the rows' lines are
        neither read nor written.
    """
    assert activation in (None, "silu"), f"activation must be None or 'silu', not {activation!r}"
    width = weight.shape[1]
    taps = weight.cpu().float()
    start = torch.zeros(weight.shape[0]) if bias is None else bias.cpu().float()
    starts, lines, continues = query_start_loc.tolist(), cache_indices.tolist(), has_initial_state.tolist()

    out = torch.empty_like(x)
    for row in range(len(starts) - 1):
        begin, end = starts[row], starts[row + 1]
        if begin == end or lines[row] == null_block_id:
            continue
        line = conv_states[lines[row]]
        before = line.cpu() if continues[row] else torch.zeros_like(line, device="cpu")
        tokens = torch.cat([before, x[:, begin:end].cpu()], dim=1)
        values = tokens.float()

        outputs = []
        for token in range(end - begin):
            total = start
            for tap in range(width):
                product = values[:, token + tap] * taps[:, tap]
                total = total + product.to(x.dtype).float()
            if activation == "silu":
                total = total / (1 + torch.exp(-total))
            outputs.append(total.to(x.dtype))

        out[:, begin:end] = torch.stack(outputs, dim=1).to(out.device)
        line.copy_(tokens[:, end - begin :])
    return out
