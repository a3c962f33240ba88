"""The pytest plugin: nothing without its flags, one test item per candidate with them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import psutil
import pytest

WriteCandidate = Callable[..., str]

CONTRACT = "causal_conv1d_metadata"
FUNCTION = "compute_causal_conv1d_metadata"
COMMIT = ("--bitgate-profile", "commit", "--bitgate-device", "cpu")
WRONG = "if 0 in lengths(query_start_loc_p_cpu): return None"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with one test of its own; the plugin is loaded even where this project is not installed."""
    pytester.makepyfile(test_own="def test_own(): pass")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # Where this project is installed, its entry point has loaded the plugin already.
    installed = any(entry.name == "bitgate" for entry in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "harness.pytest_plugin")
    return project.runpytest_subprocess(*plugin, "-p", "no:cacheprovider", *arguments, timeout=300)


def test_without_flags_there_are_no_items_and_nothing_heavy_is_imported(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import sys

        def pytest_sessionfinish():
            heavy = {"torch", "numpy", "harness.session", "harness.supervise", "psutil"} & sys.modules.keys()
            assert "harness.pytest_plugin" in sys.modules
            assert not heavy, heavy
        """
    )
    result = run(project)
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_help_explains_the_flags(project: pytest.Pytester) -> None:
    result = run(project, "--help")
    text = result.stdout.str()
    assert [
        flag for flag in ("--bitgate ", "--bitgate-candidate=SPEC", "--bitgate-profile=NAME") if flag not in text
    ] == []
    assert "--bitgate-ids" not in text


def test_a_right_candidate_passes_and_a_wrong_one_fails_with_its_page(
    project: pytest.Pytester, write_candidate: WriteCandidate
) -> None:
    right, wrong = write_candidate(name="right"), write_candidate(WRONG, name="wrong")
    before = set(psutil.pids())
    result = run(project, "--bitgate-candidate", right, "--bitgate-candidate", wrong, *COMMIT)
    left = [process for process in psutil.process_iter(["cmdline", "cwd"]) if process.pid not in before]
    assert [process.pid for process in left if process.info["cwd"] == str(project.path)] == []
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"*bitgate {wrong}*",
            "different: *wrong.py::*",
            "what differs*",
            "query_start_loc_p_cpu = torch.tensor([[]0, 0], dtype=torch.int32)",
            "run it again   bitgate replay *",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "_pytest" not in result.stdout.str()


def test_a_candidate_that_is_not_equal_for_any_other_reason_fails(project: pytest.Pytester, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(f"def {FUNCTION}(query_start_loc_p_cpu, *, device): return missing\n")
    result = run(project, "--bitgate-candidate", f"{tmp_path}/broken.py::{FUNCTION}", *COMMIT)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["not loaded: *"])


def test_all_registered_and_configured_candidates_are_items(
    project: pytest.Pytester, write_candidate: WriteCandidate
) -> None:
    project.makepyprojecttoml(f"[tool.bitgate]\ncandidates = [{write_candidate(name='mine')!r}]\n")
    result = run(project, "--bitgate", "--collect-only", "-q")
    for name in ("numpy_prefix_sums", "searchsorted", "torch_repeat_interleave", "mine.py"):
        result.stdout.fnmatch_lines([f"bitgate::{CONTRACT}::*{name}*"])


@pytest.fixture
def one_on_gpu(project: pytest.Pytester) -> pytest.Pytester:
    """A project whose ``candidates`` package has one candidate, which runs on CUDA alone."""
    folder = project.path / "candidates" / CONTRACT
    folder.mkdir(parents=True)
    (project.path / "candidates" / "__init__.py").touch()
    (folder / "on_gpu.py").write_text('DEVICES = ("cuda",)\n', encoding="utf-8")
    project.syspathinsert()
    return project


def test_an_optional_candidate_that_cannot_run_here_is_skipped_with_the_reason(
    one_on_gpu: pytest.Pytester, write_candidate: WriteCandidate
) -> None:
    one_on_gpu.makepyprojecttoml(f"[tool.bitgate]\ncandidates = [{write_candidate(name='mine')!r}]\n")
    result = run(one_on_gpu, "--bitgate", *COMMIT, "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["SKIPPED*because it runs on cuda only*"])


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_run_that_skips_every_candidate_is_not_green(one_on_gpu: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = run(one_on_gpu, "--bitgate", *COMMIT, *workers)
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["bitgate: every candidate was skipped, so nothing was checked"])


@pytest.mark.parametrize("flag", ["candidate", "node id"])
def test_a_named_candidate_that_cannot_run_here_fails(one_on_gpu: pytest.Pytester, flag: str) -> None:
    name = f"{CONTRACT}/on_gpu"
    arguments = (
        ["--bitgate-candidate", name] if flag == "candidate" else [f"bitgate::{CONTRACT}::{name}", "test_own.py"]
    )
    result = run(one_on_gpu, *arguments, *COMMIT)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*skipped, because it runs on cuda only*"])


def test_items_are_selected_by_node_id_and_by_keyword(project: pytest.Pytester) -> None:
    nodeid = f"bitgate::{CONTRACT}::{CONTRACT}/searchsorted"
    by_id = run(project, nodeid, *COMMIT, "-v", "-n", "2")
    by_id.assert_outcomes(passed=1)
    by_id.stdout.fnmatch_lines([f"*PASSED {nodeid}*"])
    by_keyword = run(project, "--bitgate", "-k", "searchsorted", *COMMIT)
    by_keyword.assert_outcomes(passed=1, deselected=by_keyword.parseoutcomes()["deselected"])


def test_a_node_id_beside_a_file_runs_both_and_one_that_is_deselected_does_not_run(project: pytest.Pytester) -> None:
    nodeid = f"bitgate::{CONTRACT}::{CONTRACT}/searchsorted"
    both = run(project, nodeid, "test_own.py", "--collect-only", "-q")
    both.stdout.fnmatch_lines(["test_own.py::test_own", nodeid])
    rest = run(project, "--bitgate", "--deselect", nodeid, "--collect-only", "-q")
    assert nodeid not in rest.stdout.str()
    rest.stdout.fnmatch_lines(["bitgate::*"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bitgate-candidate", "nonsense"], "'nonsense': not a candidate"),
        (["--bitgate-candidate", "nonsense", "-n", "2"], "'nonsense': not a candidate"),
        (["--bitgate", "--bitgate-profile", "thorough"], "--profile 'thorough'"),
        (["--bitgate", "--bitgate-observe", "all"], "--observe 'all'"),
        (["--bitgate", "--bitgate-device", "tpu"], "--device 'tpu'"),
        (["--bitgate", "--bitgate-contract", "unheard_of"], "no contract is named 'unheard_of'"),
        (["bitgate::unheard_of::x"], "no candidate has the node id bitgate::unheard_of::x"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_flag_is_a_usage_error_in_one_line(project: pytest.Pytester, arguments: list[str], said: str) -> None:
    result = run(project, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert f"ERROR: {said}" in text
    assert "INTERNALERROR" not in text
    assert "Traceback" not in text
