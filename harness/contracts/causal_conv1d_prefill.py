"""Contract of the causal convolution itself, as vLLM's ``causal_conv1d_fn`` computes it for prefills.

In the domain: channels side by side in memory, gaps of any size behind tokens and inside the cache; int32 cumulative
lengths that start at 0 and end with the last token or before; every row on a cache line of its own, or on the null line
0 with any number of others. What nobody may read is NaN. Cases are batches that ``strategies/conv_batch.py`` describes.

Where all numbers are small and whole and there is no activation, every result is exact and the frozen reference says
what it is; elsewhere another kernel does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Final, overload

from harness.case import Case, TensorValue, Value
from harness.contract import PROFILES, Contract, Derived
from harness.kernels.conv_cases import NAME, arguments_of, batch_of, case_of, is_exact
from harness.kernels.conv_strata import STRATA
from harness.kernels.program_tables import tables_of_case
from harness.kernels.ulps import measure
from harness.search.space import Block, Space, ValueColumn
from strategies.conv_batch import DTYPES, WIDTHS, ConvBatch, Row, other_values, rows_of
from strategies.simpler_conv_batches import simpler_conv_batches
from strategies.small_conv_batches import KINDS, SmallConvBatches, in_turn

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SHORT: Final = (0, 1, 2, 3, 4, 8, 9)
"""Lengths up to the largest width, and around the end of a tile."""
TO_TWO_TILES: Final = tuple(range(18))
"""Every length up to two tiles and one token."""
BOUNDARIES: Final = (0, 1, 2, 3, 4, 7, 8, 9, 16, 17)
FEW: Final = (0, 1, 2, 9)
PARTS: Final = {
    "commit": (
        SmallConvBatches(0, dtypes=False),
        SmallConvBatches(1, TO_TWO_TILES, dtypes=False),
        SmallConvBatches(2, FEW, widths=False, dtypes=False),
    ),
    "gate": (
        SmallConvBatches(0),
        SmallConvBatches(1, TO_TWO_TILES),
        SmallConvBatches(2, SHORT, widths=False, dtypes=False),
    ),
    "premerge": (
        SmallConvBatches(0),
        SmallConvBatches(1, TO_TWO_TILES),
        SmallConvBatches(2, BOUNDARIES, dtypes=False),
        SmallConvBatches(3, FEW, widths=False, dtypes=False),
    ),
    "nightly": (
        SmallConvBatches(0),
        SmallConvBatches(1, tuple(range(34))),
        SmallConvBatches(2, BOUNDARIES),
        SmallConvBatches(3, (*FEW, 8), dtypes=False),
    ),
}
ROUNDED: Final = (9, 2)
"""Lengths of the rows whose results are not exact."""
LARGE: Final = {
    "commit": (
        ConvBatch(rows=rows_of([130, 9]), lines=3, dim=3, has_bias=True, seed=1),
        ConvBatch(rows=rows_of([1] * 40, continues=[True] * 40), lines=300, dim=2, width=3, seed=2),
        ConvBatch(rows=(Row(9, 290, True), Row(3, 131)), lines=300, dim=2, seed=3),
        ConvBatch(rows=rows_of([9]), lines=2, dim=1100, dtype="float16", seed=4),
        ConvBatch(rows=rows_of([9]), lines=2, dim=300, dtype="bfloat16", has_bias=True, numbers="ordinary", seed=7),
        ConvBatch(rows=rows_of([9, 9]), lines=40, dim=2, token_gap=4094, line_gap=2042, seed=5),
        *(ConvBatch(rows=rows_of([9, 2]), lines=3, dim=dim, padding=70, seed=dim) for dim in (32, 64, 128, 256)),
    ),
    "gate": (ConvBatch(rows=rows_of([1] * 140), lines=141, width=2, seed=6),),
}
"""Batches that are large in one way, each of which is called once, from the profile on that they are listed under; for
a kernel that is interpreted and takes tokens one by one, no call may be longer than this."""


class _Made:
    """The arguments of some batches, made when the first of them is asked for."""

    def __init__(self, batches: SmallConvBatches) -> None:
        self._batches = batches

    @cached_property
    def arguments(self) -> list[dict[str, Value]]:
        return list(map(arguments_of, self._batches))


@dataclass(frozen=True, slots=True)
class _Column(Sequence[Value]):
    """One argument of these batches: a space of thousands can be described without making them."""

    made: _Made
    name: str
    length: int

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> list[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | list[Value]:
        if isinstance(index, slice):
            return [arguments[self.name] for arguments in self.made.arguments[index]]
        return self.made.arguments[index][self.name]

    def __len__(self) -> int:
        return self.length


@cache
def _space(profile: str) -> Space:
    parts = PARTS[profile]
    rounded = [arguments_of(batch) for batch in _rounded()]
    large = [[arguments_of(batch)] for name in PROFILES[: PROFILES.index(profile) + 1] for batch in LARGE.get(name, ())]
    phrases = [
        *map(_phrase, parts),
        "each row new, continuing, or on the null line; everything else varies from batch to batch; then rows of "
        f"{' and '.join(map(str, ROUNDED))} tokens of other numbers with each width, element type and activation, with "
        "and without bias, new and continuing; one batch whose numbers are written out; and "
        f"{len(large)} with many tokens, rows, cache lines or channels, or far apart",
    ]
    blocks = [*map(_block, parts), _listed_block(rounded), _listed_block([_WRITTEN_OUT]), *map(_listed_block, large)]
    return Space("; ".join(phrases), tuple(blocks))


def _rounded() -> Iterator[ConvBatch]:
    """Every kind of arithmetic that there is, on numbers with which rounding shows."""
    numbers = ("ordinary", "ordinary", "steep", "extreme")
    kinds = product(WIDTHS, DTYPES, (None, "silu"), (False, True), (KINDS[:2], KINDS[1::-1]))
    for number, (width, dtype, activation, has_bias, rows) in enumerate(kinds):
        chosen = {"width": width, "dtype": dtype, "activation": activation, "has_bias": has_bias}
        yield in_turn(ROUNDED, rows, number, numbers=numbers[number % 5 % 4], **chosen)


def _block(part: SmallConvBatches) -> Block:
    made, names = _Made(part), arguments_of(ConvBatch(rows=(), lines=1))
    return Block(NAME, {name: ValueColumn(_Column(made, name, len(part))) for name in names})


def _listed_block(cases: list[dict[str, Value]]) -> Block:
    return Block(NAME, {name: ValueColumn([case[name] for case in cases]) for name in cases[0]})


def _phrase(part: SmallConvBatches) -> str:
    each = " and ".join(["each width"] * part.widths + ["each element type"] * part.dtypes)
    rows = f"of {part.rows} row{'s' * (part.rows != 1)}"
    tokens = f" of {_listed(part.lengths)} tokens" if part.rows else ""
    return f"every batch {rows}{tokens} of whole numbers{', with ' * bool(each)}{each}"


def _listed(lengths: tuple[int, ...]) -> str:
    if lengths == tuple(range(len(lengths))):
        return f"0 to {lengths[-1]}"
    return f"{', '.join(map(str, lengths[:-1]))} or {lengths[-1]}"


def _floats(data: Sequence[float], shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> TensorValue:
    return TensorValue("float32", tuple(data), shape, "target", strides)


_NAN: Final = float("nan")
_WRITTEN_OUT: Final[dict[str, Value]] = arguments_of(ConvBatch(rows=rows_of([9]), lines=2)) | {
    "x": _floats([*map(float, range(1, 10))], (1, 9), (1, 1)),
    "weight": _floats([1.0, 2.0, 3.0, 4.0], (1, 4)),
    "bias": _floats([5.0], (1,)),
    "conv_states": _floats([_NAN, _NAN, _NAN, -3.0, -2.0, -1.0], (2, 1, 3), (3, 1, 1)),
}
"""Whoever writes a case by hand can write its numbers, too."""


def _strategy() -> SearchStrategy[Case]:
    # On demand: Hypothesis takes longer to import than everything else here, and a replay needs none of it.
    from strategies.conv_batches import conv_batches

    return conv_batches().map(case_of)


def _scale(profile: str) -> Sequence[Case]:
    """Larger batches, still small enough for interpreted kernels: those of a commit take 8 programs per block of
    channels, those of a gate 16, and those of longer profiles 133.
    """
    level = PROFILES.index(profile)
    usual = ConvBatch(rows=(), lines=16, dim=24, dtype="bfloat16", has_bias=True, activation="silu", numbers="ordinary")
    decodes = rows_of([1, 1, 2, 1, 0, 0, 1, 3], null=(4, 5))
    batches = [
        replace(usual, rows=rows_of([9, 3, 0, 17, 1, 2], null=(4,)), numbers="steep", padding=3, seed=1),
        ConvBatch(rows=decodes, lines=17, dim=70, dtype="float16", seed=2),
        ConvBatch(rows=rows_of([2]), lines=2, dim=70, width=3, dtype="bfloat16", has_bias=True, seed=3),
    ]
    if level >= 1:
        batches += [
            ConvBatch(rows=rows_of([9, 2]), lines=3, dim=300, has_bias=True, seed=4),
            replace(usual, rows=rows_of([5]), dim=300, seed=5),
            replace(usual, rows=rows_of([100]), dim=8, seed=6),
            ConvBatch(rows=rows_of([1] * 16), lines=33, dim=16, width=3, dtype="float16", has_bias=True, seed=7),
        ]
    if level >= 2:
        sizes = product((4, 10), (8, 128, 1024), (False, True))
        batches += [upstream_batch(rows, tokens, 64, padded=padded) for rows, tokens, padded in sizes]
        batches.append(ConvBatch(rows=rows_of([500, 0, 300, 7]), lines=5, dim=16, dtype="bfloat16", seed=8))
    return list(map(case_of, batches))


def _compiled_scale(profile: str) -> Sequence[Case]:
    """Batches that an interpreter would need minutes or hours for.

    From a gate on, more programs than the tables hold at first, cumulative lengths past 2**15, and many rows. From
    premerge on, batches like those of vLLM's own test of its kernel: 4 and 10 rows, 8 to 4,096 tokens, 64 and 4,096
    channels, with and without padding rows.
    """
    level = PROFILES.index(profile)
    if level == 0:
        return []
    batches = [
        ConvBatch(rows=rows_of([8 * 1030]), lines=2, width=2, seed=5),
        ConvBatch(rows=rows_of([33_000, 9, 2], null=(0,)), lines=4, seed=6),
        ConvBatch(rows=rows_of([1] * 1100), lines=1101, width=3, seed=7),
    ]
    if level > 1:
        tokens = (8, 64, 2049) if level == 2 else (8, 16, 32, 64, 128, 256, 512, 784, 1024, 2048, 2049, 4096)
        sizes = product((4, 10), tokens, (64, 4096), (False, True))
        batches += [upstream_batch(rows, count, dim, padded=padded) for rows, count, dim, padded in sizes]
    return list(map(case_of, batches))


def upstream_batch(rows: int, tokens: int, dim: int, *, padded: bool) -> ConvBatch:
    """A batch like those of vLLM's test of its kernel: ``tokens`` cut at random places, SiLU, bias, bfloat16."""
    random = Random(rows * tokens + dim)
    cuts = sorted(int(random.random() * (tokens + 1)) for _ in range(rows - 1))
    lengths = [after - before for before, after in zip([0, *cuts], [*cuts, tokens], strict=True)]
    lengths += [0, 0, 0] if padded else []
    return ConvBatch(
        rows=rows_of(lengths, null=range(rows, len(lengths))),
        lines=rows + 7,
        dim=dim,
        dtype="bfloat16",
        has_bias=True,
        activation="silu",
        numbers="ordinary",
        seed=tokens,
        padding=5 if padded else 0,
    )


