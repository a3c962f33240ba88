"""Conv cases: batches of a causal convolution as cases of ``causal_conv1d_prefill``, and what a case says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan
from typing import Final, TypeAlias

from harness.case import Case, DrawnValue, TensorValue, Value
from strategies.conv_batch import DTYPES, NULL_LINE, WIDTHS, ConvBatch, Row

NAME: Final = "causal_conv1d_prefill"
PAD_SLOT: Final = -1
"""What the program tables hold where there is no program."""
WHOLE: Final = 16
"""The largest whole number of which products of two are exact in bfloat16, and sums of five of those in float32."""

SIGNED: Final = {"integers": "integers or -0.0"}
FINITE: Final = {"extreme": "positive"}
"""What weights are where tokens may be infinite: an infinite one would make NaN of the zeros before a row."""

Floats: TypeAlias = TensorValue | DrawnValue


def case_of(batch: ConvBatch) -> Case:
    """The case of one batch."""
    return Case(NAME, arguments_of(batch))


def arguments_of(batch: ConvBatch) -> dict[str, Value]:
    """The arguments of one batch.

    What nobody may read is NaN: tokens behind the last row, and every cache line but those of rows that continue.
    """
    starts, taps = batch.query_start_loc, batch.width - 1
    tokens, row_stride = starts[-1] + batch.padding, batch.dim + batch.column_gap
    read = {batch.renumbered(row.line) for row in batch.rows if row.continues and row.line != NULL_LINE}

    def drawn(number: int, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, *nan: range) -> DrawnValue:
        # Ranges lie on the first axis of the cache, and on the second one of everything else.
        parts = tuple((0 if len(shape) == 3 else 1, part.start, part.stop) for part in nan)
        seed = 4 * batch.seed + number
        # Negative zeros are copied into the cache as they are; in a bias, they would make the order of a sum matter.
        numbers = (SIGNED if number in (0, 3) else FINITE).get(batch.numbers, batch.numbers)
        return DrawnValue(batch.dtype, shape, numbers, seed, parts, strides, offset, "target")

    def index(dtype: str, data: Iterable[int]) -> TensorValue:
        return TensorValue(dtype, tuple(data), device="target", offset=batch.index_offset)

    behind = [range(starts[-1], tokens)] if batch.padding else []
    return {
        "x": drawn(0, (batch.dim, tokens), (1, batch.dim + batch.token_gap), batch.x_offset, *behind),
        "weight": drawn(1, (batch.dim, batch.width), (), batch.weight_offset),
        "bias": drawn(2, (batch.dim,), (), batch.weight_offset) if batch.has_bias else None,
        "conv_states": drawn(
            3,
            (batch.lines, batch.dim, taps),
            (row_stride * taps + batch.line_gap, 1, row_stride),
            batch.state_offset,
            *_runs(line for line in range(batch.lines) if line not in read),
        ),
        "query_start_loc": index("int32", starts),
        "cache_indices": index("int32", (batch.renumbered(row.line) for row in batch.rows)),
        "has_initial_state": index("bool", (row.continues for row in batch.rows)),
        "activation": batch.activation,
        "pad_slot_id": PAD_SLOT,
        "null_block_id": batch.null_block,
    }


def batch_of(case: Case) -> ConvBatch | None:
    """The batch that a case is made from, or None: a saved case can hold anything."""
    try:
        facts = facts_of(case.arguments)
        x, weight, states = facts.x, facts.weight, facts.states
        column = states.strides[2]
        unnamed = {drawn: named for named, drawn in SIGNED.items()}
        empty = ConvBatch(rows=(), lines=states.shape[0], null_block=facts.null_block)
        batch = replace(
            empty,
            rows=tuple(map(Row, facts.lengths, map(empty.renumbered, facts.lines), facts.continues)),
            dim=x.shape[0],
            width=weight.shape[1],
            dtype=x.dtype,  # type: ignore[arg-type]  # checked when it is made
            has_bias=facts.bias is not None,
            activation=facts.activation,  # type: ignore[arg-type]
            numbers=unnamed.get(x.numbers, x.numbers) if isinstance(x, DrawnValue) else "",
            seed=x.seed // 4 if isinstance(x, DrawnValue) else 0,
            padding=facts.padding,
            token_gap=x.strides[1] - x.shape[0],
            column_gap=column - x.shape[0],
            line_gap=states.strides[0] - column * states.shape[2],
            x_offset=x.offset,
            weight_offset=weight.offset,
            state_offset=states.offset,
            index_offset=facts.index_offset,
        )
    except (KeyError, IndexError, ValueError):
        return None
    return batch if case_of(batch) == case else None


def is_exact(case: Case) -> bool:
    """Whether every product and every sum of the convolution is a number of its type: no order can change a bit."""
    numbers = (case.arguments[name] for name in ("x", "weight", "bias", "conv_states"))
    return case.arguments["activation"] is None and all(map(_is_whole, numbers))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a case says, in the words of its arguments."""

    x: Floats
    weight: Floats
    bias: Floats | None
    states: Floats
    lengths: tuple[int, ...]
    lines: tuple[int, ...]
    continues: tuple[bool, ...]
    activation: str | None
    null_block: int | None
    padding: int
    """Tokens behind the last row."""
    index_offset: int

    @property
    def taps_before(self) -> int:
        """Tokens before a token that it depends on: the width of the convolution, less 1."""
        return self.states.shape[2]


