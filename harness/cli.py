"""Command line: one function per verb of ``bitgate``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console

from harness import session
from harness.audit import audit as run_audit
from harness.audit import audited_contracts
from harness.choice import functions_of, needs_of
from harness.config import Config, load_config
from harness.errors import BitgateError, HarnessError, UsageError
from harness.flags import (
    Candidates,
    CaseFiles,
    CaseTimeout,
    ContractOption,
    Contracts,
    Device,
    DeviceOption,
    FuzzedCandidate,
    JsonFile,
    JunitFile,
    MemoryLimit,
    Observe,
    ObserveOption,
    Profile,
    ProfileOption,
    ReplayedCandidates,
    Seed,
    Seeds,
    Span,
    Stubs,
    TimeLimit,
    Version,
    Workers,
)
from harness.options import Options, parse_span
from harness.report import json as json_report
from harness.report import junit, show
from harness.report.audit import show_audit
from harness.report.console import progress
from harness.report.listing import show_list
from harness.report.text import check_report_path
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
    epilog=EXIT_CODES,
)


@app.callback(epilog=EXIT_CODES)
def bitgate(version: Version = False) -> None:
    """Is this rewritten metadata helper, to the last bit, the function it replaces?"""


@app.command("list", epilog=EXIT_CODES, short_help="Show contracts, candidates and this machine.")
def list_command(contract: ContractOption = None) -> None:
    """Show the contracts, their candidates, and what this machine can run and why not."""
    _guarded(lambda: show_list(Console(), _config(), only=contract))


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

    _run(
        partial(session.check, candidates or []),
        lambda: _options(
            contract=contract,
            profile=profile,
            observe=observe,
            device=device,
            seed=seed,
            time_limit=time_limit,
            case_timeout=case_timeout,
            memory_limit=memory_limit,
            workers=workers,
            stubs=stub,
        ),
        json,
        junit_file,
    )


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

    _run(
        partial(session.replay, cases, candidate or []),
        lambda: _options(
            contract=contract,
            observe=observe,
            device=device,
            case_timeout=case_timeout,
            memory_limit=memory_limit,
            workers=workers,
            stubs=stub,
        ),
        json,
        junit_file,
    )


@app.command(epilog=EXIT_CODES, short_help="Search on with new seeds.")
def fuzz(
    candidate: FuzzedCandidate,
    span: Span = "10m",
    processes: Seeds = 0,
    contract: ContractOption = None,
    observe: ObserveOption = Observe.strict,
    device: DeviceOption = Device.auto,
    seed: Seed = None,
    case_timeout: CaseTimeout = 10.0,
    memory_limit: MemoryLimit = "4G",
    stub: Stubs = None,
    json: JsonFile = None,
    junit_file: JunitFile = None,
) -> None:
    """Check one candidate under the nightly profile, in several processes with a seed each, for as long as asked."""

    _run(
        partial(session.fuzz, candidate),
        lambda: _options(
            contract=contract,
            observe=observe,
            device=device,
            seed=seed,
            time_limit=parse_span(span),
            case_timeout=case_timeout,
            memory_limit=memory_limit,
            workers=processes,
            stubs=stub,
        ),
        json,
        junit_file,
    )


@app.command(
    short_help="Count the seeded faults that are caught.",
    epilog="Exit codes: 0 every fault is caught, 1 one is missed, 2 usage, 3 the harness failed.",
)
def audit(
    contracts: Contracts = None,
    case_timeout: CaseTimeout = 2.0,
    memory_limit: MemoryLimit = "1G",
    workers: Workers = 0,
) -> None:
    """Show how many seeded faults, those under tests/faults, the search catches without any saved case."""

    def work() -> ExitCode:
        options = Options(case_timeout=case_timeout, memory_limit=memory_limit, workers=workers)
        config = _config()
        chosen = audited_contracts(contracts or [], config)
        with progress() as bar:
            audited = run_audit(chosen, options, config, bar.update)
        show_audit(audited, Console())
        return ExitCode.EQUAL if all(item.caught or item.result.skipped for item in audited) else ExitCode.DIFFERENT

    _guarded(work)


def _options(*, stubs: list[str] | None, **given: Any) -> Options:
    """The options of a verb, with the words of the command line's enumerations as plain text."""
    plain = {name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
    return Options(stubs=tuple(stubs or ()), **plain)


def _run(
    verb: Callable[[Options, Config, session.Progress], list[Result]],
    options: Callable[[], Options],
    json_file: Path | None,
    junit_file: Path | None,
) -> None:
    """Carry out a verb that checks candidates, and report what came of it."""

    def work() -> ExitCode:
        chosen, config = options(), _config()
        _check_reports(json_file, junit_file)
        with progress() as bar:
            results = verb(chosen, config, bar.update)
        return _report(results, config, json_file, junit_file)

    _guarded(work)


def _config() -> Config:
    """The configuration of the project that the working folder is in."""
    try:
        here = Path.cwd()
    except OSError as error:
        raise UsageError(f"the working folder: {error.strerror}. Change to one that exists.") from error
    return load_config(here)


def _check_reports(json_file: Path | None, junit_file: Path | None) -> None:
    """Check where reports go before anything runs: a run may take hours."""
    for option, path in (("--json", json_file), ("--junit", junit_file)):
        if path is not None:
            try:
                check_report_path(path)
            except UsageError as error:
                raise UsageError(f"{option} {error}") from error


def _report(results: list[Result], config: Config, json_file: Path | None, junit_file: Path | None) -> ExitCode:
    functions, needs = functions_of(results, config), needs_of(results, config)
    try:
        # Files first: whoever reads our output may close it early.
        if json_file is not None:
            seed = next((result.seed for result in results if not result.skipped), 0)
            json_report.write(json_file, results, seed=seed, environment=json_report.environment())
        if junit_file is not None:
            junit.write(junit_file, results, functions=functions, needs=needs)
    finally:
        show(results, Console(), functions=functions, needs=needs)
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
