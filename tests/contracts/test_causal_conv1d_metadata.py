"""The contract of the convolution's program tables: its spaces, strata, twins and steps of shrinking."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from harness.case import TARGET_DEVICE, Case, TensorValue, read_case_file
from harness.contract import PROFILES
from harness.contracts.causal_conv1d_metadata import CONTRACT, case
from harness.search.space import Block, block_of
from references.causal_conv1d_metadata import compute_causal_conv1d_metadata
from strategies.simpler import measure

CASES = Path(__file__).parents[1] / "cases"
STRATA = {stratum.name: stratum for stratum in CONTRACT.strata}


def values_of(some: Case) -> list[int]:
    value = some.arguments["query_start_loc_p_cpu"]
    assert isinstance(value, TensorValue)
    return [int(number) for number in value.data]


def dtype_of(some: Case) -> str:
    value = some.arguments["query_start_loc_p_cpu"]
    assert isinstance(value, TensorValue)
    return value.dtype


def lengths_of(some: Case) -> list[int]:
    return [after - before for before, after in pairwise(values_of(some))]


def tables_of(some: Case) -> tuple[list[int], list[int], list[int]]:
    """Programs of each row, row and tile of each program."""
    argument = torch.tensor(values_of(some), dtype=torch.int64)
    tables = compute_causal_conv1d_metadata(argument, device=torch.device("cpu"))[0][8]
    return tables["nums"].tolist(), tables["mlist"].tolist(), tables["offsetlist"].tolist()


def hit(profile: str) -> Counter[str]:
    """How many cases of each stratum the deterministic part of a profile has."""
    counts: Counter[str] = Counter()
    for block in CONTRACT.space(profile).blocks:
        counts.update(CONTRACT.count_strata(block))
    for some in CONTRACT.scale(profile):
        counts.update(CONTRACT.count_strata(block_of(some)))
    return counts


@pytest.mark.parametrize("profile", PROFILES)
def test_the_space_and_the_scale_cases_alone_hit_every_required_stratum(profile: str) -> None:
    counts = hit(profile)
    assert [s.name for s in CONTRACT.strata if s.required(profile) and not counts[s.name]] == []


def test_a_gate_requires_every_stratum() -> None:
    assert all(stratum.required("gate") for stratum in CONTRACT.strata)


@pytest.mark.parametrize(("profile", "cases"), [("commit", 1618), ("gate", 21982), ("premerge", 312660)])
def test_a_space_has_the_stated_size(profile: str, cases: int) -> None:
    assert len(CONTRACT.space(profile)) == cases


def test_the_spaces_of_a_commit_and_a_gate_hold_no_case_twice() -> None:
    for profile in ("commit", "gate"):
        space = CONTRACT.space(profile)
        seen = {(b.dtype("query_start_loc_p_cpu"), *row) for b in space.blocks for row in table_rows(b)}
        assert len(seen) == len(space), profile


def table_rows(block: Block) -> list[tuple[int, ...]]:
    return [tuple(row) for row in block.integers("query_start_loc_p_cpu").tolist()]


def test_well_formed_batches_that_start_at_0_come_first_and_smallest_first() -> None:
    space = CONTRACT.space("gate")
    keys = []
    for block in space.blocks:
        table = block.integers("query_start_loc_p_cpu")
        plain = bool((table[:, 0] == 0).all() and (np.diff(table, axis=1) >= 0).all())
        keys += [(not plain, table.shape[1], block.dtype("query_start_loc_p_cpu"), int(row[-1])) for row in table]
    first = [key for key in keys if not key[0]]
    assert keys[: len(first)] == first == sorted(first)
    assert space[0] == case([0], "int32")
    assert space[1] == case([0], "int64")


@pytest.mark.parametrize("profile", PROFILES[:3])
def test_every_entry_of_a_space_fits_its_element_type_and_is_not_negative(profile: str) -> None:
    for block in CONTRACT.space(profile).blocks:
        table = block.integers("query_start_loc_p_cpu")
        assert table.min() >= 0
        assert table.max() <= np.iinfo(block.dtype("query_start_loc_p_cpu")).max


def test_scale_cases_grow_with_the_profile_and_fit_their_element_type() -> None:
    scales = [set(CONTRACT.scale(profile)) for profile in PROFILES]
    assert scales[0] < scales[1] < scales[2] <= scales[3]
    for some in scales[3]:
        assert max(values_of(some)) <= np.iinfo(dtype_of(some)).max


@pytest.mark.parametrize(
    ("stratum", "inside", "outside"),
    [
        ("empty batch", [[0], [7]], [[0, 0]]),
        ("leading zero-length row", [[0, 0, 64]], [[0, 0], [0, 5, 5, 9], [0, 16, 16], [0]]),
        (
            "zero-length row in the middle",
            [[0, 5, 5, 9], [0, 0, 1, 1, 1, 2]],
            [[0, 0, 64], [0, 16, 16], [0, 0, 0, 0], [0]],
        ),
        ("trailing zero-length row", [[0, 16, 16]], [[0, 0], [0, 5, 5, 9], [0]]),
        ("all rows of zero length", [[0, 0], [3, 3, 3]], [[0], [0, 0, 1]]),
        ("length one below a multiple of 8", [[0, 7], [0, 1, 16]], [[0, 8], [0, 1], [0, 9, 8, 23]]),
        ("length a multiple of 8", [[0, 8], [0, 1, 17]], [[0, 0], [0, 9]]),
        ("length one above a multiple of 8", [[0, 9], [0, 2, 19]], [[0, 1], [0, 8]]),
        ("start other than 0", [[3, 8, 19], [1]], [[0, 5]]),
        ("exactly 1024 programs", [[0, 8192], [0, 4096, 8180, 8185]], [[0, 8193], [0, 8184]]),
        ("more than 1024 programs", [[0, 8193], [0, 8192, 8193]], [[0, 8192]]),
        ("more than 32768 programs in one row", [[0, 262145]], [[0, 262144], [0, 262144, 262145]]),
        ("more than 1000 rows", [[0] * 1002], [[0] * 1001]),
        ("more than 4000 rows", [[0] * 4002], [[0] * 4001]),
        ("more than 32768 rows", [[0] * 32770], [[0] * 32769]),
        ("cumulative value past 2**24", [[2**24 + 1], [0, 2**24 + 1]], [[0, 2**24]]),
        ("cumulative value past 2**31", [[2**31 + 1]], [[2**31 - 1]]),
        ("more than 2**24 tokens", [[0, 2**24 + 1]], [[2**24 + 1, 2**24 + 2]]),
        ("decrease that rounds to no program", [[0, 5, 3, 9], [7, 0]], [[0, 20, 5, 30], [0, 5], [0]]),
        ("decrease to a negative number of programs", [[0, 20, 5, 30], [8, 0]], [[0, 5, 3, 9], [0, 5], [0]]),
    ],
)
def test_a_stratum_holds_what_its_name_says(stratum: str, inside: list[list[int]], outside: list[list[int]]) -> None:
    mask = STRATA[stratum].mask
    for dtype in ("int32", "int64"):
        if dtype == "int64" or max(map(max, inside)) < 2**31:
            assert [bool(mask(block_of(case(values, dtype)))[0]) for values in inside] == [True] * len(inside)
            assert [bool(mask(block_of(case(values, dtype)))[0]) for values in outside] == [False] * len(outside)


def test_element_types_are_strata() -> None:
    counts = CONTRACT.count_strata(block_of(case([0, 1], "int64")))
    assert (counts["int32"], counts["int64"]) == (0, 1)


def test_a_stratum_is_the_same_for_a_block_and_for_its_cases_one_by_one() -> None:
    blocks = [block for block in CONTRACT.space("commit").blocks if len(block) < 100]
    assert len(blocks) > 10
    for block in blocks:
        for stratum in CONTRACT.strata:
            singly = [bool(stratum.mask(block_of(block[index]))[0]) for index in range(len(block))]
            assert stratum.mask(block).tolist() == singly, stratum.name


def test_a_twin_has_the_same_shape_and_type_and_other_tables() -> None:
    space = CONTRACT.space("commit")
    for some in [*(space[index] for index in range(len(space))), *CONTRACT.scale("commit")]:
        twin = CONTRACT.twin(some)
        if len(values_of(some)) == 1:
            assert twin is None
            continue
        assert twin is not None
        assert len(values_of(twin)) == len(values_of(some))
        assert dtype_of(twin) == dtype_of(some)
        assert min(lengths_of(twin)) >= 0
        if min(lengths_of(some)) >= 0:
            assert tables_of(twin) != tables_of(some), some


@pytest.mark.parametrize(("dtype", "largest"), [("int32", 2**31 - 1), ("int64", 2**63 - 1)])
def test_a_twin_fits_where_the_batch_ends_at_the_largest_number(dtype: str, largest: int) -> None:
    twin = CONTRACT.twin(case([largest - 1, largest], dtype))
    assert twin == case([largest - 9, largest], dtype)


def test_a_case_of_another_argument_has_neither_twin_nor_simpler_cases() -> None:
    strange = [
        Case(CONTRACT.name, {"query_start_loc_p_cpu": TensorValue("float32", (0.0, 1.0)), "device": TARGET_DEVICE}),
        Case(CONTRACT.name, {"query_start_loc_p_cpu": TensorValue("int32", (0, 1), (1, 2)), "device": TARGET_DEVICE}),
        Case(CONTRACT.name, {"query_start_loc_p_cpu": 3, "device": TARGET_DEVICE}),
        Case(CONTRACT.name, {}),
    ]
    assert [CONTRACT.twin(some) for some in strange] == [None] * len(strange)
    assert [list(CONTRACT.simpler(some)) for some in strange] == [[]] * len(strange)


def test_simpler_cases_are_smaller_and_int32_is_simpler_than_int64() -> None:
    some = case([3, 8, 19, 19], "int64")
    simpler = list(CONTRACT.simpler(some))
    assert simpler[0] == case([3, 8, 19, 19], "int32")
    assert simpler[1] == case([0, 5, 16, 16], "int64")
    assert all(measure(tuple(values_of(other))) < measure((3, 8, 19, 19)) for other in simpler[1:])
    assert list(CONTRACT.simpler(case([0]))) == []


def test_simpler_cases_fit_their_element_type() -> None:
    edge = case([0, 2**31 - 1, 5, 2**31 - 1], "int32")
    simpler = list(CONTRACT.simpler(edge))
    assert simpler
    assert all(min(values_of(other)) >= 0 and max(values_of(other)) < 2**31 for other in simpler)


def test_the_strategy_draws_cases_in_domain_of_both_types_and_both_kinds() -> None:
    drawn: list[Case] = []

    @settings(
        max_examples=600,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(CONTRACT.strategy())
    def collect(some: Case) -> None:
        drawn.append(some)

    collect()
    assert {dtype_of(some) for some in drawn} == {"int32", "int64"}
    assert all(min(values_of(some)) >= 0 and max(values_of(some)) <= np.iinfo(dtype_of(some)).max for some in drawn)
    malformed = sum(min(lengths_of(some), default=0) < 0 for some in drawn)
    assert 0 < malformed < len(drawn) / 5


def test_launch_picks_what_the_kernel_reads() -> None:
    assert CONTRACT.launch is not None
    returned = compute_causal_conv1d_metadata(torch.tensor([0, 9]), device=torch.device("cpu"))
    assert CONTRACT.launch(returned) == {"tot": 2, "batch_ptr": returned[1], "token_chunk_offset_ptr": returned[2]}


@pytest.mark.parametrize("path", sorted(CASES.glob(f"{CONTRACT.name}-*.json")), ids=lambda path: path.stem)
def test_a_saved_case_is_a_call_of_the_contract_and_says_why_it_is_kept(path: Path) -> None:
    saved = read_case_file(path)
    assert saved.case.contract == CONTRACT.name
    assert list(saved.case.arguments) == ["query_start_loc_p_cpu", "device"]
    assert saved.name == path.name
    assert saved.note


def test_small_inputs_worth_keeping_are_kept_in_both_types() -> None:
    saved = {read_case_file(path).case for path in CASES.glob(f"{CONTRACT.name}-*.json")}
    kept = [[0], [0, 0], [0, 5, 5, 9], [0, 0, 64], [0, 8193], [3, 8, 19], [0, 5, 3, 9], [0, 20, 5, 30]]
    assert {case(values, dtype) for values in kept for dtype in ("int32", "int64")} <= saved


def test_a_case_is_built_from_any_iterable_of_numbers() -> None:
    assert case(accumulate([5, 0, 4], initial=0)) == case([0, 5, 5, 9], "int32")
