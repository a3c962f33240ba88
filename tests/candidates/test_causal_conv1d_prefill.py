"""The kernels against the frozen loop and each other, in Triton's interpreter unless the machine has a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    # Read when a kernel is defined, so before the candidates are imported.
    os.environ.setdefault("TRITON_INTERPRET", "1")

import candidates.causal_conv1d_prefill as folder
from references.causal_conv1d_metadata import compute_causal_conv1d_metadata
from references.causal_conv1d_prefill import causal_conv1d_fn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNELS = ["tile_of_tokens", "rolling_taps", "programmatic_launch"]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
UNWRITTEN = 99.0
GAP = 3


def kernel(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = import_module(f"{folder.__name__}.{name}").causal_conv1d_fn
    return function


def batch(
    lengths: list[int],
    *,
    dim: int = 5,
    width: int = 4,
    dtype: torch.dtype = torch.float32,
    bias: bool = True,
    integers: bool = True,
    lines: list[int] | None = None,
    continues: list[bool] | None = None,
    starts_dtype: torch.dtype = torch.int32,
    seed: int = 0,
    device: str = DEVICE,
) -> dict[str, Any]:
    """Arguments with gaps everywhere: rows that continue their lines in turn, and two tokens behind the last row."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        whole = torch.randint(-16, 17, shape, generator=generator)
        return (whole if integers else torch.randn(shape, generator=generator)).to(dtype).to(device)

    rows, total = len(lengths), sum(lengths) + 2
    column = dim + GAP
    line = column * (width - 1) + GAP
    starts = [sum(lengths[:row]) for row in range(rows + 1)]
    return {
        "x": drawn(total, dim + GAP)[:, :dim].t(),
        "weight": drawn(dim, width),
        "bias": drawn(dim) if bias else None,
        "conv_states": drawn((rows + 2) * line).as_strided((rows + 2, dim, width - 1), (line, 1, column)),
        "query_start_loc": torch.tensor(starts, dtype=starts_dtype, device=device),
        "cache_indices": torch.tensor(lines or list(range(rows, 0, -1)), dtype=torch.int32, device=device),
        "has_initial_state": torch.tensor(
            [row % 2 == 0 for row in range(rows)] if continues is None else continues, dtype=torch.bool, device=device
        ),
        "activation": None,
        "pad_slot_id": -1,
        "null_block_id": 0,
    }


