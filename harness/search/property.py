"""Property search: cases drawn by Hypothesis, each examined completely."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import hypothesis
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import HypothesisException

from harness.case import Case
from harness.contract import Stratum
from harness.examine import Subject, examine
from harness.search.space import block_of
from harness.verdict import Finding, StageReport, Symptom

ROUND: Final = 2_000
"""Examples drawn in one run of Hypothesis, which keeps in memory what it has drawn."""


class _Found(Exception):
    """Tells Hypothesis that a case fails; what failed is kept beside it."""


class _Stop(BaseException):
    """Ends a search at once; not an Exception, so that Hypothesis does not take it for a failing case to shrink."""


def search_property(
    subject: Subject,
    *,
    examples: int,
    seed: int,
    deadline: float,
    database: Path | None,
    done: int,
    changed: Callable[[], str | None],
) -> tuple[StageReport, dict[str, int], list[Finding]]:
    """Draw up to ``examples`` cases from the contract's strategy.

    Hypothesis steers towards large batches and many strata with ``target`` and shrinks what fails. ``database`` is a
    folder for its own examples, or None: with the same seed and no database the same cases are drawn again. More than
    :data:`ROUND` examples are drawn in rounds with a seed each.
    Returns what was done, strata of the executed cases, and the failure in its smallest form, if any.
    """
    started = time.monotonic()
    strata: dict[str, int] = dict.fromkeys((stratum.name for stratum in subject.contract.strata), 0)
    executed, complete = 0, True
    smallest: list[Finding] = []
    for first in range(0, examples, ROUND):
        ran, complete, smallest = _round(
            subject,
            strata,
            examples=min(ROUND, examples - first),
            seed=seed + (first << 32),
            deadline=deadline,
            database=database,
            done=done + executed,
            changed=changed,
        )
        executed += ran
        if smallest or not complete:
            break
    return StageReport("property", executed, time.monotonic() - started, complete=complete), strata, smallest


def _round(
    subject: Subject,
    strata: dict[str, int],
    *,
    examples: int,
    seed: int,
    deadline: float,
    database: Path | None,
    done: int,
    changed: Callable[[], str | None],
) -> tuple[int, bool, list[Finding]]:
    """One run of Hypothesis: how many cases it executed, whether it came to its end, and the smallest failure."""
    executed = 0
    smallest: list[Finding] = []

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None if database is None else DirectoryBasedExampleDatabase(database),
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.reuse, hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink],
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.seed(seed)  # below the settings: it takes the database out of those that it finds
    @hypothesis.given(subject.contract.strategy())
    def property_holds(case: Case) -> None:
        nonlocal executed
        if time.monotonic() > deadline:
            raise _Stop
        subject.journal.begin_text(case, done + executed)
        found = examine(subject, case)
        executed += 1
        hits = _count(subject.contract.strata, case, strata)
        hypothesis.target(float(min(case.size(), 4096)), label="elements")
        hypothesis.target(float(hits), label="strata")
        if found is not None:
            if not smallest or case.size() <= smallest[0].case.size():
                smallest[:] = [found]
            raise _Found
        change = changed()
        if change is not None:
            smallest[:] = [Finding(Symptom.CHANGED_GLOBALS, case, message=change)]
            raise _Stop

    complete = True
    try:
        property_holds()
    except _Stop:
        complete = False
    except (_Found, HypothesisException, BaseExceptionGroup):
        # A candidate with state can make Hypothesis see a failure come and go; the failure itself is kept.
        if not smallest:
            raise
    return executed, complete, smallest


def _count(known: tuple[Stratum, ...], case: Case, strata: dict[str, int]) -> int:
    """Count the strata that a case belongs to; how many there are."""
    block = block_of(case)
    hit = [stratum.name for stratum in known if stratum.mask(block)[0]]
    for name in hit:
        strata[name] += 1
    return len(hit)
