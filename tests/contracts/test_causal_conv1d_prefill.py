"""The contract of the causal convolution: its spaces, strata, twins and steps of shrinking."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from harness.case import Case, DrawnValue, TensorValue, case_from_json, read_case_file
from harness.contract import PROFILES
from harness.contracts import contract_for_function, contract_named
from harness.contracts.causal_conv1d_prefill import CONTRACT, LARGE, PARTS, ROUNDED, upstream_batch
from harness.errors import UsageError
from harness.kernels.conv_cases import batch_of, case_of, facts_of, is_exact
from harness.layout import span
from harness.materialise import live_value
from harness.search.space import block_of
from strategies.conv_batch import DTYPES, NULL_LINE, ConvBatch, Row, rows_of
from strategies.simpler_conv_batches import measure

CASES = Path(__file__).parents[1] / "cases"
FAULTS = Path(__file__).parents[1] / "faults" / CONTRACT.name
SIZES = {"commit": 392, "gate": 1020, "premerge": 5007, "nightly": 19236}


def cases_of(profile: str) -> Iterator[Case]:
    space = CONTRACT.space(profile)
    yield from (space[index] for index in range(len(space)))
    yield from CONTRACT.scale(profile)


def described(case: Case) -> ConvBatch:
    batch = batch_of(case)
    assert batch is not None, case
    return batch


def test_it_is_registered_and_recognised_by_its_upstream_name() -> None:
    assert contract_named("causal_conv1d_prefill") is CONTRACT
    assert contract_for_function("causal_conv1d_fn") is CONTRACT


@pytest.mark.parametrize("profile", PROFILES)
def test_a_space_has_the_stated_size_and_is_sized_before_it_is_made(profile: str) -> None:
    space = CONTRACT.space(profile)
    assert len(space) == SIZES[profile]
    for block, part in zip(space.blocks, PARTS[profile], strict=False):
        assert len(block) == len(part) == sum(1 for _ in part)


@pytest.mark.parametrize("profile", ["commit", "gate"])
def test_the_space_and_the_scale_cases_alone_hit_every_required_stratum(profile: str) -> None:
    counts: Counter[str] = Counter()
    for block in CONTRACT.space(profile).blocks:
        counts.update(CONTRACT.count_strata(block))
    for case in CONTRACT.scale(profile):
        counts.update(CONTRACT.count_strata(block_of(case)))
    assert [s.name for s in CONTRACT.strata if s.required(profile) and not counts[s.name]] == []


def test_a_gate_requires_every_stratum() -> None:
    assert all(stratum.required("gate") for stratum in CONTRACT.strata)


@pytest.mark.parametrize("profile", ["commit", "gate"])
def test_the_space_holds_every_batch_that_its_description_names(profile: str) -> None:
    space = CONTRACT.space(profile)
    large = sum(len(LARGE.get(name, ())) for name in PROFILES[: PROFILES.index(profile) + 1])
    *complete, rounded, written_out = space.blocks[:-large]
    for block, part in zip(complete, PARTS[profile], strict=True):
        keys = set()
        for index in range(len(block)):
            batch = described(block[index])
            assert is_exact(block[index])
            assert {row.length for row in batch.rows} <= set(part.lengths)
            rows = tuple((row.length, row.line != NULL_LINE and (row.continues + 1)) for row in batch.rows)
            keys.add((rows, batch.width if part.widths else 0, batch.dtype if part.dtypes else ""))
        assert len(keys) == len(part)
    batches = [described(rounded[index]) for index in range(len(rounded))]
    kinds = {(b.width, b.dtype, b.activation, b.has_bias, b.rows[0].continues) for b in batches}
    assert len(kinds) == len(batches) == 3 * 3 * 2 * 2 * 2
    assert {b.numbers for b in batches} == {"ordinary", "steep", "extreme"}
    assert {tuple(row.length for row in b.rows) for b in batches} == {ROUNDED}
    assert [isinstance(written_out[0].arguments[name], TensorValue) for name in ("x", "weight", "conv_states")]
    assert batch_of(written_out[0]) is None


def test_descriptions_name_rows_lengths_and_what_is_complete() -> None:
    commit, gate, premerge, nightly = (CONTRACT.space(profile).description for profile in PROFILES)
    assert "every batch of 1 row of 0 to 17 tokens of whole numbers, with each width;" in commit
    assert "every batch of 2 rows of 0, 1, 2 or 9 tokens of whole numbers;" in commit
    assert "of 1 row of 0 to 17 tokens of whole numbers, with each width and each element type" in gate
    assert "of 2 rows of 0, 1, 2, 3, 4, 8 or 9 tokens of whole numbers;" in gate
    assert "of 1 row of 0 to 17 tokens" in premerge
    assert "of 1 row of 0 to 33 tokens" in nightly
    assert all("everything else varies from batch to batch" in text for text in (commit, gate, premerge, nightly))


def test_smaller_batches_come_first() -> None:
    space = CONTRACT.space("gate")
    sizes = [(len(f.lengths), sum(f.lengths)) for f in (facts_of(space[index].arguments) for index in range(930))]
    assert sizes == sorted(sizes)


def test_no_two_cases_of_a_space_are_the_same() -> None:
    cases = list(cases_of("gate"))
    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize("profile", ["commit", "gate"])
def test_every_case_survives_json_and_is_a_call_of_the_contract(profile: str) -> None:
    for case in cases_of(profile):
        again = case_from_json(json.loads(json.dumps(case.to_json())))
        assert again == case
        CONTRACT.check_case(again)


def test_cases_are_small_enough_for_an_interpreter() -> None:
    programs = {profile: max(described(case).programs for case in CONTRACT.scale(profile)) for profile in PROFILES}
    assert programs == {"commit": 8, "gate": 16, "premerge": 133, "nightly": 133}
    assert max(described(case).dim for case in CONTRACT.scale("nightly")) == 300
    space = CONTRACT.space("gate")
    assert max(sum(-(-n // 8) for n in facts_of(space[i].arguments).lengths) for i in range(930)) <= 4
    assert max(batch.programs for batches in LARGE.values() for batch in batches) <= 140
    assert max(sum(row.length for row in batch.rows) for batches in LARGE.values() for batch in batches) <= 140


def test_scale_cases_grow_with_the_profile() -> None:
    scales = [set(CONTRACT.scale(profile)) for profile in PROFILES]
    assert scales[0] < scales[1] < scales[2] <= scales[3]


def test_a_space_counts_its_strata_as_its_cases_do_one_by_one() -> None:
    for block in CONTRACT.space("commit").blocks:
        whole, singly = CONTRACT.count_strata(block, stop=40), Counter[str]()
        for index in range(min(40, len(block))):
            singly.update(CONTRACT.count_strata(block_of(block[index])))
        assert whole == dict(singly)


def shapes(case: Case) -> dict[str, object]:
    values = case.arguments.items()
    return {
        name: (value.dtype, value.shape, value.strides, value.offset, value.device)
        if isinstance(value, TensorValue | DrawnValue)
        else value
        for name, value in values
    }


@pytest.mark.parametrize("profile", ["commit", "gate"])
def test_a_twin_can_be_replayed_on_what_was_captured_for_its_case(profile: str) -> None:
    for case in cases_of(profile):
        twin = CONTRACT.twin(case)
        if batch_of(case) is None:
            assert twin is None
            continue
        assert twin is not None
        assert shapes(twin) == shapes(case)
        batch, other = described(case), described(twin)
        assert other.programs == batch.programs
        assert is_exact(twin) == is_exact(case)
        assert all(row.continues != now.continues for row, now in zip(batch.rows, reversed(other.rows), strict=True))
        weight, changed = case.arguments["weight"], twin.arguments["weight"]
        assert isinstance(weight, DrawnValue)
        assert isinstance(changed, DrawnValue)
        assert weight.seed != changed.seed


def test_simpler_cases_are_smaller_and_in_the_domain() -> None:
    for case in [*cases_of("commit")][::7]:
        batch = batch_of(case)
        simpler = list(CONTRACT.simpler(case))
        if batch is None:
            assert simpler == []
        for other in simpler:
            assert measure(described(other)) < measure(batch or described(case))
            facts_of(other.arguments)


def test_a_case_of_another_form_has_neither_twin_nor_simpler_cases() -> None:
    x = DrawnValue("float32", (1, 1), "integers", strides=(1, 1), device="target")
    for strange in (Case(CONTRACT.name, {}), Case(CONTRACT.name, {"x": x})):
        assert CONTRACT.twin(strange) is None
        assert list(CONTRACT.simpler(strange)) == []


def test_the_strategy_draws_cases_in_the_domain() -> None:
    drawn: list[Case] = []

    @settings(
        max_examples=300,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(CONTRACT.strategy())
    def collect(case: Case) -> None:
        drawn.append(case)

    collect()
    assert all(described(case).programs <= 6 for case in drawn)
    exact = sum(is_exact(case) for case in drawn)
    assert len(drawn) / 4 < exact < len(drawn) * 3 / 4


def test_a_case_that_cannot_be_is_refused_with_the_reason() -> None:
    case = case_of(ConvBatch(rows=rows_of([3]), lines=2))
    lines = TensorValue("int32", (2,), device="target")
    with pytest.raises(UsageError, match="cache_indices must name 1 lines"):
        CONTRACT.check_case(Case(case.contract, {**case.arguments, "cache_indices": lines}))
    with pytest.raises(UsageError, match="arguments"):
        CONTRACT.check_case(Case(case.contract, {"x": 1}))


def test_numbers_may_be_written_out_and_rows_activated_in_a_saved_case() -> None:
    case = case_of(ConvBatch(rows=rows_of([1]), lines=2, activation="silu", numbers="ordinary"))
    weight = TensorValue("float32", (0.5, 1.0, 2.0, 3.0), (1, 4), "target")
    CONTRACT.check_case(Case(case.contract, {**case.arguments, "weight": weight}))


@pytest.mark.parametrize("padded", [False, True])
def test_upstreams_batches_have_their_tokens_and_padding_rows(padded: bool) -> None:
    batch = upstream_batch(10, 2049, 64, padded=padded)
    lengths = [row.length for row in batch.rows]
    assert sum(lengths) == 2049
    assert len(lengths) == (13 if padded else 10)
    assert [row.line == NULL_LINE for row in batch.rows] == [False] * 10 + [True] * 3 * padded


@pytest.mark.parametrize(("profile", "further"), [("commit", 0), ("gate", 3), ("premerge", 27), ("nightly", 99)])
def test_compiled_kernels_get_upstreams_batches_too(profile: str, further: int) -> None:
    usual = CONTRACT.large_cases(profile, "cpu")
    assert usual == CONTRACT.scale(profile)
    cases = CONTRACT.large_cases(profile, "cuda")
    assert cases[: len(usual)] == usual
    assert len(cases) == len(usual) + further
    assert all(batch_of(case) is not None for case in cases)


def test_the_far_cases_pass_32_bits_in_lines_and_in_tokens() -> None:
    files = [read_case_file(FAULTS / f"far_{kind}.json") for kind in ("lines", "tokens")]
    for file in files:
        CONTRACT.check_case(file.case)
        assert batch_of(file.case) is not None
    lines, tokens = (facts_of(file.case.arguments) for file in files)
    assert isinstance(lines.states, DrawnValue)
    assert max(lines.lines) * lines.states.strides[0] >= 2**31
    assert (tokens.x.shape[1] - 1) * tokens.x.strides[1] > 2**31
    assert max(span(v.shape, v.strides) for v in (lines.states, tokens.x)) * 2 < 6e9


def test_metadata_follows_from_the_cumulative_lengths() -> None:
    starts = torch.tensor([0, 9, 9], dtype=torch.int32)
    derived = CONTRACT.derived["metadata"]
    made = derived.make({"query_start_loc": starts})
    assert made._fields == ("nums_dict", "batch_ptr", "token_chunk_offset_ptr")
    assert made.nums_dict[8]["tot"] == 2


@pytest.mark.parametrize("path", sorted(CASES.glob(f"{CONTRACT.name}-*.json")), ids=lambda path: path.stem)
def test_a_saved_case_is_a_call_of_the_contract_and_says_why_it_is_kept(path: Path) -> None:
    saved = read_case_file(path)
    CONTRACT.check_case(saved.case)
    assert saved.name == path.name
    assert saved.note


def test_small_inputs_worth_keeping_are_kept() -> None:
    saved = {read_case_file(path).case for path in CASES.glob(f"{CONTRACT.name}-*.json")}
    rows = {batch.rows for batch in map(batch_of, saved) if batch is not None}
    assert {(Row(1, 5, True),), (Row(2, 3, True),), (Row(3, 6, True),), ()} <= rows
    for case in saved:
        states = live_value(case.arguments["conv_states"], torch.device("cpu"))
        assert states.isnan().any(), "the cache is poisoned where nobody may read"


def test_saved_cases_cover_every_type_and_width_limits() -> None:
    saved = [batch_of(read_case_file(path).case) for path in CASES.glob(f"{CONTRACT.name}-*.json")]
    batches = [batch for batch in saved if batch is not None]
    assert {batch.dtype for batch in batches} == set(DTYPES)
    assert {batch.width for batch in batches} == {2, 3, 4}
