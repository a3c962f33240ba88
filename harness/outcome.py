"""Outcome: what the way a child ended says about the candidate, before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from harness.contract import Contract
from harness.job import Target
from harness.journal import Phase
from harness.paths import shown_path
from harness.verdict import Result, Verdict
from harness.watch import Ending

SKIPPED_SHOWN: Final = 3
"""Statements that a note names."""


def blank_result(contract: Contract, target: Target, ending: Ending, *, profile: str, digest: str) -> Result:
    """A result that says nothing yet: inconclusive, with what is known of the candidate and of its process."""
    loaded: Mapping[str, Any] = ending.message("loaded") or {}
    left = ending.left_behind
    many = "processes behind, which were" if left > 1 else "process behind, which was"
    notes = [f"it left {left} {many} ended"] if left else []
    unused = loaded.get("unused")
    notes += [f"--stub {name} was not used: check the name" for name in unused] if isinstance(unused, list) else []
    notes += _skipped(loaded.get("skipped"), adapted=":" not in target.candidate)
    return Result(
        contract=contract.name,
        candidate=target.candidate,
        observe=target.observe,
        device=target.device,
        verdict=Verdict.INCONCLUSIVE,
        profile=profile,
        output=ending.output,
        notes=tuple(notes),
        source=_source(loaded) if loaded else "",
        reference_digest=digest,
        candidate_digest=str(loaded.get("digest", "")),
        derived={name: item.source for name, item in contract.derived.items()},
    )


def unfinished(result: Result, ending: Ending) -> Result | None:
    """The result of a child that could not do its work, with the reason; None if it did it."""
    unloadable, failed = ending.message("unloadable"), ending.message("failed")
    if unloadable is not None:
        return replace(result, loaded=False, reason=str(unloadable.get("message", "")))
    if failed is not None:
        return replace(result, reason=f"the harness failed: {failed.get('message', '')}")
    if ending.how == "done":
        return None
    if ending.reading is not None and ending.reading.phase is Phase.LOADING:
        reason = f"while the candidate was loaded, {ending.describe()}. Import it by hand to see why."
        return replace(result, loaded=False, reason=reason)
    advice = {"memory": "Raise --memory-limit.", "time": "Raise --time-limit."}.get(ending.how, "Run again.")
    return replace(result, reason=f"{ending.describe()}. {advice}")


def _source(loaded: Mapping[str, Any]) -> str:
    """How the candidate was loaded, and for a slice everything that was executed."""
    definitions = loaded.get("definitions")
    names = ", ".join(map(str, definitions)) if isinstance(definitions, list) else ""
    file = shown_path(Path(str(loaded.get("file"))))
    return f"{loaded.get('how')} from {file}{f': {names}' if names else ''}"


def _skipped(statements: object, *, adapted: bool) -> list[str]:
    """What to say of module-level code that a slice left out although it may change what was executed.

    ``adapted`` is whether the slice is what an adapter of ours calls.
    """
    if not isinstance(statements, list) or not statements:
        return []
    shown = "; ".join(map(str, statements[:SKIPPED_SHOWN]))
    more = f"; and {len(statements) - SKIPPED_SHOWN} more" if len(statements) > SKIPPED_SHOWN else ""
    advice = "" if adapted else ". Give the candidate as package.module:function to execute the whole module"
    return [f"not executed, though it may change what was: {shown}{more}{advice}"]
