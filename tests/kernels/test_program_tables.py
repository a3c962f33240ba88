"""The tables that a convolution is launched with are the frozen reference's, under the names that kernels read."""

from __future__ import annotations

import subprocess
import sys

import torch

from harness.compare import compare
from harness.kernels.program_tables import program_tables, tables_of_case
from references.causal_conv1d_metadata import compute_causal_conv1d_metadata


def test_tables_are_those_of_the_reference() -> None:
    starts = torch.tensor([0, 9, 9, 12], dtype=torch.int32)
    tables = program_tables(starts)
    assert compare(tuple(tables), compute_causal_conv1d_metadata(starts, device=torch.device("cpu"))) is None
    assert tables.nums_dict[8]["tot"] == 3
    assert tables.batch_ptr[:4].tolist() == [0, 0, 2, -1]
    assert tables.token_chunk_offset_ptr[:4].tolist() == [0, 1, 0, -1]


def test_tables_of_a_call_follow_from_its_cumulative_lengths() -> None:
    starts = torch.tensor([0, 17], dtype=torch.int32)
    assert compare(tables_of_case({"x": 1, "query_start_loc": starts}), program_tables(starts)) is None


def test_the_contract_is_imported_without_torch() -> None:
    code = "import sys; import harness.contracts.causal_conv1d_prefill; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
