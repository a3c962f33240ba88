"""Distances in ulps, and the float64 loop that they are measured from."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from harness.case import Case, TensorValue
from harness.kernels.conv_cases import NAME, arguments_of, case_of
from harness.kernels.ulps import FARTHEST, convolution_in_float64, measure, ordered, ulp_distance
from harness.materialise import live_value
from references.causal_conv1d_prefill import causal_conv1d_fn
from strategies.conv_batch import ConvBatch, Row, rows_of

CPU = torch.device("cpu")
BATCH = ConvBatch(
    rows=rows_of([5, 2, 0, 12, 1], null=[1]), lines=6, dim=7, has_bias=True, activation="silu", numbers="ordinary"
)


def called(case: Case) -> torch.Tensor:
    arguments = {name: live_value(value, CPU) for name, value in case.arguments.items()}
    return causal_conv1d_fn(**arguments, metadata=None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_a_type_has_a_place_of_its_own_in_order(dtype: torch.dtype) -> None:
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
    numbers = numbers[~numbers.isnan()]
    by_place = numbers[ordered(numbers).argsort()].double().tolist()
    assert all(before <= after for before, after in pairwise(by_place))
    places = ordered(numbers).sort().values
    assert places.diff().tolist().count(0) == 1  # the two zeros
    assert int(places.diff().max()) == 1


def test_places_of_float32_are_monotone_and_neighbours_are_one_apart() -> None:
    numbers = torch.tensor([-math.inf, -3e38, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, 1.5, 3e38, math.inf])
    places = ordered(numbers).tolist()
    assert places == sorted(places)
    assert places[4] == places[5] == 0
    assert (places[3], places[6]) == (-1, 1)
    upper = torch.nextafter(numbers[1:-1], torch.tensor(math.inf))
    assert ulp_distance(numbers[1:-1], upper).tolist() == [1] * 9


@pytest.mark.parametrize(
    ("dtype", "left", "right", "distance"),
    [
        (torch.bfloat16, 1.0, 1.0078125, 1),
        (torch.bfloat16, 1.0, 0.99609375, 1),
        (torch.bfloat16, -1.0, 1.0, 2 * 0x3F80),
        (torch.float16, 1.0, 2.0, 1024),
        (torch.float16, 0.0, -0.0, 0),
        (torch.float32, 1.0, 1.0 + 2**-23, 1),
        (torch.float32, 2.0**-149, -(2.0**-149), 2),
    ],
)
def test_a_distance_counts_the_steps_between(dtype: torch.dtype, left: float, right: float, distance: int) -> None:
    pair = torch.tensor([left], dtype=dtype), torch.tensor([right], dtype=dtype)
    assert ulp_distance(*pair).tolist() == ulp_distance(*pair[::-1]).tolist() == [distance]


def test_not_a_number_is_farther_away_than_infinity() -> None:
    one, inf, nan = (torch.tensor([number]) for number in (1.0, math.inf, math.nan))
    assert ulp_distance(nan, one) > ulp_distance(inf, one)


def test_the_float64_loop_is_the_convolution() -> None:
    arguments = arguments_of(ConvBatch(rows=(Row(2, 1, True), Row(3, 0), Row(1, 2)), lines=3)) | {
        "x": TensorValue("float32", (1.0, 2.0, 9.0, 9.0, 9.0, 3.0), (1, 6), "target", (1, 1)),
        "weight": TensorValue("float32", (1.0, 10.0, 100.0, -1000.0), (1, 4), "target"),
        "bias": TensorValue("float32", (0.5,), (1,), "target"),
        "conv_states": TensorValue(
            "float32", (math.nan,) * 3 + (4.0, 5.0, 6.0) + (math.nan,) * 3, (3, 1, 3), "target", (3, 1, 1)
        ),
    }
    sums, sizes = convolution_in_float64(Case(NAME, arguments))
    assert sums[0, [0, 1, 5]].tolist() == [-345.5, -1834.5, -2999.5]
    assert sizes[0, [0, 1, 5]].tolist() == [1654.5, 2165.5, 3000.5]
    assert sums[0, 2:5].isnan().all()
    activated, _ = convolution_in_float64(Case(NAME, arguments | {"activation": "silu"}))
    assert activated[0, 0].item() == pytest.approx(-345.5 * math.exp(-345.5))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_loop_agrees_with_the_frozen_reference_where_results_are_exact(dtype: str) -> None:
    case = case_of(replace(BATCH, dtype=dtype, activation=None, numbers="integers"))  # type: ignore[arg-type]
    exact, _ = convolution_in_float64(case)
    returned = called(case)
    written = ~exact.isnan()
    assert written.sum() == 7 * 18
    assert torch.equal(returned[written], exact[written].to(returned.dtype))


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("numbers", ["ordinary", "steep"])
@pytest.mark.parametrize(("dtype", "most"), [("float32", 4.4), ("bfloat16", 1.1), ("float16", 1.1)])
def test_the_frozen_reference_lies_within_the_stated_error(
    dtype: str, most: float, numbers: str, activation: str | None
) -> None:
    batch = replace(BATCH, dtype=dtype, numbers=numbers, activation=activation, dim=50)  # type: ignore[arg-type]
    case = case_of(batch)
    measured = measure(case, called(case))
    label = f"{activation or 'no activation'}, {dtype}"
    assert set(measured) == {f"ulps from float64, {label}", f"error by size of terms, {label}"}
    assert all(type(number) is float for number in measured.values())
    assert 0 < measured[f"error by size of terms, {label}"] <= most


def test_another_algorithm_has_a_larger_error() -> None:
    case = case_of(replace(BATCH, dtype="bfloat16"))
    returned = called(case)
    returned[:, 3] *= 1.25
    assert measure(case, returned)["error by size of terms, silu, bfloat16"] > 1.1


def test_not_a_number_is_a_finite_distance_that_nothing_right_has() -> None:
    case = case_of(replace(BATCH, dtype="bfloat16"))
    returned = called(case)
    returned[0, 0] = math.nan
    assert measure(case, returned)["error by size of terms, silu, bfloat16"] == FARTHEST


def test_what_cannot_be_measured_has_no_distance() -> None:
    case = case_of(BATCH)
    nothing = case_of(replace(BATCH, rows=()))
    assert measure(case, None) == {}
    assert measure(case, torch.zeros(2, 2)) == {}
    assert measure(case, called(case).double()) == {}
    assert measure(nothing, called(nothing)) == {}
