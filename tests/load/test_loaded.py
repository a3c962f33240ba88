from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import LoadError
from harness.load import Loaded, load, parse_spec

Write = Callable[[Mapping[str, str]], Path]
Slice = Callable[..., Loaded]

REPOSITORY = Path(__file__).parents[2]


def in_child(
    folder: Path, spec: str, *, function: str = "", call: str = "()", stubs: str = "{}", upstream: Path | None = None
) -> Any:
    """Load a candidate in a fresh interpreter whose working directory is ``folder``; report what happened."""
    script = f"""
    import json, sys
    from pathlib import Path
    from harness.load import builtin_stubs, load, parse_spec
    before = set(sys.modules)
    try:
        loaded = load(parse_spec({spec!r}, root=Path.cwd()), function={function!r}, device="cpu", stubs={stubs})
        result = {{"how": loaded.how, "file": loaded.file, "value": loaded.function{call}, "digest": loaded.digest}}
        result["definitions"] = loaded.definitions
    except Exception as error:
        result = {{"error": type(error).__name__, "message": str(error)}}
    result["new"] = sorted(set(sys.modules) - before)
    print(json.dumps(result))
    """
    path = os.pathsep.join([str(REPOSITORY), *([str(upstream)] if upstream else [])])
    environment = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_module_is_imported_from_the_working_directory(write: Write) -> None:
    root = write({"pkg/__init__.py": "", "pkg/mod.py": "class C:\n    @staticmethod\n    def f(): return 3"})
    result = in_child(root, "pkg.mod:C.f")
    assert (result["how"], result["value"], result["file"]) == ("imported", 3, str(root / "pkg/mod.py"))
    assert "pkg.mod" in result["new"]


def test_a_module_that_cannot_be_imported_is_sliced(write: Write) -> None:
    files = {"pkg/__init__.py": "from .other import x\nimport missing_package", "pkg/other.py": "x = 1"}
    root = write({**files, "pkg/deep/mod.py": "from ..other import x\ndef f(): return x"})
    result = in_child(root, "pkg.deep.mod:f")
    assert (result["how"], result["value"]) == ("sliced", 1)
    assert not [name for name in result["new"] if name.partition(".")[0] == "pkg"]


@pytest.mark.parametrize(
    "raised", ["raise SystemExit(0)", "raise KeyboardInterrupt", "class E(BaseException): pass\nraise E"]
)
def test_no_exception_of_an_import_gets_past_the_loader(write: Write, raised: str) -> None:
    result = in_child(write({"mod.py": f"{raised}\ndef f(): return 4"}), "mod:f")
    assert (result["how"], result["value"]) == ("sliced", 4)


def test_when_import_and_slice_both_fail_both_reasons_are_given(write: Write) -> None:
    result = in_child(write({"mod.py": "import missing_package\ndef f(): return missing_package.x"}), "mod:f")
    assert result["error"] == "LoadError"
    assert "importing mod raised ModuleNotFoundError: No module named 'missing_package' at " in result["message"]
    assert "mod.py:1" in result["message"]
    assert "--stub missing_package.x=VALUE" in result["message"]


def test_an_unknown_package_or_module_is_one_clear_error(write: Write) -> None:
    root = write({"pkg/__init__.py": "", "pkg/mod.py": "def compute(): pass"})
    assert "there is no package nowhere_at_all" in in_child(root, "nowhere_at_all.mod:f")["message"]
    assert "there is no file for the module pkg.mud" in in_child(root, "pkg.mud:f")["message"]
    assert "did you mean compute" in in_child(root, "pkg.mod:compite")["message"]


def test_a_registered_candidate_defines_the_function_of_its_contract(write: Write) -> None:
    root = write({"candidates/__init__.py": "", "candidates/lengths/plain.py": "def compute_lengths(): return 6"})
    assert in_child(root, "lengths/plain", function="compute_lengths")["value"] == 6
    message = in_child(root, "lengths/plain", function="compute_length")["message"]
    assert "candidates.lengths.plain has no 'compute_length'; did you mean compute_lengths?" in message


