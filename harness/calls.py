"""Calls: a call with poisoned memory, what the device still says of it, and what can be read of it at that moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from harness.guard import Allocations, Guard
from harness.memory import leaves
from harness.observe import Arguments, Function, Raised, call
from harness.tensors import SAME_WIDTH


def poisoned_call(
    function: Function, arguments: Arguments, pattern: int, fresh: list[Guard], *, trusted: bool = False
) -> Any:
    """Call ``function`` while what torch allocates is poisoned; its guards are added to ``fresh``."""
    with Allocations(pattern, trusted=trusted) as allocations:
        outcome = call(function, arguments.positional, arguments.keyword)
    fresh.extend(allocations.guards)
    return outcome


def wait_for(device: torch.device) -> Raised | None:
    """Wait until the device has done everything. What it failed with, if it did: it is of no use any more then."""
    if device.type != "cuda":
        return None
    try:
        torch.cuda.synchronize(device)
    except Exception as error:
        return Raised(error)
    return None


def needs_cuda(device: torch.device) -> str | None:
    """Why a search that only a GPU can carry out cannot run; None if it can."""
    return None if device.type == "cuda" else "it needs a CUDA device"


def on_device(outcome: Any, arguments: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Every CUDA tensor that is visible after a call, each object once, with a name for it in a message."""
    named = [*leaves(outcome)]
    for name, value in arguments.items():
        named += [(f"argument {name}{path}", leaf) for path, leaf in leaves(value)]
    first: dict[int, tuple[str, torch.Tensor]] = {}
    for path, leaf in named:
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda and leaf.layout is torch.strided:
            first.setdefault(id(leaf), (path, leaf))
    return [*first.values()]


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor's bits as integers of the same width."""
    return tensor.detach().view(SAME_WIDTH[tensor.element_size()])
