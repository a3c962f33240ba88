"""Snippet: a failing case as Python and as a command, to be copied."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from keyword import iskeyword
from typing import Final

from harness.case import Case
from harness.paths import shown_path
from harness.report.text import one_line
from harness.verdict import Finding, Result

MOST_ELEMENTS: Final = 200
"""A case with more elements is loaded from its file instead of being written out."""
_MOST_CHARACTERS: Final = 20_000
_IMPORT_PATH: Final = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_FILE: Final = re.compile(r".+::(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_IN_TREE: Final = re.compile(r"(?P<contract>[^\W\d]\w*)/(?P<file>[^\W\d]\w*)")


def python_snippet(result: Result, finding: Finding, function: str | None = None) -> str | None:
    """Python source that makes the failing calls, or that loads them when they are large.

    Args:
        result: the outcome that the finding belongs to.
        finding: what to show.
        function: the reference's function name, by which a candidate of the tree is imported.

    Returns:
        Source that compiles; None when the calls are too large to show and were not saved.
    """
    cases = (*finding.before, finding.case)
    # A case file can come from a stranger: what is shown as code must be values and nothing else.
    if not all(name.isidentifier() and not iskeyword(name) for case in cases for name in case.arguments):
        return _loading(result, "candidate")
    where, name = _imported(result, function)
    if sum(case.size() for case in cases) > MOST_ELEMENTS:
        return _loading(result, name)
    imports: list[str] = [where]
    body: list[str] = []
    for number, case in enumerate(cases, start=1):
        if len(cases) > 1:
            body.append(f"# call {number} of {len(cases)}")
        body.extend(_lines(case, name, result, imports))
    if finding.step:
        body.append(f"# what failed: {one_line(finding.step, 200)}")
    text = "\n".join([*sorted(imports, key=lambda line: line.startswith("#")), "", *body])
    return text if len(text) <= _MOST_CHARACTERS else _loading(result, name)


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


def _lines(case: Case, name: str, result: Result, imports: list[str]) -> Iterator[str]:
    for line in case.to_python(name, device=result.device or "cpu", derived=result.derived).split("\n"):
        if not line.startswith("import "):
            yield line
        elif line not in imports:
            imports.append(line)


def _imported(result: Result, function: str | None) -> tuple[str, str]:
    """How to get at the candidate, as an import or a comment, and the name that it is called by."""
    if match := _IMPORT_PATH.fullmatch(result.candidate):
        return f"from {match['module']} import {match['name'].split('.')[0]}", match["name"]
    match = _IN_TREE.fullmatch(result.candidate)
    if match and function and function.isidentifier():
        return f"from candidates.{match['contract']}.{match['file']} import {function}", function
    match = _FILE.fullmatch(result.candidate)
    name = match["name"] if match else function if function and function.isidentifier() else "candidate"
    return f"# {name}: the function of {one_line(result.candidate, 1_000)}", name


def _loading(result: Result, name: str) -> str | None:
    if result.case_file is None:
        return None
    derived = f", derived={dict(result.derived)!r}" if result.derived else ""
    call = f"to_python({name!r}, device={result.device or 'cpu'!r}{derived})"
    return "\n".join(
        [
            "from pathlib import Path",
            "from harness.case import read_case_file",
            "",
            f"saved = read_case_file(Path({shown_path(result.case_file)!r}))",
            "for case in (*saved.before, saved.case):",
            f"    print(case.{call})",
        ]
    )
