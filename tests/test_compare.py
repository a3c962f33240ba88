"""Two values are equal exactly when they are the same to the last bit, and a difference says where they part."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compare import compare
from harness.errors import HarnessError
from harness.verdict import Difference

Point = namedtuple("Point", "x y")
DETERMINISTIC = settings(derandomize=True, deadline=None, max_examples=150)


def nan(payload: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 | payload))[0]
    return number


def nan32(payload: int) -> torch.Tensor:
    return torch.tensor([0x7FC00000 | payload], dtype=torch.int32).view(torch.float32)


# Every entry makes a new object on every call, and differs from every other entry.
CORPUS: dict[str, Any] = {
    "None": lambda: None,
    "True": lambda: True,
    "1": lambda: 1,
    "1.0": lambda: 1.0,
    "1+0j": lambda: 1 + 0j,
    "-0.0": lambda: -0.0,
    "0.0": lambda: 0.0,
    "complex -0": lambda: complex(0.0, -0.0),
    "complex 0": lambda: complex(0.0, 0.0),
    "nan": lambda: nan(0),
    "nan 1": lambda: nan(1),
    "-nan": lambda: -nan(0),
    "huge int": lambda: 10**5000,
    "str": lambda: "1",
    "bytes": lambda: b"1",
    "np.bool": lambda: np.bool_(True),
    "np.int32": lambda: np.int32(1),
    "np.int64": lambda: np.int64(1),
    "np.uint8": lambda: np.uint8(1),
    "np.float64": lambda: np.float64(1.0),
    "np.float64 nan": lambda: np.float64(nan(0)),
    "np.float64 nan 1": lambda: np.float64(nan(1)),
    "np.float32": lambda: np.float32(1.0),
    "np.float16 -0": lambda: np.float16(-0.0),
    "np.float16 0": lambda: np.float16(0.0),
    "np.str_": lambda: np.str_("1"),
    "np.datetime64 s": lambda: np.datetime64(1, "s"),
    "np.datetime64 ms": lambda: np.datetime64(1, "ms"),
    "record": lambda: np.zeros(1, [("a", "i4"), ("b", "i4")])[0],
    "record of other names": lambda: np.zeros(1, [("a", "i4"), ("c", "i4")])[0],
    "0-d array": lambda: np.array(1),
    "0-d tensor": lambda: torch.tensor(1),
    "dtype": lambda: torch.int32,
    "other dtype": lambda: torch.int64,
    "device": lambda: torch.device("cpu"),
    "Size": lambda: torch.Size([1, 2]),
    "range": lambda: range(0),
    "range with another stop": lambda: range(0, -1),
    "slice": lambda: slice(1),
    "slice of True": lambda: slice(True),
    "[]": lambda: [],
    "()": lambda: (),
    "{}": lambda: {},
    "[1]": lambda: [1],
    "[True]": lambda: [True],
    "[1, 1]": lambda: [1, 1],
    "(1, 2)": lambda: (1, 2),
    "Point": lambda: Point(1, 2),
    "{8}": lambda: {8: 1},
    "{8.0}": lambda: {8.0: 1},
    "{True}": lambda: {True: 1},
    "{1}": lambda: {1: 1},
    "{np.int64(8)}": lambda: {np.int64(8): 1},
    "{'8'}": lambda: {"8": 1},
    "{0.0}": lambda: {0.0: 1},
    "{-0.0}": lambda: {-0.0: 1},
    "{(1,)}": lambda: {(1,): 1},
    "{(True,)}": lambda: {(True,): 1},
    "{8: 2}": lambda: {8: 2},
    "{8, 9}": lambda: {8: 1, 9: 1},
    "int32 tensor": lambda: torch.tensor([1, 2, 3, 4], dtype=torch.int32),
    "int64 tensor": lambda: torch.tensor([1, 2, 3, 4]),
    "uint16 tensor": lambda: torch.tensor([1, 2, 3, 4], dtype=torch.uint16),
    "bool tensor": lambda: torch.tensor([True]),
    "uint8 tensor": lambda: torch.tensor([1], dtype=torch.uint8),
    "2x2 tensor": lambda: torch.tensor([[1, 2], [3, 4]]),
    "2x2 tensor by columns": lambda: torch.tensor([[1, 3], [2, 4]]).T,
    "every other": lambda: torch.tensor([1, 0, 2, 0, 3, 0, 4, 0])[::2],
    "expanded": lambda: torch.tensor([1]).expand(4),
    "ones": lambda: torch.tensor([1, 1, 1, 1]),
    "1x4 tensor": lambda: torch.tensor([[1, 2, 3, 4]]),
    "empty": lambda: torch.empty(0, dtype=torch.int32),
    "empty 0x2": lambda: torch.empty((0, 2), dtype=torch.int32),
    "empty int64": lambda: torch.empty(0, dtype=torch.int64),
    "float": lambda: torch.tensor([1.0, 0.0]),
    "float with gradient": lambda: torch.tensor([1.0, 0.0], requires_grad=True),
    "float -0": lambda: torch.tensor([1.0, -0.0]),
    "float32 nan": lambda: nan32(0),
    "float32 nan 1": lambda: nan32(1),
    "bfloat16": lambda: torch.tensor([1.0, 0.0], dtype=torch.bfloat16),
    "bfloat16 -0": lambda: torch.tensor([1.0, -0.0], dtype=torch.bfloat16),
    "float16": lambda: torch.tensor([1.0, 0.0], dtype=torch.float16),
    "float8": lambda: torch.tensor([1.0, 0.0]).to(torch.float8_e4m3fn),
    "complex": lambda: torch.tensor([1 + 2j, 3 - 4j]),
    "complex strided": lambda: torch.tensor([1 + 2j, 0, 3 - 4j, 0])[::2],
    "conjugated lazily": lambda: torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "imaginary part": lambda: torch.tensor([1 + 2j]).imag,
    "negated lazily": lambda: torch.tensor([1 + 2j]).conj().imag,
    "parameter": lambda: torch.nn.Parameter(torch.tensor([1.0, 0.0])),
    "sparse": lambda: torch.tensor([1.0, 0.0]).to_sparse(),
    "meta": lambda: torch.empty(2, device="meta"),
    "int32 array": lambda: np.array([1, 2, 3, 4], dtype="<i4"),
    "big-endian array": lambda: np.array([1, 2, 3, 4], dtype=">i4"),
    "big-endian array, same bytes": lambda: np.array([1, 2, 3, 4], dtype="<i4").view(">i4"),
    "uint32 array": lambda: np.array([1, 2, 3, 4], dtype="<u4"),
    "2x2 array": lambda: np.array([[1, 2], [3, 4]], dtype="<i4"),
    "2x2 array by columns": lambda: np.array([[1, 2], [3, 4]], dtype="<i4", order="F"),
    "reversed array": lambda: np.array([4, 3, 2, 1], dtype="<i4")[::-1],
    "read-only array": lambda: frozen(np.array([1, 2, 3, 4], dtype="<i4")),
    "records": lambda: np.zeros(2, [("a", "<i4"), ("b", "<f4")]),
    "records of other names": lambda: np.zeros(2, [("a", "<i4"), ("c", "<f4")]),
    "records of other types": lambda: np.zeros(2, [("a", "<i4"), ("b", "<i4")]),
    "records of other places": lambda: np.zeros(2, {"names": ["a", "b"], "formats": ["<i4", "<f4"], "offsets": [4, 0]}),
    "subarrays": lambda: np.zeros(2, [("a", "<i4", (2,))]),
    "raw": lambda: np.zeros(2, "V8"),
    "float array -0": lambda: np.array([-0.0]),
    "float array": lambda: np.array([0.0]),
    "empty array": lambda: np.empty(0),
    "text array": lambda: np.array(["a"]),
    "longer text array": lambda: np.array(["a"], dtype="<U2"),
    "matrix": lambda: np.array([[1, 2], [3, 4]], dtype="<i4").view(np.matrix),
    "dates": lambda: np.zeros(2, "<M8[s]"),
    "dates by the day": lambda: np.zeros(2, "<M8[D]"),
}
UNOBSERVABLE = {"parameter", "sparse", "meta", "matrix"}
"""Entries that a reference must not return."""


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def differ(expected: Any, got: Any) -> Difference:
    found = compare(expected, got)
    assert found is not None, (expected, got)
    return found


@pytest.mark.parametrize("name", [name for name in CORPUS if name not in UNOBSERVABLE])
def test_a_value_equals_only_a_value_with_the_same_bits(name: str) -> None:
    expected = CORPUS[name]()
    for other, make in CORPUS.items():
        found = compare([0, expected], [0, make()])
        if other == name:
            assert found is None
        else:
            assert found is not None, other
            assert found.path.startswith("[1]"), other
            assert found.expected != found.got, other
            assert len(found.got) < 600, other


@pytest.mark.parametrize("name", sorted(UNOBSERVABLE))
def test_a_reference_that_returns_what_cannot_be_observed_is_told_so(name: str) -> None:
    with pytest.raises(HarnessError, match="cannot be compared"):
        compare(CORPUS[name](), CORPUS[name]())


@pytest.mark.parametrize("value", [{1}, object(), np.array([None]), np.zeros(1, "O,i4"), lambda: None])
def test_sets_and_objects_cannot_be_observed(value: Any) -> None:
    with pytest.raises(HarnessError, match="cannot be compared"):
        compare((value,), (value,))


def test_strides_of_a_tensor_without_elements_are_not_observed() -> None:
    left, right = torch.empty((0, 3)), torch.empty((3, 0)).T
    assert left.stride() != right.stride()
    assert compare(left, right) is None
    assert compare(np.empty((0, 3)), np.empty((3, 0)).T) is None


def test_the_order_of_keys_is_not_observed() -> None:
    assert compare({1: "a", "b": 2.0, 1.5: None}, {"b": 2.0, 1.5: None, 1: "a"}) is None
    assert differ({1: "a", "b": [5]}, {"b": [6], 1: "a"}).path == "['b'][0]"


def test_a_subclass_is_another_type() -> None:
    class Int(int): ...

    class List(list[int]): ...

    for expected, got in [(1, Int(1)), ([1], List([1])), ({1: 2}, OrderedDict({1: 2})), ((1, 2), Point(1, 2))]:
        found = differ(expected, got)
        assert found.aspect == "type"
        assert found.expected == type(expected).__name__


def test_a_difference_names_its_path_through_lists_dictionaries_and_tuples() -> None:
    def build(value: int) -> Any:
        return ({8: {"tot": 3, "offsetlist": torch.tensor([0, 1, value], dtype=torch.int32)}}, [1])

    found = differ(build(2), build(7))
    assert found.path == "[0][8]['offsetlist']"
    assert (found.aspect, found.count, found.total) == ("value", 1, 3)
    assert [(element.index, element.expected, element.got) for element in found.elements] == [((2,), "2", "7")]
    assert str(found) == "[0][8]['offsetlist']: 1 of 3 elements differ"


def test_elements_are_listed_up_to_eight_with_their_index() -> None:
    expected = torch.zeros((4, 5), dtype=torch.int64)
    got = expected.clone()
    got[1:, 2:] = torch.arange(9).reshape(3, 3) + 1
    for left, right in ((expected, got), (expected.numpy(), got.numpy()), (expected.T, got.T)):
        found = differ(left, right)
        assert (found.count, found.total, len(found.elements)) == (9, 20, 8)
        for element in found.elements:
            assert element.expected == "0"
            assert element.got == repr(right[element.index].item())


def test_floats_are_shown_with_all_their_bits() -> None:
    found = differ(torch.tensor([0.1, 0.0]), torch.tensor([0.1, -0.0]))
    assert found.elements[0].index == (1,)
    assert (found.expected, found.got) == ("0.0 (0x0.0p+0)", "-0.0 (-0x0.0p+0)")
    found = differ(np.array([math.nan]), np.array([nan(5)]))
    assert (found.expected, found.got) == ("nan (bits 7ff8000000000000)", "nan (bits 7ff8000000000005)")


def test_deep_nesting_is_compared_or_refused() -> None:
    def deep(depth: int, value: Any) -> Any:
        for _ in range(depth):
            value = [value]
        return value

    assert compare(deep(200, 1), deep(200, 1)) is None
    assert differ(deep(200, 1), deep(200, 2)).path == "[0]" * 200
    assert differ([1], deep(100_000, 1)).path == "[0]"
    with pytest.raises(HarnessError, match="flatter"):
        compare(deep(5_000, 1), deep(5_000, 1))


@st.composite
def structures(draw: st.DrawFn) -> tuple[Any, Any, str]:
    """A value, the same value with one byte changed, and the path of that change."""
    paths: list[tuple[str, Any]] = []

    def build(depth: int, path: str) -> tuple[Any, Any]:
        kind = draw(st.sampled_from(["tensor", "array", "strided", *(["list", "tuple", "dict"] if depth else [])]))
        if kind in ("list", "tuple"):
            pairs = [build(depth - 1, f"{path}[{index}]") for index in range(draw(st.integers(0, 3)))]
            left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            return (left, right) if kind == "list" else (tuple(left), tuple(right))
        if kind == "dict":
            keys = draw(st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["a", "b'"])), unique=True, max_size=3))
            items = {key: build(depth - 1, f"{path}[{key!r}]") for key in keys}
            return {key: pair[0] for key, pair in items.items()}, {key: pair[1] for key, pair in items.items()}
        count = draw(st.integers(1, 6))
        data = draw(st.binary(min_size=8 * count, max_size=8 * count))
        dtype = draw(st.sampled_from(["int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]))
        ours, theirs = (np.frombuffer(bytearray(data), dtype=dtype) for _ in range(2))
        paths.append((path, theirs))
        if kind == "array":
            return ours, theirs
        tensors = torch.from_numpy(ours), torch.from_numpy(theirs)
        if kind == "strided" and ours.size % 2 == 0:
            return tensors[0].reshape(2, -1).T, tensors[1].reshape(2, -1).T
        return tensors

    left, right = build(3, "")
    if not paths:
        return left, right, "none"
    path, leaf = draw(st.sampled_from(paths))
    position = draw(st.integers(0, leaf.nbytes - 1))
    leaf.view(np.uint8)[position] ^= draw(st.integers(1, 255))
    return left, right, path


@DETERMINISTIC
@given(structures())
def test_one_changed_byte_anywhere_is_found_at_its_path(built: tuple[Any, Any, str]) -> None:
    left, right, path = built
    assert compare(left, left) is None
    found = compare(left, right)
    if path == "none":
        assert found is None
        return
    assert found is not None
    assert (found.path, found.aspect, found.count) == (path, "value", 1)
    assert len(found.elements) == 1


def test_strides_of_axes_with_one_element_address_nothing() -> None:
    one, other = torch.ones(3, 1).as_strided((3, 1), (1, 1)), torch.ones(3, 1).as_strided((3, 1), (1, 7))
    assert compare(one, other) is None
    found = compare(torch.ones(3, 2), torch.ones(2, 3).t())
    assert found is not None
    assert (found.aspect, found.expected, found.got) == ("strides", "[2, 1]", "[1, 3]")
