"""Seeded faults must be caught with the right symptom and a small case; correct versions must not be accused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from harness.api import check
from harness.audit import Fault, listed_faults
from harness.case import Case, TensorValue, read_case_file
from harness.contracts import contract_named
from harness.supervise import Nursery
from harness.verdict import Symptom, Verdict

CONTRACT: Final = "causal_conv1d_metadata"
FAULTS: Final = Path(__file__).parent / "faults" / CONTRACT
SEEDED: Final = listed_faults(contract_named(CONTRACT), Path(__file__).parents[1])
CORRECT: Final = Path(__file__).parent / "correct" / f"{CONTRACT}.py"
POSITIONAL, KEYWORD_ONLY = ["query_start_loc_p_cpu"], ["device"]
SMALL: Final = 4
"""The most rows that the case of a fault may have, unless the fault says otherwise."""


def versions(path: Path) -> Iterator[str]:
    """Names of the functions in a file that have the contract's signature."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            positional = [argument.arg for argument in node.args.args]
            keyword_only = [argument.arg for argument in node.args.kwonlyargs]
            if (positional, keyword_only) == (POSITIONAL, KEYWORD_ONLY):
                yield node.name


def rows_of(case: Case) -> int:
    """Rows of a case's batch."""
    value = case.arguments[POSITIONAL[0]]
    assert isinstance(value, TensorValue)
    return len(value.data) - 1


def test_every_fault_in_the_folder_is_listed_and_no_other() -> None:
    found = {f"{path.name}::{name}" for path in FAULTS.glob("*.py") for name in versions(path)}
    assert {fault.name for fault in SEEDED} == found


def test_there_are_enough_faults_of_every_kind_to_trust_the_search() -> None:
    faults = SEEDED
    assert len(faults) >= 40
    assert frozenset().union(*(fault.symptoms for fault in faults)) == frozenset(Symptom)
    assert {fault.profile for fault in faults} == {"commit", "gate"}


def test_there_are_enough_correct_versions_to_trust_an_accusation() -> None:
    assert len(list(versions(CORRECT))) >= 10


@pytest.mark.parametrize("fault", SEEDED, ids=lambda fault: fault.name)
def test_fault_is_caught_with_its_symptom_and_a_small_case(fault: Fault, tmp_path: Path, nursery: Nursery) -> None:
    result = check(
        fault.spec,
        contract=CONTRACT,
        profile=fault.profile,
        case_timeout=1.0 if Symptom.HUNG in fault.symptoms else 10.0,
        memory_limit="1G" if Symptom.OUT_OF_MEMORY in fault.symptoms else "4G",
        cases_dir=tmp_path,
        nursery=nursery,
    )

    assert result.verdict is Verdict.DIFFERENT, result.reason or result.output
    assert result.finding is not None
    assert result.finding.symptom in fault.symptoms, result.finding
    assert result.case_file is not None
    assert result.case_file.is_relative_to(tmp_path)
    saved = read_case_file(result.case_file)
    assert saved.case == result.finding.case
    assert max(map(rows_of, (saved.case, *saved.before))) <= (fault.rows or SMALL), result.finding


@pytest.mark.parametrize("name", list(versions(CORRECT)))
def test_correct_version_is_not_accused(name: str, tmp_path: Path, nursery: Nursery) -> None:
    result = check(f"{CORRECT}::{name}", contract=CONTRACT, profile="commit", cases_dir=tmp_path, nursery=nursery)

    assert result.verdict is Verdict.EQUAL, result.finding or result.reason
    assert result.finding is None
    assert list(tmp_path.iterdir()) == []
