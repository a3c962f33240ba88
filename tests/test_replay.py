"""Saved cases run again, on any candidate, and say the same as when they were saved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.case import TARGET_DEVICE, Case, CaseFile, TensorValue
from harness.choice import choose
from harness.config import Config, load_config
from harness.errors import UsageError
from harness.options import Options
from harness.session import replay
from harness.supervise import Nursery
from harness.verdict import Result, Symptom, Verdict

WriteCandidate = Callable[..., str]
Check = Callable[..., Result]
Rerun = Callable[..., list[Result]]

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
CONTRACT = "causal_conv1d_metadata"
ON_EMPTY_ROW = "if 0 in lengths(query_start_loc_p_cpu): "


def file_of(*values: int, before: tuple[Case, ...] = ()) -> CaseFile:
    lengths = TensorValue("int32", values)
    return CaseFile(Case(CONTRACT, {"query_start_loc_p_cpu": lengths, "device": TARGET_DEVICE}), before)


@pytest.fixture
def rerun(nursery: Nursery) -> Rerun:
    return partial(replay, nursery=nursery)


def test_every_regression_case_is_equal_on_every_registered_candidate(rerun: Rerun, tmp_path: Path) -> None:
    assert len(CASES) > 30
    config = Config(root=tmp_path)
    results = rerun(CASES, [], Options(), config)
    assert [result.candidate for result in results] == [item.spec for item in choose([], Options(), config)]
    ran = [result for result in results if not result.skipped]
    assert {result.contract for result in ran} == {"causal_conv1d_metadata", "causal_conv1d_prefill"}
    for result in ran:
        own = [path for path in CASES if path.name.startswith(result.contract)]
        assert (result.verdict, result.cases) == (Verdict.EQUAL, len(own)), result


def test_the_first_case_that_fails_is_named_with_its_file(
    rerun: Rerun, write_candidate: WriteCandidate, tmp_path: Path
) -> None:
    right, wrong, later = (file_of(*values).write(tmp_path) for values in ((0, 3), (0, 3, 3), (0, 0)))
    (result,) = rerun(
        [right, wrong, later], [write_candidate(ON_EMPTY_ROW + "return None")], Options(), load_config(tmp_path)
    )
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.DIFFERENT)
    assert result.case_file == wrong
    assert result.cases == 2
    assert sorted(tmp_path.glob("*.json")) == sorted([right, wrong, later])


@pytest.mark.parametrize(
    ("body", "symptom"),
    [
        ("os._exit(0)", Symptom.CRASHED),
        ("time.sleep(1000)", Symptom.HUNG),
        ("os.chdir('/')", Symptom.CHANGED_GLOBALS),
        ("raise KeyError", Symptom.RAISED),
        (
            "got = right(query_start_loc_p_cpu, device); query_start_loc_p_cpu.add_(1); return got",
            Symptom.MUTATED_INPUT,
        ),
    ],
)
def test_a_failure_replays_with_its_symptom(
    rerun: Rerun, body: str, symptom: Symptom, write_candidate: WriteCandidate, quick_check: Check, tmp_path: Path
) -> None:
    spec = write_candidate(f"if lengths(query_start_loc_p_cpu) == [0, 1]: {body}")
    found = quick_check(spec)
    assert found.symptom is symptom, found
    assert found.case_file is not None
    (again,) = rerun([found.case_file], [spec], Options(case_timeout=0.5), load_config(tmp_path))
    assert again.symptom is symptom, again
    assert again.finding is not None
    assert found.finding is not None
    assert again.finding.case == found.finding.case


def test_calls_before_a_case_are_made_first(rerun: Rerun, write_candidate: WriteCandidate, tmp_path: Path) -> None:
    body = "SEEN.append(len(query_start_loc_p_cpu))\nif len(query_start_loc_p_cpu) == 2 and 4 in SEEN: return None"
    spec = write_candidate(body, above="SEEN = []")
    alone, after = file_of(0, 3), file_of(0, 3, before=(file_of(0, 1, 2, 3).case,))
    results = [rerun([file.write(tmp_path)], [spec], Options(), load_config(tmp_path))[0] for file in (alone, after)]
    assert [result.symptom for result in results] == [None, Symptom.UNSTABLE], results


def test_a_candidate_that_cannot_be_loaded_is_not_equal(rerun: Rerun, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def compute_causal_conv1d_metadata(a, *, device): return missing\n")
    spec = f"{tmp_path}/broken.py::compute_causal_conv1d_metadata"
    (result,) = rerun([file_of(0, 3).write(tmp_path)], [spec], Options(), load_config(tmp_path))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert not result.loaded


def test_a_case_that_the_reference_was_not_made_for_is_not_equal(
    rerun: Rerun, write_candidate: WriteCandidate, tmp_path: Path
) -> None:
    lengths = TensorValue("int32", (0, 3), shape=(1, 2))
    path = CaseFile(Case(CONTRACT, {"query_start_loc_p_cpu": lengths, "device": TARGET_DEVICE})).write(tmp_path)
    (result,) = rerun([path], [write_candidate("raise SystemExit")], Options(), load_config(tmp_path))
    assert result.verdict is not Verdict.EQUAL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[1, 2]", "not a bitgate case"),
        ('{"bitgate_case": 2}', "not a bitgate case"),
        ('{"bitgate_case": 1, "contract": "unheard_of", "arguments": {}}', "no contract is named 'unheard_of'"),
        ('{"bitgate_case": 1, "contract": "causal_conv1d_metadata", "arguments": {}}', "has the arguments"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_file_that_is_no_case_is_named_and_refused(rerun: Rerun, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        rerun([path], [], Options(), Config(root=tmp_path))
    assert str(path) in str(caught.value)


def test_a_missing_file_and_an_empty_folder_are_refused(rerun: Rerun, tmp_path: Path) -> None:
    for path, said in ((tmp_path / "missing.json", "cannot read the case file"), (tmp_path, "holds no case file")):
        with pytest.raises(UsageError, match=said):
            rerun([path], [], Options(), Config(root=tmp_path))


def test_no_file_is_refused(rerun: Rerun, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one case file"):
        rerun([], [], Options(), Config(root=tmp_path))


def test_a_contract_without_candidates_needs_one_to_be_named(rerun: Rerun, toy_project: Callable[..., Path]) -> None:
    project = toy_project()
    path = CaseFile(Case("double", {"x": TensorValue("int64", (4,))})).write(project)
    config = load_config(project)
    with pytest.raises(UsageError, match="--candidate"):
        rerun([path], [], Options(), config)
    (result,) = rerun([path], [f"{project}/right.py::double"], Options(), config)
    assert result.verdict is Verdict.EQUAL, result
