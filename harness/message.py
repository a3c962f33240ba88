"""Messages: what the child process tells its parent, as JSON that the parent checks field by field.

The child runs code that nobody has reviewed yet. Nothing it sends is imported, unpickled or evaluated; a message that
does not have exactly the expected form counts as the child having failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from harness.case import Case, case_from_json
from harness.errors import UsageError
from harness.verdict import Difference, Element, Finding, StageReport, Symptom

T = TypeVar("T")


class MessageError(ValueError):
    """A message that does not have the expected form."""


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """A finding as JSON; the inverse is :func:`finding_from_json`."""
    difference = finding.difference
    return {
        "symptom": finding.symptom.value,
        "case": finding.case.to_json(),
        "before": [case.to_json() for case in finding.before],
        "difference": None if difference is None else difference_to_json(difference),
        "step": finding.step,
        "message": finding.message,
        "search": finding.search,
    }


def difference_to_json(difference: Difference) -> dict[str, Any]:
    """A difference as JSON."""
    return {
        "path": difference.path,
        "aspect": difference.aspect,
        "expected": difference.expected,
        "got": difference.got,
        "count": difference.count,
        "total": difference.total,
        "elements": [
            {"index": list(element.index), "expected": element.expected, "got": element.got}
            for element in difference.elements
        ],
    }


def finding_from_json(document: Mapping[str, Any], contract: str) -> Finding:
    """Read a finding on a case of ``contract``.

    Raises:
        MessageError: it does not have the expected form.
    """
    difference = document.get("difference")
    try:
        symptom = Symptom(field(document, "symptom", str))
        case = _case(document.get("case"), contract)
        before = tuple(_case(item, contract) for item in field(document, "before", list))
    except (ValueError, UsageError) as error:
        raise MessageError(str(error)) from error
    return Finding(
        symptom,
        case,
        before,
        None if difference is None else _difference(difference),
        field(document, "step", str),
        field(document, "message", str),
        field(document, "search", str),
    )


def history_from_json(document: Mapping[str, Any], contract: str) -> tuple[Case, ...]:
    """Read the calls that came before a finding."""
    return tuple(_case(item, contract) for item in field(document, "cases", list))


def stage_to_json(stage: StageReport, strata: Mapping[str, int]) -> dict[str, Any]:
    """What a search did, and its strata, as JSON."""
    return {
        "search": stage.search,
        "cases": stage.cases,
        "seconds": stage.seconds,
        "space": stage.space,
        "complete": stage.complete,
        "strata": dict(strata),
    }


def stage_from_json(document: Mapping[str, Any]) -> tuple[StageReport, dict[str, int]]:
    """Read what a search did, and its strata.

    Raises:
        MessageError: it does not have the expected form.
    """
    hits = field(document, "strata", dict)
    strata = {str(name): _count(hits, name) for name in hits}
    report = StageReport(
        field(document, "search", str),
        _count(document, "cases"),
        _seconds(document),
        field(document, "space", str),
        field(document, "complete", bool),
    )
    return report, strata


def measures_from_json(document: Mapping[str, Any]) -> dict[str, float]:
    """Read what was measured.

    Raises:
        MessageError: it is not numbers by name.
    """
    values = field(document, "values", dict)
    if not all(type(number) is float for number in values.values()):
        raise MessageError("field 'values' holds something else than numbers")
    return {str(name)[:200]: number for name, number in values.items()}


def notes_from_json(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Read what a reader should know.

    Raises:
        MessageError: it is not a list of sentences.
    """
    notes = field(document, "notes", list)
    if not all(type(note) is str for note in notes):
        raise MessageError("field 'notes' holds something else than sentences")
    return tuple(notes)


def field(document: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """One field of a message, which must be of exactly this type."""
    value = document.get(name)
    if type(value) is not kind:
        raise MessageError(f"field {name!r} is not {kind.__name__}")
    return value


def _case(document: object, contract: str) -> Case:
    case = case_from_json(document, source="message")
    if case.contract != contract:
        raise MessageError(f"a case of {case.contract!r}, not of {contract!r}")
    return case


def _difference(document: object) -> Difference:
    if not isinstance(document, dict):
        raise MessageError("difference is not an object")
    elements = tuple(map(_element, field(document, "elements", list)))
    path, aspect, expected, got = (field(document, name, str) for name in ("path", "aspect", "expected", "got"))
    return Difference(path, aspect, expected, got, _count(document, "count"), _count(document, "total"), elements)


def _element(document: object) -> Element:
    if not isinstance(document, dict):
        raise MessageError("an element is not an object")
    index = field(document, "index", list)
    if any(type(part) is not int for part in index):
        raise MessageError("field 'index' is not a list of int")
    return Element(tuple(index), field(document, "expected", str), field(document, "got", str))


def _count(document: Mapping[str, Any], name: str) -> int:
    number = field(document, name, int)
    if number < 0:
        raise MessageError(f"field {name!r} is negative")
    return number


def _seconds(document: Mapping[str, Any]) -> float:
    number = field(document, "seconds", float)
    if not 0 <= number < math.inf:
        raise MessageError("field 'seconds' is not a duration")
    return number
