"""Exhaustive search: every case of a bounded space, smallest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch

from harness.compare import compare
from harness.examine import Subject, examine, examine_once
from harness.guard import PATTERNS
from harness.journal import Entry
from harness.materialise import live_block
from harness.memory import Extent, extents_of
from harness.observe import Raised, call, outcome_difference
from harness.quick import Quick
from harness.search.space import Block, Space
from harness.verdict import StageReport

CHUNK: Final = 1024
"""Cases whose arguments are built together, and after which these are compared."""
WATCHED: Final = 4096
"""Cases after which the surroundings are looked at, and at the end."""
EXAMINED_EVERY: Final = 1499
"""Every so many cases one is examined completely. A prime, so that no regular pattern of a space hides between."""
EXAMINED_SLOWLY: Final = 61
"""The same for functions of which a check makes hundreds of calls, not thousands."""


def search_space(
    subject: Subject, space: Space, *, changed: Callable[[], str | None], deadline: float
) -> tuple[StageReport, dict[str, int], list[int]]:
    """Run every case of ``space``.

    Returns what was done, how many executed cases belong to each stratum, and the indices of suspicious cases: empty if
    none was seen, otherwise few, the smallest first; the search stops there. A suspicion is not yet a finding: the case
    is examined again, on its own, by whoever asked. ``changed`` says whether the surroundings have changed;
    ``deadline`` is a ``time.monotonic()`` after which the search stops, incomplete.
    """
    started = time.monotonic()
    strata: dict[str, int] = dict.fromkeys((stratum.name for stratum in subject.contract.strata), 0)
    done = watched = 0
    suspects: list[int] = []
    quick = Quick()
    for number, block in enumerate(space.blocks):
        executed = 0
        for start in range(0, len(block), CHUNK):
            stop = min(start + CHUNK, len(block))
            ran, suspects = _run_chunk(subject, space, quick, number, start, stop, done)
            executed, done = start + ran, done + ran
            over = time.monotonic() > deadline
            if not suspects and (over or done == len(space) or done - watched >= WATCHED):
                suspects = [] if changed() is None else list(range(watched, done))
                watched = done
            if suspects or over:
                break
        for name, count in subject.contract.count_strata(block, stop=executed).items():
            strata[name] += count
        if suspects or time.monotonic() > deadline:
            break
    complete = done == len(space) and not suspects
    report = StageReport("exhaustive", done, time.monotonic() - started, space.description, complete)
    return report, strata, suspects


def _run_chunk(
    subject: Subject, space: Space, quick: Quick, number: int, start: int, stop: int, done: int
) -> tuple[int, list[int]]:
    """Run cases ``start`` to ``stop`` of block ``number``; their first has number ``done`` in the space.

    Returns how many were run and judged, and the suspicious ones.
    """
    block = space.blocks[number]
    if subject.contract.guarded or subject.contract.derived:
        return _run_each(subject, block, start, stop, done)
    left, left_backing = live_block(block, start, stop, subject.signature, subject.device)
    right, right_backing = live_block(block, start, stop, subject.signature, subject.device)
    beside = extents_of(left_backing), extents_of(right_backing)
    if not all(map(_has_bytes, right_backing.values())):
        quick = Quick(0)
    failed = _first_failure(subject, space, quick, left, right, beside, done)
    # Cases whose arguments the candidate wrote to are found by one comparison for all cases of the chunk.
    suspects: list[int] = []
    if compare(left_backing, right_backing) is not None:
        suspects = [done + row for row in _touched(left_backing, right_backing)] or list(
            range(done, done + stop - start)
        )
    if failed is None:
        return stop - start, suspects
    return failed - done + 1, [index for index in suspects if index < failed] + [failed]


def _run_each(subject: Subject, block: Block, start: int, stop: int, done: int) -> tuple[int, list[int]]:
    """What :func:`_run_chunk` does, for calls that take so long that it does not matter what is done around them."""
    for number, position in enumerate(range(start, stop), start=1):
        index = done + number - 1
        subject.journal.begin(Entry.SPACE, index, index)
        case, pattern = block[position], PATTERNS[index % len(PATTERNS)]
        found = examine(subject, case) if index % EXAMINED_SLOWLY == 0 else examine_once(subject, case, pattern)
        if found is not None:
            return number, [index]
    return stop - start, []


def _first_failure(
    subject: Subject,
    space: Space,
    quick: Quick,
    left: Iterator[Any],
    right: Iterator[Any],
    beside: tuple[list[Extent], list[Extent]],
    index: int,
) -> int | None:
    """The first case of a chunk on which the outcomes differ; ``index`` is the number of the chunk's first case."""
    reference, candidate, journal = subject.reference, subject.candidate, subject.journal
    spans = [start for start, _, _ in beside[1]], [end for _, end, _ in beside[1]]
    check_pinned, begin, end, entry = subject.check_pinned, journal.begin, journal.end, int(Entry.SPACE)
    for (left_positional, left_keyword), (right_positional, right_keyword) in zip(left, right, strict=True):
        try:
            expected = reference(*left_positional, **left_keyword)
        except Exception as error:
            expected = Raised(error)
        begin(entry, index, index)
        got = call(candidate, right_positional, right_keyword)
        end()
        if not quick.same(expected, got, spans):
            if type(expected) is Raised or type(got) is Raised:
                differs: Any = outcome_difference(expected, got, check_pinned=check_pinned)
            else:
                arguments = (*left_positional, *left_keyword.values()), (*right_positional, *right_keyword.values())
                differs = compare(expected, got, check_pinned=check_pinned, beside=beside, arguments=arguments)
                if not check_pinned:
                    quick.learn(expected)
            if differs is not None:
                return index
        if index % EXAMINED_EVERY == 0 and examine(subject, space[index]) is not None:
            return index
        index += 1
        # Freed here, so that the next calls find the same memory again, as they would outside of a check.
        del expected, got
    return None


def _has_bytes(arguments: Any) -> bool:
    """Whether a returned argument shows by the memory that it lies in: a list or a tensor without elements does not."""
    if isinstance(arguments, torch.Tensor):
        return arguments.numel() > 0
    return not any(isinstance(value, list | torch.Tensor | np.ndarray) and not extents_of(value) for value in arguments)


def _touched(left: dict[str, Any], right: dict[str, Any]) -> list[int]:
    """Cases of a chunk whose own row of a backing differs between the two sides."""
    rows: set[int] = set()
    for name in left:
        pairs = zip(left[name], right[name], strict=True)
        rows |= {row for row, (ours, theirs) in enumerate(pairs) if compare(ours, theirs) is not None}
    return sorted(rows)