def test_loading_needs_no_torch(write: Write) -> None:
    result = in_child(write({"mod.py": "def f(): return 1"}), "mod.py::f")
    assert result["value"] == 1
    script = "import sys, harness.load; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("async def f(): pass", "is a coroutine function"),
        ("def f(): yield 1", "is a generator"),
        ("async def f(): yield 1", "is an asynchronous generator"),
        ("f = 3", "is int 3, which cannot be called"),
        ("def f(:", "not valid for Python"),
        ("f = " + "(" * 150 + ")" * 150, "pkg/mod.py"),
        ("f = " + "-" * 5000 + "1", "pkg/mod.py"),
        ("f = '\\0'.join('ab'", "not valid for Python"),
    ],
)
def test_what_cannot_be_a_candidate_is_refused_in_one_line(write: Write, sliced: Slice, source: str, said: str) -> None:
    write({"pkg/mod.py": source})
    with pytest.raises(LoadError) as caught:
        sliced("pkg/mod.py::f")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"x = '\xff'\ndef f(): pass", b"# coding: nonsense\ndef f(): pass", b"\x00"])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, sliced: Slice, data: bytes) -> None:
    (tmp_path / "mod.py").write_bytes(data)
    with pytest.raises(LoadError, match=r"mod\.py"):
        sliced("mod.py::f")


def test_a_file_in_another_declared_encoding_is_read(tmp_path: Path, sliced: Slice) -> None:
    (tmp_path / "mod.py").write_bytes("# coding: latin-1\nX = 'é'\ndef f(): return X\n".encode("latin-1"))
    assert sliced("mod.py::f").function() == "é"


def test_a_tree_nested_too_deeply_is_refused(write: Write, sliced: Slice) -> None:
    write({"mod.py": "def f(): return " + "+".join(["1"] * 20000)})
    with pytest.raises(LoadError, match=r"mod\.py"):
        sliced("mod.py::f")


def test_the_digest_follows_the_sliced_source_alone(write: Write, sliced: Slice) -> None:
    def digest(body: str, unused: str = "", other: str = "x = 1") -> str:
        write(
            {
                "pkg/__init__.py": "",
                "pkg/mod.py": f"from .o import x\n{unused}\ndef f():\n    {body}",
                "pkg/o.py": other,
            }
        )
        return sliced("pkg/mod.py::f").digest

    first = digest("return x")
    assert len(first) == 16
    assert digest("return x", unused="# a comment\ndef unused(): pass") == first
    assert digest("return x", other="x = 1\ny = 2") == first
    assert digest("return -x") != first
    assert digest("return x", other="x = 2") != first


def test_the_digest_of_an_import_follows_its_file(write: Write) -> None:
    first = in_child(write({"mod.py": "def f(): return 1"}), "mod:f")["digest"]
    second = in_child(write({"mod.py": "def f(): return 1  # same"}), "mod:f")["digest"]
    assert first != second


def test_the_defining_file_is_that_of_the_function_itself(write: Write) -> None:
    root = write({"pkg/__init__.py": "from .impl import f", "pkg/impl.py": "def f(): pass"})
    loaded = load(parse_spec("pkg/__init__.py::f", root=root), function="", device="cpu", stubs={})
    assert loaded.file == str(root / "pkg/impl.py")


ADAPTER = """
UPSTREAM = "engine.ops.conv:scaled"
def compute(upstream, x, *, device):
    return [upstream(x), device]
"""
ENGINE = {
    "engine/__init__.py": "raise AssertionError('imported')",
    "engine/ops/__init__.py": "",
    "engine/ops/conv.py": "from .scale import SCALE\nimport missing_package\ndef scaled(x): return SCALE * x\n",
    "engine/ops/scale.py": "SCALE = 3",
}


