"""The frozen loop against values that are computed in another way, or were written down by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from references.causal_conv1d_metadata import compute_causal_conv1d_metadata

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
DTYPES = [torch.int32, torch.int64]
BATCHES = [
    [0],
    [5],
    [0, 0],
    [0, 0, 0],
    [0, 5, 5, 9],
    [0, 0, 64],
    [0, 16, 16],
    [0, 16, 40, 40, 40],
    [0, 128, 128, 256],
    [3, 8, 19],
    [0, 1, 3, 6],
    [0, 8192],
    [0, 8193],
    [0, 16400],
    [2**24 + 1, 2**24 + 10],
]


def tables_of(values: list[int], dtype: torch.dtype = torch.int32, device: str = "cpu") -> dict[str, Any]:
    """The tables of one batch; the copies to the device have ended."""
    tables = compute_causal_conv1d_metadata(torch.tensor(values, dtype=dtype), device=torch.device(device))[0][8]
    if device == "cuda":
        torch.cuda.synchronize()
    return tables


def programs_by_token(values: list[int]) -> list[tuple[int, int]]:
    """Row and tile of every program, found by walking over the tokens: each eighth one of a row opens a tile."""
    rows = enumerate(after - before for before, after in pairwise(values))
    return [(row, position // 8) for row, length in rows for position in range(length) if position % 8 == 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", BATCHES, ids=str)
def test_every_tile_of_every_row_is_listed_once_in_order(values: list[int], dtype: torch.dtype) -> None:
    tables = tables_of(values, dtype)
    expected = programs_by_token(values)
    assert list(zip(tables["mlist"].tolist(), tables["offsetlist"].tolist(), strict=True)) == expected
    assert tables["tot"] == tables["mlist_len"] == len(expected)
    assert tables["nums"].tolist() == [sum(row == r for row, _ in expected) for r in range(len(values) - 1)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("values", BATCHES, ids=str)
def test_the_device_tables_hold_the_lists_and_are_filled_up_with_minus_one(values: list[int], device: str) -> None:
    tables = tables_of(values, device=device)
    for buffer, source in (("batch_ptr", "mlist"), ("token_chunk_offset_ptr", "offsetlist")):
        n = tables["mlist_len"]
        assert tables[buffer].dtype is torch.int32
        assert tables[buffer].device.type == device
        assert tables[buffer][:n].tolist() == tables[source].tolist()
        assert set(tables[buffer][n:].tolist()) == {-1}


@pytest.mark.parametrize(
    ("values", "programs", "size"),
    [
        ([0], 0, 2048),
        ([0, 8192], 1024, 2048),
        ([0, 8193], 1025, 2050),
        ([0, 8200], 1025, 2050),
        ([0, 16400], 2050, 4100),
    ],
    ids=str,
)
def test_the_device_tables_are_twice_the_programs_but_at_least_2048_long(
    values: list[int], programs: int, size: int
) -> None:
    tables = tables_of(values)
    assert tables["tot"] == programs
    assert tables["batch_ptr"].shape == tables["token_chunk_offset_ptr"].shape == (size,)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_and_pinned_memory_are_those_of_the_contract(dtype: torch.dtype, device: str) -> None:
    tables = tables_of([3, 8, 19], dtype, device)
    names = ["nums", "tot", "mlist", "mlist_len", "offsetlist", "batch_ptr", "token_chunk_offset_ptr"]
    assert list(tables) == names
    assert type(tables["tot"]) is type(tables["mlist_len"]) is int
    assert [tables[name].dtype for name in ("nums", "mlist", "offsetlist")] == [dtype, torch.int64, torch.int32]
    assert [tables[name].is_pinned() for name in ("mlist", "offsetlist")] == [device == "cuda"] * 2
    assert all(tables[name].stride() == (1,) for name in names if isinstance(tables[name], torch.Tensor))


def test_the_returned_tensors_are_the_ones_in_the_tables() -> None:
    by_tile, batch_ptr, token_chunk_offset_ptr = compute_causal_conv1d_metadata(
        torch.tensor([0, 9], dtype=torch.int32), device=torch.device("cpu")
    )
    assert list(by_tile) == [8]
    assert by_tile[8]["batch_ptr"] is batch_ptr
    assert by_tile[8]["token_chunk_offset_ptr"] is token_chunk_offset_ptr


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_decrease_of_less_than_a_tile_rounds_to_no_program(dtype: torch.dtype) -> None:
    tables = tables_of([0, 5, 3, 9], dtype)
    assert tables["nums"].tolist() == [1, 0, 1]
    assert tables["mlist"].tolist() == [0, 2]
    assert tables_of([7, 0], dtype)["tot"] == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [[0, 20, 5, 30], [8, 0], [9, 0, 16]], ids=str)
def test_a_decrease_of_a_tile_or_more_is_a_value_error(values: list[int], dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="must not decrease"):
        tables_of(values, dtype)


def test_the_argument_is_left_as_it_was() -> None:
    query_start_loc = torch.tensor([3, 8, 19], dtype=torch.int32)
    compute_causal_conv1d_metadata(query_start_loc, device=torch.device("cpu"))
    assert query_start_loc.tolist() == [3, 8, 19]
