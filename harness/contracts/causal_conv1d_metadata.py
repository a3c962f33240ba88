"""Contract of the causal convolution's program tables, as vLLM's ``compute_causal_conv1d_metadata`` builds them.

In the domain: cumulative lengths in int32 or int64, none negative, so that no length overflows. They may start at any
number and may decrease. Batches whose tables do not fit into memory are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from harness.case import INTEGER_BITS, TARGET_DEVICE, Case, TensorValue, Value
from harness.contract import PROFILES, Contract, Probe, Stratum
from harness.kernels.conv_probe import fits, prepare, probe_batches
from harness.search.space import Block, Integers, Space, TensorColumn
from strategies.large_batches import MIXED, from_lengths, landmark_batches, malformed_landmarks
from strategies.simpler import simpler
from strategies.small_batches import malformed_batches, small_batches

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Mask: TypeAlias = Callable[[Integers], NDArray[np.bool_]]

NAME: Final = "causal_conv1d_metadata"
ARGUMENT: Final = "query_start_loc_p_cpu"
TILE: Final = 8
DTYPES: Final = ("int32", "int64")

TO_TWO_TILES: Final = range(18)
"""Every length up to two tiles and one token."""
BOUNDARIES: Final = (0, 1, 7, 8, 9, 15, 16, 17)
"""Lengths around each boundary up to two tiles."""
DECREASES: Final = range(-9, 10)
"""Lengths of malformed batches: decreases that round to no program, to -1 program, and rows around them."""
FEW_DECREASES: Final = (-9, -8, -7, -1, 0, 1, 8)


def case(values: Iterable[int], dtype: str = "int32") -> Case:
    """The case of one batch, given by its cumulative lengths."""
    return Case(NAME, {ARGUMENT: TensorValue(dtype, tuple(values)), "device": TARGET_DEVICE})


def _space(profile: str) -> Space:
    level = PROFILES.index(profile)
    boundaries = f"{_listed(BOUNDARIES)} tokens"
    if level == 0:
        well_formed = [*small_batches(max_rows=3, lengths=BOUNDARIES)]
        phrases = [f"every batch of up to 3 rows of {boundaries}"]
    else:
        # Rows past those in which every length is tried take their lengths from around the boundaries.
        full, most = {1: (3, 4), 2: (4, 5), 3: (4, 6)}[level]
        well_formed = [
            *small_batches(max_rows=full, lengths=TO_TWO_TILES),
            *small_batches(min_rows=full + 1, max_rows=most, lengths=BOUNDARIES),
        ]
        phrases = [
            f"every batch of up to {full} rows of {_listed(TO_TWO_TILES)} tokens",
            f"of {' and '.join(map(str, range(full + 1, most + 1)))} rows of {boundaries}",
        ]

    few = 2 if level < 2 else 3
    lengths: Collection[int] = BOUNDARIES if level == 0 else TO_TWO_TILES
    decreases: Collection[int] = FEW_DECREASES if level == 0 else DECREASES
    well_formed += small_batches(min_rows=1, max_rows=few, lengths=lengths, start=3)
    well_formed += small_batches(min_rows=1, max_rows=2, lengths=BOUNDARIES, start=2**24 + 1)
    beyond_int32 = small_batches(min_rows=1, max_rows=2, lengths=BOUNDARIES, start=2**31 + 3)
    malformed = malformed_batches(max_rows=few, lengths=decreases, start=9 * few)
    phrases += [
        f"of up to {few} rows of {_listed(lengths)} tokens starting at 3",
        f"of up to 2 rows of {boundaries} starting at 2**24 + 1 and (int64 alone) at 2**31 + 3",
        f"malformed, of up to {few} rows of {_listed(decreases)} tokens starting at {9 * few}, at least one negative",
    ]
    blocks = [
        *(_block(table, dtype) for table in well_formed for dtype in DTYPES),
        *(_block(table, "int64") for table in beyond_int32),
        *(_block(table, dtype) for table in malformed for dtype in DTYPES),
    ]
    return Space("; ".join(phrases) + "; in int32 and int64", tuple(blocks))


def _block(table: Integers, dtype: str) -> Block:
    return Block(NAME, {ARGUMENT: TensorColumn(dtype, table)}, {"device": TARGET_DEVICE})


def _listed(lengths: Collection[int]) -> str:
    if isinstance(lengths, range):
        return f"{lengths[0]} to {lengths[-1]}"
    return ", ".join(map(str, lengths))


def _strategy() -> SearchStrategy[Case]:
    # On demand: Hypothesis takes longer to import than everything else here, and a replay needs none of it.
    from hypothesis import strategies as st

    from strategies.cumulative_lengths import DTYPE_MAX, cumulative_lengths
    from strategies.scheduler_batches import caller_arguments

    def cases(dtype: str) -> SearchStrategy[Case]:
        well_formed = cumulative_lengths(tile=TILE, max_value=DTYPE_MAX[dtype])
        malformed = cumulative_lengths(tile=TILE, max_value=DTYPE_MAX[dtype], max_rows=4, many_rows=0, malformed=True)
        kinds = [well_formed] * 11 + [caller_arguments()] * 4 + [malformed]
        return st.sampled_from(kinds).flatmap(lambda values: values).map(lambda values: case(values, dtype))

    return st.one_of([cases(dtype) for dtype in DTYPES])


def _scale(profile: str) -> Sequence[Case]:
    level = PROFILES.index(profile)
    batches = [  # the buffers hold 2048 entries up to 1024 programs, twice the number of programs from there on
        from_lengths(8192),
        from_lengths(8193),
        from_lengths(4096, 0, 4104),
        from_lengths(*[0, 1, 0, 8, 1] * 250),
        *landmark_batches(tile=TILE),
        *malformed_landmarks(tile=TILE),
    ]
    beyond_int32 = [from_lengths(17, 0, 9000, 8, start=2**31 + 5)]
    if level >= 1:
        batches += [  # first the batches of the published benchmarks, the last of them nearly all decodes
            from_lengths(2048),
            from_lengths(*[2048] * 32),
            from_lengths(*[8192] * 128),
            from_lengths(*[1] * 974, 1024),
            from_lengths(8 * 32768 + 9, 0, 3),
            from_lengths(*(MIXED * 417)[:5000]),
            from_lengths(*[1, 0] * 16400, 9),
            from_lengths(2**24 + 9, 1),
            from_lengths(*[8192, 0] * 2048, 1, 9, 7),
            from_lengths(3, 0, 8200, 17, start=2**31 - 1 - 8220),
        ]
        beyond_int32 += [from_lengths(*MIXED * 100, start=2**31 - 5000), from_lengths(9, 0, 24, 1, start=2**53)]
    if level >= 2:
        batches += [from_lengths(*[1, 0, 9] * 23000), from_lengths(*[8 * 65536 + 1] * 3)]
    return [*(case(values, dtype) for values in batches for dtype in DTYPES), *(case(v, "int64") for v in beyond_int32)]


def _programs(lengths: Integers) -> Integers:
    return -(-lengths // TILE)


def _some(selected: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Cases in which an element is selected; none where there are no elements."""
    return np.asarray(selected.any(axis=1))


