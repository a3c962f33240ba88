"""Probe search: launch a kernel with the reference's value and the candidate's; both must leave the same behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from harness.calls import poisoned_call, raw, wait_for
from harness.case import Case, CaseFile
from harness.compare import compare
from harness.contract import Probe
from harness.errors import HarnessError
from harness.examine import Subject
from harness.guard import PATTERNS, Allocations, Guard, out_of_bounds
from harness.memory import leaves
from harness.observe import Function, Raised, call, outcome_difference
from harness.search.each import Searched, note, search_each
from harness.verdict import Difference, Finding, Symptom


def why_not(subject: Subject) -> str | None:
    """Why none of the contract's probes can run here, as a clause; None if one can."""
    missing = sorted({name for probe in subject.contract.probes for name in _missing(probe)})
    if any(not _missing(probe) for probe in subject.contract.probes):
        return None
    return f"it needs {', '.join(missing)}: install it" if missing else "its contract has no probes"


def search_probes(
    subject: Subject, profile: str, *, done: int, changed: Callable[[], str | None], deadline: float
) -> Searched:
    """Launch every probe of the contract on each of its cases.

    ``done`` cases ran before; the rest is as for :func:`harness.search.each.search_each`.
    """
    runnable = [probe for probe in subject.contract.probes if not _missing(probe)]
    compiled = subject.device.type == "cuda"
    trials = (
        (CaseFile(case), partial(examine_probe, subject, probe, case))
        for probe in runnable
        for case in probe.cases(profile, compiled)
    )
    return search_each(
        "probe",
        subject.contract,
        trials,
        begin=lambda number, file: note(subject.journal, file.case, done + number),
        changed=changed,
        deadline=deadline,
    )


def examine_probe(subject: Subject, probe: Probe, case: Case) -> Finding | None:
    """Launch a probe with both sides' values for one case, under both patterns of poisoned memory.

    Interpreted kernels are slow: for them it is one of the patterns, which one depends on the case.

    The kernel is enqueued the moment the candidate returns, with nothing in between that waits for the device: values
    that are not there yet show in what the kernel leaves behind, although they are right when they are looked at.

    Raises:
        HarnessError: the kernel cannot be launched with the reference's value.
    """
    compiled = subject.device.type == "cuda"
    for pattern in PATTERNS if compiled else PATTERNS[int(case.digest, 16) % 2 :][:1]:
        expected = _launch(subject, probe, case, subject.truth(case), pattern)
        if type(expected.outcome) is Raised:
            return None
        _check(expected, probe, case)
        got = _launch(subject, probe, case, subject.candidate, pattern)
        finding = _judge(subject, probe, case, expected, got)
        if finding is not None:
            return finding
    return None


@dataclass(frozen=True, slots=True)
class _Launch:
    """What a function returned, what the kernel left behind, and the guards of what each of both could write beside.

    ``failure`` is what the device failed with; nothing that lies on it can be read then.
    """

    outcome: Any
    observed: Any
    own: list[Guard]
    around: list[Guard]
    failure: Raised | None


def _launch(subject: Subject, probe: Probe, case: Case, function: Function, pattern: int) -> _Launch:
    arguments = subject.live(case)
    try:
        with Allocations(pattern) as prepared:
            consume = probe.prepare(case, subject.device)
    except ImportError as error:
        raise HarnessError(f"the probe {probe.name} cannot be prepared: {error!r}. Install what it needs.") from error
    wait_for(subject.device)
    with Allocations(pattern) as allocations:
        if function is subject.candidate:
            subject.journal.again()
        outcome = call(function, arguments.positional, arguments.keyword)
        # From here to the launch, nothing that takes time.
        subject.journal.end()
        own = len(allocations.guards)
        observed = None if type(outcome) is Raised else call(consume, (outcome,), {})
    failure = wait_for(subject.device)
    given = [replace(guard, name=guard.name.replace("it allocated", f"{probe.name} uses")) for guard in prepared.guards]
    guards = allocations.guards
    return _Launch(outcome, observed, guards[:own], [*given, *guards[own:]], failure)


