"""Cases compare by content to the last bit, and case files are stable, checked and written whole."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.case import TARGET_DEVICE, ArrayValue, Case, CaseFile, ListValue, TensorValue, case_from_json
from harness.case import read_case_file as read
from harness.errors import UsageError

CASE = Case("toy", {"lengths": TensorValue("int32", (0, 5, 9)), "device": TARGET_DEVICE})
CASES = Path(__file__).parent / "cases"


def test_cases_are_equal_when_their_content_is_and_hash_alike() -> None:
    same = Case("toy", {"device": TARGET_DEVICE, "lengths": TensorValue("int32", (0, 5, 9))})
    assert same == CASE
    assert len({same, CASE}) == 1
    assert same.digest == CASE.digest


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (None, False),
        ("1", 1),
        (TensorValue("int32", (1,)), TensorValue("int64", (1,))),
        (TensorValue("int32", (1,)), ArrayValue("int32", (1,))),
        (TensorValue("int32", (1,)), TensorValue("int32", (1,), (1, 1))),
        (TensorValue("int32", (1,)), TensorValue("int32", (1,), device="target")),
        (ListValue((1,)), ListValue((True,))),
        (ListValue((0.0,)), ListValue((-0.0,))),
        (TensorValue("float32", (0.0,)), TensorValue("float32", (-0.0,))),
    ],
)
def test_cases_that_python_would_call_equal_are_told_apart(left: Any, right: Any) -> None:
    assert Case("toy", {"x": left}) != Case("toy", {"x": right})
    assert Case("toy", {"x": left}) == Case("toy", {"x": left})


def test_a_case_with_nan_equals_itself() -> None:
    nan = float("nan")
    assert Case("toy", {"x": nan}) == Case("toy", {"x": nan})
    assert Case("toy", {"x": TensorValue("float32", (nan,))}) == Case("toy", {"x": TensorValue("float32", (nan,))})


def test_a_case_does_not_change_with_what_it_was_made_from() -> None:
    arguments: dict[str, Any] = {"x": 1}
    case = Case("toy", arguments)
    arguments["x"] = 2
    assert case.arguments["x"] == 1
    with pytest.raises(TypeError):
        case.arguments["x"] = 3  # type: ignore[index]


def test_the_size_of_a_case_counts_elements() -> None:
    arguments: dict[str, Any] = {
        "x": TensorValue("int32", (1, 2, 3)),
        "y": ArrayValue("int8", (1,)),
        "z": ListValue((1, 2)),
        "n": 9,
    }
    assert Case("toy", arguments).size() == 6


def test_python_source_calls_the_function_with_every_argument_by_name() -> None:
    got: dict[str, Any] = {}
    case = Case(
        "toy", {"x": TensorValue("int32", (1, 2), (2, 1)), "y": ListValue((float("nan"), 10**400)), "z": "a\n'"}
    )
    exec(compile(case.to_python("function"), "<case>", "exec"), {"function": lambda **given: got.update(given)})
    assert list(got) == ["x", "y", "z"]
    assert got["x"].tolist() == [[1], [2]]
    assert got["y"][1] == 10**400
    assert got["z"] == "a\n'"


def test_python_source_imports_what_it_uses_and_nothing_else() -> None:
    assert "import" not in Case("toy", {"x": 1}).to_python("f")
    assert CASE.to_python("f").splitlines()[0] == "import torch"
    assert Case("toy", {"x": ArrayValue("bool", (True,))}).to_python("f").splitlines()[0] == "import numpy as np"


def test_python_source_makes_derived_arguments_from_the_others() -> None:
    case = Case("toy", {"x": TensorValue("int64", (3, 4)), "y": 2})
    source = case.to_python("function", derived={"total": "operator.mul(x.sum().item(), y)"})
    assert source.splitlines()[:2] == ["import torch", "import operator"]
    got: dict[str, Any] = {}
    exec(compile(source, "<case>", "exec"), {"function": lambda **given: got.update(given)})
    assert list(got) == ["x", "y", "total"]
    assert got["total"] == 14


def test_python_source_prints_what_is_returned_and_then_the_arguments_that_are_asked_for() -> None:
    case = Case("toy", {"x": TensorValue("int64", (3, 4)), "y": ListValue((1, 2)), "z": 5})
    source = case.to_python("function", printed=["y"])
    assert source.splitlines()[-3:] == ["y = [1, 2]", "print(function(x=x, y=y, z=5))", "print(y)"]
    assert case.to_python("function", printed=()).splitlines()[-1] == "print(function(x=x, y=[1, 2], z=5))"


def test_the_name_of_a_case_file_is_the_same_on_every_machine() -> None:
    assert CaseFile(CASE).name == "toy-1ef02e45ee9e.json"
    assert CaseFile(CASE, (CASE,)).name == "toy-e35cf2b63e87.json"


def test_every_kept_case_file_has_the_name_of_its_content() -> None:
    paths = sorted(CASES.glob("*.json"))
    assert paths
    for path in paths:
        assert read(path).name == path.name


def test_a_case_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = CaseFile(CASE, (Case("toy", {"x": float("-inf")}), CASE), 'a note with "quotes" and \ud800')
    path = file.write(tmp_path / "made" / "folder")
    assert path.name == file.name
    assert read(path) == file
    assert [item.name for item in path.parent.iterdir()] == [file.name]


def test_the_note_is_not_part_of_the_name() -> None:
    assert CaseFile(CASE, note="a").name == CaseFile(CASE, note="b").name


def test_processes_that_save_the_same_case_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: CaseFile(CASE).write(tmp_path), range(200)))
    assert len(paths) == 1
    assert read(paths.pop()).case == CASE
    assert len(list(tmp_path.iterdir())) == 1


VALID = CASE.to_json()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "case",
        {},
        VALID | {"bitgate_case": 2},
        VALID | {"bitgate_case": True},
        VALID | {"bitgate_case": 1.0},
        VALID | {"bitgate_case": [1]},
        VALID | {"contract": None},
        VALID | {"contract": 5},
        VALID | {"arguments": []},
        VALID | {"arguments": "lengths"},
        VALID | {"arguments": {"lengths": {"tensor": "int32", "data": [2**31]}}},
        VALID | {"arguments": {"lengths": [0, 1]}},
        VALID | {"before": {}},
        VALID | {"before": None},
        VALID | {"before": [[]]},
        VALID | {"before": [None]},
        VALID | {"before": [{"lengths": {"tensor": "int32"}}]},
        VALID | {"note": 5},
        VALID | {"note": []},
    ],
)
def test_a_malformed_case_file_is_a_usage_error_that_names_the_file(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"case\.json"):
        read(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN", b"\x00", b"{}x"],
    ids=["empty", "torn", "not text", "deep list", "deep object", "long number", "NaN", "zero byte", "trailing"],
)
def test_a_file_that_is_no_json_object_is_a_usage_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"case\.json"):
        read(path)


def test_deeply_nested_arguments_are_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    for depth in (50, 300, 700, 900, 990, 5000):
        arguments = '{"x": {"list": ' + "[" * depth + "]" * depth + "}}"
        path.write_text(f'{{"bitgate_case": 1, "contract": "toy", "arguments": {arguments}}}')
        with pytest.raises(UsageError):
            read(path)


def test_a_missing_case_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Check the path"):
        read(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path)


def test_a_malformed_argument_is_named() -> None:
    document = {"bitgate_case": 1, "contract": "toy", "arguments": {"good": 1, "bad": {"tensor": "int32"}}}
    with pytest.raises(UsageError, match=r"'bad'.*\"data\""):
        case_from_json(document, source="here")
