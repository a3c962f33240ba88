"""Command line: ``bitgate list``, ``bitgate check``, ``bitgate replay``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from harness import session
from harness.config import load_config
from harness.errors import BitgateError, HarnessError
from harness.report import json as json_report
from harness.report import junit, show
from harness.report.console import progress
from harness.report.listing import show_list
from harness.session import Options
from harness.verdict import ExitCode, Result, exit_code

EXIT_CODES: Final = (
    "Exit codes: 0 equal, 1 different, 2 usage or a candidate that cannot be loaded, 3 inconclusive or the harness "
    "failed, 130 interrupted."
)

app: Final = typer.Typer(
    name="bitgate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: nothing is cut off in a narrow terminal or in the log of a CI job.
    rich_markup_mode=None,
    help="Is this rewritten metadata helper, to the last bit, the function it replaces?",
    epilog=EXIT_CODES,
)


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
Workers = Annotated[int, typer.Option("-n", help="Candidates checked at the same time; 0: one per core.")]
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


@app.command("list", epilog=EXIT_CODES, short_help="Show contracts, candidates and this machine.")
def list_command(contract: ContractOption = None) -> None:
    """Show the contracts, their candidates, and what this machine can run and why not."""
    _guarded(lambda: show_list(Console(), load_config(Path.cwd()), only=contract))


@app.command(epilog=EXIT_CODES, short_help="Check candidates against their reference.")
def check(
    candidates: Candidates = None,
    contract: ContractOption = None,
    profile: ProfileOption = Profile.gate,
    observe: ObserveOption = Observe.strict,
    device: DeviceOption = Device.auto,
    seed: Seed = None,
    time_limit: TimeLimit = 3600.0,
    case_timeout: CaseTimeout = 10.0,
    memory_limit: MemoryLimit = "4G",
    workers: Workers = 0,
    stub: Stubs = None,
    json: JsonFile = None,
    junit_file: JunitFile = None,
) -> None:
    """Check candidates against the frozen reference of their contract, bit for bit.

    Saved cases are replayed, a bounded space is searched exhaustively, large batches are tried, and Hypothesis draws
    more. A failure is shrunk, saved under .bitgate/cases and shown with the command that runs it again.
    """

    def work() -> ExitCode:
        options = Options(
            contract=contract,
            profile=profile.value,
            observe=observe.value,
            device=device.value,
            seed=seed,
            time_limit=time_limit,
            case_timeout=case_timeout,
            memory_limit=memory_limit,
            workers=workers,
            stubs=tuple(stub or ()),
        )
        with progress() as bar:
            results = session.check(candidates or [], options, load_config(Path.cwd()), bar.update)
        return _report(results, json, junit_file)

    _guarded(work)


@app.command(epilog=EXIT_CODES)
def replay(
    cases: CaseFiles,
    candidate: ReplayedCandidates = None,
    contract: ContractOption = None,
    observe: ObserveOption = Observe.strict,
    device: DeviceOption = Device.auto,
    case_timeout: CaseTimeout = 10.0,
    memory_limit: MemoryLimit = "4G",
    workers: Workers = 0,
    stub: Stubs = None,
    json: JsonFile = None,
    junit_file: JunitFile = None,
) -> None:
    """Run saved cases again."""

    def work() -> ExitCode:
        options = Options(
            contract=contract,
            observe=observe.value,
            device=device.value,
            case_timeout=case_timeout,
            memory_limit=memory_limit,
            workers=workers,
            stubs=tuple(stub or ()),
        )
        with progress() as bar:
            results = session.replay(cases, candidate or [], options, load_config(Path.cwd()), bar.update)
        return _report(results, json, junit_file)

    _guarded(work)


def _report(results: list[Result], json_file: Path | None, junit_file: Path | None) -> ExitCode:
    functions = session.functions_of(results, load_config(Path.cwd()))
    try:
        # Files first: whoever reads our output may close it early.
        if json_file is not None:
            seed = next((result.seed for result in results), 0)
            json_report.write(json_file, results, seed=seed, environment=json_report.environment())
        if junit_file is not None:
            junit.write(junit_file, results, functions=functions)
    finally:
        show(results, Console(), functions=functions)
    return exit_code(results)


def _guarded(work: Callable[[], ExitCode | None]) -> None:
    """Run a verb; whatever goes wrong becomes one line and an exit code."""
    try:
        code = work() or ExitCode.EQUAL
    except BitgateError as error:
        code = ExitCode.INCONCLUSIVE if isinstance(error, HarnessError) else ExitCode.USAGE
        print(f"bitgate: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
        print("bitgate: interrupted; counterexamples found so far are in .bitgate/cases.", file=sys.stderr)
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has closed it (rich turns that into an exit); nothing more can be said, least of all
        # that all is well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.INCONCLUSIVE
    except Exception as error:
        if os.environ.get("BITGATE_TRACEBACK"):
            raise
        code = ExitCode.INCONCLUSIVE
        print(
            f"bitgate: the harness failed: {type(error).__name__}: {error}. Set BITGATE_TRACEBACK=1 to see where.",
            file=sys.stderr,
        )
    raise typer.Exit(int(code))


def main() -> None:
    """Entry point of the ``bitgate`` command."""
    app()


if __name__ == "__main__":
    main()
