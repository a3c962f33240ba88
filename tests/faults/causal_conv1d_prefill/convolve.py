"""Convolve: a right kernel and its launch, in which any one step may be replaced by a wrong one.

``FAULT`` is a phrase that names the wrong step; without one, everything is right. Most of the wrong steps are one line
beside the right one.
"""

# A condition that the compiler knows stays apart from one that it does not.
# ruff: noqa: SIM102

from typing import Any

import torch
import triton
import triton.language as tl

from .call import TILE, Call

TOKENS = tl.constexpr(TILE)
CHANNELS = 16


@triton.jit
def _tokens_at(
    at, known, begin, length, has, x, x_stride, line, column_stride, HISTORY: tl.constexpr, FAULT: tl.constexpr
):  # fmt: skip
    """Tokens of a row at positions ``at``, [positions, channels]; those before the row come from the cache line."""
    inside = has & (at >= 0) & (at < length)
    if FAULT == "history from the row before":
        inside = has & (at < length)
    place = (begin + at) * x_stride
    if FAULT == "token offsets in int8":
        place = place.to(tl.int8).to(tl.int64)
    if FAULT == "token offsets in int32":
        place = (begin + at).to(tl.int32) * x_stride.to(tl.int32)
    value = tl.load(x + place, mask=inside, other=0.0)
    if FAULT == "history from the row before":
        return value
    column = at + HISTORY
    if FAULT == "column of the state off by one":
        column = tl.minimum(column + 1, HISTORY - 1)
    old = tl.load(line + column * column_stride, mask=has & (at < 0) & (at >= -HISTORY * known), other=0.0)
    return tl.where(at < 0, old, value)


