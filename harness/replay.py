"""Replay: run saved cases again on one candidate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.case import CaseFile
from harness.contract import Contract
from harness.frozen import verify
from harness.job import Job, Target
from harness.message import MessageError
from harness.outcome import blank_result, unfinished
from harness.shrink import after_others, failure_of
from harness.supervise import Nursery
from harness.verdict import Result, Verdict
from harness.watch import Limits


def replay_candidate(
    nursery: Nursery, contract: Contract, target: Target, files: Sequence[tuple[Path, CaseFile]], limits: Limits
) -> Result:
    """Examine the saved cases in order, in one fresh child, up to the first that fails.

    Equal means: equal on these cases. Nothing is shrunk and nothing is saved.

    Raises:
        HarnessError: the reference is not the frozen one, or no child process can be started.
    """
    started = time.monotonic()
    digest = verify(contract)
    trials = tuple(file for _, file in files)
    job = Job(mode="try", target=target, cases=trials)
    ending = nursery.run(job, limits)
    result = blank_result(contract, target, ending, profile="replay", digest=digest)
    try:
        failure = failure_of(contract, trials, ending)
    except MessageError as error:
        return replace(result, reason=f"the child process sent a malformed message ({error}). Run again.")
    if failure is not None:
        index, finding = failure
        finding = replace(after_others(finding), search="replay")
        result = replace(result, verdict=Verdict.DIFFERENT, finding=finding, case_file=files[index][0], cases=index + 1)
    else:
        result = unfinished(result, ending) or replace(result, verdict=Verdict.EQUAL, cases=len(trials))
    return replace(result, seconds=time.monotonic() - started)
