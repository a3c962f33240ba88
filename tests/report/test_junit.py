"""The report for CI servers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.report.junit import write
from harness.report.page import page_text
from harness.verdict import Finding, Result, Symptom


def _read_back(folder: Path, *results: Result) -> ElementTree.Element:
    write(folder / "junit.xml", results)
    return ElementTree.parse(folder / "junit.xml").getroot()


def _counts(element: ElementTree.Element) -> tuple[str | None, ...]:
    return tuple(element.get(name) for name in ("tests", "failures", "errors", "skipped"))


def test_suites_are_contracts_and_tests_are_candidates(
    tmp_path: Path, equal: Result, different: Result, inconclusive: Result, unloadable: Result
) -> None:
    root = _read_back(tmp_path, equal, different, inconclusive, unloadable)
    first, second = root.findall("testsuite")
    assert _counts(root) == ("4", "1", "2", "0")
    assert (first.get("name"), _counts(first)) == ("causal_conv1d_metadata", ("3", "1", "1", "0"))
    assert (second.get("name"), _counts(second)) == ("mamba2_chunk_metadata", ("1", "0", "1", "0"))
    test = first.findall("testcase")[0]
    assert test.attrib == {
        "classname": "causal_conv1d_metadata",
        "name": "causal_conv1d_metadata/numpy_prefix_sums",
        "time": "3.100",
    }
    assert len(test) == 0


def test_a_failure_carries_its_symptom_and_the_whole_page(tmp_path: Path, different: Result) -> None:
    failure = _read_back(tmp_path, different).find(".//failure")
    assert failure is not None
    assert failure.attrib == {"type": "different", "message": "different: [1]: 3 of 2048 elements differ"}
    assert failure.text == page_text(different)
    assert "bitgate replay" in failure.text


def test_the_type_of_a_failure_is_its_symptom(tmp_path: Path, different: Result) -> None:
    assert different.finding is not None
    hung = dataclasses.replace(different, finding=Finding(Symptom.HUNG, different.finding.case, message="60 s"))
    failure = _read_back(tmp_path, hung).find(".//failure")
    assert failure is not None
    assert failure.attrib == {"type": "hung", "message": "hung: 60 s"}


@pytest.mark.parametrize("kind", ["inconclusive", "unloadable"])
def test_what_was_not_checked_is_an_error_and_never_skipped(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    result = request.getfixturevalue(kind)
    root = _read_back(tmp_path, result)
    error = root.find(".//error")
    assert error is not None
    assert error.get("type") == {"inconclusive": "inconclusive", "unloadable": "not loaded"}[kind]
    assert error.get("message") == result.reason
    assert root.find(".//skipped") is None


def test_what_nobody_had_asked_for_by_name_is_skipped_with_its_reason(
    tmp_path: Path, equal: Result, skipped: Result
) -> None:
    root = _read_back(tmp_path, equal, skipped)
    assert _counts(root) == _counts(root.findall("testsuite")[0]) == ("2", "0", "0", "1")
    element = root.find(".//testcase[@name='causal_conv1d_metadata/on_gpu']/skipped")
    assert element is not None
    assert element.attrib == {"message": skipped.reason}


def test_a_run_in_which_everything_was_skipped_is_not_green(tmp_path: Path, skipped: Result) -> None:
    root = _read_back(tmp_path, skipped, skipped)
    assert _counts(root) == ("3", "0", "1", "2")
    error = root.find(".//error[@type='inconclusive']")
    assert error is not None
    assert error.get("message") == "every candidate was skipped, so nothing was checked"


def test_a_run_without_results_is_not_green(tmp_path: Path) -> None:
    root = _read_back(tmp_path)
    assert _counts(root) == ("1", "0", "1", "0")
    assert root.find(".//error[@type='inconclusive']") is not None


def test_hostile_text_gives_a_file_that_parses_and_stays_small(tmp_path: Path, hostile_result: Result) -> None:
    root = _read_back(tmp_path, hostile_result)
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert "]]> <b>&amp;" in failure.text
    assert "\x1b" not in failure.text
    assert (tmp_path / "junit.xml").stat().st_size < 100_000


def test_a_contract_with_illegal_characters_gives_a_file_that_parses(tmp_path: Path, equal: Result) -> None:
    root = _read_back(tmp_path, dataclasses.replace(equal, contract="a\x00\ud800\ufffeb"))
    assert [suite.get("name") for suite in root] == ["ab"]
