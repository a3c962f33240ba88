"""A run is as bad as its worst result, and nothing at all is never equal."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from harness.case import Case
from harness.verdict import Difference, Element, ExitCode, Finding, Result, StageReport, Symptom, Verdict, overall
from harness.verdict import exit_code as code_of


def result(verdict: Verdict, **changes: Any) -> Result:
    return Result(contract="toy", candidate="c", observe="strict", device="cpu", verdict=verdict, **changes)


EQUAL, DIFFERENT = result(Verdict.EQUAL), result(Verdict.DIFFERENT)
INCONCLUSIVE = result(Verdict.INCONCLUSIVE)
UNLOADABLE = result(Verdict.INCONCLUSIVE, loaded=False)
SKIPPED = result(Verdict.INCONCLUSIVE, skipped=True)


@pytest.mark.parametrize(
    ("results", "code", "verdict"),
    [
        ([], ExitCode.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        ([EQUAL], ExitCode.EQUAL, Verdict.EQUAL),
        ([EQUAL, EQUAL], ExitCode.EQUAL, Verdict.EQUAL),
        ([EQUAL, INCONCLUSIVE], ExitCode.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        ([EQUAL, UNLOADABLE], ExitCode.USAGE, Verdict.INCONCLUSIVE),
        ([UNLOADABLE, INCONCLUSIVE], ExitCode.USAGE, Verdict.INCONCLUSIVE),
        ([EQUAL, DIFFERENT], ExitCode.DIFFERENT, Verdict.DIFFERENT),
        ([EQUAL, INCONCLUSIVE, UNLOADABLE, DIFFERENT], ExitCode.DIFFERENT, Verdict.DIFFERENT),
        ([EQUAL, SKIPPED], ExitCode.EQUAL, Verdict.EQUAL),
        ([SKIPPED], ExitCode.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        ([SKIPPED, SKIPPED], ExitCode.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        ([SKIPPED, INCONCLUSIVE, EQUAL], ExitCode.INCONCLUSIVE, Verdict.INCONCLUSIVE),
        ([SKIPPED, UNLOADABLE], ExitCode.USAGE, Verdict.INCONCLUSIVE),
        ([SKIPPED, DIFFERENT], ExitCode.DIFFERENT, Verdict.DIFFERENT),
    ],
)
def test_the_worst_result_decides_in_any_order(results: list[Result], code: ExitCode, verdict: Verdict) -> None:
    for order in permutations(results):
        assert code_of(order) is code
        assert code_of(iter(order)) is code
        assert overall(iter(order)) is verdict


def test_exit_codes_are_those_of_the_documentation() -> None:
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 130]


def test_only_a_space_that_was_searched_completely_is_claimed() -> None:
    stages = (
        StageReport("replay", 3, 0.1),
        StageReport("exhaustive", 10, 0.1, "every batch"),
        StageReport("exhaustive", 10, 0.1, "every other batch", complete=False),
    )
    assert result(Verdict.EQUAL, stages=stages).space == "every batch"
    assert EQUAL.space == ""


def test_the_symptom_of_a_result_is_that_of_its_finding() -> None:
    assert EQUAL.symptom is None
    found = Finding(Symptom.STALE, Case("toy", {}))
    assert result(Verdict.DIFFERENT, finding=found).symptom is Symptom.STALE


def test_a_difference_reads_as_a_sentence() -> None:
    assert str(Difference("[0]", "dtype", "int32", "int64")) == "[0]: dtype: expected int32, got int64"
    assert (
        str(Difference("", "length", "1 items", "2 items")) == "returned value: length: expected 1 items, got 2 items"
    )
    elements = (Element((0,), "1", "2"),)
    assert str(Difference("[0]", "value", "1", "2", 3, 9, elements)) == "[0]: 3 of 9 elements differ"


def test_symptoms_and_verdicts_are_words() -> None:
    assert [verdict.value for verdict in Verdict] == ["equal", "different", "inconclusive"]
    assert len({symptom.value for symptom in Symptom}) == len(Symptom)
    assert all(symptom.value == symptom.value.lower() for symptom in Symptom)
