"""JSON: the report that a program reads."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from harness.report.text import plain, write_report
from harness.verdict import Difference, Result, StageReport, exit_code, overall

_PACKAGES: Final = ("bitgate", "numpy", "torch", "hypothesis")
_TEXT: Final = 20_000


def document(results: Iterable[Result], *, seed: int, environment: Mapping[str, str | int | None]) -> dict[str, Any]:
    """The whole run as one object that strict JSON can hold.

    Keys always are the same and in the same order; what does not apply is null or empty. Text that came from a
    candidate is made harmless and bounded (:func:`harness.report.text.plain`). A case is written as in its file; a
    number that JSON lacks becomes a string (``"nan"``, ``"inf"``).

    Of each result, ``skipped`` is true where the candidate was not run because this machine cannot, and nobody had
    asked for it by name: it has no part in ``verdict`` and ``exit_code`` of the run, and ``reason`` says why.
    ``measures`` maps what was measured to a number; they decide nothing.
    """
    outcomes = list(results)
    return {
        "verdict": overall(outcomes).value,
        "exit_code": int(exit_code(outcomes)),
        "seed": seed,
        "environment": _strict(environment),
        "results": [_result(result) for result in outcomes],
    }


def environment() -> dict[str, str | int | None]:
    """Versions and the machine, as far as they can matter to a verdict; imports none of the packages it names."""
    versions: dict[str, str | int | None] = {name: _version(name) for name in _PACKAGES}
    return {
        "bitgate": versions.pop("bitgate"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **versions,
        "cpu_count": os.cpu_count(),
    }


def write(
    path: Path,
    results: Iterable[Result],
    *,
    seed: int,
    environment: Mapping[str, str | int | None],
) -> None:
    """Write :func:`document` to a file.

    Raises:
        UsageError: the file cannot be written.
    """
    text = json.dumps(document(results, seed=seed, environment=environment), indent=2, allow_nan=False)
    write_report(path, f"{text}\n".encode())


def _result(result: Result) -> dict[str, Any]:
    finding = result.finding
    fields = {
        "contract": result.contract,
        "candidate": plain(result.candidate, _TEXT),
        "observe": result.observe,
        "device": result.device,
        "verdict": result.verdict.value,
        "symptom": result.symptom.value if result.symptom else None,
        "cases": result.cases,
        "strata": result.strata,
        "space": result.space,
        "seconds": result.seconds,
        "difference": _difference(finding.difference) if finding and finding.difference else None,
        "case": finding.case.to_json() if finding else None,
        "case_file": str(result.case_file) if result.case_file else None,
        "profile": result.profile,
        "required": list(result.required),
        "stages": [_stage(stage) for stage in result.stages],
        "measures": {plain(name, 1_000): value for name, value in result.measures.items()},
        "loaded": result.loaded,
        "skipped": result.skipped,
        "reason": plain(result.reason, _TEXT),
        "notes": [plain(note, _TEXT) for note in result.notes],
        "step": plain(finding.step, _TEXT) if finding else "",
        "message": plain(finding.message, _TEXT) if finding else "",
        "before": [case.to_json() for case in finding.before] if finding else [],
        "output": plain(result.output, _TEXT, keep="tail"),
        "source": plain(result.source, _TEXT),
        "reference_digest": result.reference_digest,
        "candidate_digest": result.candidate_digest,
    }
    return {name: _strict(value) for name, value in fields.items()}


def _difference(difference: Difference) -> dict[str, Any]:
    elements = [
        {"index": element.index, "expected": plain(element.expected, 1_000), "got": plain(element.got, 1_000)}
        for element in difference.elements
    ]
    return {
        "path": plain(difference.path, 1_000),
        "aspect": difference.aspect,
        "expected": plain(difference.expected, _TEXT),
        "got": plain(difference.got, _TEXT),
        "count": difference.count,
        "total": difference.total,
        "elements": elements,
    }


def _stage(stage: StageReport) -> dict[str, Any]:
    return {
        "search": stage.search,
        "cases": stage.cases,
        "seconds": stage.seconds,
        "space": stage.space,
        "complete": stage.complete,
    }


def _strict(value: Any) -> Any:
    """The same value out of what strict JSON has: no NaN, no lone surrogates, no tuples."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {_strict(str(name)): _strict(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