def _twin(original: Case) -> Case | None:
    batch = batch_of(original)
    return None if batch is None else case_of(other_values(batch))


def _simpler(original: Case) -> Iterator[Case]:
    batch = batch_of(original)
    return iter(()) if batch is None else map(case_of, simpler_conv_batches(batch))


CONTRACT: Final = Contract(
    name=NAME,
    summary="causal convolution of a batch of rows, and the last tokens of each row kept in a cache",
    reference="references.causal_conv1d_prefill:causal_conv1d_fn",
    upstream_names=("causal_conv1d_fn",),
    consumers=("Mamba", "Mamba2", "ShortConv", "GDN", "Kimi K3 (KDA)"),
    space=_space,
    strategy=_strategy,
    scale=_scale,
    compiled_scale=_compiled_scale,
    strata=STRATA,
    twin=_twin,
    simpler=_simpler,
    minimum_cases=150,
    needs=("triton",),
    examples={"commit": 8, "gate": 40, "premerge": 2000},
    derived={
        "metadata": Derived(tables_of_case, "harness.kernels.program_tables.program_tables(query_start_loc)"),
    },
    guarded=True,
    exact=is_exact,
    peers=(f"{NAME}/tile_of_tokens", f"{NAME}/rolling_taps"),
    measure=measure,
)
