"""Listed cases are examined in order, with the calls that come before them, up to the first failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.case import Case, CaseFile
from harness.contract import Contract, Stratum
from harness.examine import Subject
from harness.journal import Entry
from harness.search.listed import search_listed
from harness.verdict import Symptom

CASES = [CaseFile(Case("toy", {"n": number})) for number in (3, 1, 2, 5)]
STRATA = (Stratum("odd", lambda block: block.integers("n")[:, 0] % 2 == 1),)


def reference(n: int) -> int:
    return n * 2


@pytest.fixture
def search(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]) -> Callable[..., Any]:
    def run(candidate: Callable[[int], int], cases: list[CaseFile] = CASES, **changes: Any) -> Any:
        subject = subject_of(contract_of(strata=STRATA), reference, candidate)
        options: dict[str, Any] = {
            "entry": Entry.REPLAY,
            "done": 7,
            "changed": lambda: None,
            "deadline": time.monotonic() + 60,
        }
        return *search_listed(subject, cases, **options | changes), subject.journal.read()

    return run


def test_all_cases_are_examined_and_counted(search: Any) -> None:
    report, strata, found, reading = search(reference)
    assert (report.search, report.cases, report.complete, report.space) == ("replay", 4, True, "")
    assert (strata, found) == ({"odd": 3}, [])
    assert (reading.entry, reading.index, reading.done) == (Entry.REPLAY, 3, 10)


def test_an_empty_list_is_complete(search: Any) -> None:
    report, strata, found, _ = search(reference, [], entry=Entry.SCALE)
    assert (report.search, report.cases, report.complete, strata, found) == ("scale", 0, True, {"odd": 0}, [])


def test_the_search_stops_at_the_first_failure(search: Any) -> None:
    report, strata, found, reading = search(lambda n: n * 2 + (n < 3))
    assert (report.cases, report.complete, strata) == (2, False, {"odd": 2})
    assert [(finding.symptom, finding.case) for finding in found] == [(Symptom.DIFFERENT, CASES[1].case)]
    assert reading.index == 1


def test_calls_that_come_before_are_made_first(search: Any) -> None:
    seen: list[int] = []

    def candidate(n: int) -> int:
        seen.append(n)
        return n * 2 + (n == 5 and 9 in seen)

    listed = [CaseFile(Case("toy", {"n": 5})), CaseFile(Case("toy", {"n": 5}), (Case("toy", {"n": 9}),))]
    report, _, found, _ = search(candidate, listed)
    assert report.cases == 2
    assert found[0].before == listed[1].before
    assert seen == [5, 5, 9, 5]


def test_the_deadline_ends_the_search_incomplete(search: Any) -> None:
    report, strata, found, _ = search(reference, deadline=time.monotonic() - 1)
    assert (report.cases, report.complete, strata, found) == (0, False, {"odd": 0}, [])


def test_a_change_of_the_surroundings_is_a_finding_on_the_case_before_it(search: Any) -> None:
    looks = iter([None, "something was changed"])
    report, _, found, _ = search(reference, changed=lambda: next(looks))
    assert (report.cases, found[0].symptom, found[0].case) == (2, Symptom.CHANGED_GLOBALS, CASES[1].case)
    assert found[0].message == "something was changed"


def test_a_difference_is_told_rather_than_a_change_of_the_surroundings(search: Any) -> None:
    _, _, found, _ = search(lambda n: 0, changed=lambda: "something was changed")
    assert [finding.symptom for finding in found] == [Symptom.DIFFERENT]
    assert np.shape(found) == (1,)
