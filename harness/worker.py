"""Worker: carries out one job inside the child process, beside the candidate."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from harness.case import CaseFile
from harness.errors import BitgateError, LoadError
from harness.examine import Subject, examine
from harness.job import Job
from harness.journal import Entry, Journal
from harness.message import finding_to_json, stage_to_json
from harness.observe import claim_process
from harness.prepare import prepare
from harness.search.exhaustive import search_space
from harness.search.listed import search_listed
from harness.search.property import search_property
from harness.stages import Stage, is_small, skipped_stages
from harness.surroundings import Surroundings
from harness.verdict import Finding, StageReport, Symptom

_write, _sleep = os.write, time.sleep
_dumps: Final = json.dumps


class Channel:
    """Sends messages to the parent: one JSON object a line."""

    __slots__ = ("_descriptor", "_token")

    def __init__(self, descriptor: int, token: str) -> None:
        self._descriptor = descriptor
        self._token = token

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message, completely."""
        # The first line break ends whatever somebody else may have written there.
        data = ("\n" + _dumps({"token": self._token, "kind": kind, **fields}) + "\n").encode()
        while data:
            data = data[_write(self._descriptor, data) :]


def carry_out(job: Job, journal: Journal, channel: Channel) -> None:
    """Do what the job says and send what comes of it; the last message is ``done``."""
    claim_process()
    surroundings = None
    try:
        subject, stages, surroundings = prepare(job, journal, channel.send)
        if job.mode == "try":
            _try(job, subject, stages, surroundings, channel)
        else:
            _search(job, subject, stages, surroundings, channel)
            channel.send("measures", values=dict(subject.measures))
    except LoadError as error:
        channel.send("unloadable", message=str(error))
    except Exception as error:
        _end_with_device(job, journal, error)
        # An engine that stumbles over what the candidate did to the process is the candidate's failure, not its own.
        change = None if surroundings is None else surroundings.change()
        if change is not None:
            channel.send("changed", message=change)
            return
        if not isinstance(error, BitgateError):
            raise
        channel.send("failed", message=str(error))
    channel.send("done")


def _end_with_device(job: Job, journal: Journal, reason: object) -> None:
    """End the process if something went wrong and its device has failed: a crash on the case that the journal names.

    A kernel that reads or writes where it must not is told of later, by whatever waits for the device next; and after
    that, nothing works on the device in this process.
    """
    if job.target.device != "cuda" or not reason:
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        journal.again()
        print(f"the device failed: {error}", file=sys.stderr, flush=True)
        os.abort()


def _search(job: Job, subject: Subject, stages: Sequence[Stage], surroundings: Surroundings, channel: Channel) -> None:
    contract, deadline = subject.contract, time.monotonic() + job.seconds
    channel.send("skipped", notes=skipped_stages(subject, stages))
    done = 0

    def report(stage: StageReport, strata: Mapping[str, int], found: list[Finding]) -> bool:
        """Send what a search did. Whether to go on."""
        nonlocal done
        done += stage.cases
        channel.send("stage", **stage_to_json(stage, strata))
        for finding in found:
            channel.send("history", cases=[case.to_json() for case in subject.history])
            channel.send("finding", **finding_to_json(finding) | {"search": stage.search})
        _end_with_device(job, subject.journal, found)
        return not found and time.monotonic() < deadline

    change = surroundings.change()
    if change is not None:
        first = contract.space(job.profile)[0]
        loading = Finding(Symptom.CHANGED_GLOBALS, first, message=f"while it was loaded, {change}", search="load")
        channel.send("finding", **finding_to_json(loading))
        return

    def changed_in_hypothesis() -> str | None:
        return surroundings.change(in_hypothesis=True)

    def listed(entry: Entry, cases: tuple[CaseFile, ...], changed: Callable[[], str | None]) -> bool:
        return report(*search_listed(subject, cases, entry=entry, done=done, changed=changed, deadline=deadline))

    def staged(chosen: Iterable[Stage]) -> bool:
        return all(
            report(*stage.search(subject, job.profile, done=done, changed=surroundings.change, deadline=deadline))
            for stage in chosen
            if stage.why_not(subject) is None
        )

    if not staged(stage for stage in stages if stage.first) or not listed(Entry.REPLAY, job.cases, surroundings.change):
        return
    space = contract.space(job.profile)
    stage, strata, suspects = search_space(subject, space, changed=surroundings.change, deadline=deadline)
    report(stage, strata, [])
    if suspects:
        channel.send("history", cases=[case.to_json() for case in subject.history])
        channel.send("suspects", indices=suspects)
    if suspects or time.monotonic() > deadline:
        return
    # The property search can take as long as it is given: it comes last.
    large = contract.large_cases(job.profile, job.target.device)
    if not listed(Entry.SCALE, tuple(map(CaseFile, large)), surroundings.change):
        return
    if not staged(stage for stage in stages if not stage.first):
        return
    database = None if job.database is None else Path(job.database)
    report(
        *search_property(
            subject,
            examples=job.examples,
            seed=job.seed,
            deadline=deadline,
            database=database,
            done=done,
            changed=changed_in_hypothesis,
        )
    )


def _try(job: Job, subject: Subject, stages: Sequence[Stage], surroundings: Surroundings, channel: Channel) -> None:
    change = surroundings.change()
    of_stage = [stage for stage in stages if stage.name == job.search and stage.why_not(subject) is None]
    further = [stage for stage in stages if not job.search and not stage.first and stage.why_not(subject) is None]
    for index, trial in enumerate(job.cases):
        subject.journal.begin(Entry.REPLAY, index, index)
        finding = None
        if change is None and not of_stage:
            finding = examine(subject, trial.case, before=trial.before)
        if change is None and finding is None:
            # A stage calls with other cases of its own before and after.
            others = further if is_small(trial.case) else []
            found = (stage.examine(subject, trial.case) for stage in (*of_stage, *others))
            finding = next((one for one in found if one is not None), None)
        _end_with_device(job, subject.journal, finding)
        if finding is None:
            change = change or surroundings.change()
            if change is not None:
                finding = Finding(Symptom.CHANGED_GLOBALS, trial.case, trial.before, message=change)
        if job.settle:
            _sleep(job.settle)
        if finding is not None and (job.symptom is None or _wanted(job, trial, finding)):
            channel.send("finding", trial=index, **finding_to_json(finding))
            return


def _wanted(job: Job, trial: CaseFile, finding: Finding) -> bool:
    """Whether a trial failed as it should: on its own case, for its twin may be the larger of the two."""
    return finding.symptom.value == job.symptom and finding.case == trial.case
