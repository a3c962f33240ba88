"""Tile of tokens: a program loads its eight tokens once per tap, each time shifted by one, and sums in place.

A program is one entry of the tables and one block of channels. For tap j it loads the [8, channels] tile that begins
``width - 1 - j`` tokens before its own; rows of the tile that lie before the row of the batch come from the cache line.
Only the first program of a row can see such tokens, since a tile is longer than any history, and only it updates the
line.
"""

from typing import Any

import torch
import triton
import triton.language as tl

CUDA_GRAPH = True
"""Launches may be captured in a CUDA graph: nothing is read on the host."""

TILE = tl.constexpr(8)
CHANNELS = 64


# Every stride is an ordinary number: nothing is compiled again for a cache with another layout.
@triton.jit(
    do_not_specialize=[
        *("dim", "x_stride", "out_stride", "weight_stride", "tap_stride", "line_stride", "column_stride"),
        *("pad_slot_id", "null_block_id"),
    ]
)
def _convolve(
    x_ptr,
    weight_ptr,
    bias_ptr,
    states_ptr,
    starts_ptr,
    lines_ptr,
    continues_ptr,
    rows_ptr,
    tiles_ptr,
    out_ptr,
    dim,
    x_stride,
    out_stride,
    weight_stride,
    tap_stride,
    line_stride,
    column_stride,
    pad_slot_id,
    null_block_id,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    SILU: tl.constexpr,
    BY_HAND: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    HISTORY: tl.constexpr = WIDTH - 1
    row = tl.load(rows_ptr + tl.program_id(0)).to(tl.int64)
    if row != pad_slot_id:
        line = tl.load(lines_ptr + row).to(tl.int64)
        if line != null_block_id:
            begin = tl.load(starts_ptr + row).to(tl.int64)
            length = tl.load(starts_ptr + row + 1).to(tl.int64) - begin
            first = tl.load(tiles_ptr + tl.program_id(0)).to(tl.int64) * TILE
            # Tokens before the row that are known: all of the line's, or none. A number and not a condition, because
            # the interpreter turns a block of conditions and a scalar one into integers.
            known = tl.load(continues_ptr + row).to(tl.int64) * HISTORY

            channels = tl.program_id(1).to(tl.int64) * CHANNELS + tl.arange(0, CHANNELS)
            here = (channels < dim)[None, :]
            x_row = x_ptr + begin * x_stride + channels[None, :]
            state = states_ptr + line * line_stride + channels[None, :]
            tokens = (first + tl.arange(0, TILE))[:, None]
            inside = (tokens < length) & here

            total = tl.zeros((TILE, CHANNELS), dtype=tl.float32)
            if HAS_BIAS:
                total += tl.load(bias_ptr + channels, mask=channels < dim, other=0.0).to(tl.float32)[None, :]
            for tap in tl.static_range(WIDTH):
                at = tokens - (HISTORY - tap)
                value = tl.load(x_row + at * x_stride, mask=inside & (at >= 0), other=0.0)
                if tap < HISTORY:
                    column = state + (at + HISTORY) * column_stride
                    old = tl.load(column, mask=inside & (at < 0) & (at >= -known), other=0.0)
                    value = tl.where(at < 0, old, value)
                factor = tl.load(
                    weight_ptr + channels * weight_stride + tap * tap_stride, mask=channels < dim, other=0.0
                )
                product = value.to(tl.float32) * factor.to(tl.float32)[None, :]
                total += _rounded(product, x_ptr.dtype.element_ty, BY_HAND).to(tl.float32)

            if SILU:
                total = total / (1 + tl.exp(-total))
            result = _rounded(total, out_ptr.dtype.element_ty, BY_HAND)
            tl.store(out_ptr + (begin + tokens) * out_stride + channels[None, :], result, mask=inside)

            if first == 0:
                columns = tl.arange(0, COLUMNS).to(tl.int64)[:, None]
                origin = length - HISTORY + columns
                kept = (columns < HISTORY) & here
                moved = tl.load(x_row + origin * x_stride, mask=kept & (origin >= 0), other=0.0)
                shifted = tl.load(
                    state + (origin + HISTORY) * column_stride, mask=kept & (origin < 0) & (origin >= -known), other=0.0
                )
                moved = tl.where(origin < 0, shifted, moved)
                # Other threads of this program may still have to read what is overwritten here.
                tl.debug_barrier()
                tl.store(state + columns * column_stride, moved, mask=kept)


@triton.jit
def _rounded(value, element: tl.constexpr, BY_HAND: tl.constexpr):
    """``value``, float32, to the nearest number of an element type, ties to even."""
    if BY_HAND:
        # Half of the last kept bit, or a little less if that bit is even; NaN becomes the one that the hardware makes.
        bits = tl.where(value == value, value.to(tl.int32, bitcast=True), 0x7FFF0000).to(tl.int64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        result = bits.to(tl.int16).to(element, bitcast=True)
    else:
        result = value.to(element)
    return result


def causal_conv1d_fn(
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
    """Convolve a batch of rows; arguments and result are the reference's."""
    out = torch.empty_like(x)
    (dim, width), programs = weight.shape, metadata.nums_dict[8]["tot"]
    if programs == 0:
        return out
    interpreted = not isinstance(_convolve, triton.JITFunction)
    _convolve[programs, triton.cdiv(dim, CHANNELS)](
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        cache_indices,
        has_initial_state,
        metadata.batch_ptr,
        metadata.token_chunk_offset_ptr,
        out,
        dim,
        x.stride(1),
        out.stride(1),
        weight.stride(0),
        weight.stride(1),
        conv_states.stride(0),
        conv_states.stride(2),
        pad_slot_id,
        # No line is negative.
        -1 if null_block_id is None else null_block_id,
        WIDTH=width,
        COLUMNS=triton.next_power_of_2(width - 1),
        HAS_BIAS=bias is not None,
        SILU=activation == "silu",
        # The interpreter would cut bfloat16 off.
        BY_HAND=interpreted and x.dtype is torch.bfloat16,
        CHANNELS=CHANNELS,
    )
    return out
