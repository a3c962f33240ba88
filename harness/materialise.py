"""Turn cases into live arguments: tensors, arrays, lists, numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from harness.case import ArrayValue, Case, DeviceValue, DrawnValue, ListValue, TensorValue, Value
from harness.contract import Derived
from harness.errors import HarnessError, LoadError
from harness.guard import Allocations, Guard, guarded
from harness.layout import row_major, span
from harness.observe import Arguments
from harness.search.space import Block, TensorColumn


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a contract's reference, in order, and which of them are passed by keyword."""

    names: tuple[str, ...]
    keyword_only: frozenset[str]

    def check_accepted_by(self, candidate: Callable[..., Any]) -> None:
        """Check that a candidate can be called as the reference is.

        Raises:
            LoadError: it takes other arguments.
        """
        try:
            accepted = inspect.signature(candidate)
        except Exception:
            return  # a callable that does not tell is called as it is
        positional = [name for name in self.names if name not in self.keyword_only]
        try:
            accepted.bind(*positional, **dict.fromkeys(self.keyword_only))
        except TypeError as error:
            called = ", ".join([*positional, *(f"{name}=..." for name in self.names if name in self.keyword_only)])
            raise LoadError(
                f"it takes {accepted}, the contract calls it with ({called}): {error}. "
                "Check the name, or write an adapter."
            ) from error
        places = [
            parameter.name
            for parameter in accepted.parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        for place, name in enumerate(positional):
            if name in places and places[place : place + 1] != [name]:
                raise LoadError(
                    f"it takes {name!r} as argument {places.index(name) + 1}, the contract passes it as argument "
                    f"{place + 1}. Write an adapter: see CONTRIBUTING.md."
                )

    def bind(self, values: dict[str, Any]) -> Arguments:
        """Arrange named arguments for a call. A parameter that is not given keeps its default."""
        unknown = values.keys() - set(self.names)
        if unknown:
            raise HarnessError(f"case has arguments that the reference does not take: {', '.join(sorted(unknown))}.")
        positional: list[Any] = []
        keyword: dict[str, Any] = {}
        for name in self.names:
            if name not in values:
                continue
            if name in self.keyword_only or len(positional) + len(keyword) < self.names.index(name):
                keyword[name] = values[name]
            else:
                positional.append(values[name])
        return Arguments(tuple(positional), keyword)


def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of a frozen reference."""
    parameters = inspect.signature(function).parameters
    keyword_only = frozenset(name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY)
    return Signature(tuple(parameters), keyword_only)


def live_value(value: Value, device: torch.device) -> Any:
    """One live argument; every call makes a new object."""
    if isinstance(value, TensorValue | DrawnValue):
        tensor = _elements(value)
        if value.strides or value.offset:
            strides = value.strides or row_major(value.shape)
            place = device if value.device == "target" else torch.device("cpu")
            room = torch.empty(value.offset + span(value.shape, strides), dtype=tensor.dtype, device=place)
            return room.as_strided(value.shape, strides, value.offset).copy_(tensor)
        return tensor.to(device) if value.device == "target" else tensor
    if isinstance(value, ArrayValue):
        return np.array(value.data, dtype=value.dtype).reshape(value.shape)
    if isinstance(value, ListValue):
        return list(value.data)
    if isinstance(value, DeviceValue):
        return device
    return value


def live_case(
    case: Case, signature: Signature, device: torch.device, *, derived: Mapping[str, Derived] = MappingProxyType({})
) -> Arguments:
    """The live arguments of one case, those that are ``derived`` from them included."""
    values = {name: live_value(value, device) for name, value in case.arguments.items()}
    return signature.bind(values | {name: item.make(values) for name, item in derived.items()})


def guarded_case(
    case: Case, signature: Signature, device: torch.device, *, derived: Mapping[str, Derived], pattern: int
) -> tuple[Arguments, list[Guard]]:
    """What :func:`live_case` returns, with every tensor between guard bands that hold ``pattern``."""
    values: dict[str, Any] = {}
    guards: list[Guard] = []
    for name, value in case.arguments.items():
        if isinstance(value, TensorValue | DrawnValue):
            place = device if value.device == "target" else torch.device("cpu")
            strides = value.strides or row_major(value.shape)
            dtype = getattr(torch, value.dtype)
            values[name], guard = guarded(f"argument {name}", dtype, value.shape, strides, value.offset, place, pattern)
            values[name].copy_(_elements(value))
            guards.append(guard)
        else:
            values[name] = live_value(value, device)
    with Allocations(pattern) as allocations:
        made = {name: item.make(values) for name, item in derived.items()}
    return signature.bind(values | made), [*guards, *allocations.guards]


def _elements(value: TensorValue | DrawnValue) -> torch.Tensor:
    """A contiguous tensor in main memory with a value's elements."""
    dtype = getattr(torch, value.dtype)
    if isinstance(value, DrawnValue):
        drawn = torch.empty(value.shape, dtype=dtype).copy_(torch.from_numpy(value.elements()))
        # Which of its NaNs a conversion makes depends on the processor and on the number of elements.
        return drawn.masked_fill_(drawn.isnan(), torch.nan)
    tensor = torch.tensor(value.data, dtype=dtype)
    return tensor if value.shape == (len(value.data),) else tensor.reshape(value.shape)


def live_block(
    block: Block, start: int, stop: int, signature: Signature, device: torch.device
) -> tuple[Iterator[tuple[tuple[Any, ...], dict[str, Any]]], dict[str, Any]]:
    """The live arguments of cases ``start`` to ``stop`` of a block, and their backing: what all of them are views of.

    One table per tensor argument is built for all cases at once, and each case gets a row of it: many times cheaper
    than a tensor per case. A call that writes to its argument, or past its end, therefore changes the backing, which
    can be compared once for all cases. Fixed arguments that a call can write to are made anew for every case.
    """
    columns: dict[str, Any] = {}
    backing: dict[str, Any] = {}
    for name, column in block.columns.items():
        if isinstance(column, TensorColumn):
            table = torch.from_numpy(column.table[start:stop].astype(column.dtype))
            backing[name] = table
            columns[name] = table.unbind(0)
        else:
            columns[name] = backing[name] = [live_value(value, device) for value in column.values[start:stop]]
    for name, value in block.fixed.items():
        if isinstance(value, TensorValue | DrawnValue | ArrayValue | ListValue):
            columns[name] = backing[name] = [live_value(value, device) for _ in range(start, stop)]
        else:
            columns[name] = repeat(live_value(value, device), stop - start)
    given = [name for name in signature.names if name in columns]
    if given != list(signature.names[: len(given)]) or len(given) != len(columns):
        rows: Iterator[Any] = zip(*columns.values(), strict=True)
        bound = (signature.bind(dict(zip(columns, row, strict=True))) for row in rows)
        return ((arguments.positional, arguments.keyword) for arguments in bound), backing
    positional = [columns[name] for name in given if name not in signature.keyword_only]
    keyword = {name: columns[name] for name in given if name in signature.keyword_only}
    by_position = zip(*positional, strict=True) if positional else repeat((), stop - start)
    if all(isinstance(column, repeat) for column in keyword.values()):
        constant = {name: next(column) for name, column in keyword.items()}
        return zip(by_position, repeat(constant)), backing
    by_keyword = (dict(zip(keyword, row, strict=True)) for row in zip(*keyword.values(), strict=True))
    return zip(by_position, by_keyword, strict=True), backing
