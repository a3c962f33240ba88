"""Shrink: see a failure again in a fresh process, then make its case as small as it gets."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from harness.case import Case, CaseFile
from harness.contract import Contract
from harness.job import Job, Target
from harness.journal import Entry
from harness.message import MessageError, field, finding_from_json
from harness.supervise import Nursery
from harness.verdict import Finding, Symptom
from harness.watch import Ending, Limits

BUDGET: Final = 15.0
"""Seconds after which the smallest case so far is good enough."""
LEAST: Final = 1.0
"""Seconds spent on it even when the run's time is over."""
LONGEST: Final = 600.0
"""Seconds that the trials of one child may take."""
FEW: Final = 16
"""Trials that are run in children of their own at once."""
BATCH: Final = 400
"""Simpler cases tried in one child, and at most per step."""


BATCH_ELEMENTS: Final = 1_000_000
"""Elements in these cases together."""


@dataclass(frozen=True, slots=True)
class Shrinker:
    """Runs trials of one candidate in fresh children."""

    nursery: Nursery
    contract: Contract
    target: Target
    limits: Limits
    search: str = "exhaustive"
    """The search that the failure was found by."""
    settle: float = 0.0
    """Seconds that a child waits after every trial."""
    deadline: float = math.inf
    """``time.monotonic()`` at which trials are broken off."""

    def first_failure(self, trials: Sequence[CaseFile], symptom: Symptom | None = None) -> Finding | None:
        """The first of the trials that fails (with this symptom, if given), all in one fresh child, or None."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return None
        wanted = None if symptom is None else symptom.value
        job = Job(
            mode="try",
            target=self.target,
            cases=tuple(trials),
            symptom=wanted,
            search=self.search,
            seconds=min(left, LONGEST),
            settle=self.settle,
        )
        try:
            failure = failure_of(self.contract, trials, self.nursery.run(job, self.limits))
        except MessageError:
            return None
        return failure[1] if failure and symptom in (None, failure[1].symptom) else None

    def smaller(self, found: Finding) -> list[CaseFile]:
        """Simpler versions of a finding's case, and of the calls before it, most drastic first."""
        before = found.before
        shorter = [before[:i] + before[i + 1 :] for i in range(len(before))]
        if len(before) > 2:
            shorter = [before[len(before) // 2 :], before[: len(before) // 2], *shorter]
        trials = [CaseFile(found.case, fewer) for fewer in shorter]
        trials += [CaseFile(case, before) for case in _affordable(self.contract.simpler(found.case))]
        return trials


def failure_of(contract: Contract, trials: Sequence[CaseFile], ending: Ending) -> tuple[int, Finding] | None:
    """Which of the trials failed in a child that has ended, and how; None if none did, or if the harness failed.

    Raises:
        MessageError: the child sent something else than a finding.
    """
    message = ending.message("finding")
    if message is not None:
        index, found = field(message, "trial", int), finding_from_json(message, contract.name)
    else:
        symptom, reading = ending.symptom(), ending.reading
        if symptom is None or reading is None or reading.entry is not Entry.REPLAY:
            return None
        index = min(reading.index, len(trials) - 1)
        found = Finding(symptom, trials[index].case, trials[index].before, message=ending.describe())
    if not 0 <= index < len(trials):
        raise MessageError("field 'trial' is no trial")
    return index, found


def shrink(
    shrinker: Shrinker, trials: Sequence[CaseFile], seen: Finding, *, deadline: float, budget: float | None = None
) -> Finding:
    """See ``seen`` again among ``trials`` and return it in its smallest form.

    A failure that does not come back is returned as it was seen, with a message that says so: it counts all the same.
    ``budget`` is how many seconds it may take to make it small; None: :data:`BUDGET`.
    """
    found, confirmed = _again(shrinker, list(dict.fromkeys(trials)))
    if not confirmed:
        found = found or seen
        note = f"{found.message}; " if found.message else ""
        message = f"{note}it did not happen again in a fresh process: the candidate has state, or is random"
        return replace(found, search=seen.search, message=message)
    assert found is not None
    found = after_others(found)
    now = time.monotonic()
    deadline = min(now + (BUDGET if budget is None else budget), max(deadline, now + LEAST))
    limits = _quicker(shrinker.limits) if found.symptom is Symptom.HUNG else shrinker.limits
    quicker = replace(shrinker, limits=limits, deadline=deadline)
    visited: set[CaseFile] = set()
    while time.monotonic() < deadline:
        visited.add(_file(found))
        better = _better(quicker, found, visited)
        if better is None:
            break
        found = better
    return replace(found, search=seen.search)


def after_others(found: Finding) -> Finding:
    """A finding that needs other calls first, named for what it is: two calls with the same arguments disagree."""
    unstable = bool(found.before) and found.symptom is Symptom.DIFFERENT
    return replace(found, symptom=Symptom.UNSTABLE) if unstable else found


def _again(shrinker: Shrinker, trials: Sequence[CaseFile]) -> tuple[Finding | None, bool]:
    """A trial that fails, and whether it does so on its own in a fresh child."""
    together = None
    if len(trials) > FEW:
        together = shrinker.first_failure(trials)
        trials = [*([] if together is None else [_file(together)]), trials[-1]]
    alone = next((found for trial in trials if (found := shrinker.first_failure([trial])) is not None), None)
    return alone or together, alone is not None


def _better(shrinker: Shrinker, found: Finding, visited: Set[CaseFile]) -> Finding | None:
    """A failure with the same symptom on a simpler case, seen in a child of its own."""
    wanted = Symptom.DIFFERENT if found.symptom is Symptom.UNSTABLE and not found.step else found.symptom
    trials = shrinker.smaller(found)
    together = shrinker.first_failure(trials, wanted) if trials else None
    if together is None:
        return None
    # A candidate that remembers earlier calls may fail in company only: then the first few are tried alone.
    for trial in [_file(together), *trials[:FEW]]:
        alone = shrinker.first_failure([trial], wanted)
        # What is found is another case than the one that was tried, if it took further calls to see it.
        if alone is not None and _file(alone) not in visited and len(alone.before) <= len(found.before):
            return after_others(alone)
    return None


def _affordable(cases: Iterator[Case]) -> Iterator[Case]:
    """As many cases as can be tried together: fewer of them where they are large."""
    elements = 0
    for number, case in enumerate(islice(cases, BATCH)):
        elements += case.size()
        if number >= FEW and elements > BATCH_ELEMENTS:
            return
        yield case


def _file(found: Finding) -> CaseFile:
    return CaseFile(found.case, found.before)


def _quicker(limits: Limits) -> Limits:
    return replace(limits, case_seconds=max(0.5, limits.case_seconds / 4))
