"""Memory: the bytes of tensors and arrays, and what shares them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.memory import extent_of, extents_of, leaves, overlaps, parts, reach, shared, shared_container


def span(leaf: Any) -> tuple[int, int]:
    extent = extent_of(leaf)
    assert extent is not None
    return extent[0], extent[1]


def test_an_extent_runs_from_the_first_to_past_the_last_byte() -> None:
    tensor = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    start = tensor.data_ptr()
    assert span(tensor) == (start, start + 48)
    assert span(tensor.T) == (start, start + 48)
    assert span(tensor[:, 1]) == (start + 4, start + 4 + 36)
    assert span(tensor[1:, ::3]) == (start + 16, start + 48)
    assert span(tensor[0, :1].expand(5)) == (start, start + 4)
    array = tensor.numpy()
    assert span(array[::-1, ::-1]) == (start, start + 48)
    assert span(array[:, 1]) == (start + 4, start + 40)
    assert reach(tensor[:, 1]) == 9


def test_what_has_no_elements_or_no_memory_has_no_extent() -> None:
    for leaf in (torch.empty(0), np.empty((0, 3)), torch.empty(3, device="meta"), torch.eye(2).to_sparse()):
        assert extent_of(leaf) is None
    assert extents_of([torch.empty(0), {"a": (np.empty(0),)}]) == []


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=8))
def test_overlaps_are_the_pairs_that_share_a_byte(spans: list[tuple[int, int]]) -> None:
    extents: list[Any] = [(start, start + size, None) for start, size in spans]
    bytes_of = [set(range(start, start + size)) for start, size in spans]
    numbered = combinations(range(len(spans)), 2)
    assert overlaps(extents) == {(i, j) for i, j in numbered if bytes_of[i] & bytes_of[j]}


def test_the_first_part_that_shares_bytes_with_earlier_ones_is_found() -> None:
    old, new = torch.arange(8), torch.arange(8)
    view = old[6:]
    assert shared(extents_of([old]), extents_of([new])) is None
    assert shared(extents_of([old]), extents_of([new, view])) is view
    assert shared(extents_of([old[:6]]), extents_of([new, view])) is None
    assert shared(extents_of([old]), extents_of([new, new[2:]])) is None


def test_the_first_list_that_was_there_before_is_found() -> None:
    inner: list[Any] = [1]
    assert shared_container({"a": (inner,)}, [[1], {"b": inner}]) is inner
    assert shared_container([inner], [[1]]) is None
    assert shared_container((1, "a"), (1, "a")) is None


def test_leaves_have_the_paths_by_which_one_reaches_them() -> None:
    tensor, array = torch.zeros(1), np.zeros(1)
    value = [tensor, {"a": (1, array), 8: [tensor]}]
    found = dict(leaves(value))
    assert list(found) == ["[0]", "[1]['a'][1]", "[1][8][0]"]
    for path, leaf in found.items():
        assert eval(f"value{path}", {"value": value}) is leaf
    assert dict(leaves(tensor)) == {"": tensor}


def test_a_list_that_holds_itself_is_walked_once() -> None:
    tensor = torch.zeros(1)
    knot: list[Any] = [tensor]
    knot += [knot, {"again": knot}]
    assert [path for path, _ in leaves(knot)] == ["[0]"]
    assert [path for path, _ in parts(knot)] == ["", "[0]", "[2]"]
