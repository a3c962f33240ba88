"""What the way a child ended says about its candidate: never equal, and always why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.contract import Contract
from harness.job import Target
from harness.journal import Entry, Phase, Reading
from harness.outcome import blank_result, unfinished
from harness.verdict import Result, Verdict
from harness.watch import Ending

LOADED = {"kind": "loaded", "how": "slice", "file": "a.py", "digest": "abc", "definitions": ["f", "g"]}
DONE = {"kind": "done"}


@pytest.fixture
def result_of(contract_of: Callable[..., Contract]) -> Callable[[Ending], Result]:
    known: dict[str, Any] = dict.fromkeys(Target.__dataclass_fields__, "text")
    target = Target(**known | {"stubs": {}, "stub_arguments": (), "contract_modules": ()})
    return lambda ending: blank_result(contract_of(), target, ending, profile="gate", digest="reference")


def test_a_result_says_nothing_before_it_is_judged(result_of: Any) -> None:
    result = result_of(Ending([LOADED, DONE], how="done", output="printed"))
    assert (result.verdict, result.contract, result.candidate, result.profile) == (
        Verdict.INCONCLUSIVE,
        "toy",
        "text",
        "gate",
    )
    assert (result.output, result.reference_digest, result.candidate_digest) == ("printed", "reference", "abc")
    assert result.source == "slice from a.py: f, g"
    assert (result.notes, result.loaded) == ((), True)


def test_a_malformed_loaded_message_is_shown_as_far_as_it_goes(result_of: Any) -> None:
    assert result_of(Ending([LOADED | {"definitions": 5, "digest": None}], how="done")).source == "slice from a.py"
    assert result_of(Ending(how="done")).source == ""


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1 process behind, which was"), (3, "3 processes behind, which were")]
)
def test_processes_that_were_left_behind_are_noted(number: int, words: str, result_of: Any) -> None:
    assert words in result_of(Ending([LOADED], how="done", left_behind=number)).notes[0]


def reading(phase: Phase) -> Reading:
    return Reading(1, phase, Entry.NONE, 0, 0)


@pytest.mark.parametrize(
    ("ending", "loaded", "reason"),
    [
        (Ending([{"kind": "unloadable", "message": "no such file"}], how="done"), False, "no such file"),
        (Ending([{"kind": "failed", "message": "oh"}], how="done"), True, "the harness failed: oh"),
        (Ending([{"kind": "failed"}], how="exit 1"), True, "the harness failed"),
        (Ending(how="signal 11", reading=reading(Phase.LOADING)), False, "SIGSEGV"),
        (Ending(how="exit 0", reading=reading(Phase.LOADING)), False, "exited with status 0"),
        (Ending(how="hung", reading=reading(Phase.LOADING)), False, "Import it by hand"),
        (Ending(how="time", reading=reading(Phase.ENGINE)), True, "time limit"),
        (Ending(how="memory", reading=reading(Phase.ENGINE)), True, "memory limit"),
        (Ending(how="stuck", reading=reading(Phase.ENGINE)), True, "no progress"),
        (Ending(how="signal 99"), True, "signal 99"),
        (Ending(how="lost"), True, "."),
        (Ending([LOADED], how=""), True, "."),
    ],
)
def test_a_child_that_did_not_finish_is_inconclusive_with_a_reason(
    ending: Ending, loaded: bool, reason: str, result_of: Any
) -> None:
    result = unfinished(result_of(ending), ending)
    assert result is not None
    assert (result.verdict, result.loaded) == (Verdict.INCONCLUSIVE, loaded)
    assert reason in result.reason


def test_a_child_that_finished_is_left_to_be_judged(result_of: Any) -> None:
    ending = Ending([LOADED, DONE], how="done", reading=reading(Phase.ENGINE))
    assert unfinished(result_of(ending), ending) is None
