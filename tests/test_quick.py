"""A quick comparison says the same only where the complete one finds no difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compare import compare
from harness.memory import extents_of
from harness.quick import Quick, compile_quick, never

NOTHING: tuple[list[int], list[int]] = ([], [])


def table(*numbers: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype)


def made(length: int = 3) -> Any:
    """What a typical reference returns: some objects stand twice."""
    rows, offsets = table(*range(length)), table(*range(length))
    tables = {"nums": table(length, dtype=torch.int64), "tot": length, "rows": rows, "empty": table(), "name": "n"}
    tables |= {"first": [1], "second": [1]}
    return {8: tables}, rows, offsets, [True, None, (length,)]


def test_equal_values_of_the_form_and_of_other_sizes_are_the_same() -> None:
    same = compile_quick(made())
    for length in (3, 1, 0, 100):
        assert same(made(length), made(length), NOTHING)


class Key:
    """Equals anything; must not be asked."""

    asked = 0

    def __hash__(self) -> int:
        return hash(8)

    def __eq__(self, other: object) -> bool:
        Key.asked += 1
        return True


def sparse() -> torch.Tensor:
    return torch.tensor([0, 1, 2], dtype=torch.int32).to_sparse()


def emptied() -> torch.Tensor:
    tensor = table(0, 1, 2)
    tensor.untyped_storage().resize_(0)
    return tensor


def change(path: tuple[Any, ...], value: Any) -> Any:
    """A changed copy of ``made()``."""

    def build() -> Any:
        whole = [*made()]
        whole[0][8]["rows"] = whole[1]
        inner: Any = whole
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value() if callable(value) else value
        return tuple(whole)

    return build


CHANGES: dict[str, Any] = {
    "a list": lambda: [*made()],
    "one more": lambda: (*made(), 1),
    "one less": lambda: made()[:-1],
    "None": lambda: None,
    "a value": change((0, 8, "tot"), 4),
    "a float": change((0, 8, "tot"), 3.0),
    "True": change((0, 8, "tot"), True),
    "a NumPy number": change((0, 8, "tot"), np.int64(3)),
    "1 for True": change((3, 0), 1),
    "text": change((0, 8, "name"), "m"),
    "inner tuple": change((3, 2), (4,)),
    "inner list": change((3, 2), [3]),
    "an element": change((2,), lambda: table(0, 1, 3)),
    "a length": change((2,), lambda: table(0, 1)),
    "a dtype": change((2,), lambda: table(0, 1, 2, dtype=torch.int64)),
    "a shape": change((2,), lambda: table(0, 1, 2).reshape(1, 3)),
    "strides": change((2,), lambda: table(0, 9, 1, 9, 2, 9)[::2]),
    "an array": change((2,), lambda: np.array([0, 1, 2], dtype=np.int32)),
    "a float tensor": change((2,), lambda: torch.zeros(3)),
    "an empty dtype": change((0, 8, "empty"), lambda: table(dtype=torch.int64)),
    "an empty shape": change((0, 8, "empty"), lambda: table().reshape(0, 2)),
    "a sparse tensor": change((2,), sparse),
    "a meta tensor": change((2,), lambda: torch.empty(3, dtype=torch.int32, device="meta")),
    "a zero tensor": change((1,), lambda: torch._efficientzerotensor(3, dtype=torch.int32)),
    "no storage": change((2,), emptied),
    "a missing key": lambda: [(whole := made())[0][8].pop("tot"), whole][1],
    "another key": change((0, 9), 1),
    "a float key": lambda: ({8.0: made()[0][8]}, *made()[1:]),
    "a key that equals all": lambda: ({Key(): made()[0][8]}, *made()[1:]),
    "another order": lambda: ({8: dict(reversed(made()[0][8].items()))}, *made()[1:]),
    "aliasing lost": change((1,), lambda: table(0, 1, 2)),
    "aliasing gained": lambda: [(whole := made())[0], (whole[0], whole[1], whole[1], whole[3])][1],
    "list aliasing gained": lambda: [whole := made(), whole[0][8].update(second=whole[0][8]["first"])][0],
    "overlap gained": lambda: [whole := made(), (whole[0], whole[1], whole[1][:], whole[3])][1],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_of_any_aspect_is_left_to_the_complete_comparison(name: str) -> None:
    same = compile_quick(made())
    Key.asked = 0
    assert not same(made(), CHANGES[name](), NOTHING)
    assert Key.asked == 0
    if name != "another order":
        assert compare(made(), CHANGES[name]()) is not None


def test_memory_beside_the_value_is_not_to_be_overlapped() -> None:
    same = compile_quick(made())
    left, right = made(), made()
    extents = extents_of([right[2]])
    beside = ([extents[0][0]], [extents[0][1]])
    assert not same(left, right, beside)
    assert same(left, made(), beside)


@pytest.mark.parametrize(
    "example",
    [
        1.0,
        torch.zeros(2),
        np.zeros(2),
        np.int64(1),
        {1.5: 1},
        {(1,): 1},
        [1, {2}],
        torch.eye(2).to_sparse(),
        [(base := torch.arange(4)), base[2:]],
        torch.Size([1]),
    ],
)
def test_what_only_the_complete_comparison_can_judge_is_left_to_it(example: Any) -> None:
    assert compile_quick(example) is never
    assert not never(example, example, NOTHING)


def test_a_bounded_number_of_comparisons_is_compiled() -> None:
    quick = Quick(2)
    assert quick.same is never
    quick.learn(1)
    first = quick.same
    assert first(1, 1, NOTHING)
    quick.learn([1])
    second = quick.same
    assert not second(1, 1, NOTHING)
    assert second([1], [1], NOTHING)
    quick.learn((1,))
    assert quick.same is second
    none = Quick(0)
    none.learn(1)
    assert none.same is never


ITEMS = st.one_of(
    st.sampled_from([None, True, False, 0, 1, 1.0, "a", "b"]),
    st.lists(st.integers(0, 1), max_size=2).map(lambda numbers: table(*numbers)),
    st.lists(st.integers(0, 1), max_size=2).map(lambda numbers: table(*numbers, dtype=torch.int64)),
)
VALUES = st.recursive(
    ITEMS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from([0, 1, "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(VALUES, VALUES, VALUES)
def test_the_same_is_never_said_of_different_values(example: Any, left: Any, right: Any) -> None:
    same = compile_quick(example)
    for expected in (example, left):
        for got in (example, left, right):
            if same(expected, got, NOTHING):
                assert compare(expected, got) is None
