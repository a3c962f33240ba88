"""Worker: carries out one job inside the child process, beside the candidate."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from harness.case import CaseFile
from harness.contracts import contract_named, importable_from
from harness.errors import BitgateError, LoadError
from harness.examine import Subject, examine
from harness.job import Job
from harness.journal import Entry, Journal, Phase
from harness.load import load
from harness.load.spec import parse_spec
from harness.load.stubs import Stub, builtin_stubs, parse_stub, stubs_from_config
from harness.materialise import signature_of
from harness.message import finding_to_json, stage_to_json
from harness.observe import Function, claim_process, end_copy, launched
from harness.search.exhaustive import search_space
from harness.search.listed import search_listed
from harness.search.property import search_property
from harness.surroundings import Surroundings, take
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
        subject, surroundings = _prepare(job, journal, channel)
        if job.mode == "try":
            _try(job, subject, surroundings, channel)
        else:
            _search(job, subject, surroundings, channel)
    except LoadError as error:
        channel.send("unloadable", message=str(error))
    except Exception as error:
        # An engine that stumbles over what the candidate did to the process is the candidate's failure, not its own.
        change = None if surroundings is None else surroundings.change()
        if change is not None:
            channel.send("changed", message=change)
            return
        if not isinstance(error, BitgateError):
            raise
        channel.send("failed", message=str(error))
    channel.send("done")


def _prepare(job: Job, journal: Journal, channel: Channel) -> tuple[Subject, Surroundings]:
    target = job.target
    if target.project:
        importable_from(target.project)
    contract = contract_named(target.contract, target.contract_modules)
    reference = _imported(contract.reference)
    device = torch.device(target.device)
    spec = parse_spec(target.candidate, root=Path(target.root))
    # A folder of the user's that is called candidates must not hide ours.
    if spec.kind != "registered" and target.root not in sys.path:
        sys.path.insert(0, target.root)
    surroundings = take(reference)
    journal.phase(Phase.LOADING)
    loaded = load(
        spec, function=contract.function, device="cuda" if device.type == "cuda" else "cpu", stubs=_stubs(job)
    )
    end_copy()
    journal.phase(Phase.ENGINE)
    channel.send(
        "loaded",
        how=loaded.how,
        file=loaded.file,
        digest=loaded.digest,
        definitions=list(loaded.definitions),
        unused=_unused_stubs(job, loaded.definitions),
        skipped=list(loaded.skipped),
    )
    candidate: Function = loaded.function
    signature = signature_of(reference)
    signature.check_accepted_by(candidate)
    if target.observe == "launch" and contract.launch is not None:
        reference, candidate = launched(reference, contract.launch), launched(candidate, contract.launch)
    return Subject(
        contract=contract,
        reference=reference,
        candidate=candidate,
        signature=signature,
        device=device,
        journal=journal,
        check_pinned=device.type == "cuda",
    ), surroundings.with_additions()


def _stubs(job: Job) -> Mapping[str, Stub]:
    given = dict(parse_stub(text) for text in job.target.stub_arguments)
    return {**builtin_stubs(), **stubs_from_config(job.target.stubs), **given}


def _unused_stubs(job: Job, definitions: tuple[str, ...]) -> list[str]:
    """Stubs given with ``--stub`` that took no name's place: most likely misspelt."""
    used = [definition.removeprefix("stub ").replace(":", ".") for definition in definitions]
    given = [parse_stub(text)[0] for text in job.target.stub_arguments]
    return [name for name in given if not any(other == name or other.endswith(f".{name}") for other in used)]


def _imported(path: str) -> Function:
    module, _, name = path.partition(":")
    function: Function = getattr(importlib.import_module(module), name)
    return function


def _search(job: Job, subject: Subject, surroundings: Surroundings, channel: Channel) -> None:
    contract, deadline = subject.contract, time.monotonic() + job.seconds
    done = 0

    def report(stage: StageReport, strata: Mapping[str, int], found: list[Finding]) -> bool:
        """Send what a search did. Whether to go on."""
        nonlocal done
        done += stage.cases
        channel.send("stage", **stage_to_json(stage, strata))
        for finding in found:
            channel.send("history", cases=[case.to_json() for case in subject.history])
            channel.send("finding", **finding_to_json(finding) | {"search": stage.search})
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

    if not listed(Entry.REPLAY, job.cases, surroundings.change):
        return
    space = contract.space(job.profile)
    stage, strata, suspects = search_space(subject, space, changed=surroundings.change, deadline=deadline)
    report(stage, strata, [])
    if suspects:
        channel.send("history", cases=[case.to_json() for case in subject.history])
        channel.send("suspects", indices=suspects)
    if suspects or time.monotonic() > deadline:
        return
    # Cheap large cases come before the property search, which can take as long as it is given.
    if not listed(Entry.SCALE, tuple(map(CaseFile, contract.scale(job.profile))), surroundings.change):
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


def _try(job: Job, subject: Subject, surroundings: Surroundings, channel: Channel) -> None:
    change = surroundings.change()
    for index, trial in enumerate(job.cases):
        subject.journal.begin(Entry.REPLAY, index, index)
        finding = examine(subject, trial.case, before=trial.before) if change is None else None
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
