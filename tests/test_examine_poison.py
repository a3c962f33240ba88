"""An element that nobody wrote is found, wherever its memory comes from and whatever lay there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.case import Case
from harness.contract import Contract
from harness.examine import SECOND, Subject, examine
from harness.verdict import Symptom


def reference(n: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.int32)


@pytest.mark.parametrize("n", [1, 3, 8, 123, 253, 256, 4_003, 100_003])
@pytest.mark.parametrize("make", ["torch", "numpy", "numpy through int64", "new_empty"])
def test_an_element_that_nobody_wrote_is_found(
    make: str, n: int, contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    def candidate(n: int) -> torch.Tensor:
        value = reference(n)
        if make == "torch":
            fresh = torch.empty(n, dtype=torch.int32)
        elif make == "new_empty":
            fresh = value.new_empty(n)
        else:
            array = np.empty(n, dtype=np.int32 if make == "numpy" else np.int64)
            array[:-1] = value[:-1].numpy()
            fresh = torch.from_numpy(array).int()
        fresh[:-1] = value[:-1]
        return fresh

    found = examine(subject_of(contract_of(), reference, candidate), Case("toy", {"n": n}))
    assert found is not None
    assert found.symptom in (Symptom.DIFFERENT, Symptom.UNSTABLE)
    assert found.difference is not None
    assert found.difference.elements[-1].index == (n - 1,)


@pytest.mark.parametrize("filler", [0x11111111, 0xEEEEEEEE - 2**32])
def test_an_element_that_the_first_pattern_makes_right_is_found(
    filler: int, contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    def lucky(n: int) -> torch.Tensor:
        fresh = torch.empty(n, dtype=torch.int32)
        fresh[:8] = filler
        return fresh

    subject = subject_of(contract_of(), lambda n: torch.full((n,), filler, dtype=torch.int32), lucky)
    found = examine(subject, Case("toy", {"n": 200}))
    assert found is not None
    assert found.difference is not None
    assert found.difference.count == 192


@pytest.mark.parametrize(("left", "right"), [(np.int32, np.int32), (np.int64, np.int64)])
def test_an_element_that_memory_freed_by_the_reference_makes_right_is_found(
    left: Any, right: Any, contract_of: Callable[..., Contract], subject_of: Callable[..., Subject]
) -> None:
    def by_numpy(n: int) -> torch.Tensor:
        return torch.tensor(np.arange(n, dtype=left).tolist(), dtype=torch.int32)

    def lucky(n: int) -> torch.Tensor:
        fresh = np.empty(n, dtype=right)
        fresh[:5] = np.arange(5)
        return torch.tensor(fresh.tolist(), dtype=torch.int64).to(torch.int32)

    found = examine(subject_of(contract_of(), by_numpy, lucky), Case("toy", {"n": 60}))
    assert found is not None
    assert found.difference is not None
    assert found.difference.elements[0].index == (5,)
    assert (found.symptom, found.step) == (Symptom.UNSTABLE, SECOND)
