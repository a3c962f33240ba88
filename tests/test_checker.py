"""A check says equal only after enough work, and shows a failure in its smallest form, which is on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import checker
from harness.case import TARGET_DEVICE, Case, CaseFile, TensorValue, read_case_file
from harness.checker import Plan
from harness.config import load_config
from harness.options import Options
from harness.search.profile import profile_named
from harness.session import replay
from harness.supervise import Nursery
from harness.verdict import ExitCode, Result, StageReport, Symptom, Verdict, exit_code
from harness.watch import Limits

Check = Callable[..., Result]
WriteCandidate = Callable[..., str]
ToyProject = Callable[..., Path]


def query_start_loc(case: Case) -> TensorValue:
    value = case.arguments["query_start_loc_p_cpu"]
    assert isinstance(value, TensorValue)
    return value


def found_case(result: Result) -> TensorValue:
    assert result.finding is not None, result.reason
    return query_start_loc(result.finding.case)


def lengths_of(value: TensorValue) -> list[int]:
    return [int(end) - int(start) for start, end in zip(value.data, value.data[1:], strict=False)]


# --- when equal may be said


def test_a_right_candidate_is_equal_after_every_search(toy_project: ToyProject, quick_check: Check) -> None:
    result = quick_check(f"{toy_project()}/right.py::double")
    assert result.verdict is Verdict.EQUAL, result
    assert [stage.search for stage in result.stages] == ["replay", "exhaustive", "scale", "property"]
    assert result.space == "every number below 600"
    assert result.cases > 600
    assert min(result.strata.values()) > 0


def test_too_few_cases_are_not_equal(toy_project: ToyProject, quick_check: Check) -> None:
    result = quick_check(f"{toy_project(('SIZE = 600', 'SIZE = 20'))}/right.py::double")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "profile commit needs 500" in result.reason
    assert exit_code([result]) is ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(("level", "verdict"), [("commit", Verdict.INCONCLUSIVE), ("gate", Verdict.EQUAL)])
def test_a_stratum_that_is_never_hit_is_not_equal_where_it_is_required(
    level: str, verdict: Verdict, toy_project: ToyProject, quick_check: Check
) -> None:
    never = f'strata=(Stratum("impossible", lambda block: block.integers("x").sum(axis=1) < 0, "{level}"),'
    result = quick_check(f"{toy_project(('strata=(', never))}/right.py::double")
    assert result.verdict is verdict, result
    assert ("impossible" in result.reason) == (verdict is Verdict.INCONCLUSIVE)
    assert result.strata["impossible"] == 0


def test_a_time_limit_that_comes_first_is_not_equal(write_candidate: WriteCandidate, quick_check: Check) -> None:
    result = quick_check(write_candidate("time.sleep(0.01)"), time_limit=0.5)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "--time-limit" in result.reason
    assert not all(stage.complete for stage in result.stages)


def test_a_call_that_is_still_running_when_the_time_is_over_is_not_hung(
    write_candidate: WriteCandidate, quick_check: Check
) -> None:
    result = quick_check(write_candidate("time.sleep(1000)"), time_limit=0.5, case_timeout=600)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "time limit" in result.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return st.lists(", "raise RuntimeError('no strategy')\n    return st.lists("),
        ("return st.lists(st.integers(0, 1 << 40), max_size=4)", "return st.nothing()"),
        ("scale=lambda profile: [", "scale=lambda profile: 1 / 0 or ["),
        ("twin=lambda original: None", "twin=lambda original: 1 / 0"),
        ('Stratum("zero", lambda block: (', 'Stratum("zero", lambda block: 1 / 0 or ('),
    ],
    ids=["strategy", "empty strategy", "scale", "twin", "stratum"],
)
def test_a_contract_that_fails_is_the_harness_failing(
    old: str, new: str, toy_project: ToyProject, quick_check: Check
) -> None:
    result = quick_check(f"{toy_project((old, new))}/right.py::double")
    assert result.verdict is Verdict.INCONCLUSIVE, result
    assert result.loaded
    assert result.reason
    assert exit_code([result]) is ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(
    "body",
    [
        "from harness.errors import HarnessError; raise HarnessError('out of order')",
        "return iter(())",
        "return x.to_sparse()",
        "return float('nan') if x.sum() == 7 else object()",
    ],
)
def test_a_reference_that_cannot_be_observed_is_the_harness_failing(
    body: str, toy_project: ToyProject, quick_check: Check
) -> None:
    project = toy_project(body=body)
    (project / "same.py").write_text(f"def double(x):\n    {body}\n")
    result = quick_check(f"{project}/same.py::double")
    assert result.verdict is Verdict.INCONCLUSIVE, result
    assert result.reason


def test_a_reference_that_is_not_the_frozen_one_is_refused(toy_project: ToyProject, quick_check: Check) -> None:
    project = toy_project()
    (reference,) = project.glob("toy_*_reference.py")
    reference.write_text("def double(x):\n    return x << 1\n")
    result = quick_check(f"{project}/right.py::double")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "has changed" in result.reason
    assert exit_code([result]) is ExitCode.INCONCLUSIVE


def test_a_failure_of_a_project_s_own_contract_is_found_and_shrunk(toy_project: ToyProject, quick_check: Check) -> None:
    project = toy_project()
    (project / "wrong.py").write_text("def double(x):\n    return 2 * x + (x > 1000).long()\n")
    result = quick_check(f"{project}/wrong.py::double")
    assert result.symptom is Symptom.DIFFERENT
    assert result.finding is not None
    value = result.finding.case.arguments["x"]
    assert isinstance(value, TensorValue)
    (number,) = value.data
    assert 1000 < number <= 2001, "halved once more it would be right"


# --- how a failure is shown

COUNTING_ZEROS = """
returned = right(query_start_loc_p_cpu, device)
tables = returned[0][8]
rows = torch.cumsum(tables["offsetlist"] == 0, 0) - 1
tables["mlist"].copy_(rows)
tables["batch_ptr"][: len(rows)].copy_(rows)
return returned
"""


def test_row_numbers_from_counting_zeros_fail_on_an_empty_row_before_one_token(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path
) -> None:
    result = quick_check(write_candidate(COUNTING_ZEROS))
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.DIFFERENT)
    assert found_case(result) == TensorValue("int32", (0, 0, 1))
    assert result.finding is not None
    assert result.finding.difference is not None
    assert result.finding.search == "exhaustive"
    assert "mlist" in result.finding.difference.path
    assert [path.name for path in (tmp_path / "cases").iterdir()] == [result.case_file and result.case_file.name]


def test_a_crash_on_an_empty_row_amid_many_is_shrunk(write_candidate: WriteCandidate, quick_check: Check) -> None:
    body = """
    inner = lengths(query_start_loc_p_cpu)[1:-1]
    if len(inner) >= 3 and 0 in inner and min(lengths(query_start_loc_p_cpu)) >= 0:
        ctypes.string_at(0)
    """
    result = quick_check(write_candidate(body))
    assert result.symptom is Symptom.CRASHED
    assert len(lengths_of(found_case(result))) == 5
    assert sum(lengths_of(found_case(result))) <= 2


def test_a_candidate_that_is_wrong_from_its_seventh_call_on_is_unstable_and_replays(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path, nursery: Nursery
) -> None:
    body = """
    CALLS.append(1)
    if len(CALLS) >= 7:
        returned = right(query_start_loc_p_cpu, device)
        returned[0][8]["tot"] += 1
        return returned
    """
    spec = write_candidate(body, above="CALLS = []")
    result = quick_check(spec)
    assert_it_replays(result, spec, tmp_path, nursery)


def test_a_candidate_that_is_wrong_after_a_larger_batch_is_unstable_and_replays(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path, nursery: Nursery
) -> None:
    body = """
    SEEN.append(len(query_start_loc_p_cpu))
    if len(query_start_loc_p_cpu) == 2 and max(SEEN) >= 4:
        return right(query_start_loc_p_cpu[:1], device)
    """
    spec = write_candidate(body, above="SEEN = []")
    result = quick_check(spec)
    assert result.finding is not None
    assert result.finding.before
    assert_it_replays(result, spec, tmp_path, nursery)


def test_a_crash_on_the_twelfth_call_is_found_again_with_the_calls_before_it(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path, nursery: Nursery
) -> None:
    body = """
    CALLS.append(1)
    if len(CALLS) == 12: os.abort()
    """
    spec = write_candidate(body, above="CALLS = []")
    result = quick_check(spec)
    assert result.symptom is Symptom.CRASHED
    assert result.finding is not None
    assert "did not happen again" not in result.finding.message
    assert_it_replays(result, spec, tmp_path, nursery)


def assert_it_replays(result: Result, spec: str, folder: Path, nursery: Nursery) -> None:
    assert result.symptom in (Symptom.UNSTABLE, Symptom.CRASHED), result
    assert result.case_file is not None
    assert result.finding is not None
    saved = read_case_file(result.case_file)
    assert (saved.case, saved.before) == (result.finding.case, result.finding.before)
    (again,) = replay([result.case_file], [spec], Options(case_timeout=1.0), load_config(folder), nursery=nursery)
    assert (again.verdict, again.symptom) == (Verdict.DIFFERENT, result.symptom), again


def test_a_failure_that_does_not_come_back_counts_all_the_same(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path
) -> None:
    body = f"""
    if lengths(query_start_loc_p_cpu) == [8, 8] and not os.path.exists({str(tmp_path / "seen")!r}):
        open({str(tmp_path / "seen")!r}, "w").close()
        return None
    """
    result = quick_check(write_candidate(body))
    assert result.verdict is Verdict.DIFFERENT
    assert result.finding is not None
    assert "did not happen again in a fresh process" in result.finding.message
    assert result.case_file is not None
    assert result.case_file.exists()


def test_a_case_that_cannot_be_saved_is_shown_with_the_reason(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    result = quick_check(write_candidate(COUNTING_ZEROS), cases_dir=tmp_path / "file" / "cases")
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.DIFFERENT)
    assert found_case(result).data == (0, 0, 1)
    assert result.case_file is None
    assert "could not be saved" in result.reason
    assert str(tmp_path / "file" / "cases") in result.reason


def test_a_saved_case_is_replayed_first_and_is_kept_when_a_smaller_one_is_found(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path
) -> None:
    large = TensorValue("int64", (3, 11, 11, 400, 400, 401))
    case = Case("causal_conv1d_metadata", {"query_start_loc_p_cpu": large, "device": TARGET_DEVICE})
    saved = CaseFile(case).write(tmp_path / "cases")
    result = quick_check(write_candidate(COUNTING_ZEROS))
    assert result.finding is not None
    assert result.finding.search == "replay"
    assert found_case(result) == TensorValue("int32", (0, 0, 1))
    assert saved.exists()
    assert result.case_file != saved


def test_two_candidates_with_the_same_failure_share_its_case_file(
    write_candidate: WriteCandidate, tmp_path: Path, nursery: Nursery
) -> None:
    from harness.session import check

    specs = [write_candidate(COUNTING_ZEROS, name=f"wrong{number}") for number in range(4)]
    options = Options(profile="commit", workers=4, saved=tmp_path / "cases")
    results = check(specs, options, load_config(tmp_path), nursery=nursery)
    assert len({result.case_file for result in results}) == 1
    assert all(result.case_file and result.case_file.exists() for result in results)


def test_a_candidate_with_other_parameters_is_not_loaded(
    write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path
) -> None:
    spec = write_candidate(above="def tables(cu_seqlens, chunk_size):\n    return cu_seqlens")
    result = quick_check(spec.replace(spec.rpartition("::")[2], "tables"), contract="causal_conv1d_metadata")
    assert not result.loaded
    assert "it takes (cu_seqlens, chunk_size)" in result.reason
    assert "the contract calls it with (query_start_loc_p_cpu, device=...)" in result.reason
    assert not (tmp_path / "cases").exists()


def test_a_stub_that_was_not_used_is_noted(write_candidate: WriteCandidate, quick_check: Check) -> None:
    result = quick_check(write_candidate(), stubs=("no.such.name=1",))
    assert result.verdict is Verdict.EQUAL
    assert result.notes[0] == "--stub no.such.name was not used: check the name"


def test_what_could_not_be_searched_is_noted_with_the_reason(
    write_candidate: WriteCandidate, quick_check: Check
) -> None:
    result = quick_check(write_candidate())
    assert result.notes == ("asynchrony: skipped, because it needs a CUDA device",)
    assert {stage.search for stage in result.stages} == {"replay", "exhaustive", "scale", "probe", "property"}


def test_a_function_with_a_small_domain_can_lower_the_number_of_cases_it_needs(tmp_path: Path) -> None:
    stages = tuple(StageReport(name, 10, 1.0) for name in ("replay", "exhaustive", "scale", "property"))
    result = Result(
        contract="c", candidate="x", observe="strict", device="cpu", verdict=Verdict.EQUAL, cases=40, stages=stages
    )
    plan = Plan(profile=profile_named("gate"), deadline=0.0, limits=Limits(), saved=tmp_path)
    assert "40 cases were executed; profile gate needs 10,000." in checker._vacuous(result, plan)
    assert checker._vacuous(result, plan, 40) == ""
    assert "needs 41" in checker._vacuous(result, plan, 41)


def test_saved_cases_are_kept_out_of_git(tmp_path: Path) -> None:
    folder = tmp_path / ".bitgate" / "cases"
    folder.mkdir(parents=True)
    checker._keep_out_of_git(folder)
    assert (tmp_path / ".bitgate" / ".gitignore").read_text() == "*\n"
    checker._keep_out_of_git(tmp_path / "tests" / "cases")
    assert not (tmp_path / "tests").exists()