def facts_of(arguments: Mapping[str, Value]) -> Facts:
    """Read the arguments of a case.

    Raises:
        ValueError: they are not arguments that the contract speaks of; the message names the one that is not.
    """
    x, weight, states = (_floats(name, arguments, rank) for name, rank in (("x", 2), ("weight", 2), ("conv_states", 3)))
    bias = None if arguments["bias"] is None else _floats("bias", arguments, 1)
    (dim, tokens), activation = x.shape, arguments["activation"]
    if any(
        other is not None and (other.dtype, other.device) != (x.dtype, x.device) for other in (weight, bias, states)
    ):
        raise ValueError("weight, bias and conv_states must have the element type and the device of x")
    if x.dtype not in DTYPES or dim < 1:
        raise ValueError(f"x must hold one channel or more of {', '.join(DTYPES)}")
    if weight.shape[0] != dim or weight.shape[1] not in WIDTHS or weight.strides or (bias and bias.shape != (dim,)):
        raise ValueError(f"weight and bias must be contiguous, for {dim} channels, with a width of 2 to 4")
    if states.shape[0] < 1 or states.shape[1:] != (dim, weight.shape[1] - 1):
        raise ValueError(f"conv_states must have the shape (lines, {dim}, {weight.shape[1] - 1})")
    if not (x.strides and states.strides and x.strides[0] == states.strides[1] == 1):
        raise ValueError("x and conv_states must have their channels side by side in memory")
    starts = _integers("query_start_loc", arguments, "int32")
    lines, continues = _integers("cache_indices", arguments, "int32"), _integers("has_initial_state", arguments, "bool")
    lengths = tuple(after - before for before, after in pairwise(starts))
    if not starts or starts[0] != 0 or min(lengths, default=0) < 0 or starts[-1] > tokens:
        raise ValueError(f"query_start_loc must start at 0, not decrease, and end at {tokens} or before")
    null_block = arguments["null_block_id"]
    if null_block is not None and (type(null_block) is not int or not 0 <= null_block < states.shape[0]):
        raise ValueError("null_block_id must be None or the number of a line of the cache")
    used = [line for line in lines if line != null_block]
    if len(lines) != len(lengths) or len(set(used)) != len(used) or not all(0 <= n < states.shape[0] for n in used):
        raise ValueError(f"cache_indices must name {len(lengths)} lines of the cache, none but the null block twice")
    if len(continues) != len(lengths):
        raise ValueError(f"has_initial_state must have {len(lengths)} elements")
    if activation is not None and activation != "silu":
        raise ValueError("activation must be None or 'silu'")
    if arguments["pad_slot_id"] != PAD_SLOT:
        raise ValueError(f"pad_slot_id must be {PAD_SLOT}")
    offset = arguments["query_start_loc"].offset if isinstance(arguments["query_start_loc"], TensorValue) else 0
    flags = tuple(map(bool, continues))
    padding = tokens - starts[-1]
    return Facts(x, weight, bias, states, lengths, lines, flags, activation, null_block, padding, offset)


def _floats(name: str, arguments: Mapping[str, Value], rank: int) -> Floats:
    value = arguments[name]
    if not isinstance(value, TensorValue | DrawnValue) or len(value.shape) != rank:
        raise ValueError(f"{name} must be a tensor of {rank} dimensions")
    return value


def _integers(name: str, arguments: Mapping[str, Value], dtype: str) -> tuple[int, ...]:
    value = arguments[name]
    if not isinstance(value, TensorValue) or value.dtype != dtype or value.shape != (len(value.data),) or value.strides:
        raise ValueError(f"{name} must be a tensor of {dtype} and of one dimension")
    return tuple(map(int, value.data))


def _is_whole(value: Value) -> bool:
    if isinstance(value, TensorValue):
        return all(isnan(number) or (abs(number) <= WHOLE and number == int(number)) for number in value.data)
    return value is None or (isinstance(value, DrawnValue) and value.numbers in {*SIGNED, *SIGNED.values()})


def _runs(numbers: Iterable[int]) -> Iterator[range]:
    """Ascending numbers as the longest ranges that hold no other."""
    run = range(0)
    for number in numbers:
        if run and number != run.stop:
            yield run
            run = range(0)
        run = range(run.start if run else number, number + 1)
    if run:
        yield run
