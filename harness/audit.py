"""Audit: how many seeded faults the search catches on its own, without any saved case."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.choice import Chosen, contracts_of
from harness.config import Config
from harness.contract import PROFILES, Contract
from harness.contracts import contract_named
from harness.errors import UsageError
from harness.options import Options
from harness.session import Progress, check_chosen, replay
from harness.supervise import Nursery
from harness.verdict import Result, Symptom, Verdict

FOLDER: Final = Path("tests", "faults")
"""Where a project keeps its seeded faults: one folder per contract."""
LIST: Final = "faults.toml"
"""The list of the faults in such a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One wrong version: where it is, the profile that must catch it, and the symptoms that say what is wrong."""

    name: str
    path: Path
    contract: Contract
    profile: str
    symptoms: frozenset[Symptom]
    rows: int | None = None
    """The most rows that its smallest case may have, where that is more than a few."""
    device: str | None = None
    """The device without which it does not show."""
    case: Path | None = None
    """A saved case that shows it, where that takes more memory than a search may use."""

    @property
    def spec(self) -> str:
        """The fault as a candidate."""
        return f"{self.path}::{self.name.partition('::')[2]}"


@dataclass(frozen=True, slots=True)
class Audited:
    """A fault and what the check of it said."""

    fault: Fault
    result: Result
    """Skipped where the machine has not the device that the fault needs."""

    @property
    def caught(self) -> bool:
        """Whether the check found the fault, and for what it is."""
        return self.result.verdict is Verdict.DIFFERENT and self.result.symptom in self.fault.symptoms


def listed_faults(contract: Contract, root: Path) -> list[Fault]:
    """The seeded faults of a contract, from ``tests/faults/CONTRACT/faults.toml`` below ``root``.

    Raises:
        UsageError: there is no such file, or an entry of it is malformed.
    """
    folder = root / FOLDER / contract.name
    try:
        entries = tomllib.loads((folder / LIST).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{folder / LIST}: {error.strerror}: an audit needs a list of seeded faults there.") from error
    except ValueError as error:
        raise UsageError(f"{folder / LIST}: not TOML: {error}. Correct it.") from error
    return [_fault(name, entry, contract, folder) for name, entry in entries.items()]


def audited_contracts(names: Sequence[str], config: Config) -> list[Contract]:
    """The contracts of these names; without names, every contract that has a list of seeded faults.

    Raises:
        UsageError: there is no such contract, or none with a list.
    """
    if names:
        return [contract_named(name, config.contracts) for name in names]
    listed = [c for c in contracts_of(config).values() if (config.root / FOLDER / c.name / LIST).is_file()]
    if not listed:
        raise UsageError(f"{config.root / FOLDER}: no contract has a list of seeded faults there: {LIST}.")
    return listed


def audit(
    contracts: Sequence[Contract],
    options: Options,
    config: Config,
    progress: Progress | None = None,
    *,
    only_device: str | None = None,
    nursery: Nursery | None = None,
) -> list[Audited]:
    """Check every seeded fault of the contracts, each under the profile that must catch it.

    ``only_device`` leaves out all but those that need that device.

    Saved cases are not replayed, and nothing is kept of what is found.

    Raises:
        UsageError: the list of a contract's faults is missing or malformed.
        HarnessError: the harness could not do its work.
    """
    faults = [fault for contract in contracts for fault in listed_faults(contract, config.root)]
    faults = [fault for fault in faults if only_device in (None, fault.device)]
    audited: list[Audited] = []
    with (
        tempfile.TemporaryDirectory(prefix="bitgate-audit-") as folder,
        nullcontext(nursery) if nursery else Nursery() as running,
    ):
        alone = replace(config, cases=())
        devices = ("cpu", "cuda") if running.cuda_devices() else ("cpu",)
        for profile in PROFILES:
            group = [fault for fault in faults if fault.profile == profile]
            shown = [fault for fault in group if fault.device is None or fault.device in devices]
            searched = [fault for fault in shown if fault.case is None]
            chosen = [Chosen(fault.spec, fault.contract, config.root) for fault in searched]
            given = replace(options, profile=profile, saved=Path(folder, profile), shrink_seconds=0.0)
            results = check_chosen(chosen, given, alone, progress, nursery=running)
            audited += map(Audited, searched, results)
            for fault in shown:
                if fault.case is not None:
                    named = replace(given, contract=fault.contract.name)
                    (result,) = replay([fault.case], [fault.spec], named, alone, nursery=running)
                    audited.append(Audited(fault, result))
            audited += [Audited(fault, _skipped(fault, options)) for fault in group if fault not in shown]
    return audited


def _skipped(fault: Fault, options: Options) -> Result:
    return Result(
        contract=fault.contract.name,
        candidate=fault.spec,
        observe=options.observe,
        device=str(fault.device),
        verdict=Verdict.INCONCLUSIVE,
        profile=fault.profile,
        reason=f"it shows on a {fault.device} device only: run the audit on a machine with one",
        skipped=True,
    )


def _fault(name: str, entry: Any, contract: Contract, folder: Path) -> Fault:
    where = f"{folder / LIST}: [{name}]"
    file, _, function = name.partition("::")
    if not function or not (folder / file).is_file():
        raise UsageError(f"{where}: names no function in a file of that folder: write FILE.py::function.")
    try:
        profile, symptoms = entry["profile"], frozenset(map(Symptom, entry["symptoms"]))
    except (TypeError, KeyError, ValueError) as error:
        raise UsageError(f"{where}: needs profile and symptoms: {error}.") from error
    if profile not in PROFILES:
        raise UsageError(f"{where}: profile {profile!r}: choose one of {', '.join(PROFILES)}.")
    rows, device = entry.get("rows"), entry.get("device")
    if device not in (None, "cpu", "cuda"):
        raise UsageError(f"{where}: device {device!r}: choose cpu or cuda, or leave it out.")
    case = folder / str(entry["case"]) if "case" in entry else None
    if case is not None and not case.is_file():
        raise UsageError(f"{where}: case {entry['case']!r}: there is no such file in that folder.")
    return Fault(
        name=name,
        path=folder / file,
        contract=contract,
        profile=profile,
        symptoms=symptoms,
        rows=rows,
        device=device,
        case=case,
    )
