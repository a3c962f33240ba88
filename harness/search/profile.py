"""Profile: how much a check does before it may say equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.contract import PROFILES
from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Profile:
    """Amounts of work. ``examples`` are drawn by the property search; a verdict of equal needs ``minimum_cases``.

    A deterministic profile draws the same cases on every machine; the others take a new seed every time and report it.
    """

    name: str
    examples: int
    minimum_cases: int
    deterministic: bool
    open_ended: bool = False
    """Whether the property search goes on as long as it is given, so that the time limit is its proper end."""


_PROFILES: Final = (
    Profile("commit", examples=60, minimum_cases=500, deterministic=True),
    Profile("gate", examples=300, minimum_cases=10_000, deterministic=True),
    Profile("premerge", examples=3_000, minimum_cases=50_000, deterministic=False),
    Profile("nightly", examples=1_000_000_000, minimum_cases=100_000, deterministic=False, open_ended=True),
)
assert tuple(profile.name for profile in _PROFILES) == PROFILES


def profile_named(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UsageError: there is none.
    """
    for profile in _PROFILES:
        if profile.name == name:
            return profile
    raise UsageError(f"--profile {name!r}: choose one of {', '.join(PROFILES)}.")