def run(
    function: Callable[..., torch.Tensor], arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the memory of the whole cache, as bits; the arguments are left as they are."""
    cache = arguments["conv_states"]
    memory = cache._base.clone()
    starts = arguments["query_start_loc"]
    tables, batch_ptr, token_chunk_offset_ptr = compute_causal_conv1d_metadata(starts.cpu(), device=starts.device)
    metadata = SimpleNamespace(nums_dict=tables, batch_ptr=batch_ptr, token_chunk_offset_ptr=token_chunk_offset_ptr)
    live = {**arguments, "conv_states": memory.as_strided(cache.shape, cache.stride())}
    fresh = torch.empty_like
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty_like", lambda tensor: fresh(tensor).fill_(UNWRITTEN))
        out = function(**live, metadata=metadata)
    assert out.stride() == fresh(arguments["x"]).stride()
    return out.contiguous().view(BITS[out.dtype]), memory.view(BITS[out.dtype])


def assert_same_as_the_loop(name: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """Compare a kernel with the loop; returns the kernel's output as numbers."""
    expected = run(causal_conv1d_fn, arguments, monkeypatch)
    out, memory = run(kernel(name), arguments, monkeypatch)
    assert torch.equal(out, expected[0])
    assert torch.equal(memory, expected[1])
    return out.view(arguments["x"].dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_on_small_integers_a_kernel_equals_the_loop(
    name: str, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = batch([9, 0, 1, 2], width=width, dtype=dtype, bias=width != 3, seed=width)
    assert_same_as_the_loop(name, arguments, monkeypatch)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_a_short_row_shifts_its_line_whether_it_continues_it_or_not(
    name: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same_as_the_loop(name, batch([length, length], continues=[True, False]), monkeypatch)


@pytest.mark.parametrize("name", KERNELS)
def test_a_second_block_of_channels_is_convolved_like_the_first(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dim = import_module(f"{folder.__name__}.{name}").CHANNELS + 1
    assert_same_as_the_loop(name, batch([10], dim=dim, width=3), monkeypatch)


@pytest.mark.parametrize("name", KERNELS)
def test_one_channel_is_enough(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same_as_the_loop(name, batch([9, 2], dim=1), monkeypatch)


@pytest.mark.parametrize("starts_dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_only_tokens_of_rows_that_exist_are_written(
    name: str, starts_dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = batch([2, 3, 1], lines=[2, 0, 1], starts_dtype=starts_dtype)
    out = assert_same_as_the_loop(name, arguments, monkeypatch)
    assert [bool((column == UNWRITTEN).all()) for column in out.t()] == [False] * 2 + [True] * 3 + [False] + [True] * 2


@pytest.mark.parametrize("name", KERNELS)
def test_without_a_null_block_line_0_is_a_line_like_any_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {**batch([2, 3], lines=[2, 0], continues=[True, True]), "null_block_id": None}
    assert_same_as_the_loop(name, arguments, monkeypatch)


@pytest.mark.parametrize("name", KERNELS)
def test_unused_lines_and_states_that_are_not_continued_may_hold_nan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = batch([1, 9], lines=[1, 2], continues=[False, True])
    arguments["conv_states"][[0, 1, 3]] = float("nan")
    out = assert_same_as_the_loop(name, arguments, monkeypatch)
    assert not out.isnan().any()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_a_batch_without_tokens_launches_nothing(
    name: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = assert_same_as_the_loop(name, batch(lengths), monkeypatch)
    assert bool((out == UNWRITTEN).all())


@pytest.mark.parametrize("name", KERNELS)
def test_an_entry_that_is_padding_does_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Padding is called 1 here, as row 1 is: what the loop does without row 1.
    expected = run(causal_conv1d_fn, batch([3, 2, 1], lines=[3, 0, 1]), monkeypatch)
    got = run(kernel(name), {**batch([3, 2, 1], lines=[3, 2, 1]), "pad_slot_id": 1}, monkeypatch)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", KERNELS[1:])
def test_on_ordinary_numbers_with_silu_the_kernels_equal_each_other(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {**batch([9, 2, 1], dim=70, dtype=dtype, integers=False), "activation": "silu"}
    expected = run(kernel(KERNELS[0]), arguments, monkeypatch)
    got = run(kernel(name), arguments, monkeypatch)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_products_and_outputs_are_rounded_as_the_loop_rounds_them(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # float32 is left out, because a GPU multiplies and adds with one rounding there.
    assert_same_as_the_loop(name, batch([9], dim=64, dtype=dtype, integers=False), monkeypatch)


@pytest.mark.parametrize("name", KERNELS)
def test_nan_and_infinity_reach_the_output(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = batch([3], dim=4, width=2, dtype=torch.bfloat16, continues=[False])
    arguments["weight"].fill_(1)
    arguments["bias"].zero_()
    arguments["x"][:, 1] = torch.tensor([float("inf"), -float("inf"), float("nan"), 1.0])
    out = run(kernel(name), arguments, monkeypatch)[0].view(torch.bfloat16)
    assert out[:, 1].isinf().tolist() == [True, True, False, False]
    assert out[:, 1].isnan().tolist() == [False, False, True, False]
    assert out[:, 0].isfinite().all()


def sglang_like(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_states: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens_cpu: list[int],
    cache_indices: torch.Tensor,
    has_initial_state: torch.Tensor,
    activation: str | None,
    pad_slot_id: int,
) -> torch.Tensor:
    assert seq_lens_cpu == query_start_loc.diff().tolist()
    assert max(seq_lens_cpu) > 0
    return causal_conv1d_fn(
        x,
        weight,
        bias,
        conv_states,
        query_start_loc,
        cache_indices,
        has_initial_state,
        None,
        pad_slot_id,
        pad_slot_id,
        metadata=None,
    )


def fla_like(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: None,
    *,
    initial_state: torch.Tensor,
    output_final_state: bool,
    activation: str | None,
    cu_seqlens: torch.Tensor,
    chunk_indices: torch.Tensor | None = None,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    assert cu_seqlens.dtype == torch.int64
    starts = cu_seqlens.tolist()
    chunks = [(r, c) for r, (a, b) in enumerate(pairwise(starts)) for c in range(-(-(b - a) // 64))]
    assert chunk_indices is None or (chunk_size == 64 and chunk_indices.tolist() == [list(chunk) for chunk in chunks])
    assert not initial_state[:, :, 0].any()
    states = initial_state[:, :, 1:].clone()
    rows = len(starts) - 1
    every = torch.arange(rows, dtype=torch.int32), torch.ones(rows, dtype=torch.bool)
    out = causal_conv1d_fn(x[0].t(), weight, bias, states, cu_seqlens, *every, None, -1, None, metadata=None)
    return out.t()[None], torch.cat([torch.full_like(initial_state[:, :, :1], 99), states], dim=2)


@pytest.mark.parametrize("null_block_id", [0, None])
@pytest.mark.parametrize("lengths", [[3, 0, 70], [2, 65, 1], [0, 0, 0], []], ids=str)
@pytest.mark.parametrize(
    ("name", "upstream"), [("sglang_triton", sglang_like), ("fla_varlen", fla_like), ("fla_given_indices", fla_like)]
)
def test_an_adapter_translates_the_arguments_and_what_comes_back(
    name: str,
    upstream: Callable[..., Any],
    lengths: list[int],
    null_block_id: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [2, 0, 1][: len(lengths)]
    continues = [True, True, False][: len(lengths)]
    arguments = batch(lengths, lines=lines, continues=continues, device="cpu")
    arguments["null_block_id"] = null_block_id

    def adapted(**everything: Any) -> torch.Tensor:
        out: torch.Tensor = kernel(name)(upstream, **everything)
        return out

    expected = run(causal_conv1d_fn, arguments, monkeypatch)
    got = run(adapted, arguments, monkeypatch)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])
