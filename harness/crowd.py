"""Crowd: keeps a GPU's streams and copy engines busy for a while, so that what is not waited for comes late."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

STALL: Final = 80_000_000
"""Clock cycles that a stalled stream stands still: about 40 ms on a GPU of 2 GHz."""
POOLED: Final = 32
"""Streams of one priority that PyTorch hands out in turn: whoever asks for one more gets the first one again.

Source: PyTorch's ``c10/cuda/CUDAStream.cpp`` (kStreamsPerPoolBits).
"""
CARGO: Final = 64 << 20
"""Bytes of one copy that keeps the copy engines busy."""
COPIES: Final = 12
BLOCKS: Final = 8
"""Blocks of each size that :func:`churn` fills."""
CHURNED: Final = 1 << 18
"""Bytes of the largest of them: it must be done long before a stalled stream goes on."""


def can_stall() -> bool:
    """Whether this version of PyTorch can let a stream stand still."""
    return hasattr(torch.cuda, "_sleep")


@dataclass(frozen=True, slots=True)
class Crowd:
    """Streams to be stalled, and memory to be copied meanwhile."""

    streams: tuple[torch.cuda.Stream, ...]
    """The default stream first, then every stream that PyTorch hands out."""
    cargo: torch.Tensor
    hold: torch.Tensor


def crowd(device: torch.device) -> Crowd:
    """All streams of a device that a function can get from PyTorch, and memory for copies."""
    streams = {stream.cuda_stream: stream for stream in (torch.cuda.default_stream(device), *_pooled(device))}
    cargo = torch.empty(CARGO, dtype=torch.uint8, pin_memory=True)
    return Crowd(tuple(streams.values()), cargo, torch.empty(CARGO, dtype=torch.uint8, device=device))


def stall(streams: Iterable[torch.cuda.Stream]) -> None:
    """Let streams stand still; work that is given to them now begins some milliseconds later."""
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(STALL)  # type: ignore[no-untyped-call]


def stall_others(crowd: Crowd, current: torch.cuda.Stream) -> None:
    """Let every stream but one stand still, and keep the copy engines busy."""
    others = [stream for stream in crowd.streams if stream.cuda_stream != current.cuda_stream]
    with torch.cuda.stream(others[-1]):
        for _ in range(COPIES):
            crowd.hold.copy_(crowd.cargo, non_blocking=True)
    # Not that last one: a kernel behind copies could hold up others that share a hardware queue with it.
    stall(others[:-1])


def churn(sizes: Sequence[int]) -> None:
    """Free what can be freed of host memory; then take, fill and free several blocks of each size in bytes.

    Pinned blocks are kept by PyTorch for the next one who asks, as are those that a function has freed too early.
    """
    # Not the oldest generation, which takes longer than a stream stands still.
    gc.collect(1)
    for size in (size for size in sizes if size <= CHURNED):
        pinned = [torch.empty(size, dtype=torch.uint8, pin_memory=True).fill_(0xFF) for _ in range(BLOCKS)]
        pageable = [torch.empty(size, dtype=torch.uint8).fill_(0xFF) for _ in range(BLOCKS)]
        arrays = [np.full(size, 0xFF, dtype=np.uint8) for _ in range(BLOCKS)]
        del pinned, pageable, arrays


def _pooled(device: torch.device) -> list[torch.cuda.Stream]:
    make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream
    return [make(device, priority=priority) for priority in (0, -1) for _ in range(POOLED)]
