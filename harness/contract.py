"""Contract: what one helper promises, and what a check of it must cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.errors import UsageError
from harness.search.space import Block, Space, block_of

if TYPE_CHECKING:
    import torch
    from hypothesis.strategies import SearchStrategy

PROFILES: Final = ("commit", "gate", "premerge", "nightly")
"""Profile names, from least to most work."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """A named kind of case that a check must hit.

    ``mask`` says of every case in a block whether it belongs. ``required_from`` is the first profile whose verdict of
    equal needs at least one such case.
    """

    name: str
    mask: Callable[[Block], NDArray[np.bool_]]
    required_from: str = "commit"

    def required(self, profile: str) -> bool:
        """Whether a verdict of equal under ``profile`` needs a case of this stratum."""
        return PROFILES.index(profile) >= PROFILES.index(self.required_from)


@dataclass(frozen=True, slots=True)
class Derived:
    """An argument that follows from the others, so that no case holds it.

    ``make`` gets the other live arguments by name; ``source`` is the same as a Python expression of their names.
    """

    make: Callable[[Mapping[str, Any]], Any]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A kernel that is launched with what a function returned, as its caller would launch it.

    ``prepare`` makes everything else that one launch on a case needs, and returns a function that takes the returned
    value, launches the kernel, and returns what the kernel left behind; it must not wait for the device.
    """

    name: str
    cases: Callable[[str, bool], Sequence[Case]]
    """The cases for a profile; the second argument says whether kernels are compiled (they run on a GPU) or, a thousand
    times slower, interpreted."""
    fits: Callable[[Case, bool], bool]
    """Whether a case can be launched at all, and in reasonable time; the second argument is as above."""
    prepare: Callable[[Case, torch.device], Callable[[Any], Any]]
    needs: tuple[str, ...] = ()
    """Packages without which it cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Binds a frozen reference to where its cases come from and to what is observed of it.

    The call signature is the reference's. Everything here is plain data or a plain function of cases: a contract needs
    no class of its own and no change in the engine.
    """

    name: str
    summary: str
    reference: str
    """The frozen loop as ``package.module:function``."""
    upstream_names: tuple[str, ...]
    """Function names that mean this contract when a candidate is given as a path or an import path."""
    consumers: tuple[str, ...]
    """Who launches kernels with these tables; for readers."""
    space: Callable[[str], Space]
    """The bounded space searched exhaustively under a profile."""
    strategy: Callable[[], SearchStrategy[Case]]
    """Hypothesis strategy for the property search."""
    scale: Callable[[str], Sequence[Case]]
    """A few large cases for a profile."""
    strata: tuple[Stratum, ...]
    twin: Callable[[Case], Case | None]
    """Another in-domain case whose arguments have the same types and shapes but other values, or None."""
    simpler: Callable[[Case], Iterator[Case]]
    """In-domain cases that are simpler than the given one, most drastic first; used to shrink failures."""
    launch: Callable[[Any], Mapping[str, Any]] | None = None
    """Picks from the returned value what the kernel launch reads, for ``--observe launch``; None: there is no such
    level."""
    minimum_cases: int | None = None
    """How many executed cases a verdict of equal needs, where the domain is too small for the profiles' numbers."""
    fresh_outputs: bool = True
    """Whether the reference returns new memory on every call, so that a candidate must too."""
    needs: tuple[str, ...] = ()
    """Packages without which no candidate can run."""
    examples: Mapping[str, int] = field(default_factory=dict)
    """How many cases the property search draws under a profile, where calls take too long for the profile's number."""
    derived: Mapping[str, Derived] = field(default_factory=dict)
    """Arguments of the function that no case holds."""
    guarded: bool = False
    """Whether tensors lie between poisoned bands (:mod:`harness.guard`): for functions that launch kernels."""
    exact: Callable[[Case], bool] | None = None
    """Whether every result is exact in floating point on a case, whatever the order of the operations. On other cases
    the reference is a loop with the same meaning and other roundings, and a peer stands in for it. None: always."""
    peers: tuple[str, ...] = ()
    """Registered candidates that stand in for the reference where results are not exact: the first that is not the
    candidate itself."""
    measure: Callable[[Case, Any], Mapping[str, float]] | None = None
    """Numbers worth knowing of what a candidate returned on a case that is not exact; they decide nothing. The largest
    of each name is reported."""
    probes: tuple[Probe, ...] = ()
    """Kernels that are launched with what the function returns."""
    compiled_scale: Callable[[str], Sequence[Case]] | None = None
    """Further large cases, which only kernels that are compiled for a GPU get through."""

    @property
    def function(self) -> str:
        """The reference's function name, under which an in-tree candidate defines its version."""
        return self.reference.partition(":")[2]

    def large_cases(self, profile: str, device: str) -> Sequence[Case]:
        """The large cases of a check on ``device`` (``cpu`` or ``cuda``)."""
        further = self.compiled_scale if device == "cuda" else None
        return [*self.scale(profile), *(() if further is None else further(profile))]

    def check_case(self, case: Case) -> None:
        """Check that a case read from a file has this contract's arguments, of the right kinds.

        Raises:
            UsageError: it has not.
        """
        known = self.space(PROFILES[0]).kinds()
        given = {name: type(value) for name, value in case.arguments.items()}
        if not any(known_names == given.keys() for known_names in known):
            names = " or ".join(sorted(", ".join(sorted(known_names)) for known_names in known))
            raise UsageError(f"a case of {self.name} has the arguments {names}, not {', '.join(given)}.")
        for name, kind in given.items():
            wanted = set().union(*(kinds.get(name, set()) for kinds in known.values()))
            if kind not in wanted:
                kinds = " or a ".join(sorted(kind.__name__ for kind in wanted))
                raise UsageError(f"argument {name!r} of a case of {self.name} is a {kinds}, not a {kind.__name__}.")
        try:
            self.count_strata(block_of(case))
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"a case of {self.name} cannot hold these values: {error}.") from error

    def count_strata(self, block: Block, *, stop: int | None = None) -> dict[str, int]:
        """How many of the first ``stop`` cases of a block (default: all) belong to each stratum."""
        return {stratum.name: int(np.count_nonzero(stratum.mask(block)[:stop])) for stratum in self.strata}
