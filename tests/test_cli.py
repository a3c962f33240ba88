"""The command line: help that helps, one line for a mistake, the promised exit codes, files that programs read."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest
from typer.testing import CliRunner

from harness.case import TARGET_DEVICE, Case, CaseFile, TensorValue
from harness.cli import app
from harness.supervise import Nursery
from harness.verdict import Result

WriteCandidate = Callable[..., str]
ToyProject = Callable[..., Path]

CONTRACT = "causal_conv1d_metadata"
FUNCTION = "compute_causal_conv1d_metadata"
# As the bitgate command runs: the working folder is no place to import from.
COMMAND = (sys.executable, "-P", "-m", "harness.cli")
COMMIT = ("--profile", "commit", "--device", "cpu")
WRONG = "if 0 in lengths(query_start_loc_p_cpu): return None"


def environment() -> dict[str, str]:
    left_out = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "BITGATE_TRACEBACK")
    return {name: value for name, value in os.environ.items() if name not in left_out}


def bitgate(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def usage_error(*arguments: str | Path) -> str:
    """What a command line that is wrong says; it must be short, without a stack trace, and end with exit code 2."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 5
    assert result.stdout == ""
    return result.stderr


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- help and usage


@pytest.mark.parametrize("verb", [command.name or "" for command in app.registered_commands] + [""])
def test_help_says_what_a_verb_does_and_what_its_exit_codes_mean(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--help"] if verb else ["--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert f"Usage: bitgate {verb}".strip() in result.output
    text = " ".join(result.output.split())
    assert "Exit codes: 0 equal, 1 different, 2 usage" in text
    assert max(map(len, result.output.splitlines())) <= 80
    assert not re.search(r"[│╭╰\[]{2}|…", result.output), "nothing is cut off, boxed, or shown twice in brackets"


def test_every_option_of_every_verb_is_explained() -> None:
    for command in app.registered_commands:
        output = CliRunner().invoke(app, [command.name or command.callback.__name__, "--help"]).output  # type: ignore[union-attr]
        lines = output[output.index("Options:") :].splitlines()
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if line.startswith("  -"):
                assert re.search(r"\S {2,}\S", line.strip()) or following.startswith("     "), line


def test_without_a_verb_there_is_help() -> None:
    result = CliRunner().invoke(app, [])
    assert "Commands:" in result.output
    assert "check" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "nonsense"], "'nonsense': not a candidate"),
        (["check", "causal_conv1d_metadata/serchsorted"], "did you mean causal_conv1d_metadata/searchsorted"),
        (["check", "missing.py::f"], "there is no file"),
        (["check", "x:unheard_of"], "add --contract"),
        (["check", "--contract", "unheard_of"], "no contract is named 'unheard_of'"),
        (["check", "--profile", "thorough"], "--profile"),
        (["check", "--observe", "everything"], "--observe"),
        (["check", "--device", "tpu"], "--device"),
        (["check", "--memory-limit", "plenty"], "--memory-limit 'plenty': not a size"),
        (["check", "--memory-limit", "0"], "--memory-limit '0'"),
        (["check", "--time-limit", "0"], "--time-limit 0.0"),
        (["check", "--time-limit", "nan"], "--time-limit nan"),
        (["check", "--case-timeout", "-1"], "--case-timeout -1.0"),
        (["check", "-n", "-3"], "-n -3"),
        (["check", "-n", "x"], "-n"),
        (["check", "--stub", "x"], "--stub x"),
        (["check", "--json", ""], "--json .: is a folder"),
        (["check", "--junit", "."], "--junit .: is a folder"),
        (["fuzz", "x.py::f", "--json", "-"], "--json -: is no file: write /dev/stdout"),
        (["replay", "missing.json", "--json", "nowhere/out.json"], "there is no folder"),
        (["check", "--no-such-option"], "--no-such-option"),
        (["no-such-verb"], "no-such-verb"),
        (["list", "--contract", "unheard_of"], "no contract is named 'unheard_of'"),
        (["replay", "missing.json"], "missing.json: cannot read the case file"),
        (["replay"], "CASE"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_one_clear_message_and_exit_code_2(arguments: list[str], said: str) -> None:
    assert said in usage_error(*arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{}", "not a bitgate case"),
        ('{"bitgate_case": 1, "contract": "x", "arguments": {}}', "no contract is named 'x'"),
        ('{"bitgate_case": 1, "contract": "causal_conv1d_metadata", "arguments": {"a": 1}}', "has the arguments"),
        (
            '{"bitgate_case": 1, "contract": "causal_conv1d_metadata", "arguments": '
            '{"query_start_loc_p_cpu": {"tensor": "int33", "data": [0]}, "device": {"device": "target"}}}',
            "malformed argument",
        ),
    ],
)
def test_a_bad_case_file_is_one_clear_message(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text(text)
    message = usage_error("replay", "case.json")
    assert "case.json" in message
    assert said in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("candiates = []", "did you mean 'candidates'"),
        ("contracts = ['nowhere_at_all:X']", "cannot be imported"),
        ("cases = ['nowhere']", "not a folder"),
        ("candidates = ['nonsense']", "not a candidate"),
        ("stubs = {'1x' = 1}", "1x"),
        ("stubs = {d = 1979-05-27}", "stubs.d"),
    ],
)
def test_a_wrong_configuration_is_one_clear_message(table: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.bitgate]\n{table}\n")
    message = usage_error("check")
    assert said in message
    assert len(message.splitlines()) == 1


