"""Which objects are the same, and which tensors overlap in memory, is part of a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from harness.compare import compare
from harness.verdict import Difference


def differ(expected: Any, got: Any) -> Difference:
    found = compare(expected, got)
    assert found is not None, (expected, got)
    return found


def test_an_object_that_stands_twice_must_stand_twice() -> None:
    for make in (lambda: torch.tensor([1]), lambda: np.array([1]), lambda: [1], lambda: {1: 1}):
        one, other, third = make(), make(), make()
        assert compare([one, one], [other, other]) is None
        assert differ([one, one], [other, third]).aspect == "aliasing"
        assert differ([one, other], [third, third]).aspect == "aliasing"
        assert differ([one, one, other], [other, third, third]).path == "[1]"
        assert differ([one, other, one], [third, other, other]).path == "[2]"
    # These cannot be changed, so that nobody can tell.
    assert compare([(1,), "ab"] * 2, [(1,), "ab", (1,), "a" + "b"]) is None


@pytest.mark.parametrize("make", [lambda: torch.arange(8), lambda: np.arange(8)])
def test_memory_that_overlaps_must_overlap(make: Any) -> None:
    base, other = make(), make()
    views = {"whole": base, "head": base[:4], "tail": base[4:]}
    assert compare([base[:4], base[4:]], [other[:4], make()[4:]]) is None
    found = differ(views, {"whole": other, "head": make()[:4], "tail": other[4:]})
    assert (found.path, found.aspect, found.got) == ("['head']", "aliasing", "separate memory")
    assert found.expected == "memory that overlaps ['whole']"
    found = differ([make(), make()[2:]], [other, other[2:]])
    assert (found.path, found.expected) == ("[1]", "separate memory")
    assert found.got == "memory that overlaps [0]"


def test_memory_beside_the_values_counts_as_theirs() -> None:
    left, right = torch.arange(4), torch.arange(4)
    extents = [(side.data_ptr(), side.data_ptr() + side.nbytes, side) for side in (left, right)]
    beside = ([extents[0]], [extents[1]])
    assert compare(left[1:], right[1:], beside=beside) is None
    found = compare(torch.arange(4)[1:], right[1:], beside=beside)
    assert found is not None
    assert found.aspect == "aliasing"


def test_an_argument_that_is_returned_must_be_returned() -> None:
    left, right = [1], [1]
    empty, other = torch.empty(0), torch.empty(0)
    arguments = ((left, empty, 5), (right, other, 5))
    assert compare([left, empty], [right, other], arguments=arguments) is None
    for expected, got in (([1], right), (left, [1]), (torch.empty(0), other), (empty, torch.empty(0))):
        found = compare(expected, got, arguments=arguments)
        assert found is not None
        assert found.aspect == "aliasing"


def test_a_list_that_holds_itself_is_compared_once() -> None:
    def loop(value: int) -> list[Any]:
        knot: list[Any] = [value, {}]
        knot[1]["self"] = knot
        return knot

    assert compare(loop(1), loop(1)) is None
    assert differ(loop(1), loop(2)).path == "[0]"
    assert differ(loop(1), [1, {"self": loop(1)}]).aspect == "aliasing"
