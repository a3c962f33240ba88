"""Stages: which searches a candidate has, what is said of those that cannot run, and what only one of them sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.case import Case, TensorValue
from harness.config import load_config
from harness.contract import Contract, Probe
from harness.examine import Subject
from harness.options import Options
from harness.session import replay
from harness.stages import MOST, is_small, skipped_stages, stages_of
from harness.verdict import Result, Symptom

IN_A_PROBE = """
from torch.utils._python_dispatch import _get_current_dispatch_mode

def row_lost(tables):
    tables[1][:1] = -1
    tables[0][8]['mlist'][:1] = -1
    return tables
"""
"""A candidate sees that its allocations are guarded, as they are when its tables go into a kernel."""


def toy(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject], **fields: object) -> Subject:
    return subject_of(replace(contract_of(), **fields), abs, abs)  # type: ignore[arg-type]


def test_stages_follow_from_the_contract_and_from_what_a_candidate_claims(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    plain = toy(contract_of, subject_of)
    assert [stage.name for stage in stages_of(plain, cuda_graph=False)] == ["asynchrony"]
    probe = Probe(name="kernel", cases=lambda *_: (), fits=lambda *_: True, prepare=lambda *_: abs)
    kernel = toy(contract_of, subject_of, guarded=True, probes=(probe,))
    names = [stage.name for stage in stages_of(kernel, cuda_graph=True)]
    assert names == ["concurrency", "probe", "asynchrony", "graph"]
    assert [stage.name for stage in stages_of(kernel, cuda_graph=True) if stage.first] == ["concurrency"]


def test_stages_that_cannot_run_are_named_once_for_each_reason(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    kernel = toy(contract_of, subject_of, guarded=True)
    notes = skipped_stages(kernel, stages_of(kernel, cuda_graph=True))
    assert notes == ["concurrency, asynchrony, graph: skipped, because it needs a CUDA device"]


def test_a_case_with_wide_gaps_is_not_small() -> None:
    few = TensorValue("int8", (1, 2))
    far = TensorValue("int8", (1, 2), strides=(MOST,))
    assert is_small(Case("toy", {"x": few, "n": 3}))
    assert not is_small(Case("toy", {"x": few, "y": far}))


def test_what_only_a_probe_sees_is_seen_again_by_it_and_by_a_replay(
    write_candidate: Callable[..., str], quick_check: Callable[..., Result]
) -> None:
    body = """
        rows = query_start_loc_p_cpu.tolist()
        if _get_current_dispatch_mode() is not None and len(rows) > 2 and rows[-1] > 0:
            return row_lost(right(query_start_loc_p_cpu, device))
    """
    spec = write_candidate(body, above=IN_A_PROBE)
    result = quick_check(spec, case_timeout=10.0)
    assert result.symptom is Symptom.DIFFERENT, result
    assert result.finding is not None
    assert (result.finding.search, result.finding.step) == (
        "probe",
        "launch of causal_conv1d_prefill with what it returned",
    )
    assert "elements of output" in result.finding.message
    assert "did not happen again" not in result.finding.message
    assert result.finding.case.size() <= 5
    assert result.case_file is not None
    (again,) = replay([result.case_file], [spec], Options(device="cpu"), load_config(result.case_file.parent))
    assert again.symptom is Symptom.DIFFERENT
    assert again.finding is not None
    assert again.finding.case == result.finding.case
