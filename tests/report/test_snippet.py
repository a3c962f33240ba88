"""Failing cases as Python and as commands."""

from __future__ import annotations

import dataclasses
import io
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import pytest
import torch

from harness.case import Case, CaseFile, ListValue, TensorValue
from harness.report.snippet import MOST_ELEMENTS, python_snippet, replay_command
from harness.verdict import Difference, Finding, Result, Symptom


def _snippet(result: Result, function: str | None = None) -> str:
    assert result.finding is not None
    text = python_snippet(result, result.finding, function)
    assert text is not None
    compile(text, "snippet", "exec")
    return text


def _with_case(result: Result, case: Case, before: tuple[Case, ...] = (), step: str = "") -> Result:
    assert result.finding is not None
    return dataclasses.replace(result, finding=Finding(result.finding.symptom, case, before=before, step=step))


def test_the_snippet_of_an_import_path_runs_and_makes_the_failing_call(
    different: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.Tensor, torch.device]] = []
    module = ModuleType("planted")
    module.__dict__["helper"] = lambda query_start_loc_p_cpu, *, device: seen.append((query_start_loc_p_cpu, device))
    monkeypatch.setitem(sys.modules, "planted", module)
    text = _snippet(dataclasses.replace(different, candidate="planted:helper"))
    exec(compile(text, "snippet", "exec"), {})
    assert [(tensor.tolist(), tensor.dtype, str(device)) for tensor, device in seen] == [
        ([0, 5, 5, 9], torch.int32, "cpu")
    ]


def test_a_candidate_of_the_tree_is_imported_by_the_references_name(different: Result) -> None:
    text = _snippet(dataclasses.replace(different, candidate="causal_conv1d_metadata/fast"), "compute")
    assert "from candidates.causal_conv1d_metadata.fast import compute" in text
    assert "\nprint(compute(query_start_loc_p_cpu=" in text


def test_a_function_in_a_file_is_named_in_a_comment_and_called(different: Result) -> None:
    text = _snippet(different)
    assert "# compute_causal_conv1d_metadata: the function of vllm/utils.py::compute_causal_conv1d_metadata" in text
    assert "\nprint(compute_causal_conv1d_metadata(" in text


SOURCE = "import operator\n\ndef double(x):\n    return operator.mul(x, 2)\n\nclass Holder:\n    double = double\n"


def _in_file(different: Result, tmp_path: Path, candidate: str, source: str, text: str = SOURCE) -> Result:
    (tmp_path / "my branch").mkdir()
    (tmp_path / "my branch" / "doubles.py").write_text(text, encoding="utf-8")
    result = _with_case(different, Case(different.contract, {"x": 21}))
    return dataclasses.replace(result, candidate=candidate, source=source)


def test_a_file_that_can_simply_be_executed_is_and_the_call_prints_what_it_returns(
    different: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "sliced from my branch/doubles.py: doubles:double"
    text = _snippet(_in_file(different, tmp_path, "my branch/doubles.py::double", source))
    assert text.split("\n") == [
        "import runpy",
        "",
        'double = runpy.run_path("my branch/doubles.py")["double"]',
        "print(double(x=21))",
    ]
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, "snippet", "exec"), {})
    assert printed.getvalue() == "42\n"


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("double", "", SOURCE),
        ("double", "imported from my branch/doubles.py: doubles:double", SOURCE),
        ("double", "sliced from my branch/doubles.py: doubles:double, other:helper", SOURCE),
        ("double", "sliced from my branch/doubles.py: doubles:double, stub doubles:MODE", SOURCE),
        ("double", "sliced from elsewhere.py: elsewhere:double", SOURCE),
        ("Holder.double", "sliced from my branch/doubles.py: doubles:Holder, doubles:double", SOURCE),
        ("double", "sliced from my branch/doubles.py: doubles:double", f"import nowhere_at_all\n{SOURCE}"),
        ("double", "sliced from my branch/doubles.py: doubles:double", f"from nowhere_at_all import x\n{SOURCE}"),
        ("double", "sliced from my branch/doubles.py: doubles:double", f"from . import sibling\n{SOURCE}"),
        ("double", "sliced from my branch/doubles.py: doubles:double", "def double(:"),
    ],
)
def test_a_file_that_cannot_simply_be_executed_is_named_in_a_comment(
    different: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = _snippet(_in_file(different, tmp_path, f"my branch/doubles.py::{name}", source, text))
    assert "runpy" not in shown
    assert f"# {name}: the function of my branch/doubles.py::{name}" in shown


@pytest.mark.parametrize(
    ("device", "needs", "first"),
    [("cpu", ("triton",), "import os"), ("cuda", ("triton",), "import torch"), ("cpu", (), "import torch")],
)
def test_triton_is_told_to_interpret_where_the_check_did(
    different: Result, device: str, needs: tuple[str, ...], first: str
) -> None:
    assert different.finding is not None
    text = python_snippet(dataclasses.replace(different, device=device), different.finding, needs=needs)
    assert text is not None
    lines = text.split("\n")
    assert lines[0] == first
    assert lines[1:3] == ['os.environ["TRITON_INTERPRET"] = "1"', "import torch"] or first != "import os"


@pytest.mark.parametrize(
    ("path", "printed"),
    [
        ("argument lengths", ["print(lengths)"]),
        ("argument lengths[2]", ["print(lengths)"]),
        ("argument 'lengths'", ["print(lengths)"]),
        ("argument total", ["print(total)"]),
        ("argument missing", []),
        ("argument lengths()", ["print(lengths)"]),
        ("[1]", []),
    ],
)
def test_the_argument_that_the_difference_is_in_is_printed_too(
    different: Result, path: str, printed: list[str]
) -> None:
    case = Case(different.contract, {"lengths": ListValue((1, 2))})
    finding = Finding(Symptom.MUTATED_INPUT, case, difference=Difference(path, "value", "1", "2"))
    result = dataclasses.replace(different, finding=finding, derived={"total": "operator.length_hint(lengths)"})
    lines = _snippet(result).split("\n")
    call = next(number for number, line in enumerate(lines) if line.startswith("print(compute"))
    assert lines[call + 1 :] == printed


def test_a_method_is_called_through_its_class(different: Result) -> None:
    text = _snippet(dataclasses.replace(different, candidate="package.module:Builder.build"))
    assert "from package.module import Builder" in text
    assert "\nprint(Builder.build(" in text


def test_calls_that_come_before_are_shown_in_order(different: Result, case: Case) -> None:
    first = Case(case.contract, {"query_start_loc_p_cpu": TensorValue("int64", (0, 1))})
    text = _snippet(_with_case(different, case, (first,), "second call\nwith the same arguments"))
    assert text.index("# call 1 of 2") < text.index("[0, 1]") < text.index("# call 2 of 2") < text.index("[0, 5, 5, 9]")
    assert text.count("import torch") == 1
    assert text.count("print(") == 1
    assert text.index("# call 2 of 2") < text.index("print(")
    assert text.endswith("# what failed: second call with the same arguments")


def test_a_large_case_is_loaded_from_its_file_by_code_that_runs(different: Result, case: Case, tmp_path: Path) -> None:
    large = Case(case.contract, {"x": ListValue(tuple(range(MOST_ELEMENTS + 1)))})
    path = CaseFile(large, (case,)).write(tmp_path / "folder with 'quotes'")
    text = _snippet(dataclasses.replace(_with_case(different, large, (case,)), case_file=path))
    assert len(text) < 1_000
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, "snippet", "exec"), {})
    assert "[0, 5, 5, 9]" in printed.getvalue()
    assert f"{MOST_ELEMENTS}]))\n" in printed.getvalue()
    assert printed.getvalue().count("print(") == 1


