"""Each: go through cases one by one until one fails, time is over, or the process has been changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

from harness.case import Case, CaseFile
from harness.contract import Contract
from harness.journal import Journal
from harness.search.space import block_of
from harness.verdict import Finding, StageReport, Symptom

Trial: TypeAlias = tuple[CaseFile, Callable[[], Finding | None]]
"""A case with the calls before it, and what examines it."""
Searched: TypeAlias = tuple[StageReport, dict[str, int], list[Finding]]
"""What a search did, the strata of the executed cases, and the first failure, if any."""


def search_each(
    search: str,
    contract: Contract,
    trials: Iterable[Trial],
    *,
    begin: Callable[[int, CaseFile], None],
    changed: Callable[[], str | None],
    deadline: float,
) -> Searched:
    """Examine every trial in order.

    ``begin`` writes the case to the journal, with its number in the search. ``changed`` says what of the process was
    changed; no case is begun after ``deadline``, a ``time.monotonic()``.
    """
    started = time.monotonic()
    strata: dict[str, int] = dict.fromkeys((stratum.name for stratum in contract.strata), 0)
    found: list[Finding] = []
    executed, over = 0, False
    for file, examine in trials:
        over = time.monotonic() > deadline
        if over:
            break
        begin(executed, file)
        finding = examine()
        executed += 1
        for name, count in contract.count_strata(block_of(file.case)).items():
            strata[name] += count
        if finding is None and (change := changed()) is not None:
            finding = Finding(Symptom.CHANGED_GLOBALS, file.case, file.before, message=change)
        if finding is not None:
            found = [finding]
            break
    complete = not over and not found
    return StageReport(search, executed, time.monotonic() - started, complete=complete), strata, found


def note(journal: Journal, case: Case, done: int) -> None:
    """Write a case down that is about to be prepared: much comes before the candidate is called, such as an import."""
    journal.begin_text(case, done)
    journal.end()
