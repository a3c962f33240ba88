"""Seeded faults must be caught with the right symptom and a small case; correct versions must not be accused."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from harness import shrink
from harness.api import check
from harness.audit import Fault, listed_faults
from harness.case import Case, TensorValue, read_case_file
from harness.config import load_config
from harness.contracts import contract_named
from harness.materialise import Signature, signature_of
from harness.options import Options
from harness.session import replay
from harness.supervise import Nursery
from harness.verdict import Symptom, Verdict

HERE: Final = Path(__file__).parent
TABLES, KERNEL = "causal_conv1d_metadata", "causal_conv1d_prefill"
CONTRACTS: Final = {name: contract_named(name) for name in (TABLES, KERNEL)}
SEEDED: Final = {name: listed_faults(contract, HERE.parent) for name, contract in CONTRACTS.items()}
CORRECT: Final = {name: HERE / "correct" / f"{name}.py" for name in CONTRACTS}
LENGTHS: Final = {TABLES: "query_start_loc_p_cpu", KERNEL: "query_start_loc"}
"""The argument of each contract that holds the cumulative lengths of a batch's rows."""
SMALL: Final = 4
"""The most rows that the case of a fault may have, unless the fault says otherwise."""
IN_A_CHECK: Final = (
    "taps.py::weights_reversed",
    "state_written.py::short_row_off_by_one",
    "memory.py::no_mask_on_tokens",
    "outputs.py::output_buffer_kept",
    "rows.py::empty_batch_refused",
)
"""Kernels that are also checked in full, one for each symptom. Making an interpreted case small takes long."""
FULLY_CHECKED: Final = [
    *SEEDED[TABLES],
    *(fault for fault in SEEDED[KERNEL] if fault.name in IN_A_CHECK),
]
FAR: Final = [fault for fault in SEEDED[KERNEL] if fault.case is not None]
"""Kernels that go wrong past 2**31 elements, each with a case that shows it."""
EXAMINED: Final = {
    file: [fault for fault in SEEDED[KERNEL] if fault.path == file and fault.device is None]
    for file in dict.fromkeys(fault.path for fault in SEEDED[KERNEL])
}
"""The other kernels, by file."""


def reference_signature(contract: str) -> Signature:
    """The parameters of a contract's function."""
    module, _, function = CONTRACTS[contract].reference.partition(":")
    return signature_of(getattr(importlib.import_module(module), function))


def versions(path: Path, contract: str) -> Iterator[str]:
    """Names of the functions in a file that have the contract's signature, or are given it by ``@version``."""
    signature = reference_signature(contract)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            keyword_only = [argument.arg for argument in node.args.kwonlyargs]
            names = (*(argument.arg for argument in node.args.args), *keyword_only)
            made = any(isinstance(item, ast.Name) and item.id == "version" for item in node.decorator_list)
            if made or (names == signature.names and signature.keyword_only == set(keyword_only)):
                yield node.name


def rows_of(case: Case) -> int:
    """Rows of a case's batch."""
    value = case.arguments[LENGTHS[case.contract]]
    assert isinstance(value, TensorValue)
    return len(value.data) - 1


def examined(file: Path, functions: Sequence[str], *, limit: int) -> dict[str, dict[str, Any]]:
    """What ``examine_versions.py`` says of each of these kernels, in one process for all of them."""
    command = [sys.executable, "-P", str(HERE / "examine_versions.py"), KERNEL, str(file), str(limit), *functions]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    results = {result["name"]: result for result in map(json.loads, ended.stdout.splitlines())}
    assert ended.returncode == 0, f"it ended after {list(results)}: {ended.stderr[-2000:]}"
    assert list(results) == list(functions)
    return results


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_fault_in_the_folder_is_listed_and_no_other(contract: str) -> None:
    folder = HERE / "faults" / contract
    found = {f"{path.name}::{name}" for path in folder.glob("*.py") for name in versions(path, contract)}
    assert {fault.name for fault in SEEDED[contract]} == found


def test_there_are_enough_faults_of_every_kind_to_trust_the_search() -> None:
    faults = SEEDED[TABLES]
    assert len(faults) >= 40
    # PyTorch, which writes these tables, stays inside of them.
    wanted = frozenset(Symptom) - {Symptom.OUT_OF_BOUNDS}
    assert frozenset().union(*(fault.symptoms for fault in faults)) == wanted
    assert {fault.profile for fault in faults} == {"commit", "gate"}


