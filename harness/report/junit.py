"""JUnit: the report that a CI server reads, as XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from harness.report.page import cause, page_text
from harness.report.text import one_line, write_report
from harness.verdict import Result, Verdict, overall

# Everything outside the characters of XML 1.0, https://www.w3.org/TR/xml/#charsets
_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(
    results: Iterable[Result],
    *,
    functions: Mapping[str, str] | None = None,
    needs: Mapping[str, tuple[str, ...]] | None = None,
) -> ElementTree.Element:
    """The whole run as a ``testsuites`` element: one suite per contract, one test case per candidate.

    A candidate that is different is a failure whose type is the symptom. One that could not be loaded, or of which too
    little is known, is an error. Skipped is only what nobody had asked for by name; a run in which everything was
    skipped has one more test case, an error, since a file without failures and errors reads as green.

    Args:
        results: the outcomes.
        functions: the reference's function name of each contract, for the Python code of failures.
        needs: the packages that each contract needs, for the same.
    """
    outcomes = list(results)
    nothing = _why_nothing(outcomes)
    root = ElementTree.Element("testsuites", {"name": "bitgate", **_counts(outcomes, nothing)})
    groups: dict[str, list[Result]] = {}
    for result in outcomes:
        groups.setdefault(result.contract, []).append(result)
    for contract, group in groups.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _legal(contract), **_counts(group)})
        for result in group:
            _add_test(suite, result, (functions or {}).get(contract), (needs or {}).get(contract, ()))
    if nothing:
        # A file without failures and errors reads as green, and a run that has run nothing is not.
        suite = ElementTree.SubElement(root, "testsuite", {"name": "bitgate", **_counts([], nothing)})
        test = ElementTree.SubElement(suite, "testcase", {"classname": "bitgate", "name": "check", "time": "0.000"})
        ElementTree.SubElement(test, "error", {"type": overall(outcomes).value, "message": nothing})
    return root


def write(
    path: Path,
    results: Iterable[Result],
    *,
    functions: Mapping[str, str] | None = None,
    needs: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Write :func:`document` to a file.

    Raises:
        UsageError: the file cannot be written.
    """
    root = document(results, functions=functions, needs=needs)
    ElementTree.indent(root)
    write_report(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _add_test(suite: ElementTree.Element, result: Result, function: str | None, needs: tuple[str, ...]) -> None:
    name = _legal(one_line(result.candidate, 500))
    time = f"{result.seconds:.3f}"
    test = ElementTree.SubElement(suite, "testcase", {"classname": _legal(result.contract), "name": name, "time": time})
    if (kind := _kind(result)) is None:
        return
    if kind == "skipped":
        ElementTree.SubElement(test, kind, {"message": _legal(cause(result))})
        return
    symptom = result.symptom.value if result.symptom else result.verdict.value
    attributes = {"type": symptom if result.loaded else "not loaded", "message": _legal(cause(result))}
    ElementTree.SubElement(test, kind, attributes).text = _legal(page_text(result, function=function, needs=needs))


def _kind(result: Result) -> str | None:
    """The element that a result gets: ``failure``, ``error``, ``skipped``, or none at all."""
    if result.skipped:
        return "skipped"
    if not result.loaded or result.verdict is Verdict.INCONCLUSIVE:
        return "error"
    return "failure" if result.verdict is Verdict.DIFFERENT else None


def _why_nothing(results: list[Result]) -> str:
    """Why nothing was run; an empty string if something was."""
    if not results:
        return "there was nothing to check; name a candidate or a contract"
    return "every candidate was skipped, so nothing was checked" if all(result.skipped for result in results) else ""


def _counts(results: list[Result], nothing: str = "") -> dict[str, str]:
    kinds = [*(_kind(result) for result in results), *(["error"] if nothing else [])]
    return {
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", text)
