"""Profiles are ordered from least to most work."""

from __future__ import annotations

from itertools import pairwise

import pytest

from harness.contract import PROFILES
from harness.errors import UsageError
from harness.search.profile import profile_named


def test_every_profile_does_more_than_the_one_before() -> None:
    profiles = [profile_named(name) for name in PROFILES]
    assert [profile.name for profile in profiles] == ["commit", "gate", "premerge", "nightly"]
    for least, most in pairwise(profiles):
        assert least.examples < most.examples
        assert least.minimum_cases < most.minimum_cases


def test_what_a_pull_request_runs_is_deterministic() -> None:
    assert [name for name in PROFILES if profile_named(name).deterministic] == ["commit", "gate"]


def test_no_profile_says_equal_after_nothing() -> None:
    assert min(profile_named(name).minimum_cases for name in PROFILES) > 0


@pytest.mark.parametrize("name", ["", "Gate", "fast", "commit "])
def test_an_unknown_profile_is_a_usage_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(UsageError, match="commit, gate, premerge, nightly"):
        profile_named(name)
