"""Asynchrony search: call while streams are stalled, so that whatever does not wait as it should is late.

A caller's kernel is enqueued on the current stream the moment a function returns. What such a kernel would read is
taken down in the same way: by a kernel on the current stream, at once. Every call is made on the default stream and on
another one; first plainly, and then while either that stream stands still or all the others do, copy engines included:

- While the current stream stands still, its arguments have not arrived yet and its copies are pending. Host memory is
  churned, and the function is called again with other values, before any of it can have happened.
- While all the others stand still, whatever the function does on another stream without waiting for it comes too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, Final

import torch

from harness.calls import needs_cuda, on_device, poisoned_call, raw, wait_for
from harness.case import Case, CaseFile
from harness.compare import compare
from harness.contract import PROFILES
from harness.crowd import Crowd, can_stall, churn, crowd, stall, stall_others
from harness.errors import HarnessError
from harness.examine import Pair, Subject, pair_of
from harness.guard import PATTERNS, fill
from harness.memory import leaves
from harness.observe import Raised
from harness.search.each import Searched, note, search_each
from harness.verdict import Difference, Finding, Symptom

CASES: Final = (6, 24, 60, 200)
"""Pairs of a case and its twin per profile."""
RING: Final = 4
"""Calls with the twin, after one with the case: a ring of so many buffers comes round."""
LARGEST: Final = 1 << 20
"""Elements that a case may have."""


class Mode(Enum):
    """What the device is doing while calls are made; the value is what a report says of it."""

    IDLE = "a call"
    PENDING = "a call while its stream stood still, then one with other values, host memory changed in between"
    CROWDED = "a call while every other stream and the copy engines were busy"


def why_not(subject: Subject) -> str | None:
    """Why this search cannot run here, as a clause; None if it can."""
    if not can_stall():
        return "this version of PyTorch has no torch.cuda._sleep to stall a stream with"
    # On a CPU nothing is pending when a call returns.
    return needs_cuda(subject.device)


def search_asynchrony(
    subject: Subject, profile: str, *, done: int, changed: Callable[[], str | None], deadline: float
) -> Searched:
    """Examine a spread of the contract's cases, each with its twin.

    ``done`` cases ran before; the rest is as for :func:`harness.search.each.search_each`.
    """
    busy = crowd(subject.device)
    known = ((case, _known(subject, case)) for case in spread(subject, profile, CASES[PROFILES.index(profile)]))
    trials = ((CaseFile(case), partial(_examine, subject, calls, busy)) for case, calls in known if calls is not None)
    return search_each(
        "asynchrony",
        subject.contract,
        trials,
        begin=lambda number, file: note(subject.journal, file.case, done + number),
        changed=changed,
        deadline=deadline,
    )


def examine_asynchrony(subject: Subject, case: Case) -> Finding | None:
    """Call the candidate on a case and on its twin while the device is busy.

    None too where the case has no twin, or where the reference raises on either.
    """
    known = _known(subject, case)
    return None if known is None else _examine(subject, known, crowd(subject.device))


def spread(subject: Subject, profile: str, number: int) -> Iterator[Case]:
    """At most ``number`` cases that have a twin: some of the large ones, then some from all over the space."""
    contract = subject.contract
    large = [case for case in contract.scale(profile) if case.size() <= LARGEST]
    large = large[:: max(1, -(-2 * len(large) // number))]
    space, few = contract.space(PROFILES[0]), number - len(large)
    small = [space[(2 * index + 1) * len(space) // (2 * few)] for index in range(few if len(space) else 0)]
    picked = dict.fromkeys([*large, *small])
    return islice((case for case in picked if contract.twin(case) is not None), number)


@dataclass(slots=True)
class _Read:
    """A pair of calls, and what kernels read that were enqueued right behind each."""

    pair: Pair
    left: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    right: list[tuple[str, torch.Tensor]] = field(default_factory=list)


def _known(subject: Subject, case: Case) -> list[_Read] | None:
    """The reference's side of a case and of its twin."""
    twin = subject.contract.twin(case)
    known: list[_Read] = []
    for each in (case, twin) if twin is not None else ():
        pair = pair_of(subject, each)
        pair.expected = poisoned_call(subject.truth(each), pair.left, pair.pattern, pair.fresh[0], trusted=True)
        if type(pair.expected) is Raised:
            return None
        left = _taken_down(pair.expected, pair.left.named(subject.signature.names))
        failure = wait_for(subject.device)
        if failure is not None:
            raise HarnessError(f"the reference fails on case {each.digest}: {failure.message}. Correct it.")
        known.append(_Read(pair, left))
    return known or None


