"""Values keep every bit through JSON and through Python source, and malformed JSON is refused by name."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import DTYPES, TARGET_DEVICE, ArrayValue, DrawnValue, ListValue, TensorValue, Value
from harness.compare import compare
from harness.materialise import live_value
from harness.value import value_from_json, value_to_json, value_to_python

CPU = torch.device("cpu")
DETERMINISTIC = settings(derandomize=True, deadline=None, max_examples=300)
LIMITS = {"uint8": (0, 255)} | {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}


def float_of(bits: int) -> float:
    number: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return number


FLOATS = st.one_of(
    st.floats(),
    st.integers(0, 2**64 - 1).map(float_of),
    st.integers(0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF).map(float_of),
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, float_of(0xFFF8000000000001)]),
)
NUMBERS = st.one_of(st.booleans(), st.integers(), FLOATS)


def elements(dtype: str) -> st.SearchStrategy[Any]:
    if dtype in LIMITS:
        return st.integers(*LIMITS[dtype])
    return st.booleans() if dtype == "bool" else FLOATS


@st.composite
def filled(draw: st.DrawFn, kind: type[TensorValue] | type[ArrayValue]) -> Value:
    dtype = draw(st.sampled_from([name for name in DTYPES if name != "bfloat16" or kind is TensorValue]))
    shape = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    count = math.prod(shape)
    data = tuple(draw(st.lists(elements(dtype), min_size=count, max_size=count)))
    return kind(dtype, data, shape)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    """Strides of any order of axes, with gaps, or none; and an offset."""
    if draw(st.booleans()):
        return {"offset": draw(st.integers(0, 5))}
    strides, reached = [0] * len(shape), 1
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = reached + draw(st.integers(0, 3))
        reached = strides[axis] * max(shape[axis], 1)
    return {"strides": tuple(strides), "offset": draw(st.integers(0, 5))}


@st.composite
def strided(draw: st.DrawFn) -> Value:
    value = draw(filled(TensorValue))
    assert isinstance(value, TensorValue)
    return TensorValue(value.dtype, value.data, value.shape, **draw(layouts(value.shape)))


@st.composite
def drawn(draw: st.DrawFn) -> Value:
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    first, last = sorted(draw(st.tuples(st.integers(0, shape[axis]), st.integers(0, shape[axis]))))
    dtype: Any = draw(st.sampled_from(["float16", "bfloat16", "float32", "float64"]))
    numbers, seed = draw(st.sampled_from(["integers", "ordinary", "steep"])), draw(st.integers(0, 2**32 - 1))
    nan = ((axis, first, last),) if draw(st.booleans()) else ()
    return DrawnValue(dtype, shape, numbers, seed, nan, **draw(layouts(shape)))


VALUES = st.one_of(
    filled(TensorValue),
    strided(),
    drawn(),
    filled(ArrayValue),
    st.lists(NUMBERS).map(lambda numbers: ListValue(tuple(numbers))),
    NUMBERS,
    st.text(),
    st.none(),
    st.just(TARGET_DEVICE),
)


@DETERMINISTIC
@given(VALUES)
def test_a_value_survives_json_to_the_last_bit(value: Value) -> None:
    text = json.dumps(value_to_json(value), allow_nan=False)
    again = value_from_json(json.loads(text))
    assert type(again) is type(value)
    assert json.dumps(value_to_json(again)) == text
    assert compare(live(value), live(again)) is None


@DETERMINISTIC
@given(VALUES)
def test_python_source_of_a_value_evaluates_to_the_same_value(value: Value) -> None:
    source = value_to_python(value, "cpu")
    with np.errstate(over="ignore", invalid="ignore"):
        built = eval(source, {"torch": torch, "np": np, "struct": struct})
    difference = compare(live(value), built)
    assert difference is None, source


def live(value: Value) -> Any:
    # A float16 holds less than a float, which NumPy mentions.
    with np.errstate(over="ignore", invalid="ignore"):
        return live_value(value, CPU)


@DETERMINISTIC
@given(strided() | drawn())
def test_python_source_of_a_tensor_lays_it_out_in_memory(value: Value) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        built = eval(value_to_python(value, "cpu"), {"torch": torch, "np": np, "struct": struct})
    made = live(value)
    assert (built.stride(), built.storage_offset()) == (made.stride(), made.storage_offset())
    assert isinstance(value, TensorValue | DrawnValue)
    assert not value.strides or built.stride() == value.strides
    assert built.storage_offset() == value.offset


def test_a_strided_tensor_for_the_target_device_is_laid_out_there() -> None:
    value = TensorValue("int32", (1, 2), device="target", strides=(3,), offset=1)
    source = 'torch.empty(5, dtype=torch.int32, device="cuda").as_strided([2], [3], 1).copy_(torch.tensor([1, 2], '
    assert value_to_python(value, "cuda") == f"{source}dtype=torch.int32))"
    assert value_from_json(value_to_json(value)) == value


def test_a_tensor_for_the_target_device_is_moved_there_in_python_source() -> None:
    value = TensorValue("int32", (1, 2), device="target")
    assert value_to_python(value, "cuda") == 'torch.tensor([1, 2], dtype=torch.int32).to("cuda")'
    assert value_to_python(value, "cpu") == "torch.tensor([1, 2], dtype=torch.int32)"
    assert value_to_python(TARGET_DEVICE, "cuda") == 'torch.device("cuda")'
    assert value_from_json(value_to_json(value)) == value


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([1, 2], "list"),
        ({}, "tensor"),
        ({"device": "cpu"}, "tensor"),
        ({"device": {}}, "tensor"),
        ({"tensor": "int128", "data": []}, "tensor"),
        ({"tensor": 5, "data": []}, "tensor"),
        ({"tensor": ["int32"], "data": []}, "tensor"),
        ({"tensor": "int32"}, "data"),
        ({"tensor": "int32", "data": None}, "data"),
        ({"tensor": "int32", "data": 5}, "data"),
        ({"tensor": "int32", "data": "12"}, "data"),
        ({"tensor": "int32", "data": {"0": 1}}, "data"),
        ({"tensor": "int32", "data": [1.0]}, "data"),
        ({"tensor": "int32", "data": [True]}, "data"),
        ({"tensor": "int32", "data": [None]}, "data"),
        ({"tensor": "int32", "data": [[1]]}, "data"),
        ({"tensor": "int32", "data": ["1"]}, "data"),
        ({"tensor": "int32", "data": [2**31]}, "int32"),
        ({"tensor": "int32", "data": [-(2**31) - 1]}, "int32"),
        ({"tensor": "int64", "data": [10**30]}, "int64"),
        ({"tensor": "int8", "data": [128]}, "int8"),
        ({"tensor": "uint8", "data": [256]}, "uint8"),
        ({"tensor": "uint8", "data": [-1]}, "uint8"),
        ({"tensor": "bool", "data": [0]}, "bool"),
        ({"tensor": "int32", "data": [1], "shape": 1}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": None}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": "1"}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": [1.0]}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": [True]}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": ["1"]}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": [2]}, "shape"),
        ({"tensor": "int32", "data": [1], "shape": [-1, -1]}, "shape"),
        ({"tensor": "int32", "data": [], "shape": [0, -1]}, "shape"),
        ({"tensor": "int32", "data": [1], "device": "cuda:0"}, "device"),
        ({"tensor": "int32", "data": [1], "device": ["cpu"]}, "device"),
        ({"tensor": "float32", "data": [1.0]}, "bits"),
        ({"tensor": "float32", "bits": "3ff0000000000000"}, "bits"),
        ({"tensor": "float32", "bits": ["3ff"]}, "bits"),
        ({"tensor": "float32", "bits": ["3ff000000000000000"]}, "bits"),
        ({"tensor": "float32", "bits": ["zz" * 8]}, "bits"),
        ({"tensor": "float32", "bits": [" 3ff00000000000 "]}, "bits"),
        ({"tensor": "float32", "bits": [1.0]}, "bits"),
        ({"tensor": "int32", "data": [1, 2], "strides": 1}, "strides"),
        ({"tensor": "int32", "data": [1, 2], "strides": [1.0]}, "strides"),
        ({"tensor": "int32", "data": [1, 2], "strides": [True]}, "strides"),
        ({"tensor": "int32", "data": [1, 2], "strides": [1, 1]}, "strides"),
        ({"tensor": "int32", "data": [1, 2], "strides": [0]}, "overlap"),
        ({"tensor": "int32", "data": [1, 2], "offset": -1}, "offset"),
        ({"tensor": "int32", "data": [1, 2], "offset": 1.0}, "offset"),
        ({"tensor": "int32", "data": [1, 2], "offset": None}, "offset"),
        ({"array": "bfloat16", "bits": []}, "bfloat16"),
        ({"array": "int32", "data": [2**40]}, "int32"),
        ({"array": {}, "data": []}, "array"),
        ({"list": 5}, "list"),
        ({"list": "abc"}, "list"),
        ({"list": ["a"]}, "str"),
        ({"list": [None]}, "NoneType"),
        ({"list": [[1]]}, "list"),
        ({"list": [{"bits": 7}]}, "bits"),
        ({"list": [{"data": 7}]}, "dict"),
        ({"bits": None}, "bits"),
    ],
)
def test_malformed_json_is_refused_with_the_offending_key(document: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        value_from_json(document)


@DETERMINISTIC
@given(
    st.recursive(
        st.none() | NUMBERS | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["tensor", "drawn", "array", "list", "bits", "data", "shape", "strides", "device"]),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_read_or_refused(document: object) -> None:
    try:
        value = value_from_json(document)
    except ValueError:
        return
    assert value_from_json(value_to_json(value)) is not None or value is None


@pytest.mark.parametrize("kind", [TensorValue, ArrayValue])
def test_a_value_is_validated_when_it_is_made(kind: Any) -> None:
    with pytest.raises(ValueError, match="int7"):
        kind("int7", (1,))
    with pytest.raises(ValueError, match="2 elements"):
        kind("int32", (1, 2), (3,))
    assert kind("int32", (1, 2)).shape == (2,)
    assert kind("int32", ()).shape == (0,)
