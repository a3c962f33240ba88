"""Snippet: a failing case as Python and as a command, to be copied."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection, Iterator
from keyword import iskeyword
from pathlib import Path
from typing import Final

from harness.case import Case
from harness.load.targets import is_installed
from harness.load.traits import syntax_of
from harness.paths import shown_path
from harness.report.text import one_line
from harness.verdict import Finding, Result

MOST_ELEMENTS: Final = 200
"""A case with more elements is loaded from its file instead of being written out."""
_MOST_CHARACTERS: Final = 20_000
_IMPORT_PATH: Final = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_FILE: Final = re.compile(r"(?P<file>.+)::(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_IN_TREE: Final = re.compile(r"(?P<contract>[^\W\d]\w*)/(?P<file>[^\W\d]\w*)")
_ARGUMENT: Final = re.compile(r"argument (?P<quote>'?)(?P<name>\w+)(?P=quote)(?!\w)")
_INTERPRETED: Final = ("import os", 'os.environ["TRITON_INTERPRET"] = "1"')


def python_snippet(
    result: Result, finding: Finding, function: str | None = None, needs: Collection[str] = ()
) -> str | None:
    """Python source that makes the failing calls, or that loads them when they are large.

    Args:
        result: the outcome that the finding belongs to.
        finding: what to show.
        function: the reference's function name, by which a candidate of the tree is imported.
        needs: the packages that the contract needs, which tell whether kernels were interpreted.

    Returns:
        Source that compiles; None when the calls are too large to show and were not saved.
    """
    cases = (*finding.before, finding.case)
    # A case file can come from a stranger: what is shown as code must be values and nothing else.
    if not all(name.isidentifier() and not iskeyword(name) for case in cases for name in case.arguments):
        return _loading(result, finding, "candidate")
    imports, body, name = _found(result, function)
    if sum(case.size() for case in cases) > MOST_ELEMENTS:
        return _loading(result, finding, name)
    for number, case in enumerate(cases, start=1):
        if len(cases) > 1:
            body.append(f"# call {number} of {len(cases)}")
        printed = _printed(result, finding) if number == len(cases) else None
        body.extend(_lines(case, name, result, imports, printed))
    if finding.step:
        body.append(f"# what failed: {one_line(finding.step, 200)}")
    # Triton reads its environment when it is imported.
    first = _INTERPRETED if result.device == "cpu" and "triton" in needs else ()
    later = [line for line in imports if line not in first]
    text = "\n".join([*first, *sorted(later, key=lambda line: line.startswith("#")), "", *body])
    return text if len(text) <= _MOST_CHARACTERS else _loading(result, finding, name)


def replay_command(result: Result) -> str:
    """The shell command that runs the failing calls again, or the whole check when they were not saved."""
    candidate = _quoted(result.candidate)
    if result.case_file is not None:
        words = ["bitgate", "replay", _quoted(shown_path(result.case_file)), "--candidate", candidate]
    else:
        words = ["bitgate", "check", candidate, "--contract", _quoted(result.contract), "--seed", str(result.seed)]
        words += ["--profile", _quoted(result.profile)] if result.profile else []
    words += ["--observe", _quoted(result.observe)] if result.observe not in ("", "strict") else []
    words += ["--device", _quoted(result.device)] if result.device not in ("", "cpu") else []
    return " ".join(words)


def _quoted(word: str) -> str:
    return shlex.quote(one_line(word, 8_192))


def _lines(case: Case, name: str, result: Result, imports: list[str], printed: Collection[str] | None) -> Iterator[str]:
    text = case.to_python(name, device=result.device or "cpu", derived=result.derived, printed=printed)
    for line in text.split("\n"):
        if not line.startswith("import "):
            yield line
        elif line not in imports:
            imports.append(line)


def _printed(result: Result, finding: Finding) -> list[str]:
    """The argument that the difference is in, if it is in one: what the call returns does not show it."""
    match = _ARGUMENT.match(finding.difference.path) if finding.difference else None
    known = {*finding.case.arguments, *result.derived}
    return [match["name"]] if match and match["name"] in known else []


def _found(result: Result, function: str | None) -> tuple[list[str], list[str], str]:
    """How to get at the candidate, as imports (or a comment) and statements, and the name that it is called by."""
    if match := _IMPORT_PATH.fullmatch(result.candidate):
        return [f"from {match['module']} import {match['name'].split('.')[0]}"], [], match["name"]
    match = _IN_TREE.fullmatch(result.candidate)
    if match and function and function.isidentifier():
        return [f"from candidates.{match['contract']}.{match['file']} import {function}"], [], function
    match = _FILE.fullmatch(result.candidate)
    if match and _runs_alone(result.source, match["file"], match["name"]):
        name = match["name"]
        return ["import runpy"], [f'{name} = runpy.run_path({_quoted_text(match["file"])})["{name}"]'], name
    name = match["name"] if match else function if function and function.isidentifier() else "candidate"
    return [f"# {name}: the function of {one_line(result.candidate, 1_000)}"], [], name


def _runs_alone(source: str, file: str, name: str) -> bool:
    """Whether executing the whole file gives its function: it was sliced from there alone, and its imports exist."""
    definitions = source.rpartition(": ")[2].split(", ")
    modules = {definition.partition(":")[0] for definition in definitions}
    module = modules.pop()
    if not source.startswith("sliced from ") or modules or f"{module}:{name}" not in definitions:
        return False
    syntax = syntax_of(Path(file))
    if syntax is None or module.rpartition(".")[2] != Path(file).stem:
        return False
    # Imports inside of functions are left out: what the call needs of them, the slice has had.
    return all(map(_imports_exist, syntax.body))


def _imports_exist(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and is_installed(node.module or "")
    return not isinstance(node, ast.Import) or all(is_installed(alias.name) for alias in node.names)


def _quoted_text(text: str) -> str:
    """Like ``repr``, in double quotes where that needs no escapes."""
    source = repr(text)
    return source if '"' in source else f'"{source[1:-1]}"'


def _loading(result: Result, finding: Finding, name: str) -> str | None:
    if result.case_file is None:
        return None
    derived = f", derived={dict(result.derived)!r}" if result.derived else ""
    arguments = f"{name!r}, device={result.device or 'cpu'!r}{derived}"
    before = ["for case in saved.before:", f"    print(case.to_python({arguments}))"] if finding.before else []
    return "\n".join(
        [
            "from pathlib import Path",
            "from harness.case import read_case_file",
            "",
            f"saved = read_case_file(Path({shown_path(result.case_file)!r}))",
            *before,
            f"print(saved.case.to_python({arguments}, printed={_printed(result, finding)!r}))",
        ]
    )
