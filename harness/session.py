"""Session: one run over several candidates, from what the user asked for to a list of results."""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from harness.case import CaseFile, read_case_file
from harness.checker import Plan, check_candidate
from harness.config import Config
from harness.contract import Contract
from harness.contracts import all_contracts, contract_for_function, contract_named, importable_from
from harness.errors import HarnessError, UsageError
from harness.job import Target
from harness.load.spec import parse_spec, registered_candidates
from harness.load.stubs import parse_stub, stubs_from_config
from harness.replay import replay_candidate
from harness.search.profile import profile_named
from harness.supervise import Nursery
from harness.verdict import Result, Verdict
from harness.watch import Limits

Observe: TypeAlias = Literal["strict", "launch"]
Device: TypeAlias = Literal["cpu", "cuda", "auto"]
OBSERVE: Final[tuple[str, ...]] = get_args(Observe)
DEVICES: Final[tuple[str, ...]] = get_args(Device)
Progress: TypeAlias = Callable[[str, str, int, int | None], None]
"""Called with the candidate, what is running, cases done, cases to come (None: unknown)."""

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_UNITS: Final = MappingProxyType({"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user can choose; the command line's common flags.

    Raises:
        UsageError: a value is none of those there are, or is not a positive amount.
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
        if self.workers < 0:
            raise UsageError(f"-n {self.workers}: must be 0 (one per core) or more.")
        parse_size(self.memory_limit)
        for stub in self.stubs:
            parse_stub(stub)

    def limits(self) -> Limits:
        """The limits of one child."""
        return Limits(case_seconds=self.case_timeout, memory_bytes=parse_size(self.memory_limit))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate and the contract it is checked against."""

    spec: str
    contract: Contract
    root: Path
    """Folder that a relative path or an import path in ``spec`` starts from."""


def check(
    specs: Sequence[str],
    options: Options,
    config: Config,
    progress: Progress | None = None,
    *,
    nursery: Nursery | None = None,
) -> list[Result]:
    """Check candidates (none given: every registered and configured one) and return one result each, in order.

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
    limits, deadline = options.limits(), time.monotonic() + options.time_limit
    seed = options.seed if options.seed is not None else 0 if profile.deterministic else secrets.randbelow(1 << 32)
    _check_observe(chosen, options)
    saved = options.saved or config.saved_cases
    replayed = tuple(_saved_cases([*config.cases, saved], {item.contract.name: item.contract for item in chosen}))

    def one(nursery: Nursery, item: Chosen, device: str) -> Result:
        plan = Plan(
            profile=profile,
            seed=seed,
            deadline=deadline,
            limits=limits,
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
    files = [(path, read_case_file(path)) for path in paths]
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
    _check_observe(chosen, options)
    limits = options.limits()

    def one(nursery: Nursery, item: Chosen, device: str) -> Result:
        own = [(path, file) for path, file in files if file.case.contract == item.contract.name]
        target = _target(item, options, config, device)
        return replay_candidate(nursery, item.contract, target, own, limits)

    return _in_parallel(chosen, options, one, "replay", nursery)


def choose(specs: Sequence[str], options: Options, config: Config) -> list[Chosen]:
    """Resolve what the user named to candidates with their contracts.

    Raises:
        UsageError: a spec or a configured stub is malformed, or no contract is known for a spec.
    """
    stubs_from_config(config.stubs)
    contracts = contracts_of(config)
    only = None if options.contract is None else contract_named(options.contract, config.contracts)
    if specs:
        return [_choose_one(spec, only, config, Path.cwd()) for spec in specs]
    chosen = [
        Chosen(f"{contract}/{candidate.name}", contracts[contract], config.root)
        for contract, candidates in registered_candidates().items()
        if contract in contracts
        for candidate in candidates
    ]
    for spec, name in config.candidates:
        named = None if name is None else contract_named(name, config.contracts)
        chosen.append(_choose_one(spec, named, config, config.root))
    return [item for item in chosen if only is None or item.contract.name == only.name]


def contracts_of(config: Config) -> dict[str, Contract]:
    """Every contract by name, those of the project among them.

    Raises:
        UsageError: one of the project's contracts cannot be imported, is none, or has a name that is taken.
    """
    if config.contracts:
        importable_from(str(config.root))
    return all_contracts(config.contracts)


def functions_of(results: Iterable[Result], config: Config) -> dict[str, str]:
    """The reference's function name of every contract among the results."""
    return {r.contract: contract_named(r.contract, config.contracts).function for r in results}


def parse_size(text: str) -> int:
    """Bytes from ``4G``, ``512M``, ``1.5GiB``.

    Raises:
        UsageError: it is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0 if match is None else int(float(match[1]) * _UNITS[match[2].upper()])
    if size <= 0:
        raise UsageError(f"--memory-limit {text!r}: not a size: write for example 4G or 512M.")
    return size


def _choose_one(spec: str, only: Contract | None, config: Config, root: Path) -> Chosen:
    contracts = contracts_of(config)
    parsed = parse_spec(spec, root=root)
    if parsed.kind == "registered":
        name = parsed.location.split("/")[0]
        if name not in contracts:
            raise UsageError(f"{spec}: there is no contract {name!r}: use one of {', '.join(contracts)}.")
        if only is not None and only.name != name:
            raise UsageError(f"{spec}: belongs to contract {name}, not to {only.name}: leave out --contract.")
        return Chosen(spec, contracts[name], root)
    function = parsed.qualname.rpartition(".")[2]
    contract = only or contract_for_function(function, config.contracts)
    if contract is None:
        known = ", ".join(contracts)
        raise UsageError(
            f"{spec}: no contract is known for a function called {function!r}: add --contract, one of {known}."
        )
    return Chosen(spec, contract, root)


def _check_observe(chosen: Iterable[Chosen], options: Options) -> None:
    for item in chosen:
        if options.observe == "launch" and item.contract.launch is None:
            raise UsageError(f"--observe launch: contract {item.contract.name} has no such level: use strict.")


def _in_parallel(
    chosen: Sequence[Chosen],
    options: Options,
    one: Callable[[Nursery, Chosen, str], Result],
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
        if device == "cuda" and not cuda:
            reason = "skipped, because torch sees no CUDA device on this machine. Use --device cpu, or another machine."
            return [_unchecked(item, options, profile, device, reason) for item in chosen]

        def outcome(item: Chosen) -> Result:
            try:
                return one(nursery, item, device)
            except HarnessError as error:
                # What is known of the other candidates is worth hearing.
                return _unchecked(item, options, profile, device, f"the harness failed: {error}")

        futures = [pool.submit(outcome, item) for item in chosen]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
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


def _reporter(progress: Progress | None, item: Chosen) -> Callable[[str, int, int], None] | None:
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
