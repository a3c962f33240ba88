"""Drawn values: elements follow from the seed alone, and are as large as their word says."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from harness.case import DrawnValue
from harness.materialise import live_value
from harness.value import value_from_json, value_to_json

CPU = torch.device("cpu")
VALUE = DrawnValue("bfloat16", (3, 40), "integers", 7, ((0, 1, 2), (1, 38, 40)), (1, 5), 3, "target")


def test_elements_are_the_same_on_every_machine() -> None:
    drawn = DrawnValue("float32", (4,), "integers", 1).elements().tolist()
    assert drawn == [4.0, 14.0, 16.0, 14.0]
    assert DrawnValue("float32", (2,), "ordinary", 1).elements().tolist() == [-0.9056863784790039, -0.0]


def test_the_shape_says_how_many_elements_and_not_which() -> None:
    few, many = (DrawnValue("float32", shape, "ordinary", 5).elements().reshape(-1) for shape in ((2, 3), (7,)))
    assert few.tolist() == many[:6].tolist()


def test_another_seed_gives_other_elements() -> None:
    drawn = [tuple(DrawnValue("float32", (50,), "ordinary", seed).elements()) for seed in range(20)]
    assert len(set(drawn)) == 20


@pytest.mark.parametrize(("numbers", "largest"), [("integers", 16.0), ("ordinary", 2.0), ("steep", 64.0)])
def test_elements_fill_their_range_evenly(numbers: str, largest: float) -> None:
    elements = DrawnValue("float64", (20_000,), numbers, 3).elements()
    assert np.abs(elements).max() <= largest
    assert elements.max() > 0.99 * largest
    assert elements.min() < -0.99 * largest
    assert abs(elements.mean()) < 0.02 * largest
    assert (elements == elements.round()).all() == (numbers == "integers")


def test_every_integer_and_every_product_of_two_is_exact_in_every_type() -> None:
    products = torch.outer(torch.arange(-16.0, 17), torch.arange(-16.0, 17))
    for dtype in (torch.float16, torch.bfloat16):
        assert torch.equal(products.to(dtype).float(), products)


def test_elements_of_the_named_ranges_alone_are_nan() -> None:
    elements = VALUE.elements()
    expected = np.zeros((3, 40), dtype=bool)
    expected[1:2], expected[:, 38:40] = True, True
    assert (np.isnan(elements) == expected).all()


def test_a_live_drawn_value_has_its_type_and_layout() -> None:
    value = dataclasses.replace(VALUE, shape=(3, 4), nan=())
    tensor = live_value(value, CPU)
    assert (tensor.dtype, tensor.shape, tensor.stride()) == (torch.bfloat16, (3, 4), (1, 5))
    assert tensor.storage_offset() == 3
    assert tensor.tolist() == value.elements().tolist()


def test_a_drawn_value_survives_json() -> None:
    document = json.loads(json.dumps(value_to_json(VALUE)))
    assert value_from_json(document) == VALUE
    assert value_from_json(value_to_json(DrawnValue("float16", (), "steep"))) == DrawnValue("float16", (), "steep")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("dtype", "int32", "dtype 'int32'"),
        ("numbers", "primes", "numbers 'primes' is not one of integers"),
        ("shape", (3, -1), "negative size"),
        ("seed", -1, "seed -1"),
        ("seed", 1 << 32, "seed"),
        ("nan", ((2, 0, 1),), "no range"),
        ("nan", ((0, 1, 4),), "no range"),
        ("nan", ((0, 2, 1),), "no range"),
        ("strides", (1, 2), "overlap"),
        ("offset", -1, "offset -1"),
    ],
)
def test_a_drawn_value_is_validated_when_it_is_made(field: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(VALUE, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"drawn": "int32"}, "int32"),
        ({"drawn": 5}, "drawn"),
        ({"numbers": None}, "numbers"),
        ({"numbers": "primes"}, "primes"),
        ({"shape": 3}, "shape"),
        ({"shape": [True]}, "shape"),
        ({"seed": 1.0}, "seed"),
        ({"seed": None}, "seed"),
        ({"nan": 5}, "nan"),
        ({"nan": [[0, 1]]}, "nan"),
        ({"nan": [[0, 1, True]]}, "nan"),
        ({"strides": 1}, "strides"),
        ({"strides": [1, 2.0]}, "strides"),
        ({"strides": [1, 1]}, "overlap"),
        ({"offset": "1"}, "offset"),
        ({"offset": -1}, "offset"),
        ({"device": "cuda:0"}, "device"),
    ],
)
def test_malformed_json_is_refused_with_the_offending_key(changed: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        value_from_json(value_to_json(VALUE) | changed)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_nan_is_the_same_nan_however_many_there_are(dtype: str) -> None:
    one = torch.tensor([float("nan")], dtype=getattr(torch, dtype)).view(torch.uint8).tolist()
    for count in (1, 3, 16, 33, 1000):
        value = DrawnValue(dtype, (count,), "ordinary", nan=((0, 0, count),))  # type: ignore[arg-type]
        assert live_value(value, CPU).view(torch.uint8).tolist() == one * count


def test_negative_zeros_are_drawn_where_a_name_says_so_and_nowhere_in_plain_integers() -> None:
    def negative_zeros(numbers: str) -> int:
        drawn = DrawnValue("float32", (4096,), numbers, 7).elements()
        return int(((drawn == 0) & np.signbit(drawn)).sum())

    assert negative_zeros("integers") == 0
    assert min(map(negative_zeros, ("integers or -0.0", "ordinary", "steep"))) > 20


def test_extreme_numbers_are_infinite_subnormal_and_large() -> None:
    drawn = DrawnValue("float16", (4096,), "extreme", 3).elements()
    assert {float("inf"), 6e-8} <= set(drawn.tolist())
    assert drawn.min() > 0
    assert 1900 < np.abs(drawn[np.isfinite(drawn)]).max() <= 2000
