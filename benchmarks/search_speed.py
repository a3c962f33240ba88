"""Search speed: what the engine adds to the bare calls, and how it compares with the scripts it replaces.

    python benchmarks/search_speed.py [CANDIDATE]

Four ways to run a candidate beside its reference, in one process, interleaved, so that drift hits all alike:

- bare: both functions called on every case of the exhaustive space; nothing is compared.
- engine: exhaustive search of the same cases, with everything that a check does: journal, comparison, surroundings.
- random: a throwaway script's loop of random batches with a few ``torch.equal``.
- hypothesis: a plain Hypothesis test with the same comparison.

Speed is a ratio within one run: the absolute numbers depend on the machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import torch
from hypothesis import strategies as st

from harness.contract import Contract
from harness.contracts import contract_named
from harness.examine import Subject
from harness.journal import Journal
from harness.materialise import live_case, signature_of
from harness.observe import claim_process
from harness.search.exhaustive import search_space
from harness.search.space import Space
from harness.surroundings import take

CPU = torch.device("cpu")
ROUNDS = 7
RANDOM_BATCHES = 2_000
HYPOTHESIS_EXAMPLES = 500
MOST_ROWS = 20


def main() -> None:
    """Measure and print; ``--json FILE`` keeps the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("candidate", nargs="?", default="causal_conv1d_metadata/numpy_prefix_sums")
    parser.add_argument("--profile", default="gate")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name, _, file = options.candidate.partition("/")
    contract = contract_named(name)
    module, _, function = contract.reference.partition(":")
    reference = getattr(importlib.import_module(module), function)
    candidate = getattr(importlib.import_module(f"candidates.{name}.{file}"), function)
    seconds = measure(contract, reference, candidate, contract.space(options.profile))
    report(seconds, options)


def measure(
    contract: Contract, reference: Callable[..., Any], candidate: Callable[..., Any], space: Space
) -> dict[str, list[float]]:
    """Seconds per case of each way, one number per round."""
    claim_process()
    signature = signature_of(reference)
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(
            contract=contract,
            reference=reference,
            candidate=candidate,
            signature=signature,
            device=CPU,
            journal=Journal.create(Path(folder) / "journal"),
        )
        arguments = [live_case(space[index], signature, CPU) for index in range(len(space))]

        def bare() -> int:
            for each in arguments:
                for call in (reference, candidate):
                    try:
                        call(*each.positional, **each.keyword)
                    except ValueError:
                        continue
            return len(arguments)

        def engine() -> int:
            # Taken anew every time: the Hypothesis test in between changes the random generators.
            changed = take(reference).change
            stage, _, suspects = search_space(subject, space, changed=changed, deadline=time.monotonic() + 3600)
            if suspects:
                raise SystemExit(f"{space[suspects[0]].to_python(contract.function)}: not equal; nothing to measure")
            return stage.cases

        ways = {"bare": bare, "engine": engine, "random": random_loop(reference, candidate)}
        ways["hypothesis"] = hypothesis_test(reference, candidate)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, run in ways.items():
                started = time.perf_counter()
                cases = run()
                seconds[way].append((time.perf_counter() - started) / cases)
    return seconds


def random_loop(reference: Callable[..., Any], candidate: Callable[..., Any]) -> Callable[[], int]:
    """What a throwaway script does."""

    def run() -> int:
        draw = random.Random(0)
        for _ in range(RANDOM_BATCHES):
            compare_roughly(reference, candidate, [draw.randrange(100) for _ in range(draw.randint(0, MOST_ROWS))])
        return RANDOM_BATCHES

    return run


def hypothesis_test(reference: Callable[..., Any], candidate: Callable[..., Any]) -> Callable[[], int]:
    """The same comparison as a plain Hypothesis test."""
    executed = 0

    @hypothesis.settings(
        max_examples=HYPOTHESIS_EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.lists(st.integers(0, 100), max_size=MOST_ROWS))
    def agrees(lengths: list[int]) -> None:
        nonlocal executed
        executed += 1
        compare_roughly(reference, candidate, lengths)

    def run() -> int:
        nonlocal executed
        executed = 0
        agrees()
        return executed

    return run


def compare_roughly(reference: Callable[..., Any], candidate: Callable[..., Any], lengths: list[int]) -> None:
    """Two calls and two comparisons."""
    query_start_loc = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    expected, got = reference(query_start_loc, device=CPU), candidate(query_start_loc, device=CPU)
    assert torch.equal(expected[1], got[1])
    assert torch.equal(expected[2], got[2])


def report(seconds: dict[str, list[float]], options: argparse.Namespace) -> None:
    """Print medians and ratios."""
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    print(f"{options.candidate}, profile {options.profile}, torch {torch.__version__}, medians of {ROUNDS} rounds")
    for way, median in medians.items():
        spread = f"{min(seconds[way]) * 1e6:.1f} to {max(seconds[way]) * 1e6:.1f}"
        print(f"  {way:<11} {median * 1e6:8.1f} us a case ({spread}), {1 / median:10,.0f} cases a second")
    over_bare = medians["engine"] / medians["bare"]
    over_hypothesis = medians["hypothesis"] / medians["engine"]
    print(f"engine / bare calls:           {over_bare:.2f}   (goal: at most 1.5)")
    print(f"cases/s, engine / Hypothesis:  {over_hypothesis:.1f}   (goal: at least 8)")
    print(f"cases/s, engine / random loop: {medians['random'] / medians['engine']:.1f}")
    if options.json is not None:
        document = {
            "candidate": options.candidate,
            "profile": options.profile,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "hypothesis": hypothesis.__version__,
            "microseconds_per_case": {way: round(median * 1e6, 2) for way, median in medians.items()},
            "engine_over_bare_calls": round(over_bare, 3),
            "engine_over_hypothesis": round(over_hypothesis, 2),
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