def _check(launch: _Launch, probe: Probe, case: Case) -> None:
    failed = launch.failure or (launch.observed if type(launch.observed) is Raised else None)
    if failed is not None:
        reason = f"fails with {failed.kind.__name__}: {failed.message}"
    elif out_of_bounds([*launch.own, *launch.around]) is not None:
        reason = "writes out of bounds"
    else:
        return
    raise HarnessError(f"the probe {probe.name} {reason} with the reference's value on case {case.digest}. Correct it.")


def _judge(subject: Subject, probe: Probe, case: Case, expected: _Launch, got: _Launch) -> Finding | None:
    step = f"launch of {probe.name} with what it returned"
    if type(got.outcome) is Raised:
        found = outcome_difference(expected.outcome, got.outcome, check_pinned=subject.check_pinned)
        return None if found is None else Finding(found[0], case, difference=found[1])
    failed = got.failure or (got.observed if type(got.observed) is Raised else None)
    if failed is not None:
        text = f"raises {failed.kind.__name__}: {failed.message}"
        return Finding(Symptom.RAISED, case, difference=Difference("", "exception", "a launch", text), step=step)
    beside = out_of_bounds(got.own)
    if beside is not None:
        return Finding(Symptom.OUT_OF_BOUNDS, case, difference=beside)
    value = compare(expected.outcome, got.outcome, check_pinned=subject.check_pinned)
    left = compare(expected.observed, got.observed, check_pinned=subject.check_pinned)
    if left is not None:
        left = replace(left, path=f"{probe.name}{left.path}")
    written = out_of_bounds(got.around)
    first = value or left or written
    if first is None:
        return None
    message = consequence(expected.observed, got.observed, got.around)
    if _right_again(subject, probe, case, expected, got) if value is None else _right_at_once(subject, case, expected):
        late = f"{step}, which was not there yet, or no longer: it is right when it is waited for"
        return Finding(Symptom.LATE, case, difference=left or written or value, step=late, message=message)
    if written is not None:
        return Finding(Symptom.OUT_OF_BOUNDS, case, difference=written, step=step, message=message)
    return Finding(Symptom.DIFFERENT, case, difference=first, step=step, message=message)


def _right_again(subject: Subject, probe: Probe, case: Case, expected: _Launch, got: _Launch) -> bool:
    """Whether the kernel does what is right with a value that is right by now."""
    consume = probe.prepare(case, subject.device)
    with Allocations(PATTERNS[0]):
        observed = call(consume, (got.outcome,), {})
    if wait_for(subject.device) is not None or type(observed) is Raised:
        return False
    known = probe.prepare(case, subject.device)
    with Allocations(PATTERNS[0]):
        right = known(expected.outcome)
    wait_for(subject.device)
    return compare(right, observed, check_pinned=subject.check_pinned) is None


def _right_at_once(subject: Subject, case: Case, expected: _Launch) -> bool:
    """Whether a call whose value is waited for, and looked at before it can be used otherwise, is right."""
    arguments = subject.live(case)
    subject.journal.again()
    outcome = poisoned_call(subject.candidate, arguments, PATTERNS[0], [])
    failure = wait_for(subject.device)
    subject.journal.end()
    if failure is not None or type(outcome) is Raised:
        return False
    return compare(expected.outcome, outcome, check_pinned=subject.check_pinned) is None


def consequence(expected: Any, got: Any, guards: list[Guard]) -> str:
    """What a kernel did otherwise than with the reference's value, as a sentence; empty if it did nothing otherwise.

    ``expected`` and ``got`` are what it left behind, ``guards`` those of all memory that it could write beside.
    """
    parts: list[str] = []
    others = dict(leaves(got))
    for path, tensor in leaves(expected):
        other = others.get(path)
        if not isinstance(other, torch.Tensor) or other.shape != tensor.shape or other.dtype != tensor.dtype:
            continue
        count = int((raw(tensor) != raw(other)).sum())
        if count:
            parts.append(f"{count} of {tensor.numel()} elements of {path.strip('[]').strip(chr(39))}")
    changes = f"changes {_listed(parts)}" if parts else ""
    written = sum(found[0] for guard in guards if (found := guard.disturbed()) is not None)
    writes = f"writes {written} byte{'s' if written > 1 else ''} out of bounds" if written else ""
    done = [part for part in (changes, writes) if part]
    return f"launched with this, the kernel {' and '.join(done)}" if done else ""


def _listed(parts: list[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _missing(probe: Probe) -> list[str]:
    return [name for name in probe.needs if find_spec(name) is None]
