"""Session: one run over several candidates, from what the user asked for to a list of results."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from harness.case import CaseFile, read_case_file
from harness.checker import Plan, check_candidate
from harness.choice import Chosen, check_observe, choose, contracts_of
from harness.config import Config
from harness.contract import Contract
from harness.errors import HarnessError, UsageError
from harness.job import Target
from harness.options import Options
from harness.replay import replay_candidate
from harness.search.profile import profile_named
from harness.skip import why_skipped
from harness.supervise import Nursery
from harness.verdict import Result, Verdict

Progress: TypeAlias = Callable[[str, str, int, int | None], None]
"""Called with the candidate, what is running, cases done, cases to come (None: unknown)."""


def check(
    specs: Sequence[str],
    options: Options,
    config: Config,
    progress: Progress | None = None,
    *,
    nursery: Nursery | None = None,
) -> list[Result]:
    """Check candidates (none given: every registered and configured one) and return one result each, in order.

    A registered candidate that was not given and cannot run here is skipped; one that was given is inconclusive.

    ``nursery`` is a running one to use, for callers who check again and again; an interrupt closes it.

    Raises:
        UsageError: a spec, an option or a saved case is wrong; nothing was run.
        HarnessError: the nursery does not start.
    """
    return check_chosen(choose(specs, options, config), options, config, progress, nursery=nursery)


def check_chosen(
    chosen: Sequence[Chosen],
    options: Options,
    config: Config,
    progress: Progress | None = None,
    *,
    nursery: Nursery | None = None,
) -> list[Result]:
    """What :func:`check` does, for candidates that :func:`choose` has resolved."""
    profile = profile_named(options.profile)
    seed = options.seed if options.seed is not None else 0 if profile.deterministic else _new_seed()
    return _check(chosen, [seed] * len(chosen), options, config, progress, nursery)


def fuzz(
    spec: str,
    options: Options,
    config: Config,
    progress: Progress | None = None,
    *,
    nursery: Nursery | None = None,
) -> list[Result]:
    """Check one candidate under ``nightly`` in several processes at once, each with a seed of its own.

    Every process goes on drawing cases until ``options.time_limit`` or a failure, which is shrunk and saved.

    Raises:
        UsageError: the spec or an option is wrong; nothing was run.
        HarnessError: the nursery does not start.
    """
    given = replace(options, profile="nightly")
    workers = options.workers or os.cpu_count() or 1
    first = _new_seed() if options.seed is None else options.seed
    chosen = choose([spec], given, config) * workers
    return _check(chosen, range(first, first + workers), given, config, progress, nursery)


def _check(
    chosen: Sequence[Chosen],
    seeds: Sequence[int],
    options: Options,
    config: Config,
    progress: Progress | None,
    nursery: Nursery | None,
) -> list[Result]:
    profile = profile_named(options.profile)
    limits, deadline = options.limits(), time.monotonic() + options.time_limit
    check_observe(chosen, options)
    saved = options.saved or config.saved_cases
    replayed = tuple(_saved_cases([*config.cases, saved], {item.contract.name: item.contract for item in chosen}))

    def one(nursery: Nursery, number: int, item: Chosen, device: str) -> Result:
        plan = Plan(
            profile=profile,
            seed=seeds[number],
            deadline=deadline,
            limits=limits,
            shrink_seconds=options.shrink_seconds,
            replayed=replayed,
            saved=saved,
            database=None if profile.deterministic else config.root / ".bitgate" / "hypothesis",
        )
        target = _target(item, options, config, device)
        return check_candidate(nursery, item.contract, target, plan, _reporter(progress, item))

    return _in_parallel(chosen, options, one, profile.name, nursery)


def replay(
    paths: Sequence[Path],
    specs: Sequence[str],
    options: Options,
    config: Config,
    progress: Progress | None = None,
    *,
    nursery: Nursery | None = None,
) -> list[Result]:
    """Run saved cases again on candidates (none given: every registered one of the cases' contracts).

    Raises:
        UsageError: a path is no case file, or no candidate belongs to a case's contract.
        HarnessError: the nursery does not start.
    """
    if not paths:
        raise UsageError("replay needs at least one case file: bitgate replay CASE.json")
    listed = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not listed:
        raise UsageError(f"{paths[0]}: holds no case file: a case file is called NAME.json.")
    files = [(path, read_case_file(path)) for path in listed]
    known = contracts_of(config)
    for path, file in files:
        if file.case.contract not in known:
            raise UsageError(f"{path}: no contract is named {file.case.contract!r}: use one of {', '.join(known)}.")
        _check_file(path, file, known[file.case.contract])
    contracts = list(dict.fromkeys(file.case.contract for _, file in files))
    given = replace(options, contract=options.contract or (contracts[0] if len(contracts) == 1 else None))
    chosen = [item for item in choose(specs, given, config) if item.contract.name in contracts]
    if not chosen:
        raise UsageError(f"no candidate of {', '.join(contracts)} to replay on: name one with --candidate.")
    check_observe(chosen, options)
    limits = options.limits()

    def one(nursery: Nursery, _: int, item: Chosen, device: str) -> Result:
        own = [(path, file) for path, file in files if file.case.contract == item.contract.name]
        target = _target(item, options, config, device)
        return replay_candidate(nursery, item.contract, target, own, limits)

    return _in_parallel(chosen, options, one, "replay", nursery)


def _in_parallel(
    chosen: Sequence[Chosen],
    options: Options,
    one: Callable[[Nursery, int, Chosen, str], Result],
    profile: str,
    running: Nursery | None,
) -> list[Result]:
    """Run ``one`` for every candidate, several at a time."""
    if not chosen:
        return []
    workers = min(options.workers or os.cpu_count() or 1, len(chosen))
    with nullcontext(running) if running else Nursery() as nursery, ThreadPoolExecutor(workers) as pool:
        cuda = nursery.cuda_devices() > 0
        device = {"auto": "cuda" if cuda else "cpu"}.get(options.device, options.device)

        def outcome(number: int, item: Chosen) -> Result:
            skip = why_skipped(item.contract, item.traits(), device, cuda=cuda)
            if skip is not None:
                return replace(_unchecked(item, options, profile, device, str(skip)), skipped=not item.named)
            try:
                return one(nursery, number, item, device)
            except HarnessError as error:
                # What is known of the other candidates is worth hearing.
                return _unchecked(item, options, profile, device, f"the harness failed: {error}")

        futures = [pool.submit(outcome, number, item) for number, item in enumerate(chosen)]
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            for future in futures:
                future.cancel()
            if not isinstance(error, Exception):
                nursery.close()
            raise


def _unchecked(item: Chosen, options: Options, profile: str, device: str, reason: str) -> Result:
    return Result(
        contract=item.contract.name,
        candidate=item.spec,
        observe=options.observe,
        device=device,
        verdict=Verdict.INCONCLUSIVE,
        profile=profile,
        reason=reason,
    )


def _new_seed() -> int:
    return secrets.randbelow(1 << 32)


def _target(item: Chosen, options: Options, config: Config, device: str) -> Target:
    return Target(
        candidate=item.spec,
        contract=item.contract.name,
        observe=options.observe,
        device=device,
        root=str(item.root),
        project=str(config.root) if config.contracts else "",
        stubs=dict(config.stubs),
        stub_arguments=options.stubs,
        contract_modules=config.contracts,
    )


def _reporter(progress: Progress | None, item: Chosen) -> Callable[[str, int, int | None], None] | None:
    if progress is None:
        return None
    return lambda stage, done, total: progress(item.spec, stage, done, total)


def _saved_cases(folders: Iterable[Path], contracts: Mapping[str, Contract]) -> Iterable[CaseFile]:
    """Every case file of these contracts in the folders, in a fixed order, each case once."""
    seen: set[str] = set()
    for folder in folders:
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            file = read_case_file(path)
            if file.name not in seen and file.case.contract in contracts:
                _check_file(path, file, contracts[file.case.contract])
                seen.add(file.name)
                yield file


def _check_file(path: Path, file: CaseFile, contract: Contract) -> None:
    try:
        for case in (*file.before, file.case):
            contract.check_case(case)
    except UsageError as error:
        raise UsageError(f"{path}: {error} Correct the file or remove it.") from error
