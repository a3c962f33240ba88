"""Examine one case completely: first call, repeated, interleaved, changed in place, and what earlier calls returned."""

from __future__ import annotations

import re
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import torch

from harness.calls import poisoned_call
from harness.case import Case
from harness.compare import compare
from harness.contract import Contract
from harness.errors import HarnessError
from harness.guard import PATTERNS as GUARD_PATTERNS
from harness.guard import Guard, out_of_bounds
from harness.interpreter import reversed_programs
from harness.journal import Journal
from harness.materialise import Signature, guarded_case, live_case
from harness.memory import Extent, extents_of, leaves, parts, shared, shared_container
from harness.observe import Arguments, Function, Raised, call, check_observable, outcome_difference
from harness.poison import PATTERNS, poison_array_cache, set_pattern
from harness.verdict import Difference, Finding, Symptom

REMEMBERED: Final = 40
"""Earlier examinations of which the calls, and what they returned, are kept."""
HELD_BYTES: Final = 1 << 18
"""Bytes that a returned value may have to be kept."""
SECOND: Final = "second call with the same arguments, fresh memory poisoned with another pattern"
TWIN: Final = "a call with other values, after calls with this case"
BACK: Final = "the call again, after a call with other values"
EARLIER: Final = "a call some time after others"
IN_PLACE: Final = "a call after the same tensors were changed in place"