@triton.jit
def _keep_state(
    begin, length, known, has, x, x_stride, line, column_stride, HISTORY: tl.constexpr, FAULT: tl.constexpr
):  # fmt: skip
    """Write the last tokens of a row, and of what its line held if there are too few of them, to its line."""
    columns = tl.arange(0, 4).to(tl.int64)[:, None]
    kept = (columns < HISTORY) & has
    if FAULT == "no mask on channels of the state":
        kept = (columns < HISTORY) & (has | (columns >= 0))
    at = length - HISTORY + columns
    if FAULT == "state off by one in short rows":
        at = tl.where(length < HISTORY, at + 1, at)
    if FAULT == "state from the start of the row":
        at = tl.minimum(length - HISTORY, 0) + columns
    if FAULT == "state ends with the first tile":
        at = tl.minimum(length, TOKENS) - HISTORY + columns
    if FAULT == "state in the order of time reversed":
        at = length - 1 - columns
    reads = has
    if FAULT == "state from the last tile alone":
        reads = has & ((at < 0) | (at >= (length - 1) // TOKENS * TOKENS))
    if FAULT == "short row keeps old columns":
        known = known * 0 + 1
    if FAULT == "old columns are lost in short rows":
        known = known * 0
    value = _tokens_at(at, known, begin, length, reads, x, x_stride, line, column_stride, HISTORY, "")
    if FAULT == "short row leaves its state":
        kept = (columns < tl.where(length < HISTORY, 0, HISTORY)) & has
    # Other threads of this program may still have to read what is overwritten here.
    tl.debug_barrier()
    tl.store(line + columns * column_stride, value, mask=kept)


@triton.jit
def _rounded(value, element: tl.constexpr, BY_HAND: tl.constexpr):
    """``value`` in an element type, to nearest, ties to even; by hand where the interpreter rounds otherwise."""
    if BY_HAND:
        bits = value.to(tl.uint32, bitcast=True)
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        result = (bits >> 16).to(tl.uint16).to(element, bitcast=True)
    else:
        result = value.to(element)
    return result


@triton.jit
def _silu(total, element: tl.constexpr, BY_HAND: tl.constexpr, FAULT: tl.constexpr):
    if FAULT == "sum rounded before the activation":
        total = _rounded(total, element, BY_HAND).to(tl.float32)
    if FAULT == "product with a sigmoid":
        result = total * (1 / (1 + tl.exp(-total)))
    elif FAULT == "exponential of base two":
        result = total / (1 + tl.exp2(-total * 1.4426950408889634))
    elif FAULT == "activation of large sums overflows":
        result = total * tl.exp(total) / (1 + tl.exp(total))
    else:
        result = total / (1 + tl.exp(-total))
    return result


@triton.jit(
    do_not_specialize=[
        *("dim", "x_stride", "out_stride", "weight_stride", "tap_stride", "line_stride", "column_stride"),
        *("pad_slot_id", "null_block_id"),
    ]
)
def _convolve(
    x,
    weight,
    bias,
    states,
    starts,
    lines,
    continues,
    rows,
    tiles,
    out,
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
    HAS_BIAS: tl.constexpr,
    SILU: tl.constexpr,
    BY_HAND: tl.constexpr,
    CHANNELS: tl.constexpr,
    FAULT: tl.constexpr,
):
    HISTORY: tl.constexpr = WIDTH - 1
    element: tl.constexpr = x.dtype.element_ty

    # Which row, and where it lies.
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    if FAULT != "padding of the table not skipped":
        if row == pad_slot_id:
            return
    line_number = tl.load(lines + row).to(tl.int64)
    if FAULT == "line plus one":
        line_number += 1
    if FAULT == "null line compared with the padding":
        null_block_id = pad_slot_id
    exists = (line_number != null_block_id).to(tl.int64)
    if not ((FAULT == "null row has an output") or (FAULT == "null row has a state")):
        if exists == 0:
            return
    begin_of = row
    if FAULT == "start of the row before":
        begin_of = tl.maximum(row - 1, 0)
    begin = tl.load(starts + begin_of).to(tl.int64)
    length = tl.load(starts + row + 1).to(tl.int64) - begin
    if FAULT == "start read past the end":
        length = tl.minimum(length, tl.load(starts + row + 2).to(tl.int64) - begin)
    tile = tl.load(tiles + tl.program_id(0)).to(tl.int64)
    first = tile * TOKENS
    if FAULT == "tiles of sixteen":
        first = tile * 16
    known = tl.load(continues + row).to(tl.int64)
    if FAULT == "state read without has_initial_state":
        known = known * 0 + 1
    if FAULT == "state never read":
        known = known * 0
    if FAULT == "has_initial_state of the first row":
        known = tl.load(continues).to(tl.int64)

    # Which channels.
    channels = tl.program_id(1).to(tl.int64) * CHANNELS + tl.arange(0, CHANNELS)
    present = channels < dim
    has = present[None, :]
    x_block = x + channels[None, :]
    line_offset = line_number * line_stride
    if FAULT == "line offset in int8":
        line_offset = line_offset.to(tl.int8).to(tl.int64)
    if FAULT == "line offset in int32":
        line_offset = line_number.to(tl.int32) * line_stride.to(tl.int32)
    if FAULT == "line offset by the stride of tokens":
        line_offset = line_number * x_stride
    line = states + line_offset + channels[None, :]
    read_from = line
    if FAULT == "state read from the row number":
        read_from = states + row * line_stride + channels[None, :]
    write_to = line
    if FAULT == "neighbour's line written":
        write_to = line + line_stride

    if FAULT == "line written before it is read":
        if first == 0:
            _keep_state(begin, length, known, has, x_block, x_stride, write_to, column_stride, HISTORY, "")

    # The sum, tap by tap.
    tokens = (first + tl.arange(0, TOKENS))[:, None]
    total = tl.zeros((TOKENS, CHANNELS), dtype=tl.float32)
    offset = tl.zeros((CHANNELS,), dtype=tl.float32)
    if HAS_BIAS:
        if FAULT == "bias of the first block of channels":
            offset = tl.load(bias + channels % CHANNELS, mask=present, other=0.0).to(tl.float32)
        else:
            offset = tl.load(bias + channels, mask=present, other=0.0).to(tl.float32)
    if FAULT == "bias ignored":
        offset = offset * 0
    if FAULT == "bias twice after the first tile":
        offset = tl.where(first > 0, offset * 2, offset)
    if not ((FAULT == "bias after the taps") or (FAULT == "bias after the activation")):
        total += offset[None, :]
    for step in tl.static_range(WIDTH):
        tap = step
        if FAULT == "taps in descending order":
            tap = HISTORY - step
        at = tokens - (HISTORY - tap)
        if FAULT == "tile starts anew":
            at = tl.where(at < first, -WIDTH, at)
        if FAULT == "state read by every tile":
            at = tl.where(at < first, at - first, at)
        value = _tokens_at(at, known, begin, length, has, x_block, x_stride, read_from, column_stride, HISTORY, FAULT)
        column = tap
        if FAULT == "weights reversed":
            column = HISTORY - tap
        if FAULT == "weights swapped in the middle":
            column = tap ^ 3 if (WIDTH == 4) & (tap > 0) & (tap < 3) else tap
        factor = tl.load(weight + channels * weight_stride + column * tap_stride, mask=present, other=0.0)
        product = value.to(tl.float32) * factor.to(tl.float32)[None, :]
        if FAULT != "products not rounded":
            product = _rounded(product, element, BY_HAND).to(tl.float32)
        if FAULT == "last tap of four ignored":
            product = product * 0 if tap == 3 else product
        total += product
        if FAULT == "sum in the element type":
            total = _rounded(total, element, BY_HAND).to(tl.float32)
    if FAULT == "bias after the taps":
        total += offset[None, :]
    if SILU:
        total = _silu(total, element, BY_HAND, FAULT)
    if FAULT == "bias after the activation":
        total += offset[None, :]

    # What is written: the tile, and the line, by the first tile's program alone.
    written = has & (tokens < length)
    if FAULT == "no mask on channels":
        written = tokens < length
    if FAULT == "no mask on tokens":
        written = has
    if FAULT == "null row has a state":
        written = has & (tokens < length * exists)
    place = (begin + tokens) * out_stride
    if FAULT == "token offsets in int32":
        place = (begin + tokens).to(tl.int32) * out_stride.to(tl.int32)
    tl.store(out + place + channels[None, :], _rounded(total, element, BY_HAND), mask=written)
    writes = first == 0
    if FAULT == "null row has an output":
        writes = writes & (exists != 0)
    if FAULT != "line written before it is read":
        if writes:
            _keep_state(begin, length, known, has, x_block, x_stride, write_to, column_stride, HISTORY, FAULT)


def launch(
    call: Call,
    fault: str = "",
    *,
    programs: int | None = None,
    blocks: int | None = None,
    rows_table: torch.Tensor | None = None,
    tiles_table: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    **strides: int,
) -> torch.Tensor:
    """Convolve with the wrong step ``fault``, or with something else than the call asks for.

    ``programs`` and ``blocks`` are the grid; ``strides`` may replace ``x_stride``, ``out_stride``, ``weight_stride``,
    ``tap_stride``, ``line_stride`` and ``column_stride``.
    """
    dim, width = call.weight.shape
    if out is None:
        out = torch.empty_like(call.x)
    if programs is None:
        programs = call.programs
    if programs == 0:
        return out
    interpreted = not isinstance(_convolve, triton.JITFunction)
    right: dict[str, Any] = {
        "x_stride": call.x.stride(1),
        "out_stride": out.stride(1),
        "weight_stride": call.weight.stride(0),
        "tap_stride": call.weight.stride(1),
        "line_stride": call.conv_states.stride(0),
        "column_stride": call.conv_states.stride(2),
    }
    _convolve[programs, blocks or triton.cdiv(dim, CHANNELS)](
        call.x,
        call.weight,
        call.bias,
        call.conv_states,
        call.query_start_loc,
        call.cache_indices,
        call.has_initial_state,
        call.rows_table if rows_table is None else rows_table,
        call.tiles_table if tiles_table is None else tiles_table,
        out,
        dim,
        **(right | strides),
        pad_slot_id=call.pad_slot_id,
        # No line is negative.
        null_block_id=-2 if call.null_block_id is None else call.null_block_id,
        WIDTH=width,
        HAS_BIAS=call.bias is not None,
        SILU=call.activation == "silu",
        # The interpreter would cut bfloat16 off.
        BY_HAND=interpreted and call.x.dtype is torch.bfloat16,
        CHANNELS=CHANNELS,
        FAULT=fault,
    )
    return out
