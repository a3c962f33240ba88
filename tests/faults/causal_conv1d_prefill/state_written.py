"""State written: what a row leaves behind in the cache, and in which line."""

from __future__ import annotations

from dataclasses import replace

import torch

from .call import TILE, Call, version
from .convolve import launch
from .tables import tables_of


@version
def short_row_off_by_one(call: Call) -> torch.Tensor:
    """Shifts the state of a row of fewer tokens than a line by one too many."""
    return launch(call, "state off by one in short rows")


@version
def short_row_keeps_old_columns(call: Call) -> torch.Tensor:
    """Shifts old columns along in a short row without an initial state."""
    return launch(call, "short row keeps old columns")


@version
def short_row_loses_old_columns(call: Call) -> torch.Tensor:
    """Takes zeros for the old columns that a short row keeps."""
    return launch(call, "old columns are lost in short rows")


@version
def short_row_leaves_its_state(call: Call) -> torch.Tensor:
    """Updates the line only of rows that fill it."""
    return launch(call, "short row leaves its state")


@version
def first_tokens_kept(call: Call) -> torch.Tensor:
    """Keeps the first tokens of a row."""
    return launch(call, "state from the start of the row")


@version
def first_tile_kept(call: Call) -> torch.Tensor:
    """Keeps the last tokens of a row's first tile."""
    return launch(call, "state ends with the first tile")


@version
def last_tile_kept_alone(call: Call) -> torch.Tensor:
    """Keeps those of the last tokens that lie in the last tile, and zeros."""
    return launch(call, "state from the last tile alone")


@version
def newest_token_first(call: Call) -> torch.Tensor:
    """Writes the columns of the line in reverse."""
    return launch(call, "state in the order of time reversed")


@version
def neighbours_line_written(call: Call) -> torch.Tensor:
    """Writes the state to the next line."""
    return launch(call, "neighbour's line written")


@version
def next_line_used(call: Call) -> torch.Tensor:
    """Counts lines from 1."""
    return launch(call, "line plus one")


@version
def line_of_an_empty_row_cleared(call: Call) -> torch.Tensor:
    """Launches a program for a row without tokens as well, which shifts zeros into its line."""
    lengths = call.query_start_loc.diff()
    rows, tiles = tables_of(torch.where(lengths == 0, 1, -(-lengths // TILE)))
    return launch(call, programs=len(rows), rows_table=rows, tiles_table=tiles)


@version
def cache_replaced(call: Call) -> torch.Tensor:
    """Updates a copy of the cache."""
    return launch(replace(call, conv_states=call.conv_states.clone()))


@version
def unaligned_cache_copied(call: Call) -> torch.Tensor:
    """Works on an aligned copy of a cache that is not aligned, and does not copy it back."""
    if call.conv_states.data_ptr() % 16:
        return launch(replace(call, conv_states=call.conv_states.clone()))
    return launch(call)
