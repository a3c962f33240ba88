"""Examine versions: a program that examines some functions of one file in its own process, on the CPU.

``python examine_versions.py CONTRACT FILE LIMIT FUNCTION...`` prints one line of JSON for each function: the symptom of
its first failure, or null; what was seen; and the number of cases. A check does more, in fresh processes, and makes the
case small; for interpreted kernels that takes ten times as long. ``LIMIT`` is the most cases of each block of the
contract's space for a commit; the blocks take turns, so that every kind of case comes early.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch

from harness.case import Case
from harness.contract import PROFILES, Contract
from harness.contracts import contract_named
from harness.examine import Subject, examine, examine_once
from harness.journal import Journal
from harness.load import load
from harness.load.spec import parse_spec
from harness.load.stubs import builtin_stubs
from harness.materialise import signature_of
from harness.observe import Function, claim_process
from harness.verdict import Finding

COMPLETELY: Final = 11
"""One in so many cases goes through the whole protocol; of the others, one call is judged."""


def main(name: str, file: str, limit: str, *functions: str) -> None:
    """Examine the functions one after the other."""
    # Before anything imports Triton.
    os.environ["TRITON_INTERPRET"] = "1"
    contract = contract_named(name)
    module, _, function = contract.reference.partition(":")
    reference = getattr(importlib.import_module(module), function)
    peer = _loaded(contract.peers[0], contract) if contract.peers else None
    cases = [*_in_turn(contract, int(limit)), *contract.scale(PROFILES[0])]
    claim_process()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.create(Path(folder, "journal"))
        for number, version in enumerate(functions):
            subject = Subject(
                contract=contract,
                reference=reference,
                candidate=_loaded(f"{file}::{version}", contract),
                signature=signature_of(reference),
                device=torch.device("cpu"),
                journal=journal,
                peer=peer,
            )
            print(json.dumps({"name": version} | _first_failure(subject, cases, number)), flush=True)
        journal.close()


def _first_failure(subject: Subject, cases: list[Case], number: int) -> dict[str, Any]:
    for index, case in enumerate(cases):
        judge = examine if (index + number) % COMPLETELY == 0 else examine_once
        found: Finding | None = judge(subject, case)
        if found is not None:
            return {"symptom": found.symptom.value, "seen": f"{found.step} {found.difference}", "cases": index + 1}
    return {"symptom": None, "seen": "", "cases": len(cases)}


def _in_turn(contract: Contract, limit: int) -> Iterator[Case]:
    blocks = contract.space(PROFILES[0]).blocks
    for position in range(min(limit, max(map(len, blocks)))):
        for block in blocks:
            if position < len(block):
                yield block[position]


def _loaded(text: str, contract: Contract) -> Function:
    spec = parse_spec(text, root=Path())
    return load(spec, function=contract.function, device="cpu", stubs=builtin_stubs()).function


if __name__ == "__main__":
    main(*sys.argv[1:])
