"""A space numbers its cases in order, and a block gives each case its own arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.case import TARGET_DEVICE, ArrayValue, Case, ListValue, TensorValue
from harness.search.space import Block, Column, Space, TensorColumn, ValueColumn, block_of


def block(count: int, start: int = 0) -> Block:
    table = np.arange(start, start + 2 * count, dtype=np.int64).reshape(count, 2)
    return Block("toy", {"x": TensorColumn("int32", table)}, {"device": TARGET_DEVICE})


def test_cases_are_numbered_through_all_blocks_and_empty_blocks_have_none() -> None:
    blocks = (block(0), block(3), block(0), block(0), block(2, 100), block(0))
    space = Space("toy", blocks)
    assert len(space) == 5
    assert [space[index] for index in range(5)] == [
        *(blocks[1][i] for i in range(3)),
        *(blocks[4][i] for i in range(2)),
    ]
    assert space[3].arguments["x"] == TensorValue("int32", (100, 101))


@pytest.mark.parametrize("index", [-1, 5, 10**9])
def test_a_number_outside_of_the_space_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError, match="space of 5"):
        Space("toy", (block(3), block(2)))[index]


def test_a_space_without_blocks_is_empty() -> None:
    space = Space("nothing", ())
    assert len(space) == 0
    with pytest.raises(IndexError):
        space[0]


def test_columns_and_fixed_arguments_make_up_a_case() -> None:
    columns: dict[str, Column] = {
        "x": TensorColumn("int64", np.array([[1, 2], [3, 4]])),
        "n": ValueColumn([5, None]),
        "y": ValueColumn([ArrayValue("int8", (1,)), ListValue((2,))]),
    }
    made = Block("toy", columns, {"device": TARGET_DEVICE})
    assert made[1] == Case(
        "toy", {"x": TensorValue("int64", (3, 4)), "n": None, "y": ListValue((2,)), "device": TARGET_DEVICE}
    )
    assert all(type(number) is int for number in made[0].arguments["x"].data)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "fixed", "words"),
    [
        ({}, {"n": 1}, "one length"),
        ({"x": ValueColumn([1]), "y": ValueColumn([1, 2])}, {}, "one length"),
        ({"x": ValueColumn([1])}, {"x": 1}, "x: an argument"),
    ],
)
def test_a_block_is_validated(columns: Any, fixed: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Block("toy", columns, fixed)


@pytest.mark.parametrize(
    ("dtype", "table", "words"),
    [
        ("float32", np.zeros((1, 1), dtype=np.int64), "integer dtype"),
        ("bool", np.zeros((1, 1), dtype=np.int64), "integer dtype"),
        ("int128", np.zeros((1, 1), dtype=np.int64), "integer dtype"),
        ("int32", np.zeros(3, dtype=np.int64), "1-D"),
        ("int32", np.zeros((1, 1), dtype=np.int32), "int64"),
        ("int32", np.array([[2**31]]), "int32"),
        ("int32", np.array([[-(2**31) - 1]]), "int32"),
        ("uint8", np.array([[-1]]), "uint8"),
    ],
)
def test_a_tensor_column_holds_what_its_dtype_can_hold(dtype: str, table: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TensorColumn(dtype, table)


def test_integers_are_read_from_every_kind_of_column_as_a_table() -> None:
    columns: dict[str, Column] = {
        "column": TensorColumn("int32", np.array([[1, 2], [3, 4], [5, 6]])),
        "tensor": ValueColumn([TensorValue("int64", (i, -i)) for i in range(3)]),
        "list": ValueColumn([ListValue((i,)) for i in range(3)]),
        "number": ValueColumn([7, 8, 9]),
    }
    made = Block("toy", columns, {"fixed": 4, "array": ArrayValue("int8", (1, 2, 3)), "empty": ListValue(())})
    assert made.integers("column").tolist() == [[1, 2], [3, 4], [5, 6]]
    assert made.integers("tensor").tolist() == [[0, 0], [1, -1], [2, -2]]
    assert made.integers("list").tolist() == [[0], [1], [2]]
    assert made.integers("number").tolist() == [[7], [8], [9]]
    assert made.integers("fixed").tolist() == [[4]] * 3
    assert made.integers("array").tolist() == [[1, 2, 3]] * 3
    assert made.integers("empty").shape == (3, 0)
    assert [made.dtype(name) for name in ("column", "tensor", "array", "number")] == ["int32", "int64", "int8", "int"]


def test_a_block_of_one_case_holds_that_case() -> None:
    case = Case("toy", {"x": TensorValue("int32", (1, 2)), "n": 5, "device": TARGET_DEVICE})
    single = block_of(case)
    assert len(single) == 1
    assert single[0] == case
    assert single.integers("x").tolist() == [[1, 2]]


def test_a_space_knows_which_kinds_of_arguments_its_cases_have() -> None:
    left_out = Block("toy", {"x": ValueColumn([1, None])})
    assert Space("toy", (block(2), left_out)).kinds() == {
        frozenset({"x", "device"}): {"x": {TensorValue}, "device": {type(TARGET_DEVICE)}},
        frozenset({"x"}): {"x": {int, type(None)}},
    }
