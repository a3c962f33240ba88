"""Listed search: cases that somebody wrote down (replay) or that are worth their size (scale), each examined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from harness.case import CaseFile
from harness.examine import Subject, examine
from harness.journal import Entry
from harness.search.each import Searched, search_each


def search_listed(
    subject: Subject,
    cases: Sequence[CaseFile],
    *,
    entry: Entry,
    done: int,
    changed: Callable[[], str | None],
    deadline: float,
) -> Searched:
    """Examine every case of a list in order, with the calls that must come before it."""
    return search_each(
        entry.name.lower(),
        subject.contract,
        ((file, partial(examine, subject, file.case, before=file.before)) for file in cases),
        begin=lambda number, file: subject.journal.begin(entry, number, done + number),
        changed=changed,
        deadline=deadline,
    )