def test_there_are_enough_faulty_kernels_to_trust_the_search() -> None:
    faults = [fault for fault in SEEDED[KERNEL] if fault.device is None]
    assert len(faults) >= 60
    wanted = {Symptom.DIFFERENT, Symptom.MUTATED_INPUT, Symptom.OUT_OF_BOUNDS, Symptom.RAISED, Symptom.REUSED_OUTPUT}
    assert frozenset().union(*(fault.symptoms for fault in faults)) >= wanted
    assert {fault.profile for fault in faults} == {"commit"}
    assert {fault.name for fault in faults} >= set(IN_A_CHECK)


@pytest.mark.parametrize(("contract", "enough"), [(TABLES, 10), (KERNEL, 6)])
def test_there_are_enough_correct_versions_to_trust_an_accusation(contract: str, enough: int) -> None:
    assert len(list(versions(CORRECT[contract], contract))) >= enough


@pytest.mark.parametrize("fault", FULLY_CHECKED, ids=lambda fault: fault.name)
def test_fault_is_caught_with_its_symptom_and_a_small_case(
    fault: Fault, tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault.device == "cuda" and not nursery.cuda_devices():
        pytest.skip("it shows on a CUDA device only")
    of_a_kernel = fault.contract.name == KERNEL
    if of_a_kernel:
        monkeypatch.setattr(shrink, "BUDGET", 1.0)
    result = check(
        fault.spec,
        contract=fault.contract.name,
        profile=fault.profile,
        device="cpu" if of_a_kernel and fault.device is None else "auto",
        case_timeout=1.0 if Symptom.HUNG in fault.symptoms else 10.0,
        memory_limit="1G" if Symptom.OUT_OF_MEMORY in fault.symptoms else "4G",
        cases_dir=tmp_path,
        # No case that was saved in this project is larger than the search's first ones.
        start=tmp_path if of_a_kernel else None,
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


@pytest.mark.parametrize("fault", FAR, ids=lambda fault: fault.name)
def test_overflow_is_caught_where_there_is_memory_for_it(fault: Fault, tmp_path: Path, nursery: Nursery) -> None:
    if not nursery.cuda_devices():
        pytest.skip("offsets past 2**31 elements take a GPU's memory")
    assert fault.case is not None
    kernels = [fault.spec, f"{KERNEL}/tile_of_tokens", f"{KERNEL}/rolling_taps", f"{KERNEL}/programmatic_launch"]
    options = Options(contract=KERNEL, device="cuda", memory_limit="24G", case_timeout=60.0, workers=1)
    wrong, *right = replay([fault.case], kernels, options, load_config(tmp_path), nursery=nursery)
    assert wrong.symptom in fault.symptoms, wrong
    assert [result.verdict for result in right] == [Verdict.EQUAL] * 3, right


@pytest.mark.parametrize("file", EXAMINED, ids=lambda file: file.name)
def test_faulty_kernels_are_caught_with_their_symptoms(file: Path) -> None:
    faults = {fault.name.partition("::")[2]: fault for fault in EXAMINED[file]}
    results = examined(file, list(faults), limit=100)
    missed = [results[name] for name, fault in faults.items() if results[name]["symptom"] not in fault.symptoms]
    assert missed == []


@pytest.mark.parametrize("name", list(versions(CORRECT[TABLES], TABLES)))
def test_correct_version_is_not_accused(name: str, tmp_path: Path, nursery: Nursery) -> None:
    result = check(f"{CORRECT[TABLES]}::{name}", contract=TABLES, profile="commit", cases_dir=tmp_path, nursery=nursery)

    assert result.verdict is Verdict.EQUAL, result.finding or result.reason
    assert result.finding is None
    assert list(tmp_path.iterdir()) == []


def test_correct_kernels_are_not_accused() -> None:
    results = examined(CORRECT[KERNEL], list(versions(CORRECT[KERNEL], KERNEL)), limit=12)
    assert [result for result in results.values() if result["symptom"] is not None] == []
    assert min(result["cases"] for result in results.values()) >= 40