def test_a_large_case_that_was_not_saved_has_no_snippet(different: Result, case: Case) -> None:
    large = Case(case.contract, {"x": ListValue((0,) * (MOST_ELEMENTS + 1))})
    result = dataclasses.replace(_with_case(different, large), case_file=None)
    assert result.finding is not None
    assert python_snippet(result, result.finding) is None


def test_a_derived_argument_is_made_from_the_others(different: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    module = ModuleType("planted")
    module.__dict__["helper"] = lambda x, *, total: seen.append((x, total))
    monkeypatch.setitem(sys.modules, "planted", module)
    result = _with_case(different, Case(different.contract, {"x": 3}), (Case(different.contract, {"x": 5}),))
    text = _snippet(dataclasses.replace(result, candidate="planted:helper", derived={"total": "operator.neg(x)"}))
    assert text.count("import operator") == 1
    exec(compile(text, "snippet", "exec"), {})
    assert seen == [(5, -5), (3, -3)]


def test_a_large_case_is_loaded_with_what_is_derived_from_it(different: Result, tmp_path: Path) -> None:
    large = Case(different.contract, {"x": ListValue((0,) * (MOST_ELEMENTS + 1))})
    path = CaseFile(large).write(tmp_path)
    result = dataclasses.replace(
        _with_case(different, large), case_file=path, derived={"size": "operator.length_hint(x)"}
    )
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(_snippet(result), "snippet", "exec"), {})
    assert printed.getvalue().startswith("import operator\n")
    assert "size = operator.length_hint(x)\n" in printed.getvalue()


def test_a_case_of_the_largest_shown_size_is_written_out(different: Result, case: Case) -> None:
    assert "99, 0, 1" in _snippet(_with_case(different, Case(case.contract, {"x": ListValue((*range(100),) * 2)})))


@pytest.mark.parametrize("name", ["__import__('os').getcwd()", "x\nimport os", "class", "a b"])
def test_an_argument_name_that_is_no_name_never_becomes_code(different: Result, case: Case, name: str) -> None:
    text = _snippet(_with_case(different, Case(case.contract, {name: 1})))
    assert name not in text
    assert "read_case_file" in text


def test_a_hostile_string_argument_stays_a_string(different: Result, case: Case, hostile: str) -> None:
    text = _snippet(_with_case(different, Case(case.contract, {"x": hostile})))
    assert text.isprintable() or all(line.isprintable() for line in text.split("\n"))


def test_the_replay_command_is_one_shell_line_that_names_file_and_candidate(different: Result) -> None:
    words = shlex.split(replay_command(different))
    assert words == ["bitgate", "replay", str(different.case_file), "--candidate", different.candidate]


def test_the_replay_command_repeats_what_was_not_the_default(different: Result) -> None:
    command = replay_command(dataclasses.replace(different, observe="launch", device="cuda"))
    assert command.endswith("--observe launch --device cuda")


def test_without_a_case_file_the_command_repeats_the_check(different: Result) -> None:
    command = replay_command(dataclasses.replace(different, case_file=None))
    assert command == (
        "bitgate check vllm/utils.py::compute_causal_conv1d_metadata "
        "--contract causal_conv1d_metadata --seed 7 --profile gate"
    )


def test_a_candidate_cannot_add_words_to_the_command(different: Result) -> None:
    words = shlex.split(replay_command(dataclasses.replace(different, candidate="x.py::f; rm -rf '~'\n\x1b[2J")))
    assert words[-1] == "x.py::f; rm -rf '~' "
