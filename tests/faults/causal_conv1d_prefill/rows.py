"""Rows: which rows, and which parts of them, are worked on."""

from __future__ import annotations

import torch

from .call import TILE, Call, version
from .convolve import launch
from .tables import tables_of


@version
def null_row_has_an_output(call: Call) -> torch.Tensor:
    """Writes the output of a row whose line is the null block."""
    return launch(call, "null row has an output")


@version
def null_row_has_a_state(call: Call) -> torch.Tensor:
    """Writes the null block."""
    return launch(call, "null row has a state")


@version
def null_line_compared_with_the_padding(call: Call) -> torch.Tensor:
    """Skips the rows whose line is the padding's number, not the null block's."""
    return launch(call, "null line compared with the padding")


@version
def start_of_the_row_before(call: Call) -> torch.Tensor:
    """Reads a row's start from the row before it."""
    return launch(call, "start of the row before")


@version
def tiles_of_sixteen(call: Call) -> torch.Tensor:
    """Steps through a row in tiles of sixteen tokens, and computes eight of them."""
    return launch(call, "tiles of sixteen")


@version
def tables_with_floor_division(call: Call) -> torch.Tensor:
    """Recomputes the tables without a row's last, partial tile."""
    rows, tiles = tables_of(call.query_start_loc.diff() // TILE)
    return launch(call, programs=len(rows), rows_table=rows, tiles_table=tiles)


@version
def tables_swapped(call: Call) -> torch.Tensor:
    """Takes the table of rows for that of tiles."""
    return launch(call, rows_table=call.tiles_table, tiles_table=call.rows_table)


@version
def grid_from_the_tokens(call: Call) -> torch.Tensor:
    """Launches as many programs as if the batch were one row."""
    tokens = int(call.query_start_loc[-1])
    return launch(call, programs=-(-tokens // TILE))


@version
def one_program_a_row(call: Call) -> torch.Tensor:
    """Launches the programs of each row's first tile only."""
    return launch(call, programs=min(call.programs, len(call.cache_indices)))


@version
def padding_rows_dropped(call: Call) -> torch.Tensor:
    """Ignores every row after the first one without tokens."""
    empty = (call.query_start_loc.diff() == 0).nonzero()
    rows = int(empty[0]) if len(empty) else len(call.cache_indices)
    return launch(call, programs=int((call.rows_table[: call.programs] < rows).sum()))


@version
def empty_batch_refused(call: Call) -> torch.Tensor:
    """Refuses a batch without programs, as a launch of an empty grid would."""
    if call.programs == 0:
        raise ValueError("an empty grid")
    return launch(call)
