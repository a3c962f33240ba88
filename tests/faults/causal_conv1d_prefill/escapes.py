"""Escapes: mistakes that an earlier search had not seen: in rare sizes, rare numbers, and in another order."""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl

from .call import TILE, Call, version
from .convolve import launch


@version
def null_block_taken_for_0(call: Call) -> torch.Tensor:
    """Takes line 0 for the null block, whatever the call says."""
    return launch(replace(call, null_block_id=0))


@version
def negative_zeros_lost_in_the_state(call: Call) -> torch.Tensor:
    """Adds the masked half of a state to the other one: -0.0 becomes 0.0."""
    out = launch(call)
    call.conv_states.add_(0.0)
    return out


@version
def infinite_tokens_made_finite(call: Call) -> torch.Tensor:
    """Clamps tokens, as against overflow."""
    tokens = torch.empty_strided(call.x.shape, call.x.stride(), dtype=call.x.dtype, device=call.x.device)
    return launch(replace(call, x=tokens.copy_(call.x.clamp(-3e4, 3e4))))


@version
def rows_past_the_seventeenth_left_out(call: Call) -> torch.Tensor:
    """Has room for seventeen rows."""
    return launch(call, rows_table=torch.where(call.rows_table < 17, call.rows_table, -1))


@version
def tokens_past_the_hundredth_left_out(call: Call) -> torch.Tensor:
    """Has room for thirteen tiles of a row."""
    rows = torch.where(call.tiles_table < 13, call.rows_table, -1)
    return launch(call, rows_table=rows)


@version
def lines_in_seven_bits(call: Call) -> torch.Tensor:
    """Keeps line numbers in a byte with a sign."""
    return launch(replace(call, cache_indices=call.cache_indices & 127))


@version
def last_channel_of_full_blocks_lost(call: Call) -> torch.Tensor:
    """Leaves out the last channel where blocks of channels are full, as a mask with the wrong comparison does."""
    out = launch(call)
    if call.x.shape[0] % 64 == 0:
        out[-1] = 0
    return out


@version
def far_padding_written(call: Call) -> torch.Tensor:
    """Clears tokens behind the batch from the 65th on."""
    out = launch(call)
    out[:, int(call.query_start_loc[-1]) + 64 :] = 0
    return out


@version
def bias_added_last_without_activation(call: Call) -> torch.Tensor:
    """Adds the bias to the finished sum, where there is no activation and numbers are float32."""
    if call.activation is not None or call.bias is None or call.x.dtype is not torch.float32:
        return launch(call)
    out = launch(replace(call, bias=None))
    known = torch.zeros(call.x.shape[1], dtype=torch.bool, device=call.x.device)
    starts, lines = call.query_start_loc.tolist(), call.cache_indices.tolist()
    for row, line in enumerate(lines):
        if line != call.null_block_id:
            known[starts[row] : starts[row + 1]] = True
    out[:, known] += call.bias[:, None]
    return out


@version
def last_tile_to_write_the_state_wins(call: Call) -> torch.Tensor:
    """Every program leaves the row's state as it is after its own tile: right if the last tile's comes last."""
    out = launch(call)
    if call.programs:
        (dim, width), states = call.weight.shape, call.conv_states
        _leave_state[(call.programs,)](
            call.x,
            states,
            call.query_start_loc,
            call.cache_indices,
            call.rows_table,
            call.tiles_table,
            dim,
            call.x.stride(1),
            states.stride(0),
            states.stride(2),
            -1 if call.null_block_id is None else call.null_block_id,
            HISTORY=width - 1,
            CHANNELS=triton.next_power_of_2(dim),
            TILE=TILE,
        )
    return out


@triton.jit
def _leave_state(
    x_ptr,
    states_ptr,
    starts_ptr,
    lines_ptr,
    rows_ptr,
    tiles_ptr,
    dim,
    x_stride,
    line_stride,
    column_stride,
    null_block,
    HISTORY: tl.constexpr,
    CHANNELS: tl.constexpr,
    TILE: tl.constexpr,
):
    row = tl.load(rows_ptr + tl.program_id(0)).to(tl.int64)
    line = tl.load(lines_ptr + row).to(tl.int64)
    if line != null_block:
        begin = tl.load(starts_ptr + row).to(tl.int64)
        length = tl.load(starts_ptr + row + 1).to(tl.int64) - begin
        stop = tl.minimum(length, (tl.load(tiles_ptr + tl.program_id(0)).to(tl.int64) + 1) * TILE)
        channels = tl.arange(0, CHANNELS)[None, :]
        columns = tl.arange(0, 4).to(tl.int64)[:, None]
        tokens = stop - HISTORY + columns
        kept = (columns < HISTORY) & (tokens >= 0) & (channels < dim)
        values = tl.load(x_ptr + (begin + tokens) * x_stride + channels, mask=kept, other=0.0)
        tl.store(states_ptr + line * line_stride + columns * column_stride + channels, values, mask=kept)
