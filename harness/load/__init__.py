"""Loading candidates: a spec as the user writes it, turned into a function."""

from __future__ import annotations

from harness.load.loaded import Loaded, load
from harness.load.spec import CandidateSpec, RegisteredCandidate, parse_spec, registered_candidates
from harness.load.stubs import Stub, builtin_stubs, parse_stub, stubs_from_config
from harness.load.traits import Traits, traits_of

__all__ = [
    "CandidateSpec",
    "Loaded",
    "RegisteredCandidate",
    "Stub",
    "Traits",
    "builtin_stubs",
    "load",
    "parse_spec",
    "parse_stub",
    "registered_candidates",
    "stubs_from_config",
    "traits_of",
]
