"""A session turns what the user asked for into candidates, contracts and limits, and refuses what makes no sense."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.case import TARGET_DEVICE, Case, CaseFile, TensorValue
from harness.choice import choose, functions_of
from harness.config import Config, load_config
from harness.errors import UsageError
from harness.options import Options, parse_size
from harness.session import check, replay
from harness.supervise import Nursery
from harness.verdict import ExitCode, Result, Verdict, exit_code, overall

WriteCandidate = Callable[..., str]
ToyProject = Callable[..., Path]

CONTRACT = "causal_conv1d_metadata"
FUNCTION = "compute_causal_conv1d_metadata"


def case_of(*values: int, name: str = "query_start_loc_p_cpu", **more: Any) -> Case:
    return Case(CONTRACT, {name: TensorValue("int32", values), "device": TARGET_DEVICE, **more})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4 << 30),
        ("1536M", 1536 << 20),
        ("1.5GiB", 3 << 29),
        ("2000000 kb", 2_000_000 << 10),
        ("1T", 1 << 40),
        ("2000000000", 2_000_000_000),
        (" 2g ", 2 << 30),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "0", "4X", "1e9", "4 G B", "infinity", "nan", "5", "64M", "1000M"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--memory-limit"):
        parse_size(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"profile": "thorough"}, "--profile 'thorough'.*commit, gate, premerge, nightly"),
        ({"observe": "all"}, "--observe 'all'.*strict, launch"),
        ({"device": "tpu"}, "--device 'tpu'.*cpu, cuda, auto"),
        ({"time_limit": 0.0}, "--time-limit 0.0"),
        ({"time_limit": float("nan")}, "--time-limit nan"),
        ({"case_timeout": -1.0}, "--case-timeout -1.0"),
        ({"case_timeout": 1e-9}, "--case-timeout 1e-09: must be 0.05 seconds or more"),
        ({"case_timeout": float("inf")}, "--case-timeout inf"),
        ({"memory_limit": "much"}, "--memory-limit 'much'"),
        ({"workers": -1}, "-n -1"),
        ({"stubs": ("no value",)}, "--stub no value"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Options(**options)


def test_without_specs_every_registered_and_configured_candidate_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"def {FUNCTION}(query_start_loc_p_cpu, *, device): ...")
    config = Config(root=tmp_path, candidates=((f"mine.py::{FUNCTION}", None), ("x:odd", CONTRACT)))
    specs = [item.spec for item in choose([], Options(), config)]
    assert specs[-2:] == [f"mine.py::{FUNCTION}", "x:odd"]
    assert f"{CONTRACT}/searchsorted" in specs
    assert len(specs) == len(set(specs)) >= 5


def test_a_configured_path_starts_at_the_project_and_a_given_one_at_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    for path in ("mine.py", "sub/given.py"):
        (tmp_path / path).write_text(f"def {FUNCTION}(query_start_loc_p_cpu, *, device): ...")
    monkeypatch.chdir(tmp_path / "sub")
    config = Config(root=tmp_path, candidates=((f"mine.py::{FUNCTION}", None),))
    assert choose([], Options(), config)[-1].root == tmp_path
    assert choose([f"given.py::{FUNCTION}"], Options(), config)[-1].root == tmp_path / "sub"
    with pytest.raises(UsageError, match="no file"):
        choose([f"mine.py::{FUNCTION}"], Options(), config)


@pytest.mark.parametrize(
    ("spec", "options", "said"),
    [
        ("x:unheard_of", {}, "no contract is known.*'unheard_of'.*--contract"),
        (f"x:{FUNCTION}", {"contract": "nothing"}, "no contract is named 'nothing'.*causal_conv1d_metadata"),
        ("nothing/like_it", {}, "no such registered candidate"),
        ("", {}, "not a candidate"),
    ],
)
def test_a_spec_that_leads_nowhere_is_refused(spec: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        choose([spec], Options(**options), Config(root=tmp_path))


def test_a_registered_candidate_of_another_contract_is_refused(toy_project: ToyProject) -> None:
    config = load_config(toy_project())
    with pytest.raises(UsageError, match="belongs to contract causal_conv1d_metadata, not to double"):
        choose([f"{CONTRACT}/searchsorted"], Options(contract="double"), config)


def test_a_level_that_a_contract_lacks_is_refused(toy_project: ToyProject, nursery: Nursery) -> None:
    project = toy_project()
    with pytest.raises(UsageError, match="--observe launch: contract double has no such level"):
        check([f"{project}/right.py::double"], Options(observe="launch"), load_config(project), nursery=nursery)


def test_a_contract_filter_leaves_the_candidates_of_that_contract(toy_project: ToyProject) -> None:
    config = load_config(toy_project(settings='candidates = ["right.py::double"]\n'))
    assert [item.spec for item in choose([], Options(contract="double"), config)] == ["right.py::double"]
    assert "right.py::double" not in [item.spec for item in choose([], Options(contract=CONTRACT), config)]


@pytest.mark.parametrize("what", ["missing module", "no contract", "name is taken"])
def test_an_extra_contract_that_is_none_is_refused(what: str, tmp_path: Path) -> None:
    path, said = {
        "missing module": ("nowhere_at_all:CONTRACT", "cannot be imported"),
        "no contract": ("json:dumps", "not a harness.Contract"),
        "name is taken": ("harness.contracts.causal_conv1d_metadata:CONTRACT", "is taken"),
    }[what]
    with pytest.raises(UsageError, match=said):
        choose([], Options(), Config(root=tmp_path, contracts=(path,)))


def test_a_configured_stub_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stub"):
        choose([], Options(), Config(root=tmp_path, stubs={"not a name": 1}))


def test_results_come_in_order_and_a_candidate_that_cannot_be_loaded_stops_nobody(
    write_candidate: WriteCandidate, tmp_path: Path, nursery: Nursery
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(f"import nowhere_at_all\ndef {FUNCTION}(query_start_loc_p_cpu, *, device): nowhere_at_all.x()\n")
    syntax = tmp_path / "syntax.py"
    syntax.write_text(f"def {FUNCTION}(:\n")
    specs = [
        write_candidate(name="first"),
        f"{broken}::{FUNCTION}",
        f"{syntax}::{FUNCTION}",
        "nowhere_at_all:compute_causal_conv1d_metadata",
        f"{tmp_path / 'first.py'}::missing",
        write_candidate(name="last"),
    ]
    options = Options(profile="commit", workers=2, contract=CONTRACT, saved=tmp_path / "cases")
    results = check(specs, options, load_config(tmp_path), nursery=nursery)
    assert [result.candidate for result in results] == specs
    assert [result.loaded for result in results] == [True, False, False, False, False, True]
    assert [result.verdict for result in results] == [
        Verdict.EQUAL,
        *[Verdict.INCONCLUSIVE] * 4,
        Verdict.EQUAL,
    ]
    assert all(result.reason for result in results[1:-1])
    assert (overall(results), exit_code(results)) == (Verdict.INCONCLUSIVE, ExitCode.USAGE)


def test_a_folder_of_the_project_named_like_ours_hides_no_registered_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: Nursery
) -> None:
    for package in ("candidates", "references", "strategies"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    (result,) = check([f"{CONTRACT}/searchsorted"], Options(profile="commit"), load_config(tmp_path), nursery=nursery)
    assert result.verdict is Verdict.EQUAL, result


def test_without_a_gpu_a_named_check_on_one_is_inconclusive_and_not_green(tmp_path: Path, nursery: Nursery) -> None:
    if nursery.cuda_devices():
        pytest.skip("this machine has a GPU")
    (result,) = check([f"{CONTRACT}/searchsorted"], Options(device="cuda"), load_config(tmp_path), nursery=nursery)
    assert (result.verdict, result.skipped) == (Verdict.INCONCLUSIVE, False)
    assert "torch sees no CUDA device" in result.reason
    assert exit_code([result]) is ExitCode.INCONCLUSIVE


def test_what_nobody_named_is_skipped_and_nothing_run_is_not_green(tmp_path: Path, nursery: Nursery) -> None:
    if nursery.cuda_devices():
        pytest.skip("this machine has a GPU")
    results = check([], Options(device="cuda", contract=CONTRACT), load_config(tmp_path), nursery=nursery)
    assert len(results) >= 3
    assert all(result.skipped and "torch sees no CUDA device" in result.reason for result in results)
    assert (overall(results), exit_code(results)) == (Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE)


def test_a_candidate_that_cannot_run_here_is_skipped_and_the_others_decide(
    toy_project: ToyProject, nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(toy_project(settings='candidates = ["right.py::double"]\n'))
    package = tmp_path / "candidates" / "double"
    package.mkdir(parents=True)
    (tmp_path / "candidates" / "__init__.py").touch()
    (package / "on_gpu.py").write_text('DEVICES = ("cuda",)\nraise AssertionError("imported")\n')
    (package / "adapter.py").write_text('UPSTREAM = "nowhere_at_all:double"\n')
    for name in [name for name in sys.modules if name.partition(".")[0] == "candidates"]:
        monkeypatch.delitem(sys.modules, name)
    options = Options(profile="commit", device="cpu", contract="double")
    results = check([], options, config, nursery=nursery)
    seen = {result.candidate: (result.verdict, result.skipped) for result in results}
    assert seen == {
        "double/adapter": (Verdict.INCONCLUSIVE, True),
        "double/on_gpu": (Verdict.INCONCLUSIVE, True),
        "right.py::double": (Verdict.EQUAL, False),
    }
    assert "pip install --no-deps nowhere_at_all" in results[0].reason
    assert "it runs on cuda only" in results[1].reason
    assert exit_code(results) is ExitCode.EQUAL
    named = check(["double/on_gpu"], options, config, nursery=nursery)
    assert (named[0].skipped, exit_code(named)) == (False, ExitCode.INCONCLUSIVE)


def test_a_configured_candidate_that_cannot_run_here_is_not_skipped(toy_project: ToyProject, nursery: Nursery) -> None:
    project = toy_project(settings='candidates = ["mine.py::double"]\n')
    (project / "mine.py").write_text('DEVICES = ("cuda",)\ndef double(x): return x + x\n')
    results = check([], Options(contract="double", device="cpu"), load_config(project), nursery=nursery)
    assert [(result.skipped, result.verdict) for result in results] == [(False, Verdict.INCONCLUSIVE)]
    assert results[0].reason.startswith("skipped, because it runs on cuda only")


def test_nothing_to_check_is_no_result(toy_project: ToyProject, nursery: Nursery) -> None:
    results: list[Result] = check([], Options(contract="double"), load_config(toy_project()), nursery=nursery)
    assert results == []
    assert exit_code(results) is ExitCode.INCONCLUSIVE


def test_progress_names_the_candidate_the_stage_and_how_much_is_done(
    write_candidate: WriteCandidate, tmp_path: Path, nursery: Nursery
) -> None:
    spec, seen = write_candidate(), set()

    def progress(candidate: str, stage: str, done: int, total: int | None) -> None:
        assert total is not None
        assert 0 <= done <= 2 * total
        seen.add((candidate, stage))

    check([spec], Options(profile="commit"), load_config(tmp_path), progress, nursery=nursery)
    assert {candidate for candidate, _ in seen} == {spec}
    assert "candidate" in {stage for _, stage in seen}


def test_only_saved_cases_of_the_chosen_contracts_are_read_closely(
    write_candidate: WriteCandidate, tmp_path: Path, nursery: Nursery
) -> None:
    folder = tmp_path / ".bitgate" / "cases"
    CaseFile(Case("of_another_project", {"x": 1})).write(folder)
    CaseFile(case_of(0, 5, 5, 9)).write(folder)
    (result,) = check([write_candidate()], Options(profile="commit"), load_config(tmp_path), nursery=nursery)
    assert result.verdict is Verdict.EQUAL, result
    assert [stage.cases for stage in result.stages if stage.search == "replay"] == [1]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (CaseFile(case_of(0, 5, name="lengths")), "has the arguments"),
        (CaseFile(case_of(0, 5, seed=3)), "has the arguments"),
        (CaseFile(Case(CONTRACT, {"query_start_loc_p_cpu": 3, "device": TARGET_DEVICE})), "'query_start_loc_p_cpu'"),
        (CaseFile(case_of(0, 5), (case_of(0, 5, name="lengths"),)), "has the arguments"),
    ],
    ids=["another name", "one more", "another kind", "in a call before"],
)
@pytest.mark.parametrize("verb", ["check", "replay"])
def test_a_case_file_that_is_not_of_its_contract_is_named_and_refused(
    verb: str, file: CaseFile, said: str, tmp_path: Path, write_candidate: WriteCandidate, nursery: Nursery
) -> None:
    path = file.write(tmp_path / ".bitgate" / "cases")
    options, config = Options(profile="commit"), load_config(tmp_path)
    run = partial(check, [write_candidate()]) if verb == "check" else partial(replay, [path], [write_candidate()])
    with pytest.raises(UsageError, match=said) as caught:
        run(options, config, nursery=nursery)
    assert str(path) in str(caught.value)


def test_functions_are_known_by_contract(toy_project: ToyProject, quick_check: Callable[..., Result]) -> None:
    project = toy_project()
    result = quick_check(f"{project}/right.py::double")
    assert functions_of([result], load_config(project)) == {"double": "double"}


def test_a_nursery_that_is_lent_survives_what_goes_wrong_but_an_interrupt_closes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    candidate = f"{CONTRACT}/searchsorted"

    def fail_with(error: BaseException) -> None:
        def fail(*_: Any, **__: Any) -> Result:
            raise error

        monkeypatch.setattr("harness.session.check_candidate", fail)

    with Nursery() as lent:
        options, config = Options(profile="commit", device="cpu"), Config(root=tmp_path)
        for error, alive in ((TypeError("a bug"), True), (KeyboardInterrupt(), False)):
            fail_with(error)
            with pytest.raises(type(error)):
                check([candidate], options, config, nursery=lent)
            monkeypatch.undo()
            (result,) = check([candidate], options, config, nursery=lent)
            assert (result.verdict is Verdict.EQUAL) is alive, result
            assert alive or "the nursery was closed" in result.reason
