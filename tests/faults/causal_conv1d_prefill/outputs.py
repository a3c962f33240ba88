"""Outputs: what is returned, where it lies, and what earlier calls left behind."""

from __future__ import annotations

import weakref
from dataclasses import replace

import torch

from .call import Call, version
from .convolve import launch

_outputs: dict[object, torch.Tensor] = {}
_tables: list[tuple[int, torch.Tensor, torch.Tensor]] = []
_programs: dict[tuple[int, int], int] = {}
_last: list[tuple[weakref.ref[torch.Tensor], torch.Tensor, torch.Tensor]] = []
_weights: dict[object, torch.Tensor] = {}


@version
def output_zeroed(call: Call) -> torch.Tensor:
    """Returns zeros for tokens of no row, which nobody asked to write."""
    return launch(call, out=torch.zeros_like(call.x))


@version
def output_written_to_the_input(call: Call) -> torch.Tensor:
    """Convolves in place."""
    return launch(call, out=call.x)


@version
def output_with_tokens_contiguous(call: Call) -> torch.Tensor:
    """Returns the right values with the other axis contiguous."""
    return launch(call).contiguous()


@version
def history_not_zeroed(call: Call) -> torch.Tensor:
    """Lays history and row into a fresh buffer, and fills in the history only where there is one."""
    lines = call.cache_indices.long()
    history = torch.empty_like(call.conv_states)
    history[lines[call.has_initial_state]] = call.conv_states[lines[call.has_initial_state]]
    out = launch(replace(call, conv_states=history), "state read without has_initial_state")
    written = lines[(call.query_start_loc.diff() > 0) & (lines != call.null_block_id)]
    call.conv_states[written] = history[written]
    return out


@version
def output_buffer_kept(call: Call) -> torch.Tensor:
    """Returns the same buffer for every call of one shape."""
    key = (call.x.shape, call.x.dtype, call.x.device)
    out = _outputs.setdefault(key, torch.empty_like(call.x))
    return launch(call, out=out)


@version
def tables_of_the_first_call(call: Call) -> torch.Tensor:
    """Keeps the first call's tables."""
    _tables.append((call.programs, call.rows_table, call.tiles_table))
    programs, rows, tiles = _tables[0]
    del _tables[1:]
    return launch(call, programs=programs, rows_table=rows, tiles_table=tiles)


@version
def programs_kept_by_shape(call: Call) -> torch.Tensor:
    """Keeps the number of programs of the first batch with as many rows and tokens."""
    key = (len(call.cache_indices), call.x.shape[1])
    return launch(call, programs=_programs.setdefault(key, call.programs))


@version
def tables_kept_by_identity(call: Call) -> torch.Tensor:
    """Keeps the tables of a tensor of cumulative lengths, whatever it holds by now."""
    if not _last or _last[0][0]() is not call.query_start_loc:
        _last[:] = [(weakref.ref(call.query_start_loc), call.rows_table, call.tiles_table)]
    return launch(call, rows_table=_last[0][1], tiles_table=_last[0][2])


@version
def weights_kept_by_shape(call: Call) -> torch.Tensor:
    """Keeps a copy of the first weights of each shape."""
    key = (call.weight.shape, call.weight.dtype)
    return launch(replace(call, weight=_weights.setdefault(key, call.weight.clone())))
