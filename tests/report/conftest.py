"""Results of every kind, for the tests of the reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.case import TARGET_DEVICE, Case, TensorValue
from harness.verdict import Difference, Element, Finding, Result, StageReport, Symptom, Verdict

HOSTILE = (
    "[red]x[/red] [/] \x1b[31mred\x1b[0m \x1b]0;title\x07 ]]> <b>&amp; \x00 \x08 \ud800 \u202e \ufffe\r\nverdict: equal"
)


@pytest.fixture(autouse=True)
def _no_terminal_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI servers set these; rich obeys them."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hostile() -> str:
    """Markup, terminal escapes, XML, control characters, a lone surrogate, and a line that imitates the report."""
    return HOSTILE


@pytest.fixture
def case() -> Case:
    lengths = TensorValue("int32", (0, 5, 5, 9))
    return Case("causal_conv1d_metadata", {"query_start_loc_p_cpu": lengths, "device": TARGET_DEVICE})


@pytest.fixture
def equal() -> Result:
    return Result(
        contract="causal_conv1d_metadata",
        candidate="causal_conv1d_metadata/numpy_prefix_sums",
        observe="strict",
        device="cpu",
        verdict=Verdict.EQUAL,
        profile="gate",
        cases=31_204,
        strata={"empty batch": 3, "exact multiple": 40},
        required=("empty batch", "exact multiple"),
        stages=(
            StageReport("exhaustive", 12_282, 2.0, "every batch of up to 3 rows of 0 to 17 tokens"),
            StageReport("property", 18_922, 1.1),
        ),
        seconds=3.1,
    )


@pytest.fixture
def different(case: Case) -> Result:
    elements = (Element((0,), "0", "1"), Element((2,), "2", "-1"))
    finding = Finding(
        Symptom.DIFFERENT,
        case,
        difference=Difference("[1]", "value", "tensor", "tensor", 3, 2_048, elements),
        search="exhaustive",
    )
    return Result(
        contract="causal_conv1d_metadata",
        candidate="vllm/utils.py::compute_causal_conv1d_metadata",
        observe="strict",
        device="cpu",
        verdict=Verdict.DIFFERENT,
        profile="gate",
        seed=7,
        cases=12,
        strata={"empty batch": 3, "exact multiple": 0},
        required=("empty batch", "exact multiple"),
        seconds=0.25,
        finding=finding,
        case_file=Path(".bitgate/cases/a very long folder name that is wider than the terminal/and another one/x.json"),
    )


@pytest.fixture
def inconclusive() -> Result:
    return Result(
        contract="causal_conv1d_metadata",
        candidate="causal_conv1d_metadata/slow",
        observe="launch",
        device="cpu",
        verdict=Verdict.INCONCLUSIVE,
        profile="gate",
        cases=5,
        strata={"empty batch": 3, "exact multiple": 0},
        required=("empty batch", "exact multiple"),
        reason="The time limit came first; raise it with --time-limit.",
    )


@pytest.fixture
def unloadable() -> Result:
    return Result(
        contract="mamba2_chunk_metadata",
        candidate="missing.module:function",
        observe="strict",
        device="cpu",
        verdict=Verdict.INCONCLUSIVE,
        reason="No module named 'missing'. Check the spelling.",
        loaded=False,
    )


@pytest.fixture
def skipped() -> Result:
    return Result(
        contract="causal_conv1d_metadata",
        candidate="causal_conv1d_metadata/on_gpu",
        observe="strict",
        device="cpu",
        verdict=Verdict.INCONCLUSIVE,
        profile="gate",
        reason="skipped, because it runs on cuda only. Use --device cuda on a machine with a GPU.",
        skipped=True,
    )


@pytest.fixture
def hostile_result(case: Case, hostile: str) -> Result:
    huge = hostile + "x" * 10_000_000
    element = Element((0,), huge, hostile)
    return Result(
        contract="causal_conv1d_metadata",
        candidate=f"evil.py::{hostile}",
        observe="strict",
        device="cpu",
        verdict=Verdict.DIFFERENT,
        finding=Finding(
            Symptom.CRASHED,
            case,
            difference=Difference(hostile, hostile, huge, hostile, 1, 1, (element,)),
            step=hostile,
            message=huge,
        ),
        seconds=float("nan"),
        notes=(huge, hostile),
        measures={huge: float("nan"), hostile: float("inf")},
        output="start\n" + huge + hostile,
        source=huge,
    )
