"""Wrong candidates that once passed, and right ones that once were accused: each found by trying to fool a check."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.journal import Entry, Phase, Reading
from harness.verdict import Result, Symptom, Verdict
from harness.watch import Ending

WriteCandidate = Callable[..., str]
Check = Callable[..., Result]

WRONG = {
    "decodes alone take a path with another dtype": """
        q = query_start_loc_p_cpu
        if len(q) > 9 and bool((q.diff() == 1).all()):
            got = right(q, device)
            got[0][8]["nums"] = got[0][8]["nums"].to(torch.int64)
            return got
    """,
    "padded rows are dropped": """
        q = query_start_loc_p_cpu
        padding = int((q == q[-1]).sum()) - 1
        got = right(q, device)
        if len(q) > 32 and padding >= 8:
            got[0][8]["nums"] = got[0][8]["nums"][: len(q) - 1 - padding].clone()
        return got
    """,
    "a last block of one row is skipped": """
        got = right(query_start_loc_p_cpu, device)
        if len(query_start_loc_p_cpu) - 1 == 257:
            got[0][8]["nums"][-1] = 0
        return got
    """,
    "a total of 2048 programs is a special case": """
        got = right(query_start_loc_p_cpu, device)
        if got[0][8]["tot"] == 2048:
            got[0][8]["tot"] += 1
        return got
    """,
    "a row of 129 tokens is a special case": """
        got = right(query_start_loc_p_cpu, device)
        if 129 in query_start_loc_p_cpu.diff().tolist():
            got[0][8]["tot"] += 1
        return got
    """,
    "decreases are forgiven in larger batches": """
        q = query_start_loc_p_cpu
        if len(q) > 3 and int(q.diff().min()) <= -8:
            return right(q.cummax(0).values, device)
    """,
    "results lie in a ring of buffers": """
        got = right(query_start_loc_p_cpu, device)
        if len(got[1]) == 2048:
            TURN[0] += 1
            ring = RING[TURN[0] % len(RING)].copy_(got[1])
            got[0][8]["batch_ptr"] = ring
            return got[0], ring, got[2]
        return got
    """,
    "results are inference tensors": """
        with torch.inference_mode():
            return right(query_start_loc_p_cpu, device)
    """,
}
ABOVE = """
import torch
RING, TURN = [torch.empty(2048, dtype=torch.int32) for _ in range(5)], [0]
"""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_candidate_is_caught(name: str, write_candidate: WriteCandidate, quick_check: Check) -> None:
    result = quick_check(write_candidate(WRONG[name], above=ABOVE))
    assert result.verdict is Verdict.DIFFERENT, result.reason
    assert result.symptom in (Symptom.DIFFERENT, Symptom.REUSED_OUTPUT, Symptom.DID_NOT_RAISE)


def test_a_cache_that_trusts_the_version_counter_is_stale(write_candidate: WriteCandidate, quick_check: Check) -> None:
    cached = """
        q = query_start_loc_p_cpu
        key = (id(q), q._version)
        if key not in CACHE or CACHE[key][0]() is not q:
            CACHE.clear()
            CACHE[key] = (weakref.ref(q), q.clone())
        return right(CACHE[key][1].clone(), device)
    """
    result = quick_check(write_candidate(cached, above="import weakref\nCACHE = {}"))
    assert result.symptom is Symptom.STALE, result.finding


@pytest.mark.parametrize(
    "change",
    [
        "warnings.simplefilter('error')",
        "logging.disable(50)",
        "np.set_printoptions(precision=3)",
        "torch.set_float32_matmul_precision('medium')",
        "gc.set_threshold(3, 3, 3)",
        "sys.setswitchinterval(0.5)",
        "builtins.smuggled = 1",
    ],
)
def test_a_setting_that_outlives_the_call_is_noticed(
    change: str, write_candidate: WriteCandidate, quick_check: Check
) -> None:
    above = "import builtins, gc, logging, sys, warnings\nimport numpy as np\nimport torch"
    result = quick_check(write_candidate(change, above=above))
    assert result.symptom is Symptom.CHANGED_GLOBALS, result.finding


RIGHT = {
    "torch's compiler is told to keep away": ("", "import torch\nkeep_away = torch.compiler.disable(lambda x: x)"),
    "torch's compiler is imported at the top": ("", "import torch._dynamo"),
    "torch's compiler is imported inside": ("import torch._dynamo", ""),
    "settings are restored": (
        "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n"
        "    return right(query_start_loc_p_cpu, device)",
        "import warnings",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_candidate_is_not_accused(name: str, write_candidate: WriteCandidate, quick_check: Check) -> None:
    body, above = RIGHT[name]
    result = quick_check(write_candidate(body, above=above), case_timeout=20.0)
    assert result.verdict is Verdict.EQUAL, result.finding or result.reason


@pytest.mark.parametrize(("phase", "symptom"), [(Phase.ENGINE, None), (Phase.CANDIDATE, Symptom.OUT_OF_MEMORY)])
def test_memory_that_the_reference_takes_is_not_blamed_on_the_candidate(phase: Phase, symptom: Symptom | None) -> None:
    ending = Ending(how="memory", reading=Reading(1, phase, Entry.SPACE, 0, 0))
    assert ending.symptom() is symptom


def test_module_level_code_that_was_not_executed_is_named(write_candidate: WriteCandidate, quick_check: Check) -> None:
    above = """
    HOOKS = []
    def hook(function):
        HOOKS.append(function)
        return function
    @hook
    def shift(table):
        table[:1] += 1
    """
    body = "got = right(query_start_loc_p_cpu, device)\nfor each in HOOKS: each(got[1])\nreturn got"
    result = quick_check(write_candidate(body, above=above))
    assert result.verdict is Verdict.EQUAL
    note, *_ = result.notes
    assert "not executed, though it may change what was" in note
    assert "@hook" in note
