"""Probe of the causal convolution: its kernel, launched with the program tables that are being checked.

Numbers are small integers, so that every sum is exact in every element type. NaN stands wherever the kernel has no
business: in tokens past the last row, and in cache lines that belong to no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.case import Case, TensorValue
from harness.contract import PROFILES

if TYPE_CHECKING:
    import torch

ARGUMENT: Final = "query_start_loc_p_cpu"
TILE: Final = 8
SURPLUS: Final = 8
"""Tokens past the last row; and, in the interpreter, table entries past the last program that the larger grid has."""
SPARE_LINES: Final = 3
"""Cache lines that belong to no row, besides line 0, the null block."""
NULL_BLOCK: Final = 0
PADDING: Final = -1

MOST_INTERPRETED: Final = 8
MOST_COMPILED: Final = 4096
"""Programs of the largest batch that is launched."""

FIRST: Final = (
    (0, 9, 0, 4, 0),
    (8, 16),
    (),
    (17, 0, 0, 8, 5),
    (1, 1, 1, 1, 2, 0),
    (0, 0, 3, 24),
    (0, 0),
)
"""Lengths of the rows of a few batches: zero-length rows everywhere, exact tiles, decodes, rows below a window."""
MORE: Final = (
    *((1,), (2,), (3,), (7,), (8,), (9,), (16,), (48,)),
    *((0, 5), (5, 0), (5, 0, 4), (8, 8, 8), (7, 9, 0, 8), (1, 0, 1, 0, 1), (2, 1, 2, 1, 3), (0, 0, 0, 41)),
)
LARGE: Final = (
    *((64, 0, 65, 63), (256,), (2047, 1), (8184, 8), (8192,), (8193,), (4096, 0, 4104), (16400,)),
    *((0,) * 8 + (100, 0, 300) + (0,) * 21, (1,) * 256, (1,) * 200 + (0,) * 56, (1, 0) * 128, (1,) * 974 + (1024,)),
    *((0, 1, 7, 8, 9, 0, 0, 64, 65, 1, 1, 127) * 40, (2048,) * 4, (1000, 3, 0, 1) * 16, (0, 1, 0, 8, 1) * 250),
)
"""Batches for compiled kernels alone: up to thousands of programs, on both sides of where the tables begin to grow."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a launch differs from others."""

    dtype: str
    width: int
    channels: int


_SHAPES: Final = (_Shape("float32", 4, 20), _Shape("bfloat16", 3, 70), _Shape("float16", 2, 64))


def probe_batches(profile: str, compiled: bool) -> Iterator[tuple[int, ...]]:
    """Cumulative lengths for a profile: rows by hand, and what each caller cuts from whole scheduler batches.

    Interpreted, a batch has at most six programs.
    """
    level = PROFILES.index(profile)
    few = [*_started(FIRST), *_of_callers(few=True)]
    more = [*_started(MORE), *_of_callers(few=False)]
    batches = few[:4] + few[-2:] if level == 0 else few + more
    if compiled:
        batches = [*few, *more, *_started(LARGE), *(_cycled(level) if level else ())]
    yield from dict.fromkeys(batches)


