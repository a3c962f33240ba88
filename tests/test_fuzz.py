"""Fuzzing: several seeds at once, for as long as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.checker import Plan, _vacuous
from harness.config import load_config
from harness.errors import UsageError
from harness.options import Options, parse_span
from harness.search.profile import profile_named
from harness.session import fuzz
from harness.supervise import Nursery
from harness.verdict import Result, StageReport, Verdict
from harness.watch import Limits

WriteCandidate = Callable[..., str]


def test_every_process_has_a_seed_of_its_own_and_finds_the_fault(
    write_candidate: WriteCandidate, tmp_path: Path, nursery: Nursery
) -> None:
    spec = write_candidate("got = right(query_start_loc_p_cpu, device)\ngot[0][8]['tot'] += 1\nreturn got")
    results = fuzz(spec, Options(time_limit=60, workers=2, seed=7), load_config(tmp_path), nursery=nursery)
    assert [result.seed for result in results] == [7, 8]
    assert {result.verdict for result in results} == {Verdict.DIFFERENT}
    assert {result.profile for result in results} == {"nightly"}
    assert len(list((tmp_path / ".bitgate" / "cases").iterdir())) == 1


def test_it_draws_cases_until_the_time_is_over(
    toy_project: Callable[..., Path], nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = toy_project()
    monkeypatch.chdir(project)
    (result,) = fuzz("right.py::double", Options(time_limit=3, workers=1), load_config(project), nursery=nursery)
    stages = {stage.search: stage for stage in result.stages}
    assert stages["exhaustive"].complete
    assert not stages["property"].complete
    assert stages["property"].cases > 0
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "needs 100,000" in result.reason


@pytest.mark.parametrize(("search", "enough"), [("property", True), ("exhaustive", False)])
def test_the_time_limit_is_the_proper_end_of_an_open_ended_property_search_alone(
    tmp_path: Path, search: str, enough: bool
) -> None:
    searches = ("replay", "exhaustive", "scale", "property")
    stages = tuple(StageReport(name, 100_000, 1.0, complete=name != search) for name in searches)
    result = Result(
        contract="c", candidate="x", observe="strict", device="cpu", verdict=Verdict.EQUAL, cases=400_000, stages=stages
    )
    plan = Plan(profile=profile_named("nightly"), deadline=0.0, limits=Limits(), saved=tmp_path)
    assert (_vacuous(result, plan) == "") is enough
    assert "time limit" in _vacuous(result, replace(plan, profile=profile_named("gate")))


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5 m", 90), ("8h", 28_800), ("2d", 172_800)])
def test_spans_of_time_are_read(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "-3m", "10 weeks", "nan"])
def test_other_texts_are_no_span_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="--for"):
        parse_span(text)
