"""State read: which tokens are taken for those before a row, or before a tile."""

from __future__ import annotations

from dataclasses import replace

import torch

from .call import Call, version
from .convolve import launch


@version
def state_read_although_there_is_none(call: Call) -> torch.Tensor:
    """Reads the cache line of rows that have no initial state."""
    return launch(call, "state read without has_initial_state")


@version
def state_never_read(call: Call) -> torch.Tensor:
    """Takes zeros for the tokens before every row."""
    return launch(call, "state never read")


@version
def state_of_the_row_number(call: Call) -> torch.Tensor:
    """Reads the line whose number is the row's."""
    return launch(call, "state read from the row number")


@version
def state_column_off_by_one(call: Call) -> torch.Tensor:
    """Reads the column after the one that holds a token."""
    return launch(call, "column of the state off by one")


@version
def state_read_by_every_tile(call: Call) -> torch.Tensor:
    """Takes the tokens before every tile from the cache line."""
    return launch(call, "state read by every tile")


@version
def tile_starts_anew(call: Call) -> torch.Tensor:
    """Takes zeros for the tokens before a tile."""
    return launch(call, "tile starts anew")


@version
def history_from_the_row_before(call: Call) -> torch.Tensor:
    """Takes the tokens before a row from the row before it."""
    return launch(call, "history from the row before")


@version
def initial_state_of_the_first_row(call: Call) -> torch.Tensor:
    """Asks the first row alone whether there is an initial state."""
    return launch(call, "has_initial_state of the first row")


@version
def initial_state_if_any_row_has_one(call: Call) -> torch.Tensor:
    """Gives every row an initial state if one has it."""
    continues = call.has_initial_state.any().expand_as(call.has_initial_state).contiguous()
    return launch(replace(call, has_initial_state=continues))


@version
def line_written_before_it_is_read(call: Call) -> torch.Tensor:
    """Updates the cache line first, and then reads the row's history from it."""
    return launch(call, "line written before it is read")
