"""Guard bands: writes beside a tensor are seen, and what a function allocates is poisoned."""

from __future__ import annotations

import ctypes

import pytest
import torch

from harness.guard import BAND, PATTERNS, Allocations, Guard, guarded, out_of_bounds

CPU = torch.device("cpu")


def channel_last(dtype: torch.dtype, offset: int = 0) -> tuple[torch.Tensor, Guard]:
    """Three channels of four tokens, with gaps of two elements between tokens."""
    return guarded("argument x", dtype, (3, 4), (1, 5), offset, CPU, PATTERNS[0])


def poke(address: int, value: int = 0) -> None:
    ctypes.c_ubyte.from_address(address).value = value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.bool])
def test_an_untouched_tensor_is_not_out_of_bounds(dtype: torch.dtype) -> None:
    tensor, guard = channel_last(dtype)
    tensor.fill_(1)
    assert guard.disturbed() is None
    assert out_of_bounds([guard]) is None


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((1,), (7,)), ((5, 1), (1, 9)), ((1, 5), (9, 1)), ((4, 0), (1, 4)), ((0,), (1,))]
)
def test_a_tensor_of_one_element_or_none_is_watched_too(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    tensor, guard = guarded("small", torch.bfloat16, shape, strides, 0, CPU, PATTERNS[0])
    tensor.fill_(1)
    assert out_of_bounds([guard]) is None
    poke(guard.memory.data_ptr())
    assert out_of_bounds([guard]) is not None


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_a_tensor_has_its_shape_strides_and_alignment(offset: int) -> None:
    tensor, _ = channel_last(torch.float32, offset)
    assert (tensor.shape, tensor.stride()) == ((3, 4), (1, 5))
    assert tensor.data_ptr() % 64 == 4 * offset


def test_a_write_just_in_front_is_seen_with_its_place() -> None:
    tensor, guard = channel_last(torch.float32)
    poke(tensor.data_ptr() - 1)
    assert guard.disturbed() == (1, -1)
    found = out_of_bounds([guard])
    assert found is not None
    assert (found.path, found.aspect) == ("argument x", "out of bounds")
    assert found.got == "1 byte written beside it, the first 1 byte in front of it"


def test_a_write_just_behind_is_seen() -> None:
    tensor, guard = channel_last(torch.float32)
    end = 4 * (1 + 2 * 1 + 3 * 5)
    poke(tensor.data_ptr() + end)
    poke(tensor.data_ptr() + end + 5)
    assert guard.disturbed() == (2, end)


def test_a_write_into_a_gap_between_tokens_is_seen() -> None:
    tensor, guard = channel_last(torch.float32)
    poke(tensor.data_ptr() + 3 * 4)
    assert guard.disturbed() == (1, 12)


@pytest.mark.parametrize("distance", [-BAND, BAND])
def test_a_whole_band_on_either_side_is_watched(distance: int) -> None:
    tensor, guard = channel_last(torch.float32)
    poke(tensor.data_ptr() + distance)
    assert guard.disturbed() is not None


def test_the_band_holds_the_neighbouring_row_of_a_wide_tensor() -> None:
    tensor, guard = guarded("states", torch.float32, (2, 9000), (9000, 1), 0, CPU, PATTERNS[0])
    poke(tensor.data_ptr() - 9000 * 4)
    assert guard.disturbed() == (1, -9000 * 4)


def test_the_first_pattern_is_nan_and_minus_one() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert bool(channel_last(dtype)[0].isnan().all())
    assert channel_last(torch.int32)[0].flatten().tolist() == [-1] * 12


@pytest.mark.parametrize("pattern", PATTERNS)
def test_fresh_memory_holds_the_pattern(pattern: int) -> None:
    with Allocations(pattern):
        made = [torch.empty(5), torch.empty_like(torch.ones(5)), torch.ones(5).new_empty(5)]
        made.append(torch.empty_strided((5,), (2,)))
    for tensor in made:
        assert tensor.contiguous().view(torch.uint8).tolist() == [pattern] * tensor.nbytes


def test_fresh_memory_looks_as_torch_would_have_made_it() -> None:
    like = torch.empty_strided((3, 4), (1, 3))
    usual = torch.empty_like(like)
    with Allocations(PATTERNS[0]):
        made = torch.empty_like(like)
    assert (made.shape, made.stride(), made.dtype) == (usual.shape, usual.stride(), usual.dtype)


def test_filled_memory_keeps_its_values_and_is_guarded_too() -> None:
    with Allocations(PATTERNS[0]) as allocations:
        made = [torch.full((4,), 7, dtype=torch.int32), torch.zeros(4), torch.ones(4).clone(), torch.ones(4).double()]
    assert [tensor.tolist() for tensor in made] == [[7] * 4, [0.0] * 4, [1.0] * 4, [1.0] * 4]
    poke(made[0].data_ptr() + 16, 1)
    found = out_of_bounds(allocations.guards)
    assert found is not None
    assert found.path == "memory that it allocated, [4] of torch.int32"


def test_a_write_beside_memory_that_is_already_freed_is_seen() -> None:
    with Allocations(PATTERNS[0]) as allocations:
        tensor = torch.empty(3)
        poke(tensor.data_ptr() - 8)
        del tensor
    assert out_of_bounds(allocations.guards) is not None


def test_tensors_without_elements_are_left_as_they_are() -> None:
    with Allocations(PATTERNS[0]) as allocations:
        made = torch.empty(0, 3)
    assert made.shape == (0, 3)
    assert allocations.guards == []


def test_of_a_trusted_function_only_unwritten_memory_is_poisoned() -> None:
    with Allocations(PATTERNS[0], trusted=True) as allocations:
        made = torch.empty(3)
        torch.zeros(4)
    assert bool(made.isnan().all())
    assert len(allocations.guards) == 1
