"""Correct versions of the causal convolution, each written in another way: none of them may be accused.

On ordinary numbers they must have the bits of a kernel in Triton's interpreter. What decides that is the exponential,
for which the interpreter takes NumPy's.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

DEVICES = ("cpu",)
CHANNELS: Final = 32


def torch_row_by_row(
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
    """Keeps a window of the last tokens, which moves along the row."""
    out = torch.empty_like(x)
    width = weight.shape[1]
    for begin, end, number, continues in _rows(query_start_loc, cache_indices, has_initial_state, null_block_id):
        line = conv_states[number]
        window = [line[:, column].clone() if continues else torch.zeros_like(x[:, 0]) for column in range(width - 1)]
        for token in range(begin, end):
            window.append(x[:, token])
            total = torch.zeros(len(weight)) if bias is None else bias.float()
            for tap, value in enumerate(window):
                total = total + (value * weight[:, tap]).float()
            out[:, token] = _activated(total, activation)
            del window[0]
        for column, value in enumerate(window):
            line[:, column] = value
    return out


def torch_unfold(
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
    """Multiplies all windows of a row with the weights at once."""
    out = torch.empty_like(x)
    width = weight.shape[1]
    for begin, end, number, continues in _rows(query_start_loc, cache_indices, has_initial_state, null_block_id):
        line = conv_states[number]
        row = torch.cat([line if continues else torch.zeros_like(line), x[:, begin:end]], dim=1)
        products = (row.unfold(1, width, 1) * weight[:, None, :]).float()
        total = torch.zeros(len(weight), end - begin) if bias is None else bias.float()[:, None]
        for product in products.unbind(2):
            total = total + product
        out[:, begin:end] = _activated(total, activation)
        line.copy_(row[:, end - begin :])
    return out


def torch_gather_of_the_whole_batch(
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
    """Lays all rows with their history into one long row and gathers each tap for all tokens."""
    out = torch.empty_like(x)
    width = weight.shape[1]
    parts, places, tokens, position = [], [], [], 0
    rows = list(_rows(query_start_loc, cache_indices, has_initial_state, null_block_id))
    for begin, end, number, continues in rows:
        line = conv_states[number]
        parts += [line if continues else torch.zeros_like(line), x[:, begin:end]]
        places.append(torch.arange(position, position + end - begin))
        tokens.append(torch.arange(begin, end))
        position += width - 1 + end - begin
    if not rows:
        return out
    whole, place, token = torch.cat(parts, dim=1), torch.cat(places), torch.cat(tokens)
    total = torch.zeros(len(weight), len(place)) if bias is None else bias.float()[:, None].expand(-1, len(place))
    for tap in range(width):
        total = total + (whole[:, place + tap] * weight[:, tap, None]).float()
    out[:, token] = _activated(total, activation).to(out.dtype)
    for (_, _, number, _), part in zip(rows, places, strict=True):
        ends = int(part[-1]) + 1
        conv_states[number] = whole[:, ends : ends + width - 1]
    return out


def numpy_channel_by_channel(
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
    """Takes the channels one by one, and for each of them the rows from the last to the first."""
    out = torch.empty_like(x)
    rows = list(_rows(query_start_loc, cache_indices, has_initial_state, null_block_id))
    for channel, taps in enumerate(weight.float().numpy()):
        start = np.float32(0) if bias is None else bias[channel].float().numpy()
        for begin, end, number, continues in reversed(rows):
            line = conv_states[number, channel]
            history = line.float().numpy() if continues else np.zeros(len(line), np.float32)
            row = np.concatenate([history, x[channel, begin:end].float().numpy()])
            total = np.full(end - begin, start, np.float32)
            for tap, factor in enumerate(taps):
                total += _short(row[tap : tap + end - begin] * factor, x.dtype)
            out[channel, begin:end] = _activated(torch.from_numpy(total), activation)
            line[:] = torch.from_numpy(row[end - begin :])
    return out


def triton_program_for_each_row(
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
    """Launches one program for a row, the last row first; it needs no tables. It only gathers: the sums are torch's."""
    width = weight.shape[1]
    taps = x.new_zeros(width, x.shape[1], x.shape[0])
    states = conv_states.clone()
    written = torch.zeros(x.shape[1], dtype=torch.bool)
    rows = len(cache_indices)
    if rows:
        _gather_rows[rows, triton.cdiv(len(weight), CHANNELS)](
            *(x, states, conv_states, taps, written, query_start_loc, cache_indices, has_initial_state),
            *(len(weight), x.shape[1], x.stride(1), *states.stride()[::2], *conv_states.stride()[::2]),
            -1 if null_block_id is None else null_block_id,
            HISTORY=width - 1,
            CHANNELS=CHANNELS,
        )
    total = torch.zeros(len(weight), x.shape[1]) if bias is None else bias.float()[:, None]
    for tap in range(width):
        total = total + (taps[tap].T * weight[:, tap, None]).float()
    out = torch.empty_like(x)
    out[:, written] = _activated(total, activation)[:, written].to(out.dtype)
    return out


