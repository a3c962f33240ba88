"""Rolling taps: each token is loaded once and stays in registers for as many steps as there are taps.

A program is one entry of the tables and one block of channels. It walks over its tokens in order and carries the three
tokens before the current one along, so that a step costs one load instead of one per tap. Where a program begins, those
three come from the row, or, at the row's begin, from the cache line.
"""

from typing import Any

import torch
import triton
import triton.language as tl

CUDA_GRAPH = True
"""Launches may be captured in a CUDA graph: nothing is read on the host."""

TILE = tl.constexpr(8)
CHANNELS = 128


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
            known = tl.load(continues_ptr + row).to(tl.int64) * HISTORY

            channels = tl.program_id(1).to(tl.int64) * CHANNELS + tl.arange(0, CHANNELS)
            here = channels < dim
            x_row = x_ptr + begin * x_stride + channels
            state = states_ptr + line * line_stride + channels

            weights = weight_ptr + channels * weight_stride
            factor0 = tl.load(weights + HISTORY * tap_stride, mask=here, other=0.0).to(tl.float32)
            factor1 = tl.load(weights + (HISTORY - 1) * tap_stride, mask=here, other=0.0).to(tl.float32)
            before1 = _before(1, x_row, x_stride, state, column_stride, first, known, channels, dim, HISTORY)
            before2 = tl.zeros_like(before1)
            before3 = tl.zeros_like(before1)
            if WIDTH >= 3:
                factor2 = tl.load(weights + (HISTORY - 2) * tap_stride, mask=here, other=0.0).to(tl.float32)
                before2 = _before(2, x_row, x_stride, state, column_stride, first, known, channels, dim, HISTORY)
            if WIDTH >= 4:
                factor3 = tl.load(weights, mask=here, other=0.0).to(tl.float32)
                before3 = _before(3, x_row, x_stride, state, column_stride, first, known, channels, dim, HISTORY)
            start = tl.zeros((CHANNELS,), dtype=tl.float32)
            if HAS_BIAS:
                start += tl.load(bias_ptr + channels, mask=here, other=0.0).to(tl.float32)

            for step in tl.static_range(TILE):
                token = first + step
                if token < length:
                    now = tl.load(x_row + token * x_stride, mask=here, other=0.0).to(tl.float32)
                    total = start
                    if WIDTH >= 4:
                        total += _rounded(before3 * factor3, x_ptr.dtype.element_ty, BY_HAND).to(tl.float32)
                    if WIDTH >= 3:
                        total += _rounded(before2 * factor2, x_ptr.dtype.element_ty, BY_HAND).to(tl.float32)
                    total += _rounded(before1 * factor1, x_ptr.dtype.element_ty, BY_HAND).to(tl.float32)
                    total += _rounded(now * factor0, x_ptr.dtype.element_ty, BY_HAND).to(tl.float32)
                    if SILU:
                        total = total / (1 + tl.exp(-total))
                    result = _rounded(total, out_ptr.dtype.element_ty, BY_HAND)
                    tl.store(out_ptr + (begin + token) * out_stride + channels, result, mask=here)
                    before3 = before2
                    before2 = before1
                    before1 = now

            if first == 0:
                columns = tl.arange(0, COLUMNS).to(tl.int64)[:, None]
                origin = length - HISTORY + columns
                kept = (columns < HISTORY) & here[None, :]
                moved = tl.load(x_row[None, :] + origin * x_stride, mask=kept & (origin >= 0), other=0.0)
                source = state[None, :] + (origin + HISTORY) * column_stride
                shifted = tl.load(source, mask=kept & (origin < 0) & (origin >= -known), other=0.0)
                moved = tl.where(origin < 0, shifted, moved)
                # Other threads of this program may still have to read what is overwritten here.
                tl.debug_barrier()
                tl.store(state[None, :] + columns * column_stride, moved, mask=kept)


@triton.jit
def _before(
    back: tl.constexpr, x_row, x_stride, state, column_stride, first, known, channels, dim, HISTORY: tl.constexpr
):
    """The token ``back`` places before a program's first one, as float32; 0 where there is none."""
    # A load that must not happen gets no channels: the interpreter cannot join a block of conditions and a scalar one.
    from_row = tl.where(first > 0, dim, 0)
    from_line = tl.where((first == 0) & (known > 0), dim, 0)
    value = tl.load(x_row + (first - back) * x_stride, mask=channels < from_row, other=0.0)
    old = tl.load(state + (HISTORY - back) * column_stride, mask=channels < from_line, other=0.0)
    return tl.where(first > 0, value, old).to(tl.float32)


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
