"""The report for programs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from harness.case import Case, ListValue, Value, case_from_json
from harness.errors import UsageError
from harness.report.json import document, environment, write
from harness.verdict import Finding, Result, Symptom

KEYS = [
    *("contract", "candidate", "observe", "device", "verdict", "symptom", "cases", "strata", "space", "seconds"),
    *("difference", "case", "case_file", "profile", "required", "stages", "measures", "loaded", "skipped"),
    *("reason", "notes", "step", "message", "before"),
    *("output", "source", "reference_digest", "candidate_digest"),
]


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not strict JSON")


def _read_back(*results: Result) -> dict[str, Any]:
    text = json.dumps(document(results, seed=7, environment=environment()), allow_nan=False)
    read: dict[str, Any] = json.loads(text, parse_constant=_refuse)
    return read


def test_the_keys_are_the_same_for_every_kind_of_result(
    equal: Result, different: Result, inconclusive: Result, unloadable: Result
) -> None:
    read = _read_back(equal, different, inconclusive, unloadable)
    assert list(read) == ["verdict", "exit_code", "seed", "environment", "results"]
    assert [list(result) for result in read["results"]] == [KEYS] * 4
    assert (read["verdict"], read["exit_code"], read["seed"]) == ("different", 1, 7)


def test_an_equal_result_says_what_was_searched(equal: Result) -> None:
    read = _read_back(equal)
    (result,) = read["results"]
    assert (read["verdict"], read["exit_code"]) == ("equal", 0)
    assert result["strata"] == {"empty batch": 3, "exact multiple": 40}
    assert result["space"] == "every batch of up to 3 rows of 0 to 17 tokens"
    assert result["stages"][0] == {
        "search": "exhaustive",
        "cases": 12_282,
        "seconds": 2.0,
        "space": "every batch of up to 3 rows of 0 to 17 tokens",
        "complete": True,
    }
    assert (result["symptom"], result["difference"], result["case"], result["case_file"]) == (None,) * 4


def test_a_difference_is_told_in_full_and_its_case_can_be_read_back(different: Result, case: Case) -> None:
    (result,) = _read_back(different)["results"]
    assert result["symptom"] == "different"
    assert result["difference"] == {
        "path": "[1]",
        "aspect": "value",
        "expected": "tensor",
        "got": "tensor",
        "count": 3,
        "total": 2_048,
        "elements": [{"index": [0], "expected": "0", "got": "1"}, {"index": [2], "expected": "2", "got": "-1"}],
    }
    assert case_from_json(result["case"]) == case
    assert result["case_file"] == str(different.case_file)


def test_calls_that_come_before_are_listed(different: Result, case: Case) -> None:
    finding = Finding(Symptom.UNSTABLE, case, before=(case, case), step="third call", message="it said so")
    (result,) = _read_back(dataclasses.replace(different, finding=finding))["results"]
    assert [case_from_json(item) for item in result["before"]] == [case, case]
    assert (result["step"], result["message"]) == ("third call", "it said so")


def test_a_skipped_candidate_says_so_and_does_not_decide(equal: Result, skipped: Result) -> None:
    read = _read_back(equal, skipped)
    assert (read["verdict"], read["exit_code"]) == ("equal", 0)
    assert [result["skipped"] for result in read["results"]] == [False, True]
    assert read["results"][1]["reason"] == skipped.reason
    alone = _read_back(skipped)
    assert (alone["verdict"], alone["exit_code"]) == ("inconclusive", 3)


def test_measures_are_an_object_of_numbers(equal: Result) -> None:
    measures = {"ulps from float64, silu": 0.5, "worst": float("inf")}
    (result,) = _read_back(dataclasses.replace(equal, measures=measures))["results"]
    assert result["measures"] == {"ulps from float64, silu": 0.5, "worst": "inf"}
    assert _read_back(equal)["results"][0]["measures"] == {}


def test_no_result_and_no_loaded_candidate_are_not_green(unloadable: Result) -> None:
    assert (_read_back()["verdict"], _read_back()["exit_code"]) == ("inconclusive", 3)
    read = _read_back(unloadable)
    assert (read["exit_code"], read["results"][0]["loaded"]) == (2, False)


def test_hostile_text_and_numbers_stay_strict_and_small(hostile_result: Result, case: Case, hostile: str) -> None:
    arguments: dict[str, Value] = {hostile: hostile, "x": ListValue((float("nan"), float("-inf"))), "y": float("inf")}
    assert hostile_result.finding is not None
    finding = dataclasses.replace(hostile_result.finding, case=Case(case.contract, arguments))
    read = _read_back(dataclasses.replace(hostile_result, finding=finding))
    text = json.dumps(read, ensure_ascii=False)
    assert len(text.encode()) < 250_000
    assert "\\u001b" not in json.dumps(read["results"][0]["message"])
    (result,) = read["results"]
    assert result["seconds"] == "nan"
    assert result["case"]["arguments"]["x"] == {"list": [{"bits": "7ff8000000000000"}, {"bits": "fff0000000000000"}]}
    assert result["case"]["arguments"]["y"] == {"bits": "7ff0000000000000"}
    assert "[red]x[/red]" in result["message"]
    assert result["output"].endswith("verdict: equal")


def test_the_environment_names_versions_without_importing_torch() -> None:
    code = "import sys; import harness.report.json as report; report.environment(); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    found = environment()
    assert list(found) == ["bitgate", "python", "platform", "numpy", "torch", "hypothesis", "cpu_count"]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["numpy"] != "unknown"


def test_a_package_that_is_not_installed_has_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.report.json._PACKAGES", ("bitgate", "surely-not-installed"))
    assert environment()["surely-not-installed"] == "unknown"


def test_write_makes_the_same_file_every_time(tmp_path: Path, equal: Result, different: Result) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path in (first, second):
        write(path, [equal, different], seed=0, environment={"python": "3"})
    assert first.read_bytes() == second.read_bytes()
    assert json.loads(first.read_text())["environment"] == {"python": "3"}


def test_write_names_a_path_that_it_cannot_write(tmp_path: Path, equal: Result) -> None:
    with pytest.raises(UsageError, match="cannot write the report"):
        write(tmp_path, [equal], seed=0, environment={})
