"""The convolution's kernel, launched with program tables: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    # Read when a kernel is defined, so before any is imported.
    os.environ.setdefault("TRITON_INTERPRET", "1")

from harness.case import Case, TensorValue
from harness.contracts.causal_conv1d_metadata import CONTRACT, case
from harness.examine import Subject
from harness.kernels.conv_probe import ARGUMENT, prepare, probe_batches
from harness.observe import launched
from harness.probe import examine_probe, search_probes
from harness.verdict import Finding, Symptom
from references.causal_conv1d_metadata import compute_causal_conv1d_metadata as reference

(PROBE,) = CONTRACT.probes
BATCH = case([0, 17, 17, 21, 30])


@pytest.fixture
def probed(subject_of: Callable[..., Subject]) -> Callable[..., Subject]:
    """The subject of a candidate, on the GPU if there is one."""
    cuda = torch.cuda.is_available()
    pytest.importorskip("triton")

    def make(candidate: Callable[..., Any], truth: Callable[..., Any] = reference) -> Subject:
        subject = subject_of(CONTRACT, reference, candidate)
        return replace(subject, reference=truth, device=torch.device("cuda" if cuda else "cpu"))

    return make


def changed(change: Callable[[torch.Tensor, torch.Tensor, int], object]) -> Callable[..., Any]:
    """A candidate whose tables are changed by a function of both tables and of the number of programs."""

    def candidate(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Any:
        tables, batch_ptr, token_chunk_offset_ptr = reference(query_start_loc_p_cpu, device=device)
        change(batch_ptr, token_chunk_offset_ptr, tables[8]["tot"])
        return tables, batch_ptr, token_chunk_offset_ptr

    return candidate


def programs(batch: Case) -> int:
    value = batch.arguments[ARGUMENT]
    assert isinstance(value, TensorValue)
    return int(-(-np.diff(value.data) // 8).sum())


def found(subject: Subject) -> Finding:
    finding = examine_probe(subject, PROBE, BATCH)
    assert finding is not None
    return finding


def test_the_references_own_tables_pass_and_every_kind_of_row_is_among_the_batches(
    probed: Callable[..., Subject],
) -> None:
    deadline = time.monotonic() + 500
    stage, strata, findings = search_probes(
        probed(reference), "commit", done=0, changed=lambda: None, deadline=deadline
    )
    assert findings == []
    assert stage.complete
    assert stage.cases >= 6
    kinds = ("leading zero-length row", "zero-length row in the middle", "trailing zero-length row", "empty batch")
    assert all(strata[kind] for kind in (*kinds, "int32", "int64", "length a multiple of 8"))


def test_batches_start_at_0_and_are_small_where_kernels_are_interpreted() -> None:
    few, more = ([*probe_batches(profile, False)] for profile in ("commit", "gate"))
    assert 6 <= len(few) <= 12
    assert 28 <= len(more) <= 40
    assert set(few) <= set(more)
    assert max(programs(case(batch)) for batch in more) == 6
    large = [*probe_batches("gate", True)]
    assert len(large) >= 90
    assert set(more) <= set(large)
    assert max(programs(case(batch)) for batch in large) > 2000
    assert all(batch[0] == 0 and (np.diff(batch) >= 0).all() for batch in large)


def test_what_a_launch_needs_follows_from_the_case_alone(probed: Callable[..., Subject]) -> None:
    device = probed(reference).device
    value = reference(torch.tensor([0, 17, 17, 21, 30]), device=device)
    first, second = (prepare(BATCH, device)(value) for _ in range(2))
    assert len(first) == 4
    assert all(torch.equal(first[name].nan_to_num(7.0), second[name].nan_to_num(7.0)) for name in ("conv_states",))
    assert torch.equal(first["output"][:, :30], second["output"][:, :30])
    assert torch.equal(first["output"][:, :30], first["output of the larger grid"][:, :30])
    assert not first["output"][:, :30].isnan().any()
    assert first["conv_states"].isnan().any()


def test_what_the_launch_reads_alone_is_enough(probed: Callable[..., Subject]) -> None:
    assert CONTRACT.launch is not None
    reduced = launched(reference, CONTRACT.launch)
    assert examine_probe(probed(reduced, reduced), PROBE, BATCH) is None


def test_a_program_less_leaves_output_unwritten(probed: Callable[..., Subject]) -> None:
    finding = found(probed(changed(lambda rows, tiles, n: rows[n - 1].fill_(-1))))
    assert finding.symptom is Symptom.DIFFERENT
    assert finding.difference is not None
    assert finding.difference.path == "[0][8]['batch_ptr']"
    assert "elements of output" in finding.message


def test_padding_that_names_a_row_shows_under_the_larger_grid_alone(probed: Callable[..., Subject]) -> None:
    finding = found(probed(changed(lambda rows, tiles, n: (rows[n:].fill_(2), tiles[n:].fill_(0)))))
    assert finding.symptom is Symptom.DIFFERENT
    assert "elements of output," not in finding.message
    assert "larger grid" in finding.message


def test_a_tile_before_the_first_row_is_written_out_of_bounds(probed: Callable[..., Subject]) -> None:
    finding = found(probed(changed(lambda rows, tiles, n: tiles[0].fill_(-1))))
    assert finding.symptom is Symptom.OUT_OF_BOUNDS
    assert "bytes out of bounds" in finding.message
    assert finding.difference is not None
    assert finding.difference.path.startswith("memory that ")
