"""Options: what a user can choose; the command line's common flags."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from harness.errors import UsageError
from harness.load.stubs import parse_stub
from harness.search.profile import profile_named
from harness.watch import Limits

Observe: TypeAlias = Literal["strict", "launch"]
Device: TypeAlias = Literal["cpu", "cuda", "auto"]
OBSERVE: Final[tuple[str, ...]] = get_args(Observe)
DEVICES: Final[tuple[str, ...]] = get_args(Device)

LEAST_MEMORY: Final = 1 << 30
"""Bytes below which a check's own memory could be taken for the candidate's."""
LEAST_CASE_SECONDS: Final = 0.05
"""Seconds below which a call's time is more that of the machine than of the candidate."""
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_UNITS: Final = MappingProxyType({"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40})
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
_SECONDS: Final = MappingProxyType({"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user can choose; the command line's common flags.

    Raises:
        UsageError: a value is none of those there are, or is too small an amount.
    """

    contract: str | None = None
    profile: str = "gate"
    observe: Observe = "strict"
    device: Device = "auto"
    seed: int | None = None
    """None: 0 for a deterministic profile, else a new one."""
    time_limit: float = 3600.0
    """Seconds for the whole run; what is not finished then is inconclusive."""
    case_timeout: float = 10.0
    """Seconds for one call of a candidate."""
    memory_limit: str = "4G"
    """Memory of one candidate's process and its children."""
    workers: int = 0
    """Candidates checked at the same time; 0: one per core."""
    stubs: tuple[str, ...] = ()
    """Replacements for names in a candidate's source tree, ``NAME=VALUE``."""
    shrink_seconds: float | None = None
    """Seconds that it may take to make a failure small; None: as long as is sensible."""
    saved: Path | None = None
    """Folder for counterexamples; None: the project's."""

    def __post_init__(self) -> None:
        profile_named(self.profile)
        for option, value, known in (("observe", self.observe, OBSERVE), ("device", self.device, DEVICES)):
            if value not in known:
                raise UsageError(f"--{option} {value!r}: choose one of {', '.join(known)}.")
        for option, seconds in (("time-limit", self.time_limit), ("case-timeout", self.case_timeout)):
            if not 0 < seconds < math.inf:
                raise UsageError(f"--{option} {seconds}: must be a number of seconds greater than 0.")
        if self.case_timeout < LEAST_CASE_SECONDS:
            raise UsageError(f"--case-timeout {self.case_timeout}: must be {LEAST_CASE_SECONDS} seconds or more.")
        if self.workers < 0:
            raise UsageError(f"-n {self.workers}: must be 0 (one per core) or more.")
        parse_size(self.memory_limit)
        for stub in self.stubs:
            parse_stub(stub)

    def limits(self) -> Limits:
        """The limits of one child."""
        return Limits(case_seconds=self.case_timeout, memory_bytes=parse_size(self.memory_limit))


def parse_size(text: str) -> int:
    """Bytes from ``4G``, ``512M``, ``1.5GiB``.

    Raises:
        UsageError: it is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0 if match is None else int(float(match[1]) * _UNITS[match[2].upper()])
    if size <= 0:
        raise UsageError(f"--memory-limit {text!r}: not a size: write for example 4G or 1536M.")
    if size < LEAST_MEMORY:
        raise UsageError(f"--memory-limit {text!r}: torch and the large cases need more: give 1G at least.")
    return size


def parse_span(text: str) -> float:
    """Seconds from ``90``, ``90s``, ``10m``, ``8h``.

    Raises:
        UsageError: it is not a span of time.
    """
    match = _SPAN.fullmatch(text.strip())
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2]]
    if seconds <= 0:
        raise UsageError(f"--for {text!r}: not a span of time: write for example 90s, 10m or 8h.")
    return seconds
