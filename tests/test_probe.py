"""A probe sees what a kernel makes of a value: late tables, wrong ones, and those that send it out of bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from harness.case import Case, TensorValue
from harness.contract import Contract, Probe, Stratum
from harness.errors import HarnessError
from harness.examine import Subject
from harness.probe import examine_probe, search_probes, why_not
from harness.verdict import Finding, Symptom

SIZE = 8


def case_of(*places: int) -> Case:
    return Case("toy", {"places": TensorValue("int64", places)})


CASES = (case_of(1, 3, 5), case_of(0), case_of(7, 2))


def reference(places: torch.Tensor) -> torch.Tensor:
    """The places themselves: where a kernel is to write."""
    return torch.tensor(places.tolist())


def prepare(case: Case, device: torch.device) -> Callable[[Any], dict[str, torch.Tensor]]:
    """A kernel that writes 1.0 wherever a table says, and looks at nothing but that table."""
    marks = torch.zeros(SIZE, device=device)

    def consume(table: torch.Tensor) -> dict[str, torch.Tensor]:
        for place in table.tolist():
            marks.as_strided((1,), (1,), marks.storage_offset() + place).fill_(1.0)
        return {"marks": marks}

    return consume


PROBE = Probe(name="marker", cases=lambda profile, compiled: CASES, fits=lambda case, compiled: True, prepare=prepare)


@pytest.fixture
def probed(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]) -> Callable[..., Subject]:
    """The subject of a candidate of a contract with the probe."""

    def make(candidate: Callable[..., Any], *probes: Probe, strata: Sequence[Stratum] = ()) -> Subject:
        contract = replace(contract_of(strata=tuple(strata)), probes=probes or (PROBE,))
        return subject_of(contract, reference, candidate)

    return make


def search(subject: Subject, **given: Any) -> tuple[int, dict[str, int], list[Finding]]:
    options: dict[str, Any] = {"done": 0, "changed": lambda: None, "deadline": time.monotonic() + 60} | given
    stage, strata, found = search_probes(subject, "commit", **options)
    assert stage.search == "probe"
    return stage.cases, strata, found


def test_a_right_candidate_is_launched_on_every_case_and_not_accused(probed: Callable[..., Subject]) -> None:
    strata = [Stratum("several", lambda block: np.array([block.integers("places").shape[1] > 1]))]
    assert search(probed(reference, strata=strata)) == (3, {"several": 2}, [])


def test_a_wrong_table_is_different_and_the_message_says_what_the_kernel_does_with_it(
    probed: Callable[..., Subject],
) -> None:
    executed, _, (finding,) = search(probed(lambda places: torch.where(places == 0, 4, places)))
    assert executed == 2
    assert finding.symptom is Symptom.DIFFERENT
    assert finding.case == CASES[1]
    assert finding.difference is not None
    assert finding.difference.path == ""
    assert finding.message == "launched with this, the kernel changes 2 of 8 elements of marks"
    assert "marker" in finding.step


@pytest.mark.parametrize("place", [SIZE, SIZE + 900, -1])
def test_a_table_that_leads_outside_is_out_of_bounds(probed: Callable[..., Subject], place: int) -> None:
    finding = examine_probe(probed(lambda places: torch.where(places == 3, place, places)), PROBE, CASES[0])
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS
    assert finding.difference is not None
    assert finding.difference.path.startswith("memory that marker uses")
    # 1.0 is 00 00 80 3F, the pattern FF FF FF FF.
    assert finding.message.endswith("changes 1 of 8 elements of marks and writes 4 bytes out of bounds")


def test_a_write_of_the_candidate_itself_beside_its_table_is_out_of_bounds(probed: Callable[..., Subject]) -> None:
    def candidate(places: torch.Tensor) -> torch.Tensor:
        table = torch.empty_like(places).copy_(places)
        # Only where there is a band: the size tells that this is such an allocation.
        if table.untyped_storage().nbytes() > 4096:
            table.as_strided((1,), (1,), table.storage_offset() + len(table)).fill_(0)
        return table

    finding = examine_probe(probed(candidate), PROBE, CASES[0])
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS
    assert finding.step == ""


def test_a_table_that_is_filled_after_the_launch_is_late(
    probed: Callable[..., Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    pending: list[Callable[[], object]] = []

    def arrive(device: torch.device) -> None:
        """Time passes, and what is pending is done."""
        while pending:
            pending.pop()()

    def candidate(places: torch.Tensor) -> torch.Tensor:
        table = torch.zeros_like(places)
        pending.append(lambda: table.copy_(places))
        return table

    monkeypatch.setattr("harness.probe.wait_for", arrive)
    finding = examine_probe(probed(candidate), PROBE, CASES[0])
    assert finding is not None
    assert finding.symptom is Symptom.LATE
    assert finding.difference is not None
    assert finding.difference.path == "marker['marks']"
    assert "not there yet" in finding.step


def test_a_table_that_is_taken_back_while_the_kernel_runs_is_late(
    probed: Callable[..., Subject],
) -> None:
    tables: list[torch.Tensor] = []

    def candidate(places: torch.Tensor) -> torch.Tensor:
        tables[:] = [places.clone()]
        return tables[0]

    def prepare_slowly(case: Case, device: torch.device) -> Callable[[Any], dict[str, torch.Tensor]]:
        consume = prepare(case, device)

        def consume_slowly(table: torch.Tensor) -> dict[str, torch.Tensor]:
            for taken in tables:
                taken.zero_()
            return consume(table)

        return consume_slowly

    slow = Probe(
        name="slow marker",
        cases=lambda profile, compiled: CASES,
        fits=lambda case, compiled: True,
        prepare=prepare_slowly,
    )
    finding = examine_probe(probed(candidate, slow), slow, CASES[0])
    assert finding is not None
    assert finding.symptom is Symptom.LATE


def test_an_element_that_nobody_wrote_shows_in_what_the_kernel_leaves_behind(probed: Callable[..., Subject]) -> None:
    """Under the second pattern at the latest; the first makes -1 of it, which is out of bounds."""

    def candidate(places: torch.Tensor) -> torch.Tensor:
        table = torch.empty(len(places), dtype=torch.int64)
        table[:-1] = places[:-1]
        return table

    finding = examine_probe(probed(candidate), PROBE, CASES[2])
    assert finding is not None
    assert finding.symptom is Symptom.OUT_OF_BOUNDS


def test_a_value_that_the_launch_cannot_use_raises(probed: Callable[..., Subject]) -> None:
    finding = examine_probe(probed(lambda places: None), PROBE, CASES[0])
    assert finding is not None
    assert finding.symptom is Symptom.RAISED
    assert finding.step == "launch of marker with what it returned"
    assert "AttributeError" in str(finding.difference)


def test_a_candidate_that_raises_is_not_launched(probed: Callable[..., Subject]) -> None:
    def candidate(places: torch.Tensor) -> torch.Tensor:
        raise KeyError("no")

    finding = examine_probe(probed(candidate), PROBE, CASES[0])
    assert finding is not None
    assert (finding.symptom, finding.step) == (Symptom.RAISED, "")


def test_a_kernel_that_fails_on_the_references_table_is_the_harness_own_failure(
    probed: Callable[..., Subject],
) -> None:
    outside = Probe(
        name="marker",
        cases=lambda profile, compiled: (case_of(SIZE),),
        fits=lambda case, compiled: True,
        prepare=prepare,
    )
    with pytest.raises(HarnessError, match="probe marker writes out of bounds with the reference's value"):
        search(probed(reference, outside))


def test_the_journal_holds_the_case_while_the_candidate_runs(probed: Callable[..., Subject]) -> None:
    seen: list[Case | None] = []

    def candidate(places: torch.Tensor) -> torch.Tensor:
        seen.append(subject.journal.read().case())
        return reference(places)

    subject = probed(candidate)
    search(subject)
    # Interpreted kernels are launched under one of the patterns.
    assert list(dict.fromkeys(seen)) == list(CASES)
    assert len(seen) in (len(CASES), 2 * len(CASES))


def test_a_changed_process_is_found_and_the_deadline_kept(probed: Callable[..., Subject]) -> None:
    executed, _, (finding,) = search(probed(reference), changed=lambda: "a name was replaced")
    assert (executed, finding.symptom, finding.message) == (1, Symptom.CHANGED_GLOBALS, "a name was replaced")
    assert search(probed(reference), deadline=time.monotonic() - 1)[0] == 0


def test_a_probe_without_its_package_does_not_run(probed: Callable[..., Subject]) -> None:
    missing = replace(PROBE, needs=("no_such_package",))
    assert why_not(probed(reference, missing)) == "it needs no_such_package: install it"
    assert why_not(probed(reference, missing, PROBE)) is None
    assert search(probed(reference, missing))[0] == 0


def test_a_probe_that_cannot_be_imported_is_the_harness_failure(probed: Callable[..., Subject]) -> None:
    def broken(case: Case, device: torch.device) -> Callable[[Any], Any]:
        raise ImportError("half installed")

    with pytest.raises(HarnessError, match="the probe marker cannot be prepared: ImportError"):
        search(probed(reference, replace(PROBE, prepare=broken)))
