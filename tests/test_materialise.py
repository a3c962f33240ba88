"""Live arguments hold the values of their case, and are new for every call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from harness.case import TARGET_DEVICE, ArrayValue, ListValue, TensorValue, Value
from harness.compare import compare
from harness.errors import HarnessError, LoadError
from harness.materialise import Signature, live_block, live_case, live_value, signature_of
from harness.search.space import Block, Column, TensorColumn, ValueColumn

CPU = torch.device("cpu")


def reference(x: Any, y: Any = None, z: Any = 3, *, device: Any = None, flag: bool = False) -> None: ...


SIGNATURE = signature_of(reference)


def test_a_signature_knows_the_order_and_what_is_passed_by_keyword() -> None:
    assert Signature(("x", "y", "z", "device", "flag"), frozenset({"device", "flag"})) == SIGNATURE


@pytest.mark.parametrize(
    ("values", "positional", "keyword"),
    [
        ({}, (), {}),
        ({"x": 1}, (1,), {}),
        ({"z": 3, "y": 2, "x": 1}, (1, 2, 3), {}),
        ({"x": 1, "z": 3}, (1,), {"z": 3}),
        ({"y": 2, "z": 3}, (), {"y": 2, "z": 3}),
        ({"x": 1, "flag": True}, (1,), {"flag": True}),
        ({"device": "d", "x": 1, "z": 3, "flag": True}, (1,), {"z": 3, "device": "d", "flag": True}),
    ],
)
def test_an_argument_that_is_left_out_keeps_its_default(values: Any, positional: Any, keyword: Any) -> None:
    bound = SIGNATURE.bind(values)
    assert (bound.positional, bound.keyword) == (positional, keyword)
    assert bound.named(SIGNATURE.names) == values


def test_an_argument_that_the_reference_does_not_take_is_an_error() -> None:
    with pytest.raises(HarnessError, match="other, unknown"):
        SIGNATURE.bind({"x": 1, "unknown": 2, "other": 3})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (TensorValue("int32", (1, 2)), lambda: torch.tensor([1, 2], dtype=torch.int32)),
        (TensorValue("bool", (True,)), lambda: torch.tensor([True])),
        (TensorValue("uint8", (255,)), lambda: torch.tensor([255], dtype=torch.uint8)),
        (TensorValue("bfloat16", (1.5, -0.0), (2, 1)), lambda: torch.tensor([[1.5], [-0.0]], dtype=torch.bfloat16)),
        (TensorValue("float32", (), (0, 3)), lambda: torch.empty((0, 3))),
        (TensorValue("int64", (2**53 + 1,), device="target"), lambda: torch.tensor([2**53 + 1])),
        (ArrayValue("int16", (1, 2, 3, 4), (2, 2)), lambda: np.array([[1, 2], [3, 4]], dtype=np.int16)),
        (ArrayValue("float64", (float("-inf"),)), lambda: np.array([float("-inf")])),
        (ArrayValue("int64", ()), lambda: np.array([], dtype=np.int64)),
        (ListValue((1, 2.5, True)), lambda: [1, 2.5, True]),
        (TARGET_DEVICE, lambda: CPU),
        (7, lambda: 7),
        (None, lambda: None),
        ("text", lambda: "text"),
    ],
)
def test_a_live_value_is_the_value_to_the_last_bit_and_new_every_time(value: Value, expected: Any) -> None:
    live = live_value(value, CPU)
    assert compare(expected(), live) is None
    if isinstance(live, torch.Tensor | np.ndarray | list):
        again = live_value(value, CPU)
        assert again is not live
        assert compare([live, again], [live_value(value, CPU), live_value(value, CPU)]) is None


COLUMNS: dict[str, Column] = {
    "x": TensorColumn("int32", np.arange(12, dtype=np.int64).reshape(6, 2)),
    "y": ValueColumn([ArrayValue("int8", (i,)) for i in range(6)]),
    "z": ValueColumn([*range(6)]),
    "flag": ValueColumn([i % 2 == 0 for i in range(6)]),
}


@pytest.mark.parametrize(
    ("columns", "fixed"),
    [
        (["x"], {}),
        (["x"], {"device": TARGET_DEVICE}),
        (["x"], {"device": TARGET_DEVICE, "y": 5, "z": 6, "flag": True}),
        (["x", "y", "z"], {}),
        (["z", "y", "x"], {"device": TARGET_DEVICE}),
        (["x", "z"], {}),
        (["y", "z"], {}),
        (["z"], {"x": TensorValue("int64", (1, 2))}),
        (["x", "flag"], {"device": TARGET_DEVICE}),
        (["flag"], {"device": TARGET_DEVICE}),
        (["x", "z", "flag"], {"device": TARGET_DEVICE}),
        (["x"], {"y": ListValue((1, 2)), "device": TARGET_DEVICE}),
        (["x", "y"], {"device": TensorValue("float32", (0.5,))}),
    ],
)
@pytest.mark.parametrize(("start", "stop"), [(0, 6), (2, 5), (5, 6)])
def test_a_block_gives_the_same_arguments_as_its_cases(
    columns: list[str], fixed: dict[str, Value], start: int, stop: int
) -> None:
    block = Block("toy", {name: COLUMNS[name] for name in columns}, fixed)
    rows, backing = live_block(block, start, stop, SIGNATURE, CPU)
    live = [(positional, dict(keyword)) for positional, keyword in rows]
    assert len(live) == stop - start
    for index, (positional, keyword) in enumerate(live, start):
        alone = live_case(block[index], SIGNATURE, CPU)
        assert compare([alone.positional, alone.keyword], [positional, keyword]) is None
    assert len(
        {id(part) for positional, _ in live for part in positional if isinstance(part, torch.Tensor | list)}
    ) in (
        0,
        stop - start,
        2 * (stop - start),
    )
    for held in backing.values():
        assert len(held) == stop - start


def test_a_write_to_an_argument_changes_the_backing_of_that_case_alone() -> None:
    fixed: dict[str, Value] = {"y": TensorValue("int32", (1, 2)), "device": ListValue((1,))}
    block = Block("toy", {"x": COLUMNS["x"], "z": COLUMNS["y"]}, fixed)
    (rows, backing), (_, before) = (live_block(block, 0, 6, SIGNATURE, CPU) for _ in range(2))
    (x, y, z), keyword = list(rows)[2]
    x[0], y[0], z[0] = 100, 100, 100
    keyword["device"].append(100)
    for name in ("x", "y", "z", "device"):
        changed = [row for row in range(6) if compare(before[name][row], backing[name][row]) is not None]
        assert changed == [2], name


def test_a_write_past_the_end_of_an_argument_lands_in_the_backing() -> None:
    block = Block("toy", {"x": COLUMNS["x"]})
    rows, backing = live_block(block, 0, 6, SIGNATURE, CPU)
    (x,), _ = next(rows)
    torch.as_strided(x, (3,), (1,))[2] = -1
    assert backing["x"].tolist()[:2] == [[0, 1], [-1, 3]]
    assert block[1].arguments["x"] == TensorValue("int32", (2, 3))


def test_a_candidate_whose_parameters_stand_at_other_places_is_refused_with_both_places() -> None:
    def shifted(x: object, extra: object, y: object) -> None: ...

    def renamed(anything: object, other: object) -> None: ...

    signature = Signature(("x", "y"), frozenset())
    with pytest.raises(LoadError, match="it takes 'y' as argument 3, the contract passes it as argument 2"):
        signature.check_accepted_by(lambda x, extra=None, y=None: shifted(x, extra, y))
    signature.check_accepted_by(renamed)
