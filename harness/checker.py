"""Checker: one candidate against its contract, from the first search to the smallest counterexample on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.case import CaseFile
from harness.contract import Contract
from harness.frozen import verify
from harness.job import Job, Target
from harness.journal import Reading
from harness.message import MessageError, measures_from_json, notes_from_json, stage_from_json
from harness.outcome import blank_result, unfinished
from harness.search.profile import Profile
from harness.shrink import Shrinker, shrink
from harness.supervise import Nursery
from harness.suspicion import suspicion
from harness.verdict import Finding, Result, StageReport, Verdict
from harness.watch import Ending, Limits

SETTLE: Final = 0.03
"""Seconds after which a process whose guardian was killed has ended."""
Progress = Callable[[str, int, int | None], None]
"""Called with what is running, cases done, cases to come (None: unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much a check does, and where it keeps what it finds."""

    profile: Profile
    seed: int = 0
    deadline: float
    """``time.monotonic()`` at which the search must have ended."""
    limits: Limits
    shrink_seconds: float | None = None
    replayed: tuple[CaseFile, ...] = ()
    saved: Path
    """Folder for counterexamples."""
    database: Path | None = None


def check_candidate(
    nursery: Nursery, contract: Contract, target: Target, plan: Plan, progress: Progress | None = None
) -> Result:
    """Search for a case on which the candidate is not the reference; shrink and save it if there is one.

    Raises:
        HarnessError: the reference is not the frozen one, or no child process can be started.
    """
    started = time.monotonic()
    digest = verify(contract)
    examples = contract.examples.get(plan.profile.name, plan.profile.examples)
    job = Job(
        mode="search",
        target=target,
        profile=plan.profile.name,
        seed=plan.seed,
        examples=examples,
        seconds=max(plan.deadline - started, 0.0),
        database=None if plan.database is None else str(plan.database),
        cases=tuple(case for case in plan.replayed if case.case.contract == contract.name),
    )
    known = len(contract.space(plan.profile.name)) + examples + len(job.cases)
    expected = None if plan.profile.open_ended else known

    def on_progress(reading: Reading) -> None:
        if progress is not None:
            progress(reading.phase.name.lower(), reading.done, expected)

    ending = nursery.run(job, plan.limits, on_progress)
    result = blank_result(contract, target, ending, profile=plan.profile.name, digest=digest)
    result = replace(result, seed=plan.seed)
    trials: list[CaseFile] = []
    finding: Finding | None = None
    try:
        # First: what a candidate has done to the process can make everything else that is said nonsense.
        trials, finding = suspicion(contract, job, ending)
        result = _with_stages(result, contract, ending)
        measured = ending.message("measures")
        result = result if measured is None else replace(result, measures=measures_from_json(measured))
        skipped = ending.message("skipped")
        if skipped is not None and finding is None:
            result = replace(result, notes=(*result.notes, *notes_from_json(skipped)))
    except MessageError as error:
        result = replace(result, reason=f"the child process sent a malformed message ({error}); run again.")
    if finding is not None:
        # On disk before anything else happens: shrinking runs the candidate again, and anything may happen then.
        result = replace(result, verdict=Verdict.DIFFERENT, finding=finding)
        before = frozenset(plan.saved.glob("*.json"))
        first = _saved(result, finding, plan.saved)
        # A process outlives its guardian by a moment: what it runs meanwhile is not to blame.
        settle = SETTLE if ending.how == "lost" else 0.0
        shrinker = Shrinker(nursery, contract, target, plan.limits, search=finding.search, settle=settle)
        result = _saved(first, _smallest(shrinker, trials, finding, plan), plan.saved, final=True)
        if first.case_file not in (None, result.case_file, *before):
            _discard(first.case_file)
    else:
        result = _judge(result, plan, ending, contract.minimum_cases)
    return replace(result, seconds=time.monotonic() - started)


def _smallest(shrinker: Shrinker, trials: list[CaseFile], finding: Finding, plan: Plan) -> Finding:
    return shrink(shrinker, trials, finding, deadline=plan.deadline, budget=plan.shrink_seconds)


def _with_stages(result: Result, contract: Contract, ending: Ending) -> Result:
    stages: list[StageReport] = []
    strata = {stratum.name: 0 for stratum in contract.strata}
    for message in ending.messages:
        if message.get("kind") != "stage":
            continue
        stage, hits = stage_from_json(message)
        stages.append(stage)
        for name in strata:
            strata[name] += hits.get(name, 0)
    required = tuple(stratum.name for stratum in contract.strata if stratum.required(result.profile))
    cases = sum(stage.cases for stage in stages)
    return replace(result, stages=tuple(stages), strata=strata, required=required, cases=cases)


def _saved(result: Result, finding: Finding, folder: Path, *, final: bool = False) -> Result:
    """The result with this finding, which is on disk, or with the reason why it could not be saved."""
    file = CaseFile(finding.case, finding.before, _note(finding))
    try:
        with _DISK:
            path = file.write(folder)
            _keep_out_of_git(folder)
            if final:
                _kept.add(path)
    except OSError as error:
        reason = f"the case could not be saved in {folder}: {error.strerror}. Make the folder, or use --json FILE."
        return replace(result, finding=finding, case_file=None, reason=reason)
    return replace(result, finding=finding, case_file=path, reason="")


def _keep_out_of_git(folder: Path) -> None:
    """Git ignores what lies in a folder of ours, ``.bitgate``: that is for this checkout alone."""
    own = folder.parent
    if own.name == ".bitgate" and not (own / ".gitignore").exists():
        (own / ".gitignore").write_text("*\n", encoding="utf-8")


def _discard(path: Path | None) -> None:
    """Remove a case file, unless it has meanwhile become what another candidate's check ended with."""
    with _DISK:
        if path is not None and path not in _kept:
            path.unlink(missing_ok=True)


def _judge(result: Result, plan: Plan, ending: Ending, minimum: int | None) -> Result:
    """The verdict of a search that found nothing: equal, if enough was executed."""
    stopped = unfinished(result, ending)
    if stopped is not None:
        return stopped
    reason = result.reason or _vacuous(result, plan, minimum)
    return replace(result, verdict=Verdict.INCONCLUSIVE if reason else Verdict.EQUAL, reason=reason)


def _vacuous(result: Result, plan: Plan, minimum: int | None = None) -> str:
    """Why what was executed is too little for a verdict of equal; an empty string if it is enough."""
    unfinished = [stage.search for stage in result.stages if not stage.complete]
    if plan.profile.open_ended and unfinished == ["property"]:
        unfinished = []
    if unfinished:
        return f"the time limit ended the {unfinished[0]} search after {result.cases:,} cases. Raise --time-limit."
    ran = {stage.search for stage in result.stages}
    absent = [search for search in ("replay", "exhaustive", "scale", "property") if search not in ran]
    if absent:
        return f"the {absent[0]} search did not run. Raise --time-limit."
    least = plan.profile.minimum_cases if minimum is None else min(minimum, plan.profile.minimum_cases)
    if result.cases < least:
        short = f"{result.cases:,} cases were executed; profile {plan.profile.name} needs {least:,}."
        return f"{short} The contract must enlarge its space, or set minimum_cases if that is the whole domain."
    missed = [name for name in result.required if not result.strata[name]]
    if missed:
        return f"no case of {', '.join(missed)} was executed. Widen the contract's space or strategy."
    return ""


def _note(finding: Finding) -> str:
    found = f"found by the {finding.search} search: " if finding.search else ""
    return f"{found}{finding.symptom.value}{f' ({finding.step})' if finding.step else ''}"


_DISK: Final = threading.Lock()
_kept: Final[set[Path]] = set()
"""Case files that a check in this process has ended with."""
