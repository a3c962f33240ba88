"""Stages: the searches for what only a kernel's launch, a busy device or another way of calling can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness import asynchrony, concurrency, graph, probe
from harness.case import Case, DrawnValue, TensorValue
from harness.contract import PROFILES
from harness.examine import Subject
from harness.layout import row_major, span
from harness.search.each import Searched
from harness.verdict import Finding

MOST: Final = 1 << 26
"""Elements, gaps included, of the largest case that stages examine which no search has found it by."""

Search: TypeAlias = Callable[..., Searched]


@dataclass(frozen=True, slots=True)
class Stage:
    """A search, why it cannot run for a subject (None: it can), and how a single case of it is examined again."""

    name: str
    why_not: Callable[[Subject], str | None]
    search: Search
    examine: Callable[[Subject, Case], Finding | None]
    first: bool = False
    """Whether it must come before everything else in its process."""


def stages_of(subject: Subject, *, cuda_graph: bool) -> list[Stage]:
    """The stages that a candidate has, in the order in which they run; some may be impossible on this machine.

    ``cuda_graph`` is whether it claims that its calls can be captured. What a contract has no probes for, or a
    candidate does not claim, is no stage.
    """
    # Whoever builds tables on the host does so in one thread.
    stages = [_CONCURRENCY] if subject.contract.guarded else []
    stages += [_PROBE] if subject.contract.probes else []
    stages.append(_ASYNCHRONY)
    stages += [_GRAPH] if cuda_graph else []
    return stages


def skipped_stages(subject: Subject, stages: Iterable[Stage]) -> list[str]:
    """A note for each reason why stages cannot run here."""
    reasons: dict[str, list[str]] = {}
    for stage in stages:
        reason = stage.why_not(subject)
        if reason is not None:
            reasons.setdefault(reason, []).append(stage.name)
    return [f"{', '.join(names)}: skipped, because {reason}" for reason, names in reasons.items()]


def is_small(case: Case) -> bool:
    """Whether a case takes so little memory that it can be held many times over."""
    tensors = [value for value in case.arguments.values() if isinstance(value, TensorValue | DrawnValue)]
    return sum(value.offset + span(value.shape, value.strides or row_major(value.shape)) for value in tensors) < MOST


def _examine_probes(subject: Subject, case: Case) -> Finding | None:
    compiled = subject.device.type == "cuda"
    fitting = (each for each in subject.contract.probes if each.fits(case, compiled))
    found = (probe.examine_probe(subject, each, case) for each in fitting)
    return next((finding for finding in found if finding is not None), None)


def _examine_together(subject: Subject, case: Case) -> Finding | None:
    """The first calls of this process, with this case among them."""
    others = asynchrony.spread(subject, PROFILES[0], concurrency.KINDS[0])
    return concurrency.examine_concurrency(subject, [*dict.fromkeys([case, *others])])


_CONCURRENCY: Final = Stage("concurrency", concurrency.why_not, concurrency.search_concurrency, _examine_together, True)
"""What is compiled later is not compiled by several threads at once."""
_PROBE: Final = Stage("probe", probe.why_not, probe.search_probes, _examine_probes)
_ASYNCHRONY: Final = Stage(
    "asynchrony", asynchrony.why_not, asynchrony.search_asynchrony, asynchrony.examine_asynchrony
)
_GRAPH: Final = Stage("graph", graph.why_not, graph.search_graphs, graph.examine_graph)
