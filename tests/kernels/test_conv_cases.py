"""Cases of a convolution say what their batch says, and what nobody may read is NaN."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from harness.case import Case, DrawnValue, ListValue, TensorValue, Value, case_from_json
from harness.kernels.conv_cases import NAME, batch_of, case_of, facts_of, is_exact
from harness.materialise import live_value
from strategies.conv_batch import NULL_LINE, ConvBatch, Row, other_values, rows_of
from strategies.conv_batches import conv_batches

CPU = torch.device("cpu")
BATCH = ConvBatch(
    rows=(Row(3, 5, True), Row(9, 0, True), Row(0, 2, True), Row(2, 1)),
    lines=7,
    dim=4,
    width=3,
    dtype="bfloat16",
    has_bias=True,
    seed=9,
    padding=2,
    token_gap=1,
    column_gap=2,
    line_gap=3,
    x_offset=1,
    weight_offset=2,
    state_offset=3,
    index_offset=1,
)
CASE = case_of(BATCH)


def live(case: Case) -> dict[str, Any]:
    return {name: live_value(value, CPU) for name, value in case.arguments.items()}


def changed(**values: Value) -> Mapping[str, Value]:
    return {**CASE.arguments, **values}


def test_arguments_have_the_shapes_types_and_layout_of_the_batch() -> None:
    values = live(CASE)
    layout = {
        name: (tuple(t.shape), t.stride(), t.storage_offset()) for name, t in values.items() if hasattr(t, "shape")
    }
    assert layout == {
        "x": ((4, 16), (1, 5), 1),
        "weight": ((4, 3), (3, 1), 2),
        "bias": ((4,), (1,), 2),
        "conv_states": ((7, 4, 2), (15, 1, 6), 3),
        "query_start_loc": ((5,), (1,), 1),
        "cache_indices": ((4,), (1,), 1),
        "has_initial_state": ((4,), (1,), 1),
    }
    assert {values[name].dtype for name in ("x", "weight", "bias", "conv_states")} == {torch.bfloat16}
    assert values["query_start_loc"].tolist() == [0, 3, 12, 12, 14]
    assert values["cache_indices"].tolist() == [5, 0, 2, 1]
    assert values["has_initial_state"].tolist() == [True, True, True, False]
    assert (values["activation"], values["pad_slot_id"], values["null_block_id"]) == (None, -1, 0)
    assert {value.device for value in CASE.arguments.values() if isinstance(value, TensorValue | DrawnValue)} == {
        "target"
    }


def test_what_nobody_may_read_is_nan_and_nothing_else() -> None:
    values = live(CASE)
    assert values["x"].isnan().any(dim=0).nonzero().flatten().tolist() == [14, 15]
    assert values["x"].isnan().all(dim=0).nonzero().flatten().tolist() == [14, 15]
    lines = values["conv_states"].isnan().flatten(1)
    assert lines.any(dim=1).tolist() == lines.all(dim=1).tolist() == [True, True, False, True, True, False, True]
    assert not values["weight"].isnan().any()


def test_tensors_of_a_case_are_drawn_from_seeds_of_their_own() -> None:
    seeds = {
        value.seed
        for case in (CASE, case_of(other_values(BATCH)))
        for value in case.arguments.values()
        if isinstance(value, DrawnValue)
    }
    assert len(seeds) == 8


@settings(derandomize=True, deadline=None, max_examples=200)
@given(conv_batches())
def test_a_batch_is_read_back_from_its_case_and_from_its_file(batch: ConvBatch) -> None:
    case = case_of(batch)
    assert batch_of(case) == batch
    again = case_from_json(json.loads(json.dumps(case.to_json())))
    assert again == case
    assert batch_of(again) == batch


def test_the_python_source_of_a_case_builds_the_same_arguments() -> None:
    got: dict[str, Any] = {}
    source = CASE.to_python(
        "call", derived={"metadata": "harness.kernels.program_tables.program_tables(query_start_loc)"}
    )
    exec(compile(source, "<case>", "exec"), {"call": lambda **given: got.update(given)})
    assert got["metadata"].nums_dict[8]["tot"] == 4
    for name, value in live(CASE).items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(got[name].nan_to_num(99), value.nan_to_num(99))
            assert (got[name].stride(), got[name].storage_offset()) == (value.stride(), value.storage_offset())
        else:
            assert got[name] == value


def test_a_saved_case_of_another_form_has_no_batch() -> None:
    x = CASE.arguments["x"]
    assert isinstance(x, DrawnValue)
    strange = [
        Case(NAME, changed(x=dataclasses.replace(x, nan=()))),
        Case(NAME, changed(x=dataclasses.replace(x, seed=x.seed + 1))),
        Case(NAME, changed(x=dataclasses.replace(x, numbers="steep"))),
        Case(NAME, changed(x=TensorValue("bfloat16", (1.0,) * 64, (4, 16), "target", (1, 4)))),
        Case(NAME, changed(x=3)),
        Case(NAME, {}),
    ]
    assert [batch_of(case) for case in strange] == [None] * len(strange)


def test_exact_are_whole_numbers_without_activation() -> None:
    small = ConvBatch(rows=rows_of([1]), lines=2)
    assert is_exact(case_of(small))
    assert is_exact(CASE)
    assert not is_exact(case_of(dataclasses.replace(small, activation="silu")))
    assert not is_exact(case_of(dataclasses.replace(small, numbers="ordinary")))


@pytest.mark.parametrize(
    ("number", "exact"), [(16.0, True), (-16.0, True), (float("nan"), True), (0.5, False), (17.0, False)]
)
def test_numbers_that_are_written_out_are_exact_if_small_and_whole(number: float, exact: bool) -> None:
    bias = TensorValue("bfloat16", (1.0, number, 0.0, -3.0), device="target")
    assert is_exact(Case(NAME, changed(bias=bias))) == exact


def test_infinity_is_not_exact() -> None:
    assert not is_exact(Case(NAME, changed(bias=TensorValue("bfloat16", (float("inf"),) * 4, device="target"))))


def _index(dtype: str, *data: int) -> TensorValue:
    return TensorValue(dtype, data, device="target")


def _drawn(name: str, **fields: Any) -> DrawnValue:
    value = CASE.arguments[name]
    assert isinstance(value, DrawnValue)
    return dataclasses.replace(value, **fields)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("x", 3, "x must be a tensor of 2 dimensions"),
        ("x", ListValue(()), "x must be"),
        ("x", _drawn("x", shape=(64,), strides=(), nan=()), "2 dimensions"),
        ("x", _drawn("x", dtype="float32"), "element type"),
        ("x", _drawn("x", dtype="float64"), "element type"),
        ("x", _drawn("x", device="cpu"), "device of x"),
        ("x", _drawn("x", strides=()), "side by side"),
        ("weight", _drawn("weight", shape=(5, 3)), "for 4 channels"),
        ("weight", _drawn("weight", shape=(4, 5)), "width"),
        ("weight", _drawn("weight", strides=(1, 4)), "contiguous"),
        ("bias", _drawn("bias", shape=(5,)), "for 4 channels"),
        ("conv_states", _drawn("conv_states", shape=(7, 4, 1)), r"\(lines, 4, 2\)"),
        ("conv_states", _drawn("conv_states", shape=(0, 4, 2), nan=()), "lines"),
        ("conv_states", _drawn("conv_states", strides=()), "side by side"),
        ("query_start_loc", _index("int64", 0, 3, 12, 12, 14), "int32"),
        ("query_start_loc", _index("int32", 1, 3, 12, 12, 14), "start at 0"),
        ("query_start_loc", _index("int32", 0, 3, 2, 12, 14), "not decrease"),
        ("query_start_loc", _index("int32", 0, 3, 12, 12, 17), "end at 16"),
        ("query_start_loc", _index("int32"), "start at 0"),
        ("query_start_loc", _index("int32", 0, 3), "1 lines"),
        ("cache_indices", _index("int32", 5, 0, 2), "4 lines"),
        ("cache_indices", _index("int32", 5, 0, 2, 7), "of the cache"),
        ("cache_indices", _index("int32", 5, 0, 2, -1), "of the cache"),
        ("cache_indices", _index("int32", 5, 0, 2, 2), "twice"),
        ("has_initial_state", _index("bool", True), "4 elements"),
        ("has_initial_state", _index("int32", 1, 1, 1, 1), "bool"),
        ("activation", "gelu", "activation"),
        ("pad_slot_id", 0, "pad_slot_id"),
        ("null_block_id", 7, "null_block_id"),
        ("null_block_id", -1, "null_block_id"),
        ("null_block_id", True, "null_block_id"),
    ],
)
def test_arguments_outside_of_the_domain_are_refused_by_name(name: str, value: Value, words: str) -> None:
    facts_of(CASE.arguments)
    with pytest.raises(ValueError, match=words):
        facts_of(changed(**{name: value}))


@pytest.mark.parametrize("null_block", [0, 2, 5, None])
def test_the_null_line_has_the_number_that_the_call_says(null_block: int | None) -> None:
    rows = (Row(3, 4, True), Row(2, 5), *([] if null_block is None else [Row(9, NULL_LINE, True)]))
    batch = ConvBatch(rows=rows, lines=6, null_block=null_block, dtype="float16")
    case = case_of(batch)
    assert batch_of(case) == batch
    facts = facts_of(case.arguments)
    assert facts.null_block == null_block
    absent = [line for line, row in zip(facts.lines, rows, strict=True) if row.line == NULL_LINE]
    assert absent == ([] if null_block is None else [null_block])
    assert len({*facts.lines}) == len(rows)
    states = facts.states
    assert isinstance(states, DrawnValue)
    read = {line for line in range(6) if not any(start <= line < stop for _, start, stop in states.nan)}
    assert read == {facts.lines[0]}


def test_without_a_null_line_a_row_can_have_line_0() -> None:
    batch = ConvBatch(rows=(Row(3, 3),), lines=4, null_block=None)
    assert facts_of(case_of(batch).arguments).lines == (0,)
