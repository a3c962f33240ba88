"""Verdict: what a check says about one candidate, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path

from harness.case import Case


class Verdict(StrEnum):
    """The answer of a check."""

    EQUAL = "equal"
    DIFFERENT = "different"
    INCONCLUSIVE = "inconclusive"


class Symptom(StrEnum):
    """How a candidate failed."""

    DIFFERENT = "different"
    """It returned something else."""
    RAISED = "raised"
    """It raised where the reference returned, or raised another type."""
    DID_NOT_RAISE = "did not raise"
    """It returned where the reference raised."""
    MUTATED_INPUT = "mutated input"
    """It left its arguments in another state than the reference does."""
    UNSTABLE = "unstable"
    """The same call gave two answers."""
    STALE = "stale"
    """It answered for the old content of a tensor that had been changed in place (an identity-keyed cache)."""
    REUSED_OUTPUT = "reused output"
    """A later call changed, or shares memory with, what an earlier call returned."""
    OUT_OF_BOUNDS = "out of bounds"
    """It wrote to memory around the tensors that it was given or had allocated."""
    LATE = "late"
    """What it returned was not there yet when the caller's kernel read it, or changed while it was still to be read."""
    CHANGED_GLOBALS = "changed globals"
    """It changed the process: a library's functions or settings, the working directory, the environment."""
    CRASHED = "crashed"
    """Its process ended by a signal or an exit."""
    HUNG = "hung"
    """One call took longer than the per-case limit."""
    OUT_OF_MEMORY = "out of memory"
    """Its process grew past the memory limit."""


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    EQUAL = 0
    DIFFERENT = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Element:
    """One differing element: its index in the tensor and both values as text."""

    index: tuple[int, ...]
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two observations part.

    ``path`` locates the part inside the returned value (``[0][8]['offsetlist']``) or in the arguments after the call
    (``argument 'x'``). ``aspect`` names what differs there: ``value``, ``type``, ``dtype``, ``shape``, ``strides``,
    ``layout``, ``device``, ``pinned``, ``requires_grad``, ``conjugated`` and ``negated`` (lazily, by torch),
    ``memory`` (a tensor without any), ``writeable``, ``aliasing``, ``keys``, ``length``, ``exception``. For differing
    elements of a tensor, ``elements`` holds the first few and ``count`` of ``total`` says how many there are.
    """

    path: str
    aspect: str
    expected: str
    got: str
    count: int = 0
    total: int = 0
    elements: tuple[Element, ...] = ()

    def __str__(self) -> str:
        where = self.path or "returned value"
        if self.count:
            return f"{where}: {self.count} of {self.total} elements differ"
        return f"{where}: {self.aspect}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure: the case, the calls that must come before it, the symptom and what was seen."""

    symptom: Symptom
    case: Case
    before: tuple[Case, ...] = ()
    difference: Difference | None = None
    step: str = ""
    """Which of the calls on this case failed, e.g. ``second call with the same arguments``; empty for the first."""
    message: str = ""
    """What the candidate's process said or how it ended, for symptoms that are not a difference."""
    search: str = ""
    """Which search found it: replay, exhaustive, property, scale, probe."""


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one search did: executed cases, wall-clock seconds, and for an exhaustive search the space it covered."""

    search: str
    cases: int
    seconds: float
    space: str = ""
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of checking one candidate against one contract."""

    contract: str
    candidate: str
    observe: str
    device: str
    verdict: Verdict
    profile: str = ""
    seed: int = 0
    cases: int = 0
    strata: Mapping[str, int] = field(default_factory=dict)
    """How many executed cases belonged to each stratum of the contract."""
    required: tuple[str, ...] = ()
    """Strata without which this profile does not say equal."""
    stages: tuple[StageReport, ...] = ()
    seconds: float = 0.0
    finding: Finding | None = None
    case_file: Path | None = None
    reason: str = ""
    """Why the verdict is inconclusive; one sentence that ends with what to do."""
    skipped: bool = False
    """Whether it was not run because this machine cannot, and nobody had asked for it by name. ``reason`` says why."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Numbers worth knowing that decide nothing, such as the largest distance from float64; by what they measure."""
    loaded: bool = True
    """False when the candidate could not be loaded at all (exit code 2)."""
    notes: tuple[str, ...] = ()
    """Things that a reader should know but that are no difference, e.g. a process that the candidate left behind."""
    output: str = ""
    """The tail of what the candidate's process printed."""
    source: str = ""
    """Where the candidate's source was found, and how it was loaded."""
    reference_digest: str = ""
    candidate_digest: str = ""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Arguments that no case of the contract holds, each as a Python expression of the others' names."""

    @property
    def space(self) -> str:
        """The bounded space that was searched completely, or an empty string."""
        return "; ".join(stage.space for stage in self.stages if stage.space and stage.complete)

    @property
    def symptom(self) -> Symptom | None:
        """How the candidate failed, or None."""
        return self.finding.symptom if self.finding else None


def exit_code(results: Iterable[Result]) -> ExitCode:
    """The exit code of a run: the most serious of its results. A run in which nothing was run is inconclusive."""
    outcomes = [result for result in results if not result.skipped]
    if any(result.verdict is Verdict.DIFFERENT for result in outcomes):
        return ExitCode.DIFFERENT
    if any(not result.loaded for result in outcomes):
        return ExitCode.USAGE
    if not outcomes or any(result.verdict is not Verdict.EQUAL for result in outcomes):
        return ExitCode.INCONCLUSIVE
    return ExitCode.EQUAL


def overall(results: Iterable[Result]) -> Verdict:
    """The verdict of a run: different if any is, else inconclusive if any is (or nothing was run), else equal.

    Skipped candidates do not count.
    """
    verdicts = [result.verdict for result in results if not result.skipped]
    if Verdict.DIFFERENT in verdicts:
        return Verdict.DIFFERENT
    return Verdict.EQUAL if verdicts and set(verdicts) == {Verdict.EQUAL} else Verdict.INCONCLUSIVE
