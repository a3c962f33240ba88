"""A contract of a project's own, as small as one can be: ``double(x)`` returns ``2 * x``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness.case import Case, TensorValue
from harness.contract import Contract, Stratum
from harness.search.space import Block, Space, TensorColumn

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SIZE = 600
NAME = "double"
MODULE = "toy_reference"


def case(values: Iterable[int]) -> Case:
    return Case(NAME, {"x": TensorValue("int64", tuple(values))})


def space(profile: str) -> Space:
    table = np.arange(SIZE, dtype=np.int64).reshape(-1, 1)
    return Space(f"every number below {SIZE}", (Block(NAME, {"x": TensorColumn("int64", table)}),))


def strategy() -> SearchStrategy[Case]:
    from hypothesis import strategies as st

    return st.lists(st.integers(0, 1 << 40), max_size=4).map(case)


def simpler(original: Case) -> Iterator[Case]:
    value = original.arguments["x"]
    assert isinstance(value, TensorValue)
    numbers = [int(number) for number in value.data]
    if numbers:
        yield case(numbers[1:])
    for index, number in enumerate(numbers):
        if number:
            yield case([*numbers[:index], number // 2, *numbers[index + 1 :]])


CONTRACT = Contract(
    name=NAME,
    summary="twice as much",
    reference=f"{MODULE}:double",
    upstream_names=("double",),
    consumers=("nobody",),
    space=space,
    strategy=strategy,
    scale=lambda profile: [case(range(100))],
    strata=(
        Stratum("zero", lambda block: (block.integers("x") == 0).any(axis=1)),
        Stratum("several", lambda block: np.full(len(block), block.integers("x").shape[1] > 1)),
    ),
    twin=lambda original: None,
    simpler=simpler,
)
