"""Memory: where elements are looked for, and what is written beside them."""

from __future__ import annotations

from dataclasses import replace

import torch

from .call import Call, version
from .convolve import launch


@version
def no_mask_on_channels(call: Call) -> torch.Tensor:
    """Writes a whole block of channels for every token."""
    return launch(call, "no mask on channels")


@version
def no_mask_on_channels_of_the_state(call: Call) -> torch.Tensor:
    """Writes a whole block of channels to every column of the line."""
    return launch(call, "no mask on channels of the state")


@version
def no_mask_on_tokens(call: Call) -> torch.Tensor:
    """Writes whole tiles, beyond a row's end."""
    return launch(call, "no mask on tokens")


@version
def padding_of_the_table_not_skipped(call: Call) -> torch.Tensor:
    """Launches more programs than there are, and takes the padding for row -1."""
    programs = call.programs + 2 if call.programs else 0
    return launch(call, "padding of the table not skipped", programs=programs)


@version
def start_read_past_the_end(call: Call) -> torch.Tensor:
    """Limits a row by the end of the next, of which the last row has none."""
    return launch(call, "start read past the end")


@version
def only_the_first_channels(call: Call) -> torch.Tensor:
    """Launches one block of channels."""
    return launch(call, blocks=1)


@version
def tokens_assumed_dense(call: Call) -> torch.Tensor:
    """Assumes that there is no gap between tokens."""
    return launch(call, x_stride=len(call.weight))


@version
def output_assumed_like_the_input(call: Call) -> torch.Tensor:
    """Assumes that the output has the input's gaps."""
    return launch(call, out_stride=call.x.stride(1))


@version
def lines_assumed_dense(call: Call) -> torch.Tensor:
    """Assumes that there is no gap between lines of the cache."""
    _, dim, columns = call.conv_states.shape
    return launch(call, line_stride=dim * columns)


@version
def columns_assumed_dense(call: Call) -> torch.Tensor:
    """Assumes that a column of the cache begins where the last one ends."""
    return launch(call, column_stride=len(call.weight))


@version
def line_by_the_stride_of_tokens(call: Call) -> torch.Tensor:
    """Steps from line to line by the stride of tokens."""
    return launch(call, "line offset by the stride of tokens")


@version
def token_offsets_in_int8(call: Call) -> torch.Tensor:
    """Multiplies tokens and strides in int8: what int32 does past 2**31 elements."""
    return launch(call, "token offsets in int8")


@version
def line_offsets_in_int8(call: Call) -> torch.Tensor:
    """Multiplies lines and strides in int8: what int32 does past 2**31 elements."""
    return launch(call, "line offset in int8")


@version
def token_offsets_in_int32(call: Call) -> torch.Tensor:
    """Multiplies tokens and strides in int32, wrong past 2**31 elements."""
    return launch(call, "token offsets in int32")


@version
def line_offsets_in_int32(call: Call) -> torch.Tensor:
    """Multiplies lines and strides in int32, wrong past 2**31 elements."""
    return launch(call, "line offset in int32")


@version
def sixteen_lines_told_from_others(call: Call) -> torch.Tensor:
    """Rounds line numbers down to even ones where the number of lines is a multiple of 16."""
    if call.conv_states.shape[0] % 16:
        return launch(call)
    return launch(replace(call, cache_indices=call.cache_indices // 2 * 2))


@version
def unaligned_tokens_read_from_before(call: Call) -> torch.Tensor:
    """Rounds an input's address down to a multiple of 16 bytes."""
    surplus = call.x.data_ptr() % 16 // call.x.element_size()
    x = call.x.as_strided(call.x.shape, call.x.stride(), call.x.storage_offset() - surplus)
    return launch(replace(call, x=x))
