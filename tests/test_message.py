"""Messages survive the way through JSON, and garbage is nothing but a MessageError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import Case, TensorValue
from harness.message import (
    MessageError,
    field,
    finding_from_json,
    finding_to_json,
    measures_from_json,
    stage_from_json,
    stage_to_json,
)
from harness.verdict import Difference, Element, Finding, StageReport, Symptom

CASE = Case("toy", {"x": TensorValue("float32", (0.5, float("nan")))})
DIFFERENCE = Difference("[0]", "value", "1", "2", 2, 5, (Element((0, 1), "1", "2"), Element((), "a", "b")))
FINDINGS = [
    Finding(Symptom.DIFFERENT, CASE),
    Finding(Symptom.STALE, CASE, (CASE, Case("toy", {})), DIFFERENCE, "a step", "a message", "exhaustive"),
    Finding(Symptom.CHANGED_GLOBALS, CASE, message="\x1b[31m\ud800"),
]
STAGE = StageReport("exhaustive", 12, 0.5, "every case", complete=False)


def finding_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(finding_to_json(FINDINGS[1])))
    return document


def stage_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(stage_to_json(STAGE, {"empty": 3})))
    return document


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_survives_the_way_through_json(finding: Finding) -> None:
    assert finding_from_json(json.loads(json.dumps(finding_to_json(finding))), "toy") == finding


def test_what_a_search_did_survives_the_way_through_json() -> None:
    assert stage_from_json(stage_document()) == (STAGE, {"empty": 3})


def test_a_finding_on_a_case_of_another_contract_is_refused() -> None:
    with pytest.raises(MessageError, match="'toy'"):
        finding_from_json(finding_document(), "other")
    document = finding_document()
    document["before"][1]["contract"] = "other"
    with pytest.raises(MessageError, match="'other'"):
        finding_from_json(document, "toy")


WRONG: list[Any] = [None, True, -1, 1.5, "", "x", [], [None], [[]], {}, {"a": 1}, [{}], float("nan"), 10**30]


def keys_of(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything inside a document."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    paths = []
    for key, item in items:
        paths.append((*path, key))
        if isinstance(item, dict | list):
            paths += keys_of(item, (*path, key))
    return paths


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


@pytest.mark.parametrize("path", keys_of(finding_document()), ids=str)
def test_a_finding_with_anything_replaced_is_read_or_refused(path: tuple[Any, ...]) -> None:
    accepted = 0
    for value in WRONG:
        try:
            found = finding_from_json(replaced(finding_document(), path, value), "toy")
        except MessageError:
            continue
        accepted += 1
        assert finding_from_json(finding_to_json(found), "toy") == found
    assert accepted < len(WRONG) - 4
    inner: Any = finding_document()
    removed = inner
    for key in path[:-1]:
        removed = removed[key]
    if isinstance(removed, dict) and path != ("difference",) and path[-1] not in ("x", "shape", "device"):
        del removed[path[-1]]
        with pytest.raises(MessageError):
            finding_from_json(inner, "toy")


@pytest.mark.parametrize("path", keys_of(stage_document()), ids=str)
def test_a_stage_with_anything_replaced_is_read_or_refused(path: tuple[Any, ...]) -> None:
    for value in WRONG:
        try:
            stage, strata = stage_from_json(replaced(stage_document(), path, value))
        except MessageError:
            continue
        assert stage.cases >= 0
        assert stage.seconds >= 0
        assert all(type(count) is int and count >= 0 for count in strata.values())


@pytest.mark.parametrize("name", ["search", "cases", "seconds", "space", "complete", "strata"])
def test_a_stage_needs_every_field(name: str) -> None:
    document = stage_document()
    del document[name]
    with pytest.raises(MessageError, match=name):
        stage_from_json(document)


@pytest.mark.parametrize(
    "change",
    [
        {"cases": True},
        {"cases": -1},
        {"cases": 1.0},
        {"seconds": 1},
        {"seconds": -0.5},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"complete": 1},
        {"strata": {"empty": -3}},
        {"strata": {"empty": True}},
        {"strata": {"empty": "3"}},
        {"strata": []},
    ],
)
def test_counts_and_durations_must_be_possible(change: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        stage_from_json(stage_document() | change)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(sorted({*finding_document(), *stage_document()})),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
    )
)
def test_garbage_is_a_message_error(document: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        finding_from_json(document, "toy")
    with pytest.raises(MessageError):
        stage_from_json(document)


@pytest.mark.parametrize("depth", [100, 400, 800, 950])
def test_deep_nesting_is_a_message_error(depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    for path in (("case",), ("case", "arguments", "x"), ("difference",), ("difference", "elements"), ("before",)):
        with pytest.raises(MessageError):
            finding_from_json(replaced(finding_document(), path, nested), "toy")


def test_a_field_must_have_exactly_its_type() -> None:
    assert field({"x": 1}, "x", int) == 1
    for document in ({"x": True}, {"x": 1.0}, {"x": None}, {}):
        with pytest.raises(MessageError, match="'x' is not int"):
            field(document, "x", int)


def test_measures_are_numbers_by_name() -> None:
    assert measures_from_json({"values": {"ulps": 0.5}}) == {"ulps": 0.5}


@pytest.mark.parametrize("values", [None, [], {"ulps": "many"}, {"ulps": True}, {"ulps": {}}])
def test_measures_of_another_form_are_refused(values: object) -> None:
    with pytest.raises(MessageError, match="values"):
        measures_from_json({"values": values})
