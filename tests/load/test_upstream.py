"""The loader on real engines: needs their sources on disk, in the folder that BITGATE_UPSTREAM names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
CONV = "vllm/v1/attention/backends/utils.py::compute_causal_conv1d_metadata"


def in_child(upstream: Path, spec: str, *, call: str = "None", stubs: str = "builtin_stubs()") -> dict[str, Any]:
    """Load ``spec`` in a fresh interpreter; ``call`` is an expression of ``f``, ``torch`` and ``q``, a small batch."""
    script = f"""
    import json, sys
    from pathlib import Path
    import torch
    from harness.load import builtin_stubs, load, parse_spec
    q = torch.tensor([0, 5, 9], dtype=torch.int32)
    def plain(value):
        if isinstance(value, torch.Tensor):
            return [str(value.dtype), value[:16].tolist()]
        if isinstance(value, dict):
            return {{str(key): plain(item) for key, item in value.items()}}
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value
    try:
        loaded = load(parse_spec({spec!r}, root=Path({str(upstream)!r})), function="", device="cpu", stubs={stubs})
        f = loaded.function
        result = {{"how": loaded.how, "definitions": loaded.definitions, "value": plain({call})}}
    except Exception as error:
        result = {{"error": type(error).__name__, "message": str(error)}}
    packages = ("vllm", "sglang", "fla")
    result["left"] = sorted(name for name in sys.modules if name.partition(".")[0] in packages)
    print("RESULT" + json.dumps(result))
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(upstream)])}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.rpartition("RESULT")[2])
    return result


def test_the_convolution_helper_of_vllm_runs_without_vllm(upstream: Path) -> None:
    result = in_child(upstream, CONV, call='f(q, device=torch.device("cpu"))')
    assert result["how"] == "sliced"
    assert result["left"] == []
    assert "vllm.utils.torch_utils:np_to_pinned_tensor" in result["definitions"]
    assert "stub vllm.utils.torch_utils:PIN_MEMORY" in result["definitions"]
    tables, batch_ptr, offsets = result["value"]
    assert tables["8"]["tot"] == 2
    assert batch_ptr == ["torch.int32", [0, 1] + [-1] * 14]
    assert offsets == ["torch.int32", [0, 0] + [-1] * 14]


def test_without_stubs_the_names_to_supply_are_listed(upstream: Path) -> None:
    result = in_child(upstream, CONV, stubs="{}")
    assert result["error"] == "LoadError"
    assert "--stub vllm.utils.torch_utils.PIN_MEMORY=VALUE" in result["message"]
    assert "current_platform" in result["message"]
    assert result["left"] == []


def test_users_may_supply_those_names_themselves(upstream: Path) -> None:
    stubs = (
        'dict(map(__import__("harness.load").load.parse_stub, ["PIN_MEMORY=False", "is_pin_memory_available()=False"]))'
    )
    result = in_child(upstream, CONV, stubs=stubs, call='f(q, device=torch.device("cpu"))[0]')
    assert result["value"]["8"]["mlist"] == ["torch.int64", [0, 1]]


def test_an_import_path_works_whether_or_not_the_package_can_be_imported(upstream: Path) -> None:
    spec = "vllm.v1.attention.backends.utils:compute_causal_conv1d_metadata"
    result = in_child(upstream, spec, call='f(q, device=torch.device("cpu"))[0]')
    assert result["value"]["8"]["tot"] == 2
    assert result["how"] == "imported" or result["left"] == []


VLLM_FLA = "vllm/third_party/flash_linear_attention/ops/index.py"
SGLANG_FLA = "sglang/kernels/ops/attention/fla/index.py"
FLA = "fla/ops/utils/index.py"


@pytest.mark.parametrize(
    ("spec", "call", "expected"),
    [
        (f"{VLLM_FLA}::prepare_chunk_indices", "f(q, 4)", ["torch.int32", [[0, 0], [0, 1], [1, 0]]]),
        (f"{VLLM_FLA}::prepare_chunk_offsets", "f(q, 4)", ["torch.int64", [0, 2, 3]]),
        (f"{SGLANG_FLA}::prepare_chunk_indices", "f(q, 4)", ["torch.int32", [[0, 0], [0, 1], [1, 0]]]),
        (f"{SGLANG_FLA}::prepare_chunk_offsets", "f(q, 4)", ["torch.int64", [0, 2, 3]]),
        (f"{FLA}::prepare_chunk_indices", "f(q, 4)", ["torch.int32", [[0, 0], [0, 1], [1, 0]]]),
        (f"{FLA}::prepare_chunk_offsets", "f(q, 4)", ["torch.int64", [0, 2, 3]]),
        (f"{FLA}::prepare_position_ids", "f(q)", ["torch.int32", [0, 1, 2, 3, 4, 0, 1, 2, 3]]),
        (f"{FLA}::prepare_sequence_ids", "f(q)", ["torch.int64", [0, 0, 0, 0, 0, 1, 1, 1, 1]]),
        (f"{FLA}::prepare_token_indices", "f(q)[-1]", ["torch.int32", [1, 3]]),
        (
            "vllm/v1/attention/backends/mamba_attn.py::BaseMambaAttentionMetadataBuilder._compute_chunk_metadata",
            "f(8, 2, torch.tensor([3, 8]), torch.tensor([0, 5, 12]))",
            [[0, 5, 12], [0, 1], [0, 1], [-1, -1]],
        ),
        (
            "vllm/v1/attention/backends/mamba2_attn.py::compute_varlen_chunk_metadata",
            "f(torch.tensor([0, 5, 12]), 8)",
            [["torch.int32", [0, 5, 8, 12]], ["torch.int32", [0, 2]], ["torch.int32", [0, 1, 1]]],
        ),
        (
            "sglang/srt/layers/attention/mamba/mamba2_metadata.py::"
            "Mamba2Metadata._query_start_loc_to_chunk_indices_offsets",
            "f(torch.tensor([0, 5, 10]), 8, 10)",
            [["torch.int32", [0, 0, 1]], ["torch.int32", [0, 5, 0]]],
        ),
        ("vllm/v1/attention/backends/utils.py::make_local_attention_virtual_batches", "callable(f)", True),
        (
            "sglang/srt/layers/attention/local_attention.py::make_local_attention_virtual_batches",
            "f(4, *map(torch.Tensor.numpy, map(torch.tensor, ([0, 4, 14, 19], [6, 17, 9]))), "
            "torch.arange(30).reshape(3, 10), 2, True)[0].tolist()",
            [2, 2, 1, 4, 4, 1, 4, 1],
        ),
        (
            "vllm/v1/attention/backends/utils.py::split_decodes_and_prefills",
            'f(__import__("types").SimpleNamespace(max_query_len=5, num_reqs=3, num_actual_tokens=7, '
            "query_start_loc_cpu=torch.tensor([0, 1, 2, 7]), is_prefilling=None))",
            [2, 1, 2, 5],
        ),
    ],
)
def test_helpers_of_real_engines_load_and_run(upstream: Path, spec: str, call: str, expected: object) -> None:
    result = in_child(upstream, spec, call=call)
    assert result.get("value") == expected, result
    assert result["left"] == []


def test_the_identity_cache_of_fla_is_left_in_place(upstream: Path) -> None:
    result = in_child(upstream, f"{FLA}::prepare_chunk_offsets", call="[f(q, 4), q.fill_(0), f(q, 4)]")
    first, _, second = result["value"]
    assert first == second == ["torch.int64", [0, 2, 3]]