def _taken_down(outcome: Any, arguments: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """What is visible on the device, read by kernels: copies might wait for the copy engines, and so come in time."""
    return [(path, torch.bitwise_or(raw(tensor), 0)) for path, tensor in on_device(outcome, arguments)]


def _examine(subject: Subject, known: list[_Read], busy: Crowd) -> Finding | None:
    for current in busy.streams[:2]:
        # Idle first: what a call allocates, compiles or loads for the first time would wait for the device.
        for mode in Mode:
            finding = _run(subject, known, busy, current, mode)
            if finding is not None:
                return finding
    return None


def _run(subject: Subject, known: list[_Read], busy: Crowd, current: torch.cuda.Stream, mode: Mode) -> Finding | None:
    """A few calls in a row on stream ``current``."""
    names = subject.signature.names
    calls = [_beside(subject, each) for each in (known[0], *known[1:] * RING)]
    seen = [(each.pair.expected, each.pair.left.named(names)) for each in known]
    sizes = sorted({leaf.nbytes for value in seen for _, leaf in leaves(value) if leaf.nbytes})
    arriving: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in calls]
    if mode is Mode.PENDING:
        arriving = [
            [(tensor, tensor.clone()) for _, tensor in on_device(None, call.pair.right.named(names))] for call in calls
        ]
        for tensor, _ in (pair for pairs in arriving for pair in pairs):
            fill(tensor, PATTERNS[0])
    churn(sizes)
    wait_for(subject.device)
    with torch.cuda.stream(current):
        if mode is Mode.PENDING:
            stall([current])
        elif mode is Mode.CROWDED:
            stall_others(busy, current)
        for call, contents in zip(calls, arriving, strict=True):
            for tensor, content in contents:
                tensor.copy_(content)
            subject.journal.again()
            pair = call.pair
            pair.got = poisoned_call(subject.candidate, pair.right, pair.pattern, pair.fresh[1])
            if type(pair.got) is not Raised:
                call.right = _taken_down(pair.got, pair.right.named(names))
            subject.journal.end()
            if mode is Mode.IDLE:
                wait_for(subject.device)
            if call is calls[0]:
                churn(sizes)
        failure = wait_for(subject.device)
    plain = mode is Mode.IDLE and current == busy.streams[0]
    step = "" if plain else mode.value + (", on a stream of its own" if current != busy.streams[0] else "")
    if failure is not None:
        text = f"raises {failure.kind.__name__}: {failure.message}"
        difference = Difference("", "exception", "calls that the device can carry out", text)
        return Finding(Symptom.RAISED, calls[0].pair.case, difference=difference, step=step)
    for number, call in enumerate(calls):
        found = _difference(subject, call)
        if found is not None:
            symptom = Symptom.LATE if found[0] is Symptom.DIFFERENT and not plain else found[0]
            before = tuple(earlier.pair.case for earlier in calls[:number])
            return Finding(symptom, call.pair.case, before, found[1], step=step)
    return None


def _beside(subject: Subject, known: _Read) -> _Read:
    """A new call of the candidate, beside what is known of the reference."""
    pair = pair_of(subject, known.pair.case)
    pair.left, pair.expected = known.pair.left, known.pair.expected
    pair.guards, pair.fresh = (known.pair.guards[0], pair.guards[1]), (known.pair.fresh[0], [])
    return _Read(pair, known.left)


def _difference(subject: Subject, call: _Read) -> tuple[Symptom, Difference] | None:
    found = call.pair.difference(subject)
    if found is not None or type(call.pair.got) is Raised:
        return found
    for (path, left), (_, right) in zip(call.left, call.right, strict=True):
        difference = compare(left, right)
        if difference is not None:
            return Symptom.DIFFERENT, replace(difference, path=path)
    return None
