"""Space: a bounded set of cases, held as columns so that thousands of them cost little."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.case import DTYPES, ArrayValue, Case, DrawnValue, ListValue, TensorValue, Value
from harness.value import limits

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TensorColumn:
    """One 1-D integer tensor argument per case: row i of ``table`` (cases, elements) is case i's tensor."""

    dtype: str
    table: Integers

    def __post_init__(self) -> None:
        if DTYPES.get(self.dtype) != "int" or self.table.ndim != 2 or self.table.dtype != np.int64:
            kind = f"{self.dtype} from a {self.table.ndim}-D table of {self.table.dtype}"
            raise ValueError(f"a tensor column of {kind}: give an integer dtype and a table (cases, elements) of int64")
        low, high = limits(self.dtype)
        if self.table.size and not low <= self.table.min() <= self.table.max() <= high:
            raise ValueError(f"table holds {self.table.min()} to {self.table.max()}, {self.dtype} {low} to {high}")

    def value(self, index: int) -> Value:
        """The argument of one case."""
        return TensorValue(self.dtype, tuple(self.table[index].tolist()))

    def __len__(self) -> int:
        return len(self.table)


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """One argument of any kind per case."""

    values: Sequence[Value]

    def value(self, index: int) -> Value:
        """The argument of one case."""
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)


Column: TypeAlias = TensorColumn | ValueColumn


@dataclass(frozen=True, slots=True)
class Block:
    """Cases of one shape. ``columns`` vary from case to case, ``fixed`` arguments are the same in all of them."""

    contract: str
    columns: Mapping[str, Column]
    fixed: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns of a block must have one length, got {lengths}")
        twice = self.columns.keys() & self.fixed.keys()
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))}: an argument is either a column of a block or fixed in it")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> Case:
        varying = {name: column.value(index) for name, column in self.columns.items()}
        return Case(self.contract, {**varying, **self.fixed})

    def integers(self, name: str) -> Integers:
        """The integer argument ``name`` of all cases as a table (cases, elements)."""
        column = self.columns.get(name)
        if isinstance(column, TensorColumn):
            return column.table
        values = [self.fixed[name]] * len(self) if column is None else column.values
        rows = [value.data if isinstance(value, TensorValue | ArrayValue | ListValue) else (value,) for value in values]
        return np.asarray(rows, dtype=np.int64).reshape(len(self), -1)

    def dtype(self, name: str) -> str:
        """The element type of the tensor or array argument ``name``; the same in all cases of a block."""
        column = self.columns.get(name)
        if isinstance(column, TensorColumn):
            return column.dtype
        value = self.fixed[name] if column is None else column.values[0]
        return value.dtype if isinstance(value, TensorValue | DrawnValue | ArrayValue) else type(value).__name__


def block_of(case: Case) -> Block:
    """A block that holds one case, so that what is written for many cases serves for one."""
    return Block(case.contract, {name: ValueColumn((value,)) for name, value in case.arguments.items()})


@dataclass(frozen=True, slots=True)
class Space:
    """A bounded space: blocks in the order in which they are searched, smallest cases first."""

    description: str
    """What the space holds, as a phrase: ``every batch of up to 3 rows of 0 to 17 tokens, int32 and int64``."""
    blocks: tuple[Block, ...]
    _ends: tuple[int, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        ends, total = [], 0
        for block in self.blocks:
            total += len(block)
            ends.append(total)
        object.__setattr__(self, "_ends", tuple(ends))

    def kinds(self) -> dict[frozenset[str], dict[str, set[type]]]:
        """Sets of arguments that its cases have, each with the types of value that each argument takes."""
        known: dict[frozenset[str], dict[str, set[type]]] = {}
        for block in self.blocks:
            kinds = known.setdefault(frozenset({*block.columns, *block.fixed}), {})
            for name, column in block.columns.items():
                values = column.values if isinstance(column, ValueColumn) else [column.value(0)] if len(column) else []
                kinds.setdefault(name, set()).update(map(type, values))
            for name, value in block.fixed.items():
                kinds.setdefault(name, set()).add(type(value))
        return known

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Case:
        if not 0 <= index < len(self):
            raise IndexError(f"case {index} of a space of {len(self)}")
        number = bisect_right(self._ends, index)
        return self.blocks[number][index - (self._ends[number] - len(self.blocks[number]))]
