"""Graph search: capture a call in a CUDA graph, and replay it with other values in the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from harness.asynchrony import spread
from harness.calls import needs_cuda, on_device, poisoned_call, wait_for
from harness.case import Case, CaseFile
from harness.compare import compare
from harness.contract import PROFILES
from harness.errors import HarnessError
from harness.examine import Subject
from harness.guard import PATTERNS, fill
from harness.memory import leaves
from harness.observe import Arguments, Raised, call, outcome_difference
from harness.search.each import Searched, note, search_each
from harness.verdict import Difference, Finding, Symptom

CASES: Final = (3, 12, 30, 100)
"""Captures per profile."""
REPLAYS: Final = 3
"""Other values that a captured call is replayed with, besides the ones that it was captured with."""
WARM_UP: Final = 2
CAPTURE: Final = "capture in a CUDA graph"
REPLAY: Final = "replay of a CUDA graph that was captured with the values of an earlier call"


def why_not(subject: Subject) -> str | None:
    """Why this search cannot run here, as a clause; None if it can."""
    # There are no graphs elsewhere.
    return needs_cuda(subject.device)


def search_graphs(
    subject: Subject, profile: str, *, done: int, changed: Callable[[], str | None], deadline: float
) -> Searched:
    """Capture and replay a spread of the contract's cases, for a candidate that claims to support it.

    ``done`` cases ran before; the rest is as for :func:`harness.search.each.search_each`.
    """
    cases = spread(subject, profile, CASES[PROFILES.index(profile)])
    trials = ((CaseFile(case), partial(examine_graph, subject, case)) for case in cases)
    return search_each(
        "graph",
        subject.contract,
        trials,
        begin=lambda number, file: note(subject.journal, file.case, done + number),
        changed=changed,
        deadline=deadline,
    )


def examine_graph(subject: Subject, case: Case) -> Finding | None:
    """Capture the candidate's call on a case; replay it, then with the values of its twins that fit its arguments."""
    static = subject.live(case)
    graph = torch.cuda.CUDAGraph()
    subject.journal.again()
    outcome = _captured(subject, static, graph)
    subject.journal.end()
    if type(outcome) is Raised:
        text = f"raises {outcome.kind.__name__}: {outcome.message}"
        difference = Difference("", "exception", "a call that can be captured", text)
        return Finding(Symptom.RAISED, case, difference=difference, step=CAPTURE)
    for number, each in enumerate(_fitting(subject, case, static)):
        finding = _replayed(subject, each, graph, static, outcome, PATTERNS[number % len(PATTERNS)])
        if finding is not None:
            return replace(finding, before=(case,) if number else ())
    return None


def _captured(subject: Subject, static: Arguments, graph: torch.cuda.CUDAGraph) -> Any:
    """What the captured call returned: memory that every replay writes to. Warmed up first, on another stream."""
    side = torch.cuda.Stream(subject.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(subject.device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            outcome = call(subject.candidate, static.positional, static.keyword)
            if type(outcome) is Raised:
                return outcome
    torch.cuda.current_stream(subject.device).wait_stream(side)
    failure = wait_for(subject.device)
    if failure is not None:
        return failure
    try:
        with torch.cuda.graph(graph):
            outcome = call(subject.candidate, static.positional, static.keyword)
    except Exception as error:
        # What the function itself met says more than that the capture could not be ended.
        outcome = outcome if type(outcome) is Raised else Raised(error)
    return wait_for(subject.device) or outcome


def _fitting(subject: Subject, case: Case, static: Arguments) -> Iterator[Case]:
    """The case, twins of twins as long as all that differs can be written into the same arguments, the case again."""
    yield case
    met = {case}
    other = subject.contract.twin(case)
    while other is not None and other not in met and len(met) <= REPLAYS:
        if not _fits(subject, static, subject.live(other)):
            break
        yield other
        met.add(other)
        other = subject.contract.twin(other)
    if len(met) > 1:
        yield case


def _fits(subject: Subject, static: Arguments, other: Arguments) -> bool:
    """Whether two calls' arguments differ in nothing but the elements of tensors and arrays."""
    names = subject.signature.names
    left, right = static.named(names), other.named(names)
    pairs = [*zip(leaves(left), leaves(right), strict=False)]
    if len([*leaves(left)]) != len([*leaves(right)]):
        return False
    if any(a.shape != b.shape or a.dtype != b.dtype for (_, a), (_, b) in pairs):
        return False
    for (_, a), (_, b) in pairs:
        _copy(b, a)
    return compare(left, right) is None


def _replayed(
    subject: Subject, case: Case, graph: torch.cuda.CUDAGraph, static: Arguments, outcome: Any, pattern: int
) -> Finding | None:
    names = subject.signature.names
    left, right = subject.live(case), subject.live(case)
    expected = poisoned_call(subject.truth(case), left, pattern, [], trusted=True)
    if type(expected) is Raised:
        return None
    failure = wait_for(subject.device)
    if failure is not None:
        raise HarnessError(f"the reference fails on case {case.digest}: {failure.message}. Correct it.")
    # Fresh memory is poisoned: so is what the graph writes to. Arguments come last, for they may be returned.
    for _, tensor in on_device(outcome, {}):
        fill(tensor, pattern)
    for (_, target), (_, source) in zip(leaves(static.named(names)), leaves(right.named(names)), strict=True):
        _copy(target, source)
    subject.journal.again()
    graph.replay()
    failure = wait_for(subject.device)
    subject.journal.end()
    if failure is not None:
        text = f"raises {failure.kind.__name__}: {failure.message}"
        difference = Difference("", "exception", "a graph that can be replayed", text)
        return Finding(Symptom.RAISED, case, difference=difference, step=REPLAY)
    found = outcome_difference(expected, outcome, check_pinned=subject.check_pinned)
    if found is not None:
        return Finding(found[0], case, difference=found[1], step=REPLAY)
    return _arguments(case, left.named(names), static.named(names))


def _arguments(case: Case, left: Any, right: Any) -> Finding | None:
    """How the arguments after a replay differ, states among them."""
    for name, value in left.items():
        difference = compare(value, right[name])
        if difference is not None:
            path = f"argument {name}{difference.path}"
            return Finding(Symptom.MUTATED_INPUT, case, difference=replace(difference, path=path), step=REPLAY)
    return None


def _copy(target: Any, source: Any) -> None:
    if isinstance(target, np.ndarray):
        np.copyto(target, source)
    else:
        target.copy_(source)
