"""Listing: the contracts, their candidates, and what this machine can run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console

from harness.choice import choose, contracts_of
from harness.config import Config
from harness.contract import PROFILES, Contract
from harness.contracts import contract_named
from harness.errors import HarnessError
from harness.frozen import reference_file, verify
from harness.load.spec import registered_candidates
from harness.load.traits import EVERYWHERE
from harness.options import Options
from harness.report.page import emit
from harness.report.text import one_line
from harness.skip import Skip, shown_device, why_probe_skipped, why_skipped
from harness.supervise import Nursery
from harness.syntax import parse_source


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
    with Nursery() as nursery:
        devices = nursery.cuda_devices()
    for contract in contracts.values():
        _show_contract(console, contract)
        summaries = {f"{contract.name}/{entry.name}": entry.summary for entry in registered.get(contract.name, [])}
        own = [item for item in chosen if item.contract.name == contract.name]
        emit(console, f"  candidates  {len(own) or 'none'}")
        for item in own:
            emit(console, f"    {one_line(item.spec, 200)}")
            emit(console, f"      {one_line(summaries.get(item.spec, 'configured in pyproject.toml'), 200)}")
            traits = item.traits()
            _show_devices(console, contract.needs, partial(why_skipped, contract, traits, cuda=devices > 0))
        if contract.probes:
            emit(console, f"  probes      {len(contract.probes)}")
        for probe in contract.probes:
            emit(console, f"    {probe.name}")
            needs = (*contract.needs, *probe.needs)
            _show_devices(console, needs, partial(why_probe_skipped, contract, probe, cuda=devices > 0))
        emit(console, "")
    _show_machine(console, devices)


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
        tree = parse_source(reference_file(contract).read_text(encoding="utf-8"))
    except (HarnessError, OSError, SyntaxError, ValueError):
        return ""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == contract.function]
    return f"({ast.unparse(found[-1].args)})" if found else ""


def _show_devices(console: Console, needs: Sequence[str], why: Callable[[str], Skip | None]) -> None:
    """On which devices something runs here, and why not on the others."""
    skips = {device: why(device) for device in EVERYWHERE}
    runs = [_in_brackets(shown_device(device, needs)) for device, skip in skips.items() if skip is None]
    emit(console, f"      runs on     {', '.join(runs) or 'nothing here'}")
    for device, skip in skips.items():
        if skip is not None:
            # Where it is the machine that does not fit, there is nothing to do about it.
            text = str(skip) if skip.installable else f"skipped, because {skip.cause}"
            emit(console, f"      not on      {device}: {text}")


def _in_brackets(device: str) -> str:
    """``cpu, Triton's interpreter`` with the second part in brackets."""
    name, _, how = device.partition(", ")
    return f"{name} ({how})" if how else name


def _show_machine(console: Console, devices: int) -> None:
    emit(console, "this machine", "bold")
    emit(console, "  cpu         runs")
    word = (
        f"runs on {devices} device{'s' if devices > 1 else ''}"
        if devices
        else "skipped, because torch sees no CUDA device"
    )
    emit(console, f"  cuda        {word}")
