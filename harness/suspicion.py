"""Suspicion: what the end of a search gives reason to try again in a fresh process."""

from __future__ import annotations

from typing import Final

from harness.case import Case, CaseFile
from harness.contract import Contract
from harness.job import Job
from harness.journal import Entry, Phase, Reading
from harness.message import MessageError, finding_from_json, history_from_json
from harness.verdict import Finding, Symptom
from harness.watch import Ending

SUSPECTS_TRIED: Final = 6_000
"""Suspicious cases that are examined again, one by one, to find the one to blame."""
LOST_BEFORE: Final = 400
"""Cases that a process may still run after its guardian was killed, until it ends itself."""
EARLIER: Final = 8
"""Cases before a suspicious one that are run in front of it, should it fail only after other calls."""
_SEARCHES: Final = {Entry.SPACE: "exhaustive", Entry.SCALE: "scale", Entry.REPLAY: "replay", Entry.TEXT: "property"}


def suspicion(contract: Contract, job: Job, ending: Ending) -> tuple[list[CaseFile], Finding | None]:
    """Cases to try again, likeliest first, and the finding so far; nothing if the search found nothing.

    The last trial is the finding's case after the calls that may have led to it.

    Raises:
        MessageError: the child sent something else than a finding or suspects.
    """
    message, suspects, history = (ending.message(kind) for kind in ("finding", "suspects", "history"))
    called = () if history is None else history_from_json(history, contract.name)
    if message is not None:
        found = finding_from_json(message, contract.name)
        return [CaseFile(found.case, before) for before in ((), found.before, called)], found
    if suspects is not None:
        space = contract.space(job.profile)
        given = suspects.get("indices")
        indices = [i for i in given if type(i) is int and 0 <= i < len(space)] if isinstance(given, list) else []
        if not indices:
            raise MessageError("field 'indices' holds no case of the space")
        last = indices[-1]
        before = (*called, *(space[index] for index in range(max(0, last - EARLIER), last)))
        trials = [CaseFile(space[index]) for index in indices[:SUSPECTS_TRIED]] + [CaseFile(space[last], before)]
        kind = Symptom.DIFFERENT if len(indices) == 1 else Symptom.CHANGED_GLOBALS
        return trials, Finding(kind, space[last], message="seen once, in the exhaustive search", search="exhaustive")
    symptom = ending.symptom()
    if symptom is None or ending.reading is None:
        return [], None
    return _of_an_ended_process(contract, job, ending, ending.reading, symptom)


def _of_an_ended_process(
    contract: Contract, job: Job, ending: Ending, reading: Reading, symptom: Symptom
) -> tuple[list[CaseFile], Finding | None]:
    # The candidate did it in the call that the journal names, or, if none was running, some time before.
    surely = reading.phase is Phase.CANDIDATE and ending.how != "lost"
    earlier = EARLIER if surely else LOST_BEFORE if ending.how == "lost" else SUSPECTS_TRIED
    ran = _ran(contract, job, reading, earlier)
    if not ran:
        return [], None
    *others, file = ran
    finding = Finding(symptom, file.case, file.before, message=ending.describe(), search=_SEARCHES[reading.entry])
    calls: tuple[Case, ...] = tuple(case for other in others[-EARLIER:] for case in (*other.before, other.case))
    suspected = [] if surely else others[::-1]
    return [CaseFile(file.case), *suspected, file, CaseFile(file.case, calls)], finding


def _ran(contract: Contract, job: Job, reading: Reading, earlier: int) -> list[CaseFile]:
    """The case that the journal names, after up to ``earlier`` that ran before; none if it names none that exists."""
    if reading.entry is Entry.TEXT:
        case = reading.case()
        return [] if case is None or case.contract != contract.name else [CaseFile(case)]
    space, scale = contract.space(job.profile), contract.large_cases(job.profile, job.target.device)
    searched = {Entry.REPLAY: len(job.cases), Entry.SPACE: len(space), Entry.SCALE: len(scale)}
    if reading.index >= searched[reading.entry]:
        return []

    def at(position: int) -> CaseFile:
        if position < len(job.cases):
            return job.cases[position]
        position -= len(job.cases)
        return CaseFile(space[position] if position < len(space) else scale[position - len(space)])

    first = {Entry.REPLAY: 0, Entry.SPACE: len(job.cases), Entry.SCALE: len(job.cases) + len(space)}[reading.entry]
    position = first + reading.index
    return [at(number) for number in range(max(0, position - earlier), position + 1)]
