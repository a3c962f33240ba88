"""Call: the arguments of one call as one object, so that a fault is the few lines that make it wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

TILE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of the contract's function, by name."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    conv_states: torch.Tensor
    query_start_loc: torch.Tensor
    cache_indices: torch.Tensor
    has_initial_state: torch.Tensor
    activation: str | None
    pad_slot_id: int
    null_block_id: int | None
    metadata: Any

    @property
    def rows_table(self) -> torch.Tensor:
        """Row of each program."""
        table: torch.Tensor = self.metadata.batch_ptr
        return table

    @property
    def tiles_table(self) -> torch.Tensor:
        """Tile in its row of each program."""
        table: torch.Tensor = self.metadata.token_chunk_offset_ptr
        return table

    @property
    def programs(self) -> int:
        """Entries of the tables that are programs."""
        return int(self.metadata.nums_dict[TILE]["tot"])


def version(wrong: Callable[[Call], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of a call as one with the contract's signature."""

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
        return wrong(
            Call(
                x=x,
                weight=weight,
                bias=bias,
                conv_states=conv_states,
                query_start_loc=query_start_loc,
                cache_indices=cache_indices,
                has_initial_state=has_initial_state,
                activation=activation,
                pad_slot_id=pad_slot_id,
                null_block_id=null_block_id,
                metadata=metadata,
            )
        )

    return causal_conv1d_fn
