"""The protocol on one case: each step catches what it is for, and correct candidates pass all of them.

The contract turns lengths into a padded table of positions: a tensor, an array and a list, in a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from harness.case import ArrayValue, Case, ListValue, TensorValue, Value
from harness.contract import Contract
from harness.errors import HarnessError
from harness.examine import BACK, IN_PLACE, SECOND, TWIN, Subject, examine
from harness.verdict import Finding, Symptom

Candidate: TypeAlias = Callable[..., Any]


def reference(lengths: torch.Tensor, limits: Any, names: list[int], *, pad: int = 2) -> dict[str, Any]:
    """Sums of the lengths, limits times two, names in reverse; raises where a length is negative."""
    if any(length < 0 for length in lengths.tolist()):
        raise ValueError("a length is negative")
    total, sums = 0, []
    for length in lengths.tolist():
        total += length
        sums.append(total)
    return {
        "sums": torch.tensor(sums + [-1] * pad, dtype=torch.int32),
        "limits": limits * 2,
        "names": [*reversed(names)],
    }


def case_of(*lengths: int, names: tuple[int, ...] = (7, 8), pad: int = 2) -> Case:
    arguments: dict[str, Value] = {
        "lengths": TensorValue("int32", lengths),
        "limits": ArrayValue("int64", (1, 2, 3)),
        "names": ListValue(names),
        "pad": pad,
    }
    return Case("toy", arguments)


CASE, TWIN_CASE = case_of(1, 2, 3), case_of(4, 5, 6, names=(9, 10), pad=3)


def twin(case: Case) -> Case | None:
    return TWIN_CASE if case == CASE else CASE if case == TWIN_CASE else None


@pytest.fixture
def examined(contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]) -> Callable[..., Finding | None]:
    """Examines a candidate on ``CASE``."""

    def run(candidate: Candidate, case: Case = CASE, **parts: Any) -> Finding | None:
        before = parts.pop("before", ())
        subject = subject_of(contract_of(twin=parts.pop("twin", twin), **parts), reference, candidate)
        return examine(subject, case, before=before)

    return run


def changed_on(call: int, change: Callable[[dict[str, Any]], Any]) -> Candidate:
    """A candidate that is right but for one call, counted from 1."""
    calls = count(1)

    def candidate(*given: Any, **named: Any) -> Any:
        value = reference(*given, **named)
        if next(calls) == call:
            change(value)
        return value

    return candidate


def wrong(value: dict[str, Any]) -> None:
    value["sums"][0] += 1


@pytest.mark.parametrize(
    ("call", "symptom", "step"),
    [
        (1, Symptom.DIFFERENT, ""),
        (2, Symptom.UNSTABLE, SECOND),
        (3, Symptom.DIFFERENT, TWIN),
        (4, Symptom.UNSTABLE, BACK),
        (5, Symptom.STALE, IN_PLACE),
    ],
)
def test_every_call_is_judged(call: int, symptom: Symptom, step: str, examined: Any) -> None:
    found = examined(changed_on(call, wrong))
    assert (found.symptom, found.step) == (symptom, step)
    assert found.difference.path == "['sums']"
    assert (found.difference.count, found.difference.total) == (1, 6 if call in (3, 5) else 5)
    assert found.case == (TWIN_CASE if call == 3 else CASE)
    assert examined(changed_on(6, wrong)) is None


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda value: value.pop(name)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (without("sums"), ""),
        (lambda value: value.update(sums=value["sums"].long()), "['sums']"),
        (lambda value: value.update(limits=torch.from_numpy(value["limits"])), "['limits']"),
        (lambda value: value["limits"].setflags(write=False), "['limits']"),
        (lambda value: value["names"].append(1), "['names']"),
        (lambda value: value.update(names=tuple(value["names"])), "['names']"),
    ],
)
def test_the_returned_structure_is_compared_bit_for_bit(change: Any, path: str, examined: Any) -> None:
    found = examined(changed_on(1, change))
    assert (found.symptom, found.difference.path) == (Symptom.DIFFERENT, path)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda lengths, limits, names: lengths.add_(1), "argument 'lengths'"),
        (lambda lengths, limits, names: limits.fill(0), "argument 'limits'"),
        (lambda lengths, limits, names: names.append(1), "argument 'names'"),
        (lambda lengths, limits, names: names.__setitem__(1, 8.0), "argument 'names'[1]"),
        (lambda lengths, limits, names: lengths.resize_(2), "argument 'lengths'"),
    ],
)
def test_arguments_must_be_left_as_the_reference_leaves_them(change: Any, path: str, examined: Any) -> None:
    def candidate(*given: Any, pad: int) -> Any:
        value = reference(*given, pad=pad)
        change(*given)
        return value

    found = examined(candidate)
    assert (found.symptom, found.difference.path, found.step) == (Symptom.MUTATED_INPUT, path, "")


def test_arguments_are_compared_where_both_sides_raise(examined: Any) -> None:
    def candidate(lengths: Any, *given: Any, pad: int) -> Any:
        try:
            return reference(lengths, *given, pad=pad)
        finally:
            lengths.abs_()

    assert examined(candidate) is None
    found = examined(candidate, case_of(1, -2))
    assert (found.symptom, found.difference.path) == (Symptom.MUTATED_INPUT, "argument 'lengths'")


def test_what_is_returned_must_not_share_memory_with_an_argument(examined: Any) -> None:
    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        value = reference(lengths, limits, names, pad=pad)
        limits *= 2
        value["limits"] = limits[:]
        return value

    found = examined(candidate)
    assert found.difference.aspect in ("aliasing", "value")

    def returns_list(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        value = reference(lengths, limits, names, pad=pad)
        return value | {"names": names} if names == names[::-1] else value

    assert examined(returns_list) is None
    found = examined(returns_list, case_of(1, names=(5, 5)))
    assert (found.difference.path, found.difference.aspect) == ("argument 'names'", "aliasing")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, AssertionError, MemoryError])
def test_raising_where_the_reference_returns_is_different(error: type[BaseException], examined: Any) -> None:
    def candidate(*_: Any, **__: Any) -> Any:
        raise error("why")

    found = examined(candidate)
    assert found.symptom is Symptom.RAISED
    line = candidate.__code__.co_firstlineno + 1
    assert found.difference.got == f"raises {error.__name__}: why at test_examine.py:{line}"
    found = examined(candidate, case_of(-1))
    assert (found is None) == (error is ValueError)


def test_returning_where_the_reference_raises_is_different(examined: Any) -> None:
    found = examined(lambda *_, **__: None, case_of(-1))
    assert (found.symptom, found.difference.got) == (Symptom.DID_NOT_RAISE, "returned NoneType None")


def reused(number: int) -> Candidate:
    """A candidate that returns one of so many buffers in turn."""
    buffers = [torch.empty(16, dtype=torch.int32) for _ in range(number)]
    calls = count()

    def candidate(*given: Any, **named: Any) -> Any:
        value = reference(*given, **named)
        kept = buffers[next(calls) % number][: len(value["sums"])]
        kept.copy_(value["sums"])
        return value | {"sums": kept}

    return candidate


@pytest.mark.parametrize(
    ("number", "step"), [(1, SECOND), (2, BACK), (3, BACK), (4, IN_PLACE)], ids=["1", "2", "3", "4"]
)
def test_a_buffer_that_is_returned_again_is_found(number: int, step: str, examined: Any) -> None:
    found = examined(reused(number))
    assert found.symptom is Symptom.REUSED_OUTPUT
    assert found.step.endswith(step)
    assert found.difference.path == "['sums']"
    assert examined(reused(5)) is None


@pytest.mark.parametrize("name", ["sums", "limits", "names"])
def test_an_object_that_is_returned_again_is_found(name: str, examined: Any) -> None:
    kept: dict[Any, Any] = {}

    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        value = reference(lengths, limits, names, pad=pad)
        return value | {name: kept.setdefault((*lengths.tolist(), pad), value[name])}

    found = examined(candidate)
    assert (found.symptom, found.step, found.difference.path) == (Symptom.REUSED_OUTPUT, SECOND, f"['{name}']")
    assert found.difference.aspect == "aliasing"


def test_a_cached_answer_that_is_returned_itself_is_found(examined: Any) -> None:
    @lru_cache
    def answer(lengths: tuple[int, ...], names: tuple[int, ...], pad: int) -> Any:
        return reference(torch.tensor(lengths), np.array([1, 2, 3]), [*names], pad=pad)

    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        return answer((*lengths.tolist(),), (*names,), pad)

    found = examined(candidate)
    assert (found.symptom, found.step) == (Symptom.REUSED_OUTPUT, SECOND)


def test_a_later_call_must_leave_earlier_results_alone(examined: Any) -> None:
    returned: list[Any] = []

    def candidate(*given: Any, **named: Any) -> Any:
        for value in returned:
            value["names"].append(0)
        returned.append(reference(*given, **named))
        return returned[-1]

    found = examined(candidate)
    assert (found.symptom, found.difference.path) == (Symptom.REUSED_OUTPUT, "['names']")


@pytest.mark.parametrize("key", ["lengths", "limits", "names"])
def test_a_cache_keyed_by_the_identity_of_an_argument_is_stale(key: str, examined: Any) -> None:
    kept: dict[int, Any] = {}

    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        argument = {"lengths": lengths, "limits": limits, "names": names}[key]
        held, value = kept.setdefault(id(argument), (argument, reference(lengths, limits, names, pad=pad)))
        assert held is argument
        return {"sums": value["sums"].clone(), "limits": value["limits"].copy(), "names": [*value["names"]]}

    found = examined(candidate)
    assert (found.symptom, found.step, found.case) == (Symptom.STALE, IN_PLACE, CASE)
    assert found.difference.path == "['sums']"


def test_a_cache_keyed_by_shape_is_found_by_other_values_of_the_same_shape(examined: Any) -> None:
    kept: dict[Any, Any] = {}

    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        value = reference(lengths, limits, names, pad=pad)
        return value | {"sums": kept.setdefault(lengths.shape, value["sums"]).clone()}

    found = examined(candidate)
    assert (found.symptom, found.step, found.case) == (Symptom.DIFFERENT, TWIN, TWIN_CASE)
    assert found.before == (CASE, CASE)


def test_a_fifth_call_that_answers_in_the_memory_of_the_fourth_is_found(examined: Any) -> None:
    returned: list[Any] = []

    def candidate(*given: Any, **named: Any) -> Any:
        value = reference(*given, **named)
        if len(returned) == 4:
            value["limits"] = returned[3]["limits"]
        returned.append(value)
        return value

    found = examined(candidate)
    assert (found.symptom, found.step, found.difference.path) == (Symptom.REUSED_OUTPUT, IN_PLACE, "['limits']")


def scratch() -> Candidate:
    """Works in a buffer that it keeps, and returns copies."""
    kept = torch.empty(64, dtype=torch.int32)

    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        if len(lengths) and int(lengths.min()) < 0:
            raise ValueError
        size = len(lengths) + pad
        kept[:size] = -1
        torch.cumsum(lengths, 0, out=kept[: len(lengths)])
        return {"names": names[::-1], "limits": limits + limits, "sums": kept[:size].clone()}

    return candidate


def cached() -> Candidate:
    """Remembers answers by value, and returns copies."""
    kept: dict[Any, Any] = {}

    def candidate(lengths: Any, limits: Any, names: Any, *, pad: int) -> Any:
        key = (*lengths.tolist(), None, *names, pad)
        if key not in kept:
            kept[key] = reference(lengths, limits, names, pad=pad)
        value = kept[key]
        return {"sums": value["sums"].clone(), "limits": value["limits"].copy(), "names": [*value["names"]]}

    return candidate


@pytest.mark.parametrize("make", [scratch, cached, lambda: reference])
@pytest.mark.parametrize("case", [CASE, TWIN_CASE, case_of(), case_of(0), case_of(3, -1), case_of(-1)])
def test_a_correct_candidate_is_not_accused(make: Callable[[], Candidate], case: Case, examined: Any) -> None:
    candidate = make()
    assert examined(candidate, case) is None
    assert examined(candidate, case, before=(TWIN_CASE, case_of(-5), CASE)) is None


def test_without_a_twin_the_examination_ends_after_the_second_call(examined: Any) -> None:
    assert examined(changed_on(3, wrong), twin=lambda case: None) is None
    assert examined(changed_on(2, wrong), twin=lambda case: None).step == SECOND


def test_a_twin_that_raises_is_judged_too(examined: Any) -> None:
    found = examined(lambda *given, **named: reference(given[0].abs(), *given[1:], **named), twin=lambda _: case_of(-1))
    assert (found.symptom, found.step, found.case) == (Symptom.DID_NOT_RAISE, TWIN, case_of(-1))
    assert examined(reference, twin=lambda _: case_of(1, -2, 3)) is None


def test_calls_that_come_before_are_made_and_not_judged(examined: Any) -> None:
    seen: list[list[int]] = []

    def candidate(lengths: Any, *given: Any, pad: int) -> Any:
        seen.append(lengths.tolist())
        value = reference(lengths, *given, pad=pad)
        if len(seen) == 1 or [9] in seen:
            value["sums"][0] = 100
        return value

    assert examined(candidate, before=(case_of(8),)) is None
    assert seen[:3] == [[8], [1, 2, 3], [1, 2, 3]]
    found = examined(candidate, before=(case_of(9),))
    assert (found.symptom, found.before) == (Symptom.DIFFERENT, (case_of(9),))


def test_a_reference_whose_value_cannot_be_observed_is_the_harness_s_failure(
    contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    subject = subject_of(contract_of(), lambda n: {n}, lambda n: {n})
    with pytest.raises(HarnessError, match="set cannot be compared"):
        examine(subject, Case("toy", {"n": 1}))
