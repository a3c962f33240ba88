"""Taps: what is added up for one token, in which order, with which roundings, and what becomes of the sum."""

from __future__ import annotations

from dataclasses import replace

import torch

from .call import Call, version
from .convolve import launch


@version
def taps_in_descending_order(call: Call) -> torch.Tensor:
    """Adds the newest token's product first: another sum where sums are rounded, and only there."""
    return launch(call, "taps in descending order")


@version
def bias_added_last(call: Call) -> torch.Tensor:
    """Adds the bias after the taps: another sum where sums are rounded, and only there."""
    return launch(call, "bias after the taps")


@version
def weights_reversed(call: Call) -> torch.Tensor:
    """Multiplies the newest token with the weight of the oldest."""
    return launch(call, "weights reversed")


@version
def middle_weights_swapped(call: Call) -> torch.Tensor:
    """Swaps the two weights in the middle of four."""
    return launch(call, "weights swapped in the middle")


@version
def last_tap_of_four_ignored(call: Call) -> torch.Tensor:
    """Unrolls three taps, whatever the width."""
    return launch(call, "last tap of four ignored")


@version
def bias_ignored(call: Call) -> torch.Tensor:
    """Adds no bias."""
    return launch(call, "bias ignored")


@version
def bias_twice_after_the_first_tile(call: Call) -> torch.Tensor:
    """Adds the bias again in every tile but a row's first."""
    return launch(call, "bias twice after the first tile")


@version
def bias_after_the_activation(call: Call) -> torch.Tensor:
    """Adds the bias to what SiLU returns."""
    return launch(call, "bias after the activation")


@version
def bias_of_the_first_channels(call: Call) -> torch.Tensor:
    """Adds the first block's bias in every block of channels."""
    return launch(call, "bias of the first block of channels")


@version
def products_not_rounded(call: Call) -> torch.Tensor:
    """Keeps products of short element types in float32."""
    return launch(call, "products not rounded")


@version
def sum_in_the_element_type(call: Call) -> torch.Tensor:
    """Accumulates in the element type."""
    return launch(call, "sum in the element type")


@version
def sum_rounded_before_the_activation(call: Call) -> torch.Tensor:
    """Rounds the sum to the element type, and SiLU's result again."""
    return launch(call, "sum rounded before the activation")


@version
def activation_forgotten(call: Call) -> torch.Tensor:
    """Returns the sums."""
    return launch(replace(call, activation=None))


@version
def activation_always(call: Call) -> torch.Tensor:
    """Applies SiLU although none is asked for."""
    return launch(replace(call, activation="silu"))


@version
def silu_by_a_product(call: Call) -> torch.Tensor:
    """Multiplies with a rounded sigmoid where the contract divides."""
    return launch(call, "product with a sigmoid")


@version
def silu_by_exp2(call: Call) -> torch.Tensor:
    """Takes the exponential of base two of a rounded product."""
    return launch(call, "exponential of base two")


@version
def silu_overflows(call: Call) -> torch.Tensor:
    """Divides infinity by infinity where the sum is large."""
    return launch(call, "activation of large sums overflows")


@version
def sums_in_float32(call: Call) -> torch.Tensor:
    """Returns the output in float32."""
    return launch(call, out=torch.empty_like(call.x, dtype=torch.float32))
