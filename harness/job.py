"""Job: what the parent asks a child process to do, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from harness.case import CaseFile, case_from_json

JOB_FILE: Final = "job.json"
WORKING_FOLDER: Final = "work"
"""What lies in the scratch folder of one job."""

Mode: TypeAlias = Literal["search", "try"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The candidate under test and the way it is observed."""

    candidate: str
    """The candidate's specification, as the user wrote it."""
    contract: str
    observe: str = "strict"
    device: str = "cpu"
    root: str
    """Folder that relative paths and import paths of the candidate start from."""
    project: str = ""
    """Folder from which the modules of extra contracts can be imported, where there are some."""
    stubs: dict[str, Any] = field(default_factory=dict)
    """Replacements for names in the candidate's source tree, as in ``[tool.bitgate.stubs]``."""
    stub_arguments: tuple[str, ...] = ()
    """The same, as given with ``--stub``."""
    contract_modules: tuple[str, ...] = ()
    """Extra contracts as ``package.module:CONTRACT``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One order to a child process.

    ``search`` runs all searches of a profile until something is suspicious; ``try`` examines the listed cases in order
    until one fails. ``cases`` are what replay runs, or what is tried.
    """

    mode: Mode
    target: Target
    profile: str = "gate"
    seed: int = 0
    examples: int = 0
    seconds: float = 3600.0
    """Time left for the searches together."""
    database: str | None = None
    cases: tuple[CaseFile, ...] = ()
    symptom: str | None = None
    """What a trial must fail with to end the trials; None: anything."""
    search: str = ""
    """The search that a trial's failure was found by, and is to be seen by again; empty: all that there are."""
    settle: float = 0.0
    """Seconds to wait after every trial, for what a candidate sets off to happen before the next one."""
    token: str = ""
    """Must come back in every message, so that stray output is not taken for one."""

    def to_text(self) -> str:
        """The job as JSON."""
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        document["target"] = asdict(self.target)
        document["cases"] = [
            {"case": item.case.to_json(), "before": [case.to_json() for case in item.before]} for item in self.cases
        ]
        return json.dumps(document)


def read_job(path: Path) -> Job:
    """Read a job that the parent wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    target = document.pop("target")
    cases = tuple(
        CaseFile(case_from_json(item["case"]), tuple(case_from_json(case) for case in item["before"]))
        for item in document.pop("cases")
    )
    for name in ("stub_arguments", "contract_modules"):
        target[name] = tuple(target[name])
    return Job(target=Target(**target), cases=cases, **document)