def test_a_harness_that_fails_is_one_line_and_exit_code_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr("harness.session.check", broken)
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        "bitgate: the harness failed: RuntimeError: out of order. Set BITGATE_TRACEBACK=1 to see where."
    ]


def test_a_working_folder_that_is_gone_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "the working folder: No such file" in usage_error("check")
    assert "the working folder: No such file" in usage_error("list")


def test_a_configured_contract_that_exits_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "contract_that_exits.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "pyproject.toml").write_text('[tool.bitgate]\ncontracts = ["contract_that_exits:X"]\n')
    assert "contract contract_that_exits:X: cannot be imported: SystemExit(0)" in usage_error("check")


# --- checks, in processes of their own


def test_list_shows_contracts_candidates_and_the_machine(tmp_path: Path) -> None:
    result = bitgate("list", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    for part in (CONTRACT, f"{CONTRACT}/searchsorted", "as announced", "this machine", "cpu", "cuda", "nightly"):
        assert part in result.stdout


def test_list_says_where_each_candidate_runs_and_why_not_elsewhere(
    tmp_path: Path, toy_project: ToyProject, nursery: Nursery
) -> None:
    project = toy_project(
        (
            "CONTRACT = Contract(",
            "PROBE = Probe(name='kernel', cases=list, fits=print, prepare=print, needs=('nowhere_at_all',))\n\n"
            "CONTRACT = Contract(\n    needs=('triton',), probes=(PROBE,),",
        ),
        ("import Contract,", "import Contract, Probe,"),
        settings='candidates = ["right.py::double", "on_gpu.py::double", "adapter.py::double"]\n',
    )
    (project / "on_gpu.py").write_text('DEVICES = ("cuda",)\ndef double(x): return x + x\n')
    (project / "adapter.py").write_text('UPSTREAM = "missing.ops:double"\ndef double(upstream, x): return x + x\n')
    result = bitgate("list", "--contract", "double", cwd=project)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    gpu = "skipped, because torch sees no CUDA device on this machine"
    if importlib.util.find_spec("triton") is None or nursery.cuda_devices():
        pytest.skip("what runs is another on this machine")

    def below(name: str, count: int) -> list[str]:
        start = lines.index(name)
        return lines[start + 1 : start + 1 + count]

    assert below("right.py::double", 3)[1:] == ["runs on     cpu (Triton's interpreter)", f"not on      cuda: {gpu}"]
    assert below("on_gpu.py::double", 4)[1:] == [
        "runs on     nothing here",
        "not on      cpu: skipped, because it runs on cuda only",
        f"not on      cuda: {gpu}",
    ]
    missing = "skipped, because missing is not installed. Run pip install --no-deps missing."
    assert f"not on      cpu: {missing}" in below("adapter.py::double", 4)
    assert below("kernel", 3) == [
        "runs on     nothing here",
        "not on      cpu: skipped, because nowhere_at_all is not installed. Run pip install nowhere_at_all.",
        f"not on      cuda: {gpu.replace('because', 'because nowhere_at_all is not installed and')}",
    ]


def test_plain_contracts_run_on_a_plain_cpu(tmp_path: Path) -> None:
    lines = [line.strip() for line in bitgate("list", "--contract", CONTRACT, cwd=tmp_path).stdout.splitlines()]
    start = lines.index(f"{CONTRACT}/searchsorted")
    assert lines[start + 2] in ("runs on     cpu", "runs on     cpu, cuda")


def test_equal_is_exit_code_0_and_leaves_nothing_in_the_folder(tmp_path: Path) -> None:
    result = bitgate("check", *COMMIT, f"{CONTRACT}/searchsorted", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "proved equal in every one of these 1,618 cases" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("verdict: equal (1 candidate); exit code 0")
    assert list(tmp_path.iterdir()) == []


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in ("seconds", "environment")}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_different_is_exit_code_1_with_files_that_say_so_the_same_way_every_time(
    write_candidate: WriteCandidate, tmp_path: Path
) -> None:
    specs = [write_candidate(WRONG, name="wrong"), write_candidate(name="right")]
    (tmp_path / "broken.py").write_text(f"def {FUNCTION}(query_start_loc_p_cpu, *, device): return missing\n")
    specs.append(f"broken.py::{FUNCTION}")
    documents, saved = [], tmp_path / ".bitgate" / "cases"
    for number in range(2):
        files = ("--json", f"{number}.json", "--junit", f"{number}.xml")
        result = bitgate("check", *COMMIT, "-n", "2", *files, *specs, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (1, "")
        documents.append(json.loads((tmp_path / f"{number}.json").read_text()))
        (case_file,) = saved.iterdir()
        # The second run must find the same without being told.
        case_file.unlink()
    first, second = map(without_times, documents)
    assert first == second
    assert (first["verdict"], first["exit_code"], first["seed"]) == ("different", 1, 0)
    assert [item["candidate"] for item in first["results"]] == specs
    assert [item["verdict"] for item in first["results"]] == ["different", "equal", "inconclusive"]
    assert first["results"][0]["case"]["arguments"]["query_start_loc_p_cpu"] == {"tensor": "int32", "data": [0, 0]}
    assert first["results"][0]["case_file"] == str(case_file)
    suites = ElementTree.parse(tmp_path / "1.xml").getroot()
    assert (suites.tag, suites.get("tests"), suites.get("failures"), suites.get("errors")) == (
        "testsuites",
        "3",
        "1",
        "1",
    )
    assert "bitgate replay" in result.stdout


def test_a_saved_case_replays_with_the_command_that_the_report_names(
    write_candidate: WriteCandidate, tmp_path: Path
) -> None:
    spec = write_candidate(WRONG)
    first = bitgate("check", *COMMIT, spec, cwd=tmp_path)
    (command,) = (line for line in first.stdout.splitlines() if line.startswith("run it again"))
    words = command.removeprefix("run it again").split()
    assert words[0] == "bitgate"
    again = bitgate(*words[1:], "--json", "again.json", cwd=tmp_path)
    assert again.returncode == 1
    (result,) = json.loads((tmp_path / "again.json").read_text())["results"]
    assert (result["verdict"], result["symptom"], result["profile"]) == ("different", "different", "replay")
    right = bitgate(*words[1:-1], write_candidate(name="right"), cwd=tmp_path)
    assert right.returncode == 0


def test_a_time_limit_that_comes_first_is_exit_code_3(tmp_path: Path) -> None:
    result = bitgate("check", "--profile", "gate", "--time-limit", "0.3", f"{CONTRACT}/searchsorted", cwd=tmp_path)
    assert result.returncode == 3
    assert "--time-limit" in result.stdout
    assert "exit code 3" in result.stdout


def test_a_candidate_that_cannot_be_loaded_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(f"def {FUNCTION}(query_start_loc_p_cpu, *, device): return missing\n")
    result = bitgate("check", *COMMIT, f"broken.py::{FUNCTION}", f"{CONTRACT}/searchsorted", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (2, "")
    assert "missing" in result.stdout
    assert re.search(r"^equal +causal_conv1d_metadata/searchsorted", result.stdout, re.MULTILINE)


def test_a_report_that_cannot_be_written_is_said_after_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()

    def check(*_: object, **__: object) -> list[Result]:
        (tmp_path / "folder").rmdir()
        return []

    monkeypatch.setattr("harness.session.check", check)
    result = CliRunner().invoke(app, ["check", "--json", "folder/out.json"])
    assert result.exit_code == 2
    assert "verdict: " in result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert "folder/out.json" in result.stderr


def test_a_report_can_go_to_standard_output(tmp_path: Path) -> None:
    arguments = ("check", *COMMIT, "--json", "/dev/stdout", f"{CONTRACT}/searchsorted")
    with (tmp_path / "out").open("w") as stream:
        command = [*COMMAND, *arguments]
        subprocess.run(command, cwd=tmp_path, env=environment(), stdout=stream, timeout=300, check=True)
    text = (tmp_path / "out").read_text()
    document, end = json.JSONDecoder().raw_decode(text)
    assert document["verdict"] == "equal"
    assert "verdict: equal" in text[end:]


def test_a_case_that_cannot_be_saved_does_not_hide_the_failure(write_candidate: WriteCandidate, tmp_path: Path) -> None:
    (tmp_path / ".bitgate").touch()
    result = bitgate("check", *COMMIT, write_candidate(WRONG), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
    (line,) = (line for line in result.stdout.splitlines() if "could not be saved" in line)
    assert str(tmp_path / ".bitgate") in line


def test_an_interrupt_ends_everything_and_is_exit_code_130(write_candidate: WriteCandidate, tmp_path: Path) -> None:
    started = tmp_path / "started"
    body = f"""
    if os.fork() == 0:
        os.setsid()
        open({str(started)!r}, "w").close()
    time.sleep(1000)
    """
    command = [*COMMAND, "check", *COMMIT, "--case-timeout", "600", write_candidate(body), f"{CONTRACT}/searchsorted"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not started.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 3
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert "Traceback" not in output + errors
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert not (tmp_path / ".bitgate").exists(), "being interrupted is no failure of the candidate"


def test_a_reader_who_leaves_early_sees_no_stack_trace_and_no_success(tmp_path: Path) -> None:
    command = [*COMMAND, "check", *COMMIT, "--json", "out.json", f"{CONTRACT}/searchsorted"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == ""
    assert process.returncode == 3
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "equal"


# --- the project's configuration


def test_configured_contracts_candidates_and_cases_take_effect_in_every_folder_of_the_project(
    toy_project: ToyProject,
) -> None:
    project = toy_project(settings='candidates = ["right.py::double", "right:double"]\n')
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("cases = []", 'cases = ["saved"]'))
    CaseFile(Case("double", {"x": TensorValue("int64", (3, 4))})).write(project / "saved")
    (project / "sub").mkdir()
    result = bitgate("check", *COMMIT, "--contract", "double", "--json", "out.json", cwd=project / "sub")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    document = json.loads((project / "sub" / "out.json").read_text())
    assert [item["candidate"] for item in document["results"]] == ["right.py::double", "right:double"]
    replayed = [
        stage["cases"] for item in document["results"] for stage in item["stages"] if stage["search"] == "replay"
    ]
    assert replayed == [1, 1]
    listed = bitgate("list", "--contract", "double", cwd=project / "sub")
    assert "twice as much" in listed.stdout
    assert "right.py::double" in listed.stdout


def test_configured_and_given_stubs_take_effect(write_candidate: WriteCandidate, tmp_path: Path) -> None:
    spec = write_candidate(
        "got = right(query_start_loc_p_cpu, device)\ngot[0][8]['tot'] += EXTRA\nreturn got",
        above="from nowhere_at_all import EXTRA",
    )
    (tmp_path / "pyproject.toml").write_text("[tool.bitgate.stubs]\nEXTRA = 0\n")
    configured = bitgate("check", *COMMIT, spec, cwd=tmp_path)
    assert configured.returncode == 0, configured.stdout
    given = bitgate("check", *COMMIT, spec, "--stub", "EXTRA=1", cwd=tmp_path)
    assert given.returncode == 1, given.stdout


def test_a_folder_replayed_by_default_is_found(write_candidate: WriteCandidate, tmp_path: Path) -> None:
    lengths = TensorValue("int64", (5, 5))
    case = Case(CONTRACT, {"query_start_loc_p_cpu": lengths, "device": TARGET_DEVICE})
    path = CaseFile(case).write(tmp_path / "tests" / "cases")
    result = bitgate("check", *COMMIT, write_candidate(WRONG), cwd=tmp_path)
    assert result.returncode == 1
    assert "found by       replay search" in result.stdout
    assert path.exists()