def triton_tables_backwards(
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
    """Works through the tables from their end, by two programs of four tokens an entry; states are written later."""
    out = torch.empty_like(x)
    width, programs = weight.shape[1], metadata.nums_dict[8]["tot"]
    if programs == 0:
        return out
    sums = torch.zeros(x.shape[1], len(weight))
    _sum_halves[2 * programs, triton.cdiv(len(weight), CHANNELS)](
        *(x.float().contiguous(), weight.float().contiguous(), bias, conv_states, sums),
        *(query_start_loc, cache_indices, has_initial_state, metadata.batch_ptr, metadata.token_chunk_offset_ptr),
        *(len(weight), x.shape[1], *conv_states.stride()[::2], programs),
        -1 if null_block_id is None else null_block_id,
        HISTORY=width - 1,
        HAS_BIAS=bias is not None,
        ELEMENT=str(x.dtype).removeprefix("torch."),
        CHANNELS=CHANNELS,
    )
    for begin, end, number, continues in _rows(query_start_loc, cache_indices, has_initial_state, null_block_id):
        out[:, begin:end] = _activated(sums[begin:end].T, activation)
        line = conv_states[number]
        line.copy_(torch.cat([line if continues else torch.zeros_like(line), x[:, begin:end]], 1)[:, end - begin :])
    return out


def numpy_whole_tiles(
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
    """Follows the tables as a kernel does, in whatever order, and updates the lines from copies made before."""
    out = torch.empty_like(x)
    width, starts = weight.shape[1], query_start_loc.tolist()
    before = conv_states.clone()
    entries = zip(metadata.batch_ptr.tolist(), metadata.token_chunk_offset_ptr.tolist(), strict=True)
    programs = [(row, tile) for row, tile in entries if row != pad_slot_id]
    for row, tile in sorted(programs, key=lambda program: (-program[1], program[0])):
        number = int(cache_indices[row])
        if number == null_block_id:
            continue
        begin, end = starts[row], starts[row + 1]
        line = before[number] if has_initial_state[row] else torch.zeros_like(before[number])
        tokens = torch.cat([line, x[:, begin:end]], dim=1).float().numpy()
        first, last = 8 * tile, min(8 * tile + 8, end - begin)
        total = np.zeros((len(weight), last - first), np.float32)
        total += 0 if bias is None else bias.float().numpy()[:, None]
        for tap in range(width):
            total += _short(tokens[:, first + tap : last + tap] * weight[:, tap, None].float().numpy(), x.dtype)
        out[:, begin + first : begin + last] = _activated(torch.from_numpy(total), activation)
        if tile == 0:
            conv_states[number] = torch.from_numpy(tokens[:, end - begin :]).to(x.dtype)
    return out


@triton.jit
def _gather_rows(
    x, old, new, taps, written, starts, lines, continues,
    dim, tokens, x_stride, old_line, old_column, new_line, new_column, null_block_id,
    HISTORY: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Copy the tokens under each tap of a row, one token after the other, and its last tokens to its line."""
    row = tl.num_programs(0) - 1 - tl.program_id(0)
    number = tl.load(lines + row).to(tl.int64)
    begin, end = tl.load(starts + row).to(tl.int64), tl.load(starts + row + 1).to(tl.int64)
    if (number != null_block_id) & (begin < end):
        channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
        known = tl.load(continues + row).to(tl.int64) * dim
        for step in range(0, end - begin + HISTORY):
            # A token, or a column of the line, which is 0 where the row begins.
            at = begin + step - HISTORY
            if step < HISTORY:
                value = tl.load(
                    old + number * old_line + step * old_column + channels, mask=channels < known, other=0.0
                )
            else:
                value = tl.load(x + at * x_stride + channels, mask=channels < dim, other=0.0)
            for tap in range(0, HISTORY + 1):
                token = at + HISTORY - tap
                if (token >= begin) & (token < end):
                    tl.store(taps + (tap * tokens + token) * dim + channels, value, mask=channels < dim)
            if step >= end - begin:
                column = step - (end - begin)
                tl.store(new + number * new_line + column * new_column + channels, value, mask=channels < dim)
        for token in range(begin, end):
            tl.store(written + token, True)


@triton.jit
def _sum_halves(
    x, weight, bias, states, sums, starts, lines, continues, rows, tiles,
    dim, tokens, line_stride, column_stride, programs, null_block_id,
    HISTORY: tl.constexpr, HAS_BIAS: tl.constexpr, ELEMENT: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Sums of four tokens, [channels, tokens]. ``x`` and ``weight`` are float32 and dense, a channel a row."""
    entry = programs - 1 - tl.program_id(0) // 2
    row = tl.load(rows + entry).to(tl.int64)
    number = tl.load(lines + row).to(tl.int64)
    if number != null_block_id:
        begin = tl.load(starts + row).to(tl.int64)
        length = tl.load(starts + row + 1).to(tl.int64) - begin
        own = tl.load(tiles + entry).to(tl.int64) * 8 + tl.program_id(0) % 2 * 4 + tl.arange(0, 4)[None, :]
        channels = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[:, None]
        inside = (own < length) & (channels < dim)
        known = tl.load(continues + row).to(tl.int64) * HISTORY
        total = tl.zeros((CHANNELS, 4), dtype=tl.float32)
        if HAS_BIAS:
            total += tl.load(bias + channels, mask=channels < dim, other=0.0).to(tl.float32)
        for tap in tl.static_range(HISTORY + 1):
            at = own + tap - HISTORY
            value = tl.load(x + channels * tokens + begin + at, mask=inside & (at >= 0), other=0.0)
            source = states + number * line_stride + (at + HISTORY) * column_stride + channels
            value += tl.load(source, mask=inside & (at < 0) & (at >= -known), other=0.0).to(tl.float32)
            product = value * tl.load(weight + channels * (HISTORY + 1) + tap, mask=channels < dim, other=0.0)
            if ELEMENT == "float16":
                product = product.to(tl.float16).to(tl.float32)
            if ELEMENT == "bfloat16":
                # Half of the last kept bit, or a little less if that bit is even; then the other bits go.
                bits = product.to(tl.uint32, bitcast=True)
                product = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).to(tl.float32, bitcast=True)
            total += product
        tl.store(sums + (begin + own) * dim + channels, total, mask=inside)


def _rows(
    query_start_loc: torch.Tensor,
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor,
    null_block_id: int | None,
) -> Iterator[tuple[int, int, int, bool]]:
    """Begin, end, line and whether it continues, of every row that has tokens and exists."""
    starts = query_start_loc.tolist()
    known = zip(cache_indices.tolist(), has_initial_state.tolist(), strict=True)
    for begin, end, (number, continues) in zip(starts[:-1], starts[1:], known, strict=True):
        if begin < end and number != null_block_id:
            yield begin, end, number, continues


def _short(numbers: NDArray[np.float32], dtype: torch.dtype) -> NDArray[np.float32]:
    """Numbers as they come back from an element type."""
    rounded: NDArray[np.float32] = torch.from_numpy(numbers).to(dtype).float().numpy()
    return rounded


def _activated(total: torch.Tensor, activation: str | None) -> torch.Tensor:
    """Sums, or SiLU of them, in float32."""
    if activation is None:
        return total
    numbers = total.contiguous().numpy()
    with np.errstate(over="ignore"):
        return torch.from_numpy(numbers / (np.float32(1) + np.exp(-numbers)))