def fits(case: Case, compiled: bool) -> bool:
    """Whether a batch is one that a kernel is launched with, no row of negative length, from 0 on; and small enough."""
    value = case.arguments.get(ARGUMENT)
    if not isinstance(value, TensorValue) or value.shape != (len(value.data),) or value.data[:1] != (0,):
        return False
    lengths = np.diff(value.data)
    most = MOST_COMPILED if compiled else MOST_INTERPRETED
    return bool((lengths >= 0).all()) and int((-(-lengths // TILE)).sum()) <= most


def prepare(case: Case, device: torch.device) -> Callable[[Any], Mapping[str, torch.Tensor]]:
    """Everything that the convolution of one batch needs but the tables; what follows from the case's content.

    The returned function launches the kernel twice: with one program per entry, and with the larger grid of a captured
    graph, whose further programs find -1 in the tables and do nothing. It returns both outputs and both whole caches.
    """
    # On demand: a contract is listed without either.
    import torch

    from candidates.causal_conv1d_prefill.tile_of_tokens import causal_conv1d_fn

    value = case.arguments[ARGUMENT]
    assert isinstance(value, TensorValue)
    starts = [int(number) for number in value.data]
    shape = _SHAPES[int(case.digest, 16) % len(_SHAPES)]
    numbers = np.random.default_rng(int(case.digest, 16))
    lengths, rows = np.diff(starts), len(starts) - 1
    lines = 1 + numbers.permutation(rows + SPARE_LINES)[:rows]
    lines[(lengths == 0) & (numbers.random(rows) < 0.5)] = NULL_BLOCK

    def place(values: NDArray[Any], dtype: str, order: tuple[int, ...]) -> torch.Tensor:
        """A tensor of its own on the device; axes lie in memory in this order, the last one contiguous."""
        source = torch.from_numpy(np.ascontiguousarray(values))
        sizes = [values.shape[axis] for axis in order]
        back = sorted(range(len(order)), key=order.__getitem__)
        return torch.empty(sizes, dtype=getattr(torch, dtype), device=device).permute(back).copy_(source)

    def integers(largest: int, *sizes: int) -> NDArray[np.float64]:
        return numbers.integers(-largest, largest + 1, sizes).astype(np.float64)

    tokens = integers(8, shape.channels, starts[-1] + SURPLUS)
    tokens[:, starts[-1] :] = np.nan
    cache = integers(8, 1 + rows + SPARE_LINES, shape.channels, shape.width - 1)
    cache[np.setdiff1d(np.arange(len(cache)), lines[lengths > 0])] = np.nan
    x = place(tokens, shape.dtype, (1, 0))
    weight = place(integers(4, shape.channels, shape.width), shape.dtype, (0, 1))
    bias = place(integers(8, shape.channels), shape.dtype, (0,))
    caches = [place(cache, shape.dtype, (0, 2, 1)) for _ in range(2)]
    query_start_loc = place(np.array(starts), "int32", (0,))
    cache_indices = place(lines, "int32", (0,))
    has_initial_state = place(numbers.random(rows) < 0.6, "bool", (0,))

    def launch(tables: SimpleNamespace, conv_states: torch.Tensor) -> torch.Tensor:
        return causal_conv1d_fn(
            x,
            weight,
            bias,
            conv_states,
            query_start_loc,
            cache_indices,
            has_initial_state,
            None,
            PADDING,
            NULL_BLOCK,
            metadata=tables,
        )

    def consume(returned: Any) -> Mapping[str, torch.Tensor]:
        batch_ptr, token_chunk_offset_ptr, programs = _launched(returned)
        output = launch(_tables(batch_ptr, token_chunk_offset_ptr, programs), caches[0])
        entries = min(len(batch_ptr), len(token_chunk_offset_ptr))
        grid = entries if batch_ptr.is_cuda else min(entries, programs + SURPLUS)
        padded = launch(_tables(batch_ptr, token_chunk_offset_ptr, grid), caches[1])
        return {
            "output": output,
            "conv_states": caches[0],
            "output of the larger grid": padded,
            "conv_states of the larger grid": caches[1],
        }

    return consume


def _launched(returned: Any) -> tuple[torch.Tensor, torch.Tensor, int]:
    """What the launch reads of a returned value, or of what was picked from it."""
    if isinstance(returned, Mapping):
        return returned["batch_ptr"], returned["token_chunk_offset_ptr"], returned["tot"]
    tables, batch_ptr, token_chunk_offset_ptr = returned
    return batch_ptr, token_chunk_offset_ptr, tables[TILE]["tot"]


def _tables(batch_ptr: torch.Tensor, token_chunk_offset_ptr: torch.Tensor, programs: int) -> SimpleNamespace:
    entry = {"tot": programs, "batch_ptr": batch_ptr, "token_chunk_offset_ptr": token_chunk_offset_ptr}
    return SimpleNamespace(nums_dict={TILE: entry}, batch_ptr=batch_ptr, token_chunk_offset_ptr=token_chunk_offset_ptr)


def _started(batches: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    return (tuple(accumulate(lengths, initial=0)) for lengths in batches)


def _of_callers(*, few: bool) -> Iterator[tuple[int, ...]]:
    # On demand: it imports Hypothesis, which takes longer than everything else here.
    from strategies.scheduler_batches import CALLERS, SchedulerBatch

    one = [SchedulerBatch(decodes=1, speculative=(3,), prefills=(9,), padding=2)]
    others = [
        SchedulerBatch(decodes=0, speculative=(2, 4), prefills=(8, 15), padding=0),
        SchedulerBatch(decodes=3, speculative=(), prefills=(), padding=5),
        SchedulerBatch(decodes=2, speculative=(2,), prefills=(1, 16), padding=1),
    ]
    return (tuple(caller(batch)) for batch in (one if few else others) for caller in CALLERS)


def _cycled(level: int) -> Iterator[tuple[int, ...]]:
    """Batches of many rows whose lengths go through all numbers up to a few tiles, each time with another step."""
    for step in range(1, 50 * level):
        rows = 1 + 7 * step % 60
        yield tuple(accumulate(((index * step + step) % 41 for index in range(rows)), initial=0))
