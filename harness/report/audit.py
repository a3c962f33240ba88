"""Audit report: which seeded faults were caught, under which profile, and which were missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from harness.audit import Audited
from harness.report.page import cause, emit


def show_audit(audited: Sequence[Audited], console: Console) -> None:
    """Print one line per profile and contract, and a line for every fault that was missed."""
    skipped = [item for item in audited if item.result.skipped]
    audited = [item for item in audited if not item.result.skipped]
    groups = Counter((item.fault.contract.name, item.fault.profile) for item in audited)
    caught = Counter((item.fault.contract.name, item.fault.profile) for item in audited if item.caught)
    for (contract, profile), count in groups.items():
        emit(console, f"{contract} ({profile}): {caught[contract, profile]} of {count} seeded faults caught")
    missed = [item for item in audited if not item.caught]
    for item in missed:
        wanted = " or ".join(sorted(symptom.value for symptom in item.fault.symptoms))
        emit(console, f"missed  {item.fault.spec}", "bold red")
        emit(console, f"        expected {wanted}; the check said {item.result.verdict.value}: {cause(item.result)}")
    for item in skipped:
        emit(console, f"skipped  {item.fault.name}: {item.result.reason}")
    emit(console, f"audit: {len(audited) - len(missed)} of {len(audited)} caught", "bold")