def test_an_adapter_gets_its_upstream_function_sliced_out_of_the_installed_package(write: Write) -> None:
    root = write({**ENGINE, "candidates/__init__.py": "", "candidates/toy/adapter.py": ADAPTER})
    result = in_child(root, "toy/adapter", call="(2, device='cpu')", function="compute")
    assert (result["how"], result["value"]) == ("sliced", [6, "cpu"])
    assert result["file"] == str(root / "candidates/toy/adapter.py")
    assert result["definitions"] == [
        "candidates.toy.adapter:compute",
        "engine.ops.conv:scaled",
        "engine.ops.scale:SCALE",
    ]
    assert not [name for name in result["new"] if name.partition(".")[0] == "engine"]


def test_an_adapter_in_a_file_of_ones_own_gets_its_upstream_function_too(write: Write) -> None:
    result = in_child(write({**ENGINE, "mine.py": ADAPTER}), "mine.py::compute", call="(2, device='cpu')")
    assert result["value"] == [6, "cpu"]
    assert result["definitions"] == ["mine:compute", "engine.ops.conv:scaled", "engine.ops.scale:SCALE"]


def test_the_digest_of_an_adapter_covers_both_sources(write: Write) -> None:
    root = write({**ENGINE, "candidates/__init__.py": "", "candidates/toy/adapter.py": ADAPTER})

    def digest() -> str:
        return str(in_child(root, "toy/adapter", call="(2, device='cpu')", function="compute")["digest"])

    first = digest()
    assert digest() == first
    write({"engine/ops/scale.py": "SCALE = 4"})
    upstream = digest()
    write({"candidates/toy/adapter.py": ADAPTER.replace("return [", "return  [")})
    assert len({first, upstream, digest()}) == 3


def test_an_adapter_without_its_upstream_package_is_one_clear_error(write: Write) -> None:
    root = write({"candidates/__init__.py": "", "candidates/toy/adapter.py": ADAPTER})
    assert in_child(root, "toy/adapter", function="compute")["message"].startswith(
        "toy/adapter: there is no package engine; install it"
    )
    write({**ENGINE, "engine/ops/conv.py": "def scale(x): return x"})
    assert "did you mean scale" in in_child(root, "toy/adapter", function="compute")["message"]


def test_an_adapter_of_a_real_engine_runs_its_function(write: Write, upstream: Path) -> None:
    source = """
    UPSTREAM = "vllm.v1.attention.backends.utils:compute_causal_conv1d_metadata"
    def compute(upstream, lengths):
        import torch
        return upstream(torch.tensor(lengths, dtype=torch.int32), device=torch.device("cpu"))[1][:3].tolist()
    """
    root = write({"candidates/__init__.py": "", "candidates/toy/adapter.py": source})
    result = in_child(
        root, "toy/adapter", call="([0, 5, 17])", function="compute", stubs="builtin_stubs()", upstream=upstream
    )
    assert result["value"] == [0, 1, 1]
    assert not [name for name in result["new"] if name.partition(".")[0] == "vllm"]


def test_the_adapter_of_sglang_gets_its_kernels_launcher(tmp_path: Path, upstream: Path) -> None:
    pytest.importorskip("triton")
    result = in_child(
        tmp_path,
        "causal_conv1d_prefill/sglang_triton",
        function="causal_conv1d_fn",
        call=".args[0].__name__",
        stubs="builtin_stubs()",
        upstream=upstream,
    )
    module = "sglang.kernels.ops.mamba.causal_conv1d_triton"
    assert result["value"] == "causal_conv1d_fn"
    assert result["definitions"][0] == "candidates.causal_conv1d_prefill.sglang_triton:causal_conv1d_fn"
    assert {f"{module}:causal_conv1d_fn", f"{module}:_causal_conv1d_fwd_kernel"} <= set(result["definitions"])
    assert not [name for name in result["new"] if name.partition(".")[0] == "sglang"]
