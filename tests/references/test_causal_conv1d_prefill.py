"""The frozen loop against values worked out by hand, and what it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from references.causal_conv1d_prefill import causal_conv1d_fn

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    conv_states: torch.Tensor,
    starts: list[int],
    *,
    bias: torch.Tensor | None = None,
    lines: list[int] | None = None,
    continues: list[bool] | None = None,
    activation: Any = None,
    null_block_id: int | None = 0,
    starts_dtype: torch.dtype = torch.int32,
) -> torch.Tensor:
    """Row r uses line r + 1 and continues it, unless told otherwise."""
    rows = len(starts) - 1
    return causal_conv1d_fn(
        x,
        weight,
        bias,
        conv_states,
        torch.tensor(starts, dtype=starts_dtype, device=x.device),
        torch.tensor(lines or list(range(1, rows + 1)), dtype=torch.int32, device=x.device),
        torch.tensor([True] * rows if continues is None else continues, dtype=torch.bool, device=x.device),
        activation,
        -1,
        null_block_id,
        metadata=None,
    )


def tokens(values: list[list[float]], dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    """Tokens as rows of channels, laid out channel-last."""
    return torch.tensor(values, dtype=dtype, device=device).t()


def states(lines: list[list[list[float]]], dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    """The cache from lines of channels of columns, channels contiguous."""
    return torch.tensor(lines, dtype=dtype, device=device).transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_with_an_initial_state_continues_it(dtype: torch.dtype, device: str) -> None:
    weight = torch.tensor([[1, 4, 16], [1, 2, 3]], dtype=dtype, device=device)
    cache = states([[[0, 0], [0, 0]], [[1, 2], [3, 4]]], dtype, device)
    out = convolve(tokens([[3, 5], [4, 6], [5, 7]], dtype, device), weight, cache, [0, 3])
    assert out.tolist() == [
        [1 * 1 + 2 * 4 + 3 * 16, 2 * 1 + 3 * 4 + 4 * 16, 3 * 1 + 4 * 4 + 5 * 16],
        [3 * 1 + 4 * 2 + 5 * 3, 4 * 1 + 5 * 2 + 6 * 3, 5 * 1 + 6 * 2 + 7 * 3],
    ]
    assert cache.tolist() == [[[0, 0], [0, 0]], [[4, 5], [6, 7]]]
    assert (out.dtype, out.device.type) == (dtype, device)


def test_a_row_without_an_initial_state_begins_with_zeros_whatever_its_line_holds() -> None:
    cache = states([[[0, 0, 0]], [[float("nan")] * 3]])
    out = convolve(tokens([[2], [3]]), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), cache, [0, 2], continues=[False])
    assert out.tolist() == [[8, 18]]
    assert cache.tolist() == [[[0, 0, 0]], [[0, 2, 3]]]


@pytest.mark.parametrize(
    ("length", "continues", "expected"),
    [
        (1, True, [2, 3, 11]),
        (2, True, [3, 11, 12]),
        (3, True, [11, 12, 13]),
        (4, True, [12, 13, 14]),
        (1, False, [0, 0, 11]),
        (2, False, [0, 11, 12]),
        (3, False, [11, 12, 13]),
    ],
)
def test_a_line_keeps_the_last_tokens_and_short_rows_shift_it(
    length: int, continues: bool, expected: list[int]
) -> None:
    cache = states([[[7, 8, 9]], [[1, 2, 3]]])
    convolve(tokens([[11], [12], [13], [14]]), torch.ones(1, 4), cache, [0, length], continues=[continues])
    assert cache.tolist() == [[[7, 8, 9]], [expected]]


def test_rows_do_not_see_each_other() -> None:
    cache = states([[[0]], [[1]], [[2]], [[3]]])
    out = convolve(tokens([[10], [20], [30]]), torch.tensor([[1.0, 0.0]]), cache, [0, 2, 3], lines=[3, 1])
    assert out.tolist() == [[3, 10, 1]]
    assert cache.tolist() == [[[0]], [[30]], [[2]], [[20]]]


@pytest.mark.parametrize("continues", [True, False])
def test_a_row_without_tokens_leaves_its_line_as_it_was(continues: bool) -> None:
    cache = states([[[0, 0]], [[1, 2]], [[3, 4]]])
    out = convolve(tokens([[5]]), torch.ones(1, 3), cache, [0, 0, 1], continues=[continues, True])
    assert out.tolist() == [[12]]
    assert cache.tolist() == [[[0, 0]], [[1, 2]], [[4, 5]]]


def unwritten_as(monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    """Let fresh memory hold a number, so that what nobody writes is seen."""
    fresh = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda tensor: fresh(tensor).fill_(number))


@pytest.mark.parametrize("null_block_id", [0, 2])
def test_a_row_of_the_null_block_has_no_output_and_no_state(
    null_block_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwritten_as(monkeypatch, 99)
    cache = states([[[1]], [[2]], [[3]]])
    lines = [1, null_block_id]
    out = convolve(
        tokens([[5], [6], [7]]), torch.ones(1, 2), cache, [0, 1, 3], lines=lines, null_block_id=null_block_id
    )
    assert out.tolist() == [[7, 99, 99]]
    assert cache.tolist() == [[[1]], [[5]], [[3]]]


def test_without_a_null_block_line_0_is_a_line_like_any_other() -> None:
    cache = states([[[1]], [[2]]])
    out = convolve(tokens([[5]]), torch.ones(1, 2), cache, [0, 1], lines=[0], null_block_id=None)
    assert out.tolist() == [[6]]
    assert cache.tolist() == [[[5]], [[2]]]


@pytest.mark.parametrize("device", DEVICES)
def test_tokens_behind_the_last_row_are_not_written(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unwritten_as(monkeypatch, 99)
    cache = states([[[0]], [[0]]], device=device)
    x = tokens([[5], [6], [float("nan")]], device=device)
    out = convolve(x, torch.ones(1, 2, device=device), cache, [0, 2])
    assert out.tolist() == [[5, 11, 99]]


@pytest.mark.parametrize("starts", [[0], [0, 0], [0, 0, 0]], ids=str)
def test_a_batch_without_tokens_writes_nothing(starts: list[int]) -> None:
    cache = states([[[1, 2]], [[3, 4]], [[5, 6]]])
    out = convolve(torch.empty(0, 1).t(), torch.ones(1, 3), cache, starts)
    assert out.shape == (1, 0)
    assert cache.tolist() == [[[1, 2]], [[3, 4]], [[5, 6]]]


@pytest.mark.parametrize("device", DEVICES)
def test_gaps_between_tokens_lines_and_columns_are_left_alone(device: str) -> None:
    memory = torch.full((40,), 99.0, device=device)
    cache = memory.as_strided((2, 2, 2), (12, 1, 5), 3)
    cache.zero_()
    x = torch.full((3, 5), 99.0, device=device)[:, :2].t()
    x.copy_(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    out = convolve(x, torch.ones(2, 3, device=device), cache, [0, 3])
    assert out.tolist() == [[1, 3, 6], [4, 9, 15]]
    assert cache[1].tolist() == [[2, 3], [5, 6]]
    cache.fill_(99)
    assert bool((memory == 99).all())


@pytest.mark.parametrize("starts_dtype", [torch.int32, torch.int64], ids=str)
def test_cumulative_lengths_may_be_int32_or_int64(starts_dtype: torch.dtype) -> None:
    cache = states([[[0]], [[1]]])
    out = convolve(tokens([[5]]), torch.ones(1, 2), cache, [0, 1], starts_dtype=starts_dtype)
    assert out.tolist() == [[6]]


def test_a_bias_is_added_to_every_token() -> None:
    cache = states([[[0], [0]], [[1], [2]]])
    bias = torch.tensor([100.0, 200.0])
    out = convolve(tokens([[3, 4], [5, 6]]), torch.ones(2, 2), cache, [0, 2], bias=bias)
    assert out.tolist() == [[104, 108], [206, 210]]


def test_silu_is_applied_to_the_sum_and_not_to_the_state() -> None:
    cache = states([[[0]], [[1]]])
    out = convolve(tokens([[1]]), torch.ones(1, 2), cache, [0, 1], activation="silu")
    assert out.item() == pytest.approx(2 / (1 + 2.718281828459045**-2), rel=1e-6)
    assert cache.tolist() == [[[0]], [[1]]]


def test_another_activation_is_refused() -> None:
    with pytest.raises(AssertionError, match="'gelu'"):
        convolve(tokens([[1]]), torch.ones(1, 2), states([[[0]], [[1]]]), [0, 1], activation="gelu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_each_product_is_rounded_to_the_element_type_and_the_sum_is_not(dtype: torch.dtype) -> None:
    step = torch.finfo(dtype).eps
    # (1 + step)**2 is rounded to 1 + 2 * step, and then taken off again while float32 still holds 257 + 2 * step.
    cache = states([[[0, 0, 0]], [[1 + step, 256, -1]]], dtype)
    weight = torch.tensor([[1 + step, 1, 1 + 2 * step, 1]], dtype=dtype)
    out = convolve(tokens([[-256]], dtype), weight, cache, [0, 1])
    assert out.tolist() == [[0]]


def test_taps_are_added_in_ascending_order() -> None:
    # 2**24 + 1 is 2**24 in float32: both ones are lost, which no other order does.
    cache = states([[[0, 0, 0]], [[1, 2.0**24, 1]]])
    out = convolve(tokens([[-(2.0**24)]]), torch.ones(1, 4), cache, [0, 1])
    assert out.tolist() == [[0]]


def test_states_are_copied_to_the_last_bit() -> None:
    bits = torch.tensor([-0x80000000, 0x7FC12345, 0x00000001], dtype=torch.int32)
    odd = bits.view(torch.float32)
    cache = states([[[0, 0]], [[0, 0]]])
    cache[1, 0, 1] = odd[0]
    convolve(odd[1:2].reshape(1, 1), torch.ones(1, 3), cache, [0, 1])
    assert cache[1, 0].view(torch.int32).tolist() == bits[:2].tolist()
    convolve(odd[2:].reshape(1, 1), torch.ones(1, 3), cache, [0, 1])
    assert cache[1, 0].view(torch.int32).tolist() == bits[1:].tolist()
