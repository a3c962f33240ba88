"""Choice: the candidates that a user named, each with the contract it is checked against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config import Config
from harness.contract import Contract
from harness.contracts import all_contracts, contract_for_function, contract_named, importable_from
from harness.errors import UsageError
from harness.load.spec import check_defined, near, parse_spec, registered_candidates
from harness.load.stubs import stubs_from_config
from harness.load.traits import Traits, traits_of
from harness.options import Options
from harness.verdict import Result


@dataclass(frozen=True, slots=True)
class Chosen:
    """A candidate and the contract it is checked against."""

    spec: str
    contract: Contract
    root: Path
    """Folder that a relative path or an import path in ``spec`` starts from."""
    named: bool = True
    """Whether somebody asked for it by name: then a check that cannot run is inconclusive, and not skipped."""

    def traits(self) -> Traits:
        """What the candidate says of itself."""
        return traits_of(parse_spec(self.spec, root=self.root))


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
        Chosen(f"{contract}/{candidate.name}", contracts[contract], config.root, named=False)
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


def needs_of(results: Iterable[Result], config: Config) -> dict[str, tuple[str, ...]]:
    """The packages that every contract among the results needs."""
    return {r.contract: contract_named(r.contract, config.contracts).needs for r in results}


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
        check_defined(parsed)
        names = {name: other for other in contracts.values() for name in other.upstream_names}
        raise UsageError(
            f"{spec}: no contract is known for a function called {function!r}{near(function, names)}. If it is a "
            f"version of a function with a contract, add --contract, one of {', '.join(contracts)}."
        )
    return Chosen(spec, contract, root)


def check_observe(chosen: Iterable[Chosen], options: Options) -> None:
    """Check that every contract has the level of observation.

    Raises:
        UsageError: one has not.
    """
    for item in chosen:
        if options.observe == "launch" and item.contract.launch is None:
            raise UsageError(f"--observe launch: contract {item.contract.name} has no such level: use strict.")
