"""Listed search: cases that somebody wrote down (replay) or that are worth their size (scale), each examined."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness.case import CaseFile
from harness.examine import Subject, examine
from harness.journal import Entry
from harness.search.space import block_of
from harness.verdict import Finding, StageReport, Symptom


def search_listed(
    subject: Subject,
    cases: Sequence[CaseFile],
    *,
    entry: Entry,
    done: int,
    changed: Callable[[], str | None],
    deadline: float,
) -> tuple[StageReport, dict[str, int], list[Finding]]:
    """Examine every case of a list in order, with the calls that must come before it.

    Returns what was done, the strata of the executed cases, and the first failure, if any.
    """
    started = time.monotonic()
    strata: dict[str, int] = dict.fromkeys((stratum.name for stratum in subject.contract.strata), 0)
    found: list[Finding] = []
    executed = 0
    for index, listed in enumerate(cases):
        if time.monotonic() > deadline:
            break
        subject.journal.begin(entry, index, done + executed)
        finding = examine(subject, listed.case, before=listed.before)
        executed += 1
        for name, count in subject.contract.count_strata(block_of(listed.case)).items():
            strata[name] += count
        if finding is None and (change := changed()) is not None:
            finding = Finding(Symptom.CHANGED_GLOBALS, listed.case, listed.before, message=change)
        if finding is not None:
            found = [finding]
            break
    name = entry.name.lower()
    return StageReport(name, executed, time.monotonic() - started, complete=executed == len(cases)), strata, found
