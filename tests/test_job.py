"""A job reaches the child as it was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.case import Case, CaseFile, TensorValue
from harness.job import Job, Target, read_job

CASE = Case("toy", {"x": TensorValue("float32", (float("nan"), -0.0)), "n": 3})
TARGET: dict[str, Any] = {
    "candidate": "a/b.py::f",
    "contract": "toy",
    "observe": "launch",
    "device": "cuda",
    "root": "/somewhere",
    "stubs": {"module": {"name": [1, 2.5, None, "é"]}},
    "stub_arguments": ("A=1", "B=2"),
    "contract_modules": ("package.module:CONTRACT",),
}


def target(**changes: Any) -> Target:
    known = {name for name in Target.__dataclass_fields__ if name not in TARGET}
    return Target(**{**TARGET, **dict.fromkeys(known, "text"), **changes})


@pytest.mark.parametrize(
    "job",
    [
        Job(mode="try", target=target()),
        Job(
            mode="search",
            target=target(stubs={}, stub_arguments=()),
            profile="nightly",
            seed=2**63,
            examples=5,
            seconds=0.25,
            database="/database",
            cases=(CaseFile(CASE), CaseFile(CASE, (CASE, Case("toy", {})))),
            symptom="stale",
            token="\ud800secret",
        ),
    ],
)
def test_a_job_is_read_as_it_was_written(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(job.to_text(), encoding="utf-8")
    assert read_job(path) == job


def test_a_job_is_one_line_of_json() -> None:
    text = Job(mode="try", target=target(candidate="two\nlines"), cases=(CaseFile(CASE),)).to_text()
    assert "\n" not in text
    assert json.loads(text)["cases"][0]["case"] == CASE.to_json()
