"""Flags: the arguments and options that the verbs of the command line share."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer


class Profile(StrEnum):
    """How much a check does."""

    commit = "commit"
    gate = "gate"
    premerge = "premerge"
    nightly = "nightly"


class Observe(StrEnum):
    """Levels of observation."""

    strict = "strict"
    launch = "launch"


class Device(StrEnum):
    """Where the candidate runs."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


Candidates = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CANDIDATE",
        help="contract/name, package.module:function or path/to/file.py::function. None: every registered candidate.",
        show_default=False,
    ),
]
ContractOption = Annotated[
    str | None,
    typer.Option("--contract", help="The contract, where the function's name does not tell.", show_default=False),
]
ProfileOption = Annotated[Profile, typer.Option(help="How much is done before equal may be said.")]
ObserveOption = Annotated[
    Observe, typer.Option(help="strict: everything that is returned; launch: what the kernel launch reads.")
]
DeviceOption = Annotated[Device, typer.Option(help="Device of the check; auto takes CUDA where there is some.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Of the property search. Default: 0 in commit and gate, else a new one.", show_default=False),
]
TimeLimit = Annotated[float, typer.Option("--time-limit", metavar="SECONDS", help="Limit for the whole run.")]
CaseTimeout = Annotated[float, typer.Option("--case-timeout", metavar="SECONDS", help="Limit for one call.")]
MemoryLimit = Annotated[str, typer.Option("--memory-limit", metavar="SIZE", help="Limit for a candidate's process.")]
Workers = Annotated[int, typer.Option("-n", "--workers", help="Candidates checked at the same time; 0: one per core.")]
Stubs = Annotated[
    list[str] | None,
    typer.Option(
        "--stub",
        metavar="NAME=VALUE",
        help="Replace a name in the candidate's source tree; NAME()=VALUE is a function that returns VALUE.",
        show_default=False,
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.", show_default=False)
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the results as JUnit XML.", show_default=False)
]
CaseFiles = Annotated[list[Path], typer.Argument(metavar="CASE.json", help="Saved case files.", show_default=False)]
ReplayedCandidates = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate", help="Candidate to run them on, as for check. None: every registered one.", show_default=False
    ),
]
FuzzedCandidate = Annotated[str, typer.Argument(metavar="CANDIDATE", help="As for check.", show_default=False)]
Span = Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 90s, 10m, 8h.")]
Seeds = Annotated[int, typer.Option("-n", "--workers", help="Processes, each with a seed of its own; 0: one per core.")]
Contracts = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONTRACT]...", help="None: every contract with seeded faults.", show_default=False),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bitgate {version('bitgate')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")]
