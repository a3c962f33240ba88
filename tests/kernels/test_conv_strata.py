"""A stratum of the convolution holds what its name says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.kernels.conv_cases import case_of
from harness.kernels.conv_strata import STRATA
from harness.search.space import block_of
from strategies.conv_batch import ConvBatch, Row, rows_of

NAMED = {stratum.name: stratum for stratum in STRATA}
BASE = ConvBatch(rows=(Row(5, 2), Row(4, 1)), lines=3, dim=2)


def belongs(stratum: str, batch: ConvBatch) -> bool:
    return bool(NAMED[stratum].mask(block_of(case_of(batch)))[0])


def test_names_are_unique() -> None:
    assert len(NAMED) == len(STRATA)


@pytest.mark.parametrize(
    ("stratum", "inside", "outside"),
    [
        ("float32", {}, {"dtype": "float16"}),
        ("bfloat16", {"dtype": "bfloat16"}, {}),
        ("float16", {"dtype": "float16"}, {"dtype": "bfloat16"}),
        ("width 2", {"width": 2}, {"width": 3}),
        ("width 3", {"width": 3}, {"width": 4}),
        ("width 4", {"width": 4}, {"width": 2}),
        ("bias", {"has_bias": True}, {}),
        ("no bias", {}, {"has_bias": True}),
        ("SiLU", {"activation": "silu"}, {}),
        ("no activation", {}, {"activation": "silu"}),
        ("small whole numbers", {}, {"numbers": "ordinary"}),
        ("ordinary numbers", {"numbers": "ordinary"}, {"numbers": "steep"}),
        ("large numbers", {"numbers": "steep"}, {"numbers": "ordinary"}),
        ("tokens behind the last row", {"padding": 1}, {}),
        ("no tokens behind the last row", {}, {"padding": 1}),
        ("number of cache lines a multiple of 16", {"lines": 32}, {"lines": 33}),
        ("number of cache lines no multiple of 16", {"lines": 33}, {"lines": 16}),
        ("cache of one line", {"rows": (), "lines": 1}, {"rows": (), "lines": 2}),
        ("aligned tokens", {"x_offset": 4}, {"x_offset": 4, "dtype": "float16"}),
        ("unaligned tokens", {"x_offset": 4, "dtype": "float16"}, {"x_offset": 8}),
        ("unaligned weights", {"weight_offset": 1}, {"x_offset": 1}),
        ("unaligned cache", {"state_offset": 1}, {"x_offset": 1}),
        ("unaligned rows", {"index_offset": 1}, {"index_offset": 4}),
        ("gap between tokens", {"token_gap": 1}, {}),
        ("gap between cache lines", {"line_gap": 1}, {"column_gap": 1}),
        ("gap inside cache lines", {"column_gap": 1}, {"line_gap": 1}),
        ("stride of tokens a multiple of 16", {"token_gap": 14}, {"token_gap": 15}),
        ("stride of tokens no multiple of 16", {"token_gap": 15}, {"token_gap": 14}),
        ("stride of tokens 1", {"dim": 1}, {"dim": 1, "token_gap": 1}),
        ("one channel", {"dim": 1}, {"dim": 2}),
        ("more than 64 channels", {"dim": 65}, {"dim": 64}),
        ("more than 256 channels", {"dim": 257}, {"dim": 256}),
    ],
)
def test_a_stratum_of_shapes_holds_what_its_name_says(
    stratum: str, inside: dict[str, Any], outside: dict[str, Any]
) -> None:
    assert belongs(stratum, replace(BASE, **inside))
    assert not belongs(stratum, replace(BASE, **outside))


@pytest.mark.parametrize(
    ("stratum", "inside", "outside"),
    [
        ("no rows", [()], [(Row(0, 1),)]),
        ("no tokens", [(), (Row(0, 1),)], [(Row(1, 1),)]),
        ("leading row without tokens", [(Row(0, 1), Row(1, 2))], [(Row(0, 1),), (Row(1, 1), Row(0, 2)), ()]),
        (
            "row without tokens in the middle",
            [(Row(1, 1), Row(0, 2), Row(1, 3)), (Row(1, 1), Row(0, 0), Row(0, 0), Row(1, 2), Row(1, 3))],
            [(Row(0, 1), Row(1, 2)), (Row(1, 1), Row(1, 2), Row(0, 3)), ()],
        ),
        ("trailing row without tokens", [(Row(1, 1), Row(0, 2))], [(Row(0, 1),), (Row(0, 1), Row(1, 2)), ()]),
        (
            "row without tokens that continues",
            [(Row(0, 1, True),)],
            [(Row(0, 1),), (Row(0, 0, True),), (Row(1, 1, True),)],
        ),
        ("row without tokens that does not", [(Row(0, 1),)], [(Row(0, 1, True),), (Row(0, 0),)]),
        (
            "row shorter than the state, continuing",
            [(Row(1, 1, True),), (Row(2, 1, True),)],
            [(Row(3, 1, True),), (Row(0, 1, True),), (Row(2, 1),), (Row(2, 0, True),)],
        ),
        (
            "row shorter than the state, new",
            [(Row(1, 1),), (Row(2, 1),)],
            [(Row(3, 1),), (Row(0, 1),), (Row(2, 1, True),)],
        ),
        ("row as long as the state, continuing", [(Row(3, 1, True),)], [(Row(3, 1),), (Row(2, 1, True),)]),
        ("row as long as the state, new", [(Row(3, 1),)], [(Row(3, 1, True),), (Row(4, 1),)]),
        ("length one below a multiple of 8", [(Row(7, 1),), (Row(15, 1),)], [(Row(8, 1),), (Row(7, 0),)]),
        ("length a multiple of 8", [(Row(8, 1),), (Row(16, 1),)], [(Row(0, 1),), (Row(9, 1),), (Row(8, 0),)]),
        (
            "length one above a multiple of 8, continuing",
            [(Row(9, 1, True),), (Row(17, 1, True),)],
            [(Row(1, 1, True),), (Row(9, 1),), (Row(9, 0, True),)],
        ),
        ("length one above a multiple of 8, new", [(Row(9, 1),)], [(Row(1, 1),), (Row(9, 1, True),)]),
        ("row of more than 64 tokens", [(Row(65, 1),)], [(Row(64, 1),), (Row(40, 1), Row(40, 2))]),
        ("16 rows or more, all of one token", [rows_of([1] * 16)], [rows_of([1] * 15), rows_of([1] * 16 + [2])]),
        ("row with tokens on the null line", [(Row(1, 0),)], [(Row(0, 0),), (Row(1, 1),)]),
        ("row without tokens on the null line", [(Row(0, 0),)], [(Row(1, 0),), (Row(0, 1),)]),
        ("several rows on the null line", [(Row(1, 0), Row(0, 0))], [(Row(1, 0), Row(0, 1))]),
        ("cache lines out of order", [(Row(1, 2), Row(1, 1))], [(Row(1, 1), Row(1, 0), Row(1, 3)), ()]),
    ],
)
def test_a_stratum_of_rows_holds_what_its_name_says(
    stratum: str, inside: list[tuple[Row, ...]], outside: list[tuple[Row, ...]]
) -> None:
    batches = ([ConvBatch(rows=rows, lines=20) for rows in side] for side in (inside, outside))
    assert [[belongs(stratum, batch) for batch in side] for side in batches] == [
        [True] * len(inside),
        [False] * len(outside),
    ]
