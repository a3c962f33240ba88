"""vLLM's kernel with the tables of every metadata candidate: outputs and the whole cache, bit for bit.

The batches are those of vLLM's own test of its variable-length kernel: 4 and 10 rows, 8 to 4,096 tokens, 64 and 4,096
channels, width 4, with and without rows of padding.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from harness.guard import PATTERNS, Allocations
from harness.load import load
from harness.load.spec import parse_spec, registered_candidates
from harness.load.stubs import builtin_stubs

KERNEL = "vllm/model_executor/layers/mamba/ops/causal_conv1d.py::causal_conv1d_fn"
METADATA = "causal_conv1d_metadata"
FUNCTION = "compute_causal_conv1d_metadata"
ROWS, TOKENS, CHANNELS, WIDTH = (4, 10), (8, 30, 249, 2049, 4096), (64, 4096), 4
SEEDS = 5
PADDING = 3


class Tables(NamedTuple):
    """What vLLM's kernel takes as ``metadata``."""

    nums_dict: Any
    batch_ptr: torch.Tensor
    token_chunk_offset_ptr: torch.Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Cumulative lengths on the host; everything else follows from them and the seed."""

    query_start_loc: torch.Tensor
    channels: int
    seed: int

    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the kernel on the GPU; lines that no row owns hold NaN."""
        draw = torch.Generator("cuda").manual_seed(self.seed)
        rows, tokens = len(self.query_start_loc) - 1, int(self.query_start_loc[-1])

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=draw, device="cuda").to(torch.bfloat16)

        states = torch.full((rows + 8, WIDTH - 1, self.channels), torch.nan, dtype=torch.bfloat16, device="cuda")
        lines = 1 + torch.randperm(rows + 7, generator=draw, device="cuda")[:rows]
        states[lines] = normal(rows, WIDTH - 1, self.channels)
        lines[self.query_start_loc.diff().cuda() == 0] = 0
        continues = torch.randint(2, (rows,), generator=draw, device="cuda").bool()
        x, weight, bias = normal(tokens, self.channels).T, normal(self.channels, WIDTH), normal(self.channels)
        starts = self.query_start_loc.to("cuda", torch.int32)
        return x, weight, bias, states.transpose(1, 2), starts, lines.int(), continues, "silu"


def batches() -> Iterator[Batch]:
    """Every combination of shapes, with rows of random lengths."""
    for rows, tokens, channels, padding, seed in product(ROWS, TOKENS, CHANNELS, (0, PADDING), range(SEEDS)):
        draw = np.random.default_rng([rows, tokens, channels, padding, seed])
        cuts = np.sort(draw.choice(np.arange(1, tokens), size=min(rows, tokens) - 1, replace=False))
        values = np.concatenate([[0], cuts, [tokens] * (1 + padding)])
        yield Batch(torch.from_numpy(values.astype(np.int32)), channels, seed)


def run(upstream: Path) -> list[dict[str, Any]]:
    """One entry per metadata candidate: how many batches were run, and how many of them differed.

    The last entry is a control, tables that lack the last program: it must differ.
    """
    kernel = load(
        parse_spec(f"{upstream}/{KERNEL}", root=Path()), function="", device="cuda", stubs=builtin_stubs()
    ).function
    reference = getattr(importlib.import_module(f"references.{METADATA}"), FUNCTION)

    def short(query_start_loc: torch.Tensor, *, device: torch.device) -> tuple[Any, ...]:
        nums_dict, batch_ptr, token_chunk_offset_ptr = reference(query_start_loc, device=device)
        batch_ptr[nums_dict[8]["tot"] - 1] = -1
        return nums_dict, batch_ptr, token_chunk_offset_ptr

    candidates = {
        f"{METADATA}/{item.name}": getattr(importlib.import_module(f"candidates.{METADATA}.{item.name}"), FUNCTION)
        for item in registered_candidates()[METADATA]
    }
    entries = []
    for name, candidate in {**candidates, "control: the last program is missing": short}.items():
        outcomes = [same(kernel, reference, candidate, batch) for batch in batches()]
        entries.append({"candidate": name, "batches": len(outcomes), "different": outcomes.count(False)})
    return entries


def same(
    kernel: Callable[..., Any], reference: Callable[..., Any], candidate: Callable[..., Any], batch: Batch
) -> bool:
    """Whether the kernel leaves the same outputs and the same cache with both tables; it is launched at once."""
    left = []
    for tables in (reference, candidate):
        arguments = batch.arguments()
        made = Tables(*tables(batch.query_start_loc, device=torch.device("cuda")))
        # Fresh memory holds NaN: what nobody writes must not be an earlier launch's result.
        with Allocations(PATTERNS[0]):
            out = kernel(*arguments, metadata=made)
        left.append((out, arguments[3]))
    return all(torch.equal(bits(first), bits(second)) for first, second in zip(*left, strict=True))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Raw bits of bfloat16, in which NaN equals itself."""
    return tensor.view(torch.int16)