def _inner(empty: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Empty rows with a non-empty row before and another one after them."""
    before = np.logical_or.accumulate(~empty, axis=1)
    after = np.logical_or.accumulate(~empty[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(before & after & empty)


def _padded(lengths: Integers) -> NDArray[np.bool_]:
    """Batches that are filled up with empty rows to the size of a captured graph."""
    if lengths.shape[1] < 32:
        return np.zeros(len(lengths), dtype=np.bool_)
    return np.asarray((lengths[:, -8:] == 0).all(axis=1) & (lengths[:, 0] > 0))


def _of_lengths(mask: Mask) -> Callable[[Block], NDArray[np.bool_]]:
    """Well-formed batches selected by ``mask`` from their lengths, a table (cases, rows)."""

    def select(block: Block) -> NDArray[np.bool_]:
        lengths = np.diff(block.integers(ARGUMENT), axis=1)
        return ~_some(lengths < 0) & mask(lengths)

    return select


def _of_rows(count: Callable[[int], bool]) -> Callable[[Block], NDArray[np.bool_]]:
    """Well-formed batches with such a number of rows."""
    return _of_lengths(lambda lengths: np.full(len(lengths), count(lengths.shape[1])))


def _of_values(mask: Mask) -> Callable[[Block], NDArray[np.bool_]]:
    """Batches selected by ``mask`` from their cumulative lengths, a table (cases, rows + 1)."""
    return lambda block: mask(block.integers(ARGUMENT))


def _of_dtype(dtype: str) -> Callable[[Block], NDArray[np.bool_]]:
    return lambda block: np.full(len(block), block.dtype(ARGUMENT) == dtype)


STRATA: Final = (
    Stratum("int32", _of_dtype("int32")),
    Stratum("int64", _of_dtype("int64")),
    Stratum("empty batch", _of_rows(lambda rows: rows == 0)),
    Stratum("leading zero-length row", _of_lengths(lambda n: _some(n[:, :1] == 0) & _some(n > 0))),
    Stratum("zero-length row in the middle", _of_lengths(lambda n: _some(_inner(n == 0)))),
    Stratum("trailing zero-length row", _of_lengths(lambda n: _some(n[:, -1:] == 0) & _some(n > 0))),
    Stratum("all rows of zero length", _of_lengths(lambda n: _some(n == 0) & ~_some(n > 0))),
    Stratum("length one below a multiple of 8", _of_lengths(lambda n: _some(n % TILE == TILE - 1))),
    Stratum("length a multiple of 8", _of_lengths(lambda n: _some((n > 0) & (n % TILE == 0)))),
    Stratum("length one above a multiple of 8", _of_lengths(lambda n: _some((n > 1) & (n % TILE == 1)))),
    Stratum("start other than 0", _of_values(lambda values: _some(values[:, :1] != 0))),
    Stratum("exactly 1024 programs", _of_lengths(lambda n: _programs(n).sum(axis=1) == 1024)),
    Stratum("more than 1024 programs", _of_lengths(lambda n: _programs(n).sum(axis=1) > 1024)),
    Stratum("more than 32768 programs in one row", _of_lengths(lambda n: _some(_programs(n) > 32768)), "gate"),
    Stratum("32 rows or more, all of one token", _of_lengths(lambda n: (n == 1).all(axis=1) & (n.shape[1] >= 32))),
    Stratum("32 rows or more, the last 8 empty", _of_lengths(_padded)),
    Stratum("256 rows, or one more or less", _of_rows(lambda rows: abs(rows - 256) <= 1)),
    Stratum("more than 1000 rows", _of_rows(lambda rows: rows > 1000)),
    Stratum("more than 4000 rows", _of_rows(lambda rows: rows > 4000), "gate"),
    Stratum("more than 32768 rows", _of_rows(lambda rows: rows > 32768), "gate"),
    Stratum("cumulative value past 2**24", _of_values(lambda values: _some(values > 2**24))),
    Stratum("cumulative value past 2**31", _of_values(lambda values: _some(values > 2**31))),
    Stratum("more than 2**24 tokens", _of_lengths(lambda n: n.sum(axis=1) > 2**24), "gate"),
    Stratum(
        "decrease that rounds to no program",
        _of_values(lambda values: _some((np.diff(values) < 0) & (np.diff(values) > -TILE))),
    ),
    Stratum("decrease to a negative number of programs", _of_values(lambda values: _some(np.diff(values) <= -TILE))),
)


def _twin(original: Case) -> Case | None:
    value = original.arguments.get(ARGUMENT)
    if not _in_domain(value) or len(value.data) < 2:
        return None
    start, lengths = int(value.data[0]), np.diff(value.data).tolist()
    programs = [-(-length // TILE) for length in lengths]
    if min(lengths) < 0:
        # A call that may have raised is best followed by one that must work.
        other = [length if length >= 0 else TILE for length in lengths]
    elif programs != programs[::-1]:
        other = lengths[::-1]
    else:
        other = [lengths[0] + TILE, *lengths[1:]]
    # Where the longer batch would leave the element type's range, it starts earlier.
    start -= max(0, start + sum(other) - _largest(value.dtype))
    return case(accumulate(other, initial=start), value.dtype) if start >= 0 else None


def _simpler(original: Case) -> Iterator[Case]:
    value = original.arguments.get(ARGUMENT)
    if not _in_domain(value):
        return
    values = tuple(int(number) for number in value.data)
    if value.dtype == "int64" and max(values) <= _largest("int32"):
        yield case(values, "int32")
    for fewer in simpler(values, tile=TILE):
        if max(fewer) <= _largest(value.dtype):
            yield case(fewer, value.dtype)


def _in_domain(value: Value) -> TypeGuard[TensorValue]:
    """Whether an argument is one that the contract speaks of; a saved case can hold anything."""
    if not isinstance(value, TensorValue) or value.dtype not in DTYPES:
        return False
    return value.shape == (len(value.data),) and min(value.data, default=-1) >= 0


def _largest(dtype: str) -> int:
    return (1 << INTEGER_BITS[dtype] - 1) - 1


def _launch(returned: Any) -> Mapping[str, Any]:
    tables, batch_ptr, token_chunk_offset_ptr = returned
    return {"tot": tables[TILE]["tot"], "batch_ptr": batch_ptr, "token_chunk_offset_ptr": token_chunk_offset_ptr}


def _probe_cases(profile: str, compiled: bool) -> Sequence[Case]:
    return [case(values, DTYPES[i % len(DTYPES)]) for i, values in enumerate(probe_batches(profile, compiled))]


CONTRACT: Final = Contract(
    name=NAME,
    summary="which row, and which tile of 8 tokens in it, each program of the causal convolution works on",
    reference="references.causal_conv1d_metadata:compute_causal_conv1d_metadata",
    upstream_names=("compute_causal_conv1d_metadata",),
    consumers=("Mamba", "ShortConv", "GDN", "Kimi K3 (KDA)"),
    space=_space,
    strategy=_strategy,
    scale=_scale,
    strata=STRATA,
    twin=_twin,
    simpler=_simpler,
    launch=_launch,
    probes=(Probe(name="causal_conv1d_prefill", cases=_probe_cases, fits=fits, prepare=prepare, needs=("triton",)),),
)