_OVERLAPPED: Final = re.compile(r"(?<=overlaps )\[[01]\].*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A candidate beside its reference, ready to be called in this process."""

    contract: Contract
    reference: Function
    candidate: Function
    signature: Signature
    device: torch.device
    journal: Journal
    peer: Function | None = None
    """What stands in for the reference on cases where its results are not exact."""
    peer_name: str = ""
    check_pinned: bool = False
    history: deque[Case] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """The last calls of the examinations that found nothing: what a candidate with a memory may have in it."""
    held: deque[Pair] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """What small calls of earlier examinations returned: it must stay as it was, whatever is called later."""
    measures: dict[str, float] = field(default_factory=dict)
    """The largest of each number that the contract measures."""

    def truth(self, case: Case) -> Function:
        """What says what is right on a case: the frozen reference, or a peer where only the peer's bits can be had."""
        exact = self.contract.exact
        return self.reference if self.peer is None or exact is None or exact(case) else self.peer

    def measure(self, case: Case, returned: Any) -> None:
        """Note what the contract measures of a returned value whose results are not exact."""
        exact, measure = self.contract.exact, self.contract.measure
        if measure is None or exact is None or exact(case) or type(returned) is Raised:
            return
        for name, number in measure(case, returned).items():
            self.measures[name] = max(number, self.measures.get(name, number))

    def about(self, finding: Finding | None) -> Finding | None:
        """A finding that says, where a peer stood in for the reference, that it did."""
        if finding is None or finding.difference is None or self.truth(finding.case) is self.reference:
            return finding
        said = f"{finding.message}; " if finding.message else ""
        why = "on these numbers results are rounded, so that the reference's bits are not what counts"
        return replace(finding, message=f"{said}expected is what the peer {self.peer_name} gives: {why}")

    def live(self, case: Case) -> Arguments:
        """New live arguments of a case, without guard bands."""
        return live_case(case, self.signature, self.device, derived=self.contract.derived)


@dataclass(slots=True)
class Pair:
    """One call of both sides on one case: live arguments and outcomes.

    ``guards`` are those of the arguments, ``fresh`` those of what the call allocated; the reference's first.
    """

    case: Case
    left: Arguments
    right: Arguments
    guards: tuple[list[Guard], list[Guard]] = field(default_factory=lambda: ([], []))
    pattern: int = GUARD_PATTERNS[0]
    fresh: tuple[list[Guard], list[Guard]] = field(default_factory=lambda: ([], []))
    expected: Any = None
    got: Any = None
    _extents: list[Extent] | None = None

    def extents(self) -> list[Extent]:
        """The memory of what the candidate returned."""
        if self._extents is None:
            self._extents = [] if type(self.got) is Raised else extents_of(self.got)
        return self._extents

    def run(self, subject: Subject, known: Pair | None = None) -> None:
        """Call both sides; the reference only where its outcome is not ``known`` from an earlier, equal call."""
        if known is None:
            self.expected = self._call(subject, subject.truth(self.case), self.left, self.fresh[0])
        else:
            self.expected = known.expected
        subject.journal.again()
        self.got = self._call(subject, subject.candidate, self.right, self.fresh[1])
        subject.journal.end()

    def _call(self, subject: Subject, function: Function, arguments: Arguments, fresh: list[Guard]) -> Any:
        if not subject.contract.guarded:
            return call(function, arguments.positional, arguments.keyword)
        order = nullcontext() if self.pattern == GUARD_PATTERNS[0] else reversed_programs()
        with order:
            return poisoned_call(function, arguments, self.pattern, fresh, trusted=function is not subject.candidate)

    def difference(self, subject: Subject) -> tuple[Symptom, Difference] | None:
        """How the outcomes differ, or the arguments after the call, or the memory that both share."""
        beside = out_of_bounds([*self.guards[1], *self.fresh[1]])
        if beside is not None:
            return Symptom.OUT_OF_BOUNDS, beside
        if out_of_bounds([*self.guards[0], *self.fresh[0]]) is not None:
            raise HarnessError(f"the reference writes out of bounds on case {self.case.digest}. Correct it.")
        names = subject.signature.names
        left, right = self.left.named(names), self.right.named(names)
        if type(self.expected) is Raised or type(self.got) is Raised:
            found = outcome_difference(self.expected, self.got, check_pinned=subject.check_pinned)
            if found is not None:
                return found
            left_seen, right_seen = (None, left), (None, right)
        else:
            left_seen, right_seen = (self.expected, left), (self.got, right)
        difference = compare(left_seen, right_seen, check_pinned=subject.check_pinned)
        if difference is None:
            return None
        mutated = difference.path.startswith("[1]") and difference.aspect != "aliasing"
        return (Symptom.MUTATED_INPUT if mutated else Symptom.DIFFERENT), _relabelled(difference)


def pair_of(subject: Subject, case: Case, pattern: int = GUARD_PATTERNS[0]) -> Pair:
    """Fresh live arguments for both sides."""
    if subject.contract.guarded:
        (left, left_guards), (right, right_guards) = (
            guarded_case(case, subject.signature, subject.device, derived=subject.contract.derived, pattern=pattern)
            for _ in ("left", "right")
        )
        return Pair(case, left, right, (left_guards, right_guards), pattern)
    return Pair(case, subject.live(case), subject.live(case))


def examine_once(subject: Subject, case: Case, pattern: int = GUARD_PATTERNS[0]) -> Finding | None:
    """Judge the call itself and nothing that comes after it; interpreted programs run in an order for each pattern."""
    pair = pair_of(subject, case, pattern)
    pair.run(subject)
    found = pair.difference(subject)
    return subject.about(None if found is None else Finding(found[0], case, (), found[1]))


def examine(subject: Subject, case: Case, *, before: tuple[Case, ...] = ()) -> Finding | None:
    """Run the whole protocol on one case and return the first failure.

    1. the call itself: outcome, arguments after it; 2. the same objects again, under the other poison pattern;
    3. a call with other values of the same shapes; 4. the case once more; 5. the same objects, overwritten with the
    other values; and after each, that what earlier calls returned is untouched and shares no memory with what later
    ones return.
    Calls of ``before`` run first; they are not judged.

    The caller has written the case to the journal.
    """
    return subject.about(_examine(subject, case, before))


def _examine(subject: Subject, case: Case, before: tuple[Case, ...]) -> Finding | None:
    held = [*subject.held]
    for earlier in before:
        pair = pair_of(subject, earlier)
        pair.run(subject)
        held += [pair] if pair.difference(subject) is None else []
    set_pattern(PATTERNS[0])
    first = pair_of(subject, case)
    first.run(subject)
    check_observable(case, first.expected)
    # A frozen reference that leaves its arguments alone gives the same value again: no need to wait for it.
    # Not where what nobody wrote is looked at: it shows the pattern of the call.
    names = subject.signature.names
    pure = not subject.contract.guarded and compare(subject.live(case).named(names), first.left.named(names)) is None
    known = first if pure else None
    found = first.difference(subject)
    if found is not None:
        return Finding(found[0], case, before, found[1])
    finding = _spoilt(subject, first, held, EARLIER, before)
    if finding is not None:
        return finding
    subject.measure(case, first.got)

    set_pattern(PATTERNS[1])
    poison_array_cache(_sizes(first), PATTERNS[1])
    second = Pair(case, first.left, first.right, first.guards, GUARD_PATTERNS[1])
    finding = _follow(subject, second, known, [first], SECOND, before)
    set_pattern(PATTERNS[0])
    if finding is not None:
        return finding

    twin = subject.contract.twin(case)
    if twin is None:
        subject.history.extend((*before, case, case))
        return None
    other = pair_of(subject, twin)
    other.run(subject)
    found = other.difference(subject)
    if found is not None:
        return Finding(found[0], twin, (*before, case, case), found[1], step=TWIN)
    back = pair_of(subject, case, GUARD_PATTERNS[1])
    finding = _follow(subject, back, known, [first, second, other], BACK, (*before, case, twin))
    if finding is not None:
        return finding
    left, right = (_overwritten(side, subject.live(twin)) for side in (back.left, back.right))
    changed = Pair(twin, left, right, back.guards, GUARD_PATTERNS[1])
    finding = _follow(subject, changed, other if pure else None, [first, second, other, back], IN_PLACE, before)
    if finding is not None:
        finding = replace(finding, case=case)
    if finding is None and sum(end - start for start, end, _ in first.extents()) <= HELD_BYTES:
        subject.held.append(first)
    if finding is None or finding.symptom is Symptom.REUSED_OUTPUT or type(other.got) is Raised:
        return finding
    return replace(finding, symptom=Symptom.STALE)


def _follow(
    subject: Subject, pair: Pair, known: Pair | None, earlier: list[Pair], step: str, before: tuple[Case, ...]
) -> Finding | None:
    """Run a later call and judge it, what it did to earlier results, and whether it shares memory with them."""
    pair.run(subject, known)
    found = pair.difference(subject)
    if found is not None:
        symptom = Symptom.UNSTABLE if found[0] is Symptom.DIFFERENT else found[0]
        return Finding(symptom, pair.case, before, found[1], step=step)
    return _spoilt(subject, pair, earlier, step, before)


def _spoilt(subject: Subject, pair: Pair, earlier: list[Pair], step: str, before: tuple[Case, ...]) -> Finding | None:
    """What a call did to earlier results: changed them, or returned the memory that they lie in."""
    for previous in earlier:
        found = outcome_difference(previous.expected, previous.got, check_pinned=subject.check_pinned)
        if found is not None:
            return Finding(
                Symptom.REUSED_OUTPUT, pair.case, before, found[1], step=f"what an earlier call returned, after {step}"
            )
        if not subject.contract.fresh_outputs or type(pair.got) is Raised or type(previous.got) is Raised:
            continue
        again = shared(previous.extents(), pair.extents())
        if again is None:
            again = shared_container(previous.got, pair.got)
        if again is not None:
            path = next(path for path, part in parts(pair.got) if part is again)
            difference = Difference(path, "aliasing", "memory of its own", "memory that an earlier call returned")
            return Finding(Symptom.REUSED_OUTPUT, pair.case, before, difference, step=step)
    return None


def _overwritten(live: Arguments, other: Arguments) -> Arguments:
    """``other``'s values in the objects of ``live``: those that can be changed are, in place."""
    positional = tuple(map(_refilled, live.positional, other.positional))
    return Arguments(positional, {name: _refilled(value, other.keyword[name]) for name, value in live.keyword.items()})


def _refilled(target: Any, source: Any) -> Any:
    if type(target) is torch.Tensor:
        # Through data, as through a NumPy view of the same memory: the tensor's version counter does not tell.
        target.data.copy_(source)
        return target
    if type(target) is np.ndarray:
        np.copyto(target, source)
    elif type(target) is list:
        target[:] = source
    else:
        return source
    return target


def _relabelled(difference: Difference) -> Difference:
    """The same difference, with paths that speak of the returned value and of the arguments by name."""
    return replace(
        difference,
        path=_place(difference.path),
        expected=_OVERLAPPED.sub(lambda match: _place(match[0]) or "the returned value", difference.expected),
        got=_OVERLAPPED.sub(lambda match: _place(match[0]) or "the returned value", difference.got),
    )


def _place(path: str) -> str:
    side, rest = path[:3], path[3:]
    if side == "[0]":
        return rest
    name, bracket, below = rest[1:].partition("]")
    return f"argument {name}{below if bracket else ''}"


def _sizes(pair: Pair) -> list[int]:
    """Sizes in bytes that a candidate is likely to allocate: as many elements as went in or came out, of any width."""
    seen = [pair.expected, pair.left.positional, list(pair.left.keyword.values())]
    counts = {leaf.nbytes // leaf.itemsize for value in seen if type(value) is not Raised for _, leaf in leaves(value)}
    return [count * width for count in counts for width in (1, 2, 4, 8)]
