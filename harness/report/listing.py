"""Listing: the contracts, their candidates, and what this machine can run."""

from __future__ import annotations

import ast

from rich.console import Console

from harness.choice import choose, contracts_of
from harness.config import Config
from harness.contract import PROFILES, Contract
from harness.contracts import contract_named
from harness.errors import HarnessError
from harness.frozen import reference_file, verify
from harness.load.spec import RegisteredCandidate, registered_candidates
from harness.options import Options
from harness.report.page import emit
from harness.report.text import one_line
from harness.supervise import Nursery


def show_list(console: Console, config: Config, *, only: str | None = None) -> None:
    """Print every contract (or the one called ``only``), its candidates, and the machine.

    Raises:
        UsageError: there is no such contract, or a configured candidate is none.
    """
    contracts = contracts_of(config)
    if only is not None:
        contracts = {only: contract_named(only, config.contracts)}
    registered = registered_candidates()
    chosen = choose([], Options(), config)
    for contract in contracts.values():
        _show_contract(console, contract)
        named = [item.spec for item in chosen if item.contract.name == contract.name]
        _show_candidates(console, contract, registered.get(contract.name, []), named)
        emit(console, "")
    _show_machine(console)


def _show_contract(console: Console, contract: Contract) -> None:
    emit(console, contract.name, "bold")
    emit(console, f"  {contract.summary}")
    emit(console, f"  read by     {', '.join(contract.consumers)}")
    try:
        state = f"{verify(contract)}, as announced"
    except HarnessError as error:
        state = f"REFUSED: {error}"
    emit(console, f"  reference   {contract.reference}{_signature(contract)}")
    emit(console, f"  digest      {state}")
    emit(console, f"  observe     {'strict, launch' if contract.launch else 'strict'}")
    for profile in PROFILES:
        space = contract.space(profile)
        required = sum(stratum.required(profile) for stratum in contract.strata)
        emit(console, f"  {profile:<11} {required} strata required; exhaustive search of {len(space):,} cases:")
        for clause in space.description.split("; "):
            emit(console, f"                - {clause}")


def _signature(contract: Contract) -> str:
    """The parameters of a contract's reference, read from its file without importing it."""
    try:
        tree = ast.parse(reference_file(contract).read_text(encoding="utf-8"))
    except (HarnessError, OSError, SyntaxError, ValueError):
        return ""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == contract.function]
    return f"({ast.unparse(found[-1].args)})" if found else ""


def _show_candidates(
    console: Console, contract: Contract, registered: list[RegisteredCandidate], named: list[str]
) -> None:
    summaries = {f"{contract.name}/{candidate.name}": candidate.summary for candidate in registered}
    emit(console, f"  candidates  {len(named) or 'none'}")
    for name in named:
        emit(console, f"    {one_line(name, 200)}")
        emit(console, f"      {one_line(summaries.get(name, 'configured in pyproject.toml'), 200)}")


def _show_machine(console: Console) -> None:
    emit(console, "this machine", "bold")
    emit(console, "  cpu         runs")
    with Nursery() as nursery:
        devices = nursery.cuda_devices()
    word = (
        f"runs on {devices} device{'s' if devices > 1 else ''}"
        if devices
        else "skipped, because torch sees no CUDA device"
    )
    emit(console, f"  cuda        {word}")
