"""Concurrency search: the first calls of a process, from several threads at once.

The first launch of a kernel compiles it. Threads that launch it at the same moment, with arguments of the same and of
other specializations, compile at the same moment: each must get its own kernel, and the reference's bits.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import torch

from harness.asynchrony import spread
from harness.calls import needs_cuda, poisoned_call, raw, wait_for
from harness.case import Case
from harness.contract import PROFILES
from harness.examine import Pair, Subject, pair_of
from harness.guard import PATTERNS
from harness.memory import leaves
from harness.observe import Raised, call
from harness.search.space import block_of
from harness.verdict import Difference, Finding, StageReport, Symptom

KINDS: Final = (3, 4, 6, 8)
"""Different cases per profile."""
THREADS_EACH: Final = 3
"""Threads that call with the same case."""
TOGETHER: Final = "first calls of the process, from several threads at once"
CACHE: Final = "TRITON_CACHE_DIR"


def why_not(subject: Subject) -> str | None:
    """Why this search cannot run here, as a clause; None if it can."""
    # Triton's interpreter changes Triton's own functions while it runs a kernel.
    return needs_cuda(subject.device)


def search_concurrency(
    subject: Subject, profile: str, *, done: int, changed: Callable[[], str | None], deadline: float
) -> tuple[StageReport, dict[str, int], list[Finding]]:
    """Call the candidate on several cases at once; to be a process's first search, for later calls compile nothing.

    ``done`` cases ran before; ``changed`` says what of the process was changed. Nothing is done after ``deadline``, a
    ``time.monotonic()``. Returns what was done, the strata of the executed cases, and the first failure, if any.
    """
    started = time.monotonic()
    strata: dict[str, int] = dict.fromkeys((stratum.name for stratum in subject.contract.strata), 0)
    cases = [*spread(subject, profile, KINDS[PROFILES.index(profile)])]
    if not cases or started > deadline:
        return StageReport("concurrency", 0, 0.0, complete=not cases), strata, []
    subject.journal.begin_text(cases[0], done)
    finding = examine_concurrency(subject, cases)
    if finding is None and (change := changed()) is not None:
        finding = Finding(Symptom.CHANGED_GLOBALS, cases[0], message=change)
    for case in cases:
        for name, count in subject.contract.count_strata(block_of(case)).items():
            strata[name] += count
    report = StageReport("concurrency", len(cases), time.monotonic() - started, complete=finding is None)
    return report, strata, [] if finding is None else [finding]


def examine_concurrency(subject: Subject, cases: list[Case]) -> Finding | None:
    """Call the candidate on every case from several threads at once, with nothing compiled before.

    What a single call gets wrong too is left to the other searches.
    """
    pairs = [pair_of(subject, case) for case in cases for _ in range(THREADS_EACH)]
    barrier = threading.Barrier(len(pairs))
    stream = torch.cuda.current_stream(subject.device)

    def run(pair: Pair) -> None:
        # Not with poisoned allocations: PyTorch cannot hand operations to Python from several threads for the first
        # time at once.
        with torch.cuda.stream(stream):
            barrier.wait()
            pair.got = call(subject.candidate, pair.right.positional, pair.right.keyword)

    threads = [threading.Thread(target=run, args=(pair,)) for pair in pairs]
    wait_for(subject.device)
    with _empty_cache():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    failure = wait_for(subject.device)
    subject.journal.end()
    if failure is not None:
        return _raised(cases[0], failure)
    for pair in pairs:
        found = _difference(subject, pair)
        if found is not None and _difference(subject, _alone(subject, pair.case)) is None:
            symptom = Symptom.UNSTABLE if found[0] is Symptom.DIFFERENT else found[0]
            return Finding(symptom, pair.case, difference=found[1], step=TOGETHER)
    return None


def _raised(case: Case, failure: Raised) -> Finding:
    text = f"raises {failure.kind.__name__}: {failure.message}"
    difference = Difference("", "exception", "calls that the device can carry out", text)
    return Finding(Symptom.RAISED, case, difference=difference, step=TOGETHER)


def _alone(subject: Subject, case: Case) -> Pair:
    pair = pair_of(subject, case)
    subject.journal.again()
    pair.got = call(subject.candidate, pair.right.positional, pair.right.keyword)
    wait_for(subject.device)
    subject.journal.end()
    return pair


def _difference(subject: Subject, pair: Pair) -> tuple[Symptom, Difference] | None:
    """How a call differs from the reference's, apart from what the reference does not write either."""
    pair.expected = poisoned_call(subject.truth(pair.case), pair.left, pair.pattern, pair.fresh[0], trusted=True)
    other = poisoned_call(subject.truth(pair.case), subject.live(pair.case), PATTERNS[1], [], trusted=True)
    wait_for(subject.device)
    if type(pair.got) is not Raised and type(pair.expected) is not Raised:
        for (_, one), (_, two), (_, got) in zip(*map(leaves, (pair.expected, other, pair.got)), strict=False):
            if isinstance(got, torch.Tensor) and got.shape == one.shape and got.dtype == one.dtype:
                unwritten = raw(one) != raw(two)
                raw(got)[unwritten] = raw(one)[unwritten]
    return pair.difference(subject)


@contextmanager
def _empty_cache() -> Iterator[None]:
    """While it is entered, Triton keeps compiled kernels in a new folder."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory(prefix="bitgate-kernels-") as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[CACHE]
            else:
                os.environ[CACHE] = before
