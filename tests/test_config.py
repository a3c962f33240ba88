"""The configuration of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config import Config, load_config
from harness.errors import UsageError


def _write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    assert load_config(tmp_path) == Config(root=tmp_path)


def test_without_a_table_the_root_is_the_files_folder(tmp_path: Path) -> None:
    _write(tmp_path, "[project]\nname = 'x'\n")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    assert load_config(tmp_path / "src" / "deep") == Config(root=tmp_path)


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    _write(tmp_path, '[tool.bitgate]\ncandidates = ["outer:f"]\n')
    (tmp_path / "inner").mkdir()
    _write(tmp_path / "inner", '[tool.bitgate]\ncandidates = ["inner:f"]\n')
    assert load_config(tmp_path / "inner").candidates == (("inner:f", None),)
    assert load_config(tmp_path).candidates == (("outer:f", None),)


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    _write(
        tmp_path,
        """
        [tool.bitgate]
        candidates = ["pkg.mod:fn", {spec = "x.py::f", contract = "causal_conv1d_metadata"}, {spec = "y.py::g"}]
        cases = ["saved"]
        contracts = ["package.module:CONTRACT"]
        [tool.bitgate.stubs]
        current_platform = {is_cuda = false}
        """,
    )
    config = load_config(tmp_path)
    assert config.candidates == (("pkg.mod:fn", None), ("x.py::f", "causal_conv1d_metadata"), ("y.py::g", None))
    assert config.cases == (tmp_path / "saved",)
    assert config.contracts == ("package.module:CONTRACT",)
    assert dict(config.stubs) == {"current_platform": {"is_cuda": False}}
    assert config.saved_cases == tmp_path / ".bitgate" / "cases"


def test_the_default_case_folder_is_used_where_it_exists_and_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "tests" / "cases").mkdir(parents=True)
    assert load_config(tmp_path).cases == (tmp_path / "tests" / "cases",)
    _write(tmp_path, "[tool.bitgate]\ncases = []\n")
    assert load_config(tmp_path).cases == ()


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        (
            "candiates = ['x:f']",
            ["unknown key 'candiates' = ['x:f']", "did you mean 'candidates'?", "cases, contracts"],
        ),
        ("zzz = 1", ["unknown key 'zzz' = 1", "The known keys are candidates, cases, contracts, stubs"]),
        ("candidates = 'x:f'", ["candidates: expected a list, got 'x:f'", "known keys"]),
        ("candidates = [3]", ["candidates: expected a spec or a table", "got 3"]),
        ("candidates = ['']", ["candidates: expected a spec or a table", "got ''"]),
        ("candidates = [{contract = 'c'}]", ["candidates.spec: expected a string", "got None"]),
        ("candidates = [{spec = 'x:f', contract = 1}]", ["candidates.contract: expected a string", "got 1"]),
        ("candidates = [{spec = 'x:f', contrat = 'c'}]", ["unknown key 'contrat'", "'contract'", "spec, contract"]),
        ("cases = 'tests/cases'", ["cases: expected a list, got 'tests/cases'"]),
        ("cases = [1]", ["cases: expected a string", "got 1"]),
        ("cases = ['nowhere']", ["cases: ", "nowhere is not a folder", "Create it"]),
        ("stubs = ['x']", ["stubs: expected a table of names and values, got ['x']"]),
        ("stubs = {d = 1979-05-27}", ["stubs.d: expected text", "got datetime.date(1979, 5, 27)"]),
        ("stubs = {a = {b = [07:32:00]}}", ["stubs.a.b: expected text", "got datetime.time(7, 32)"]),
        ("contracts = ['package.module']", ["contracts: expected an import path", "got 'package.module'"]),
        ("contracts = [1]", ["contracts: expected an import path", "got 1"]),
        (f"contracts = '{'x' * 9_999}'", ["contracts: expected a list", "xxx..."]),
    ],
)
def test_a_wrong_table_names_file_key_value_and_the_known_keys(tmp_path: Path, table: str, parts: list[str]) -> None:
    path = _write(tmp_path, f"[tool.bitgate]\n{table}\n")
    with pytest.raises(UsageError) as caught:
        load_config(tmp_path)
    message = str(caught.value)
    assert [part for part in [str(path), *parts] if part not in message] == []
    assert len(message) < 1_000


@pytest.mark.parametrize(
    ("text", "part"),
    [("[tool", "not TOML"), ("[tool]\nbitgate = 3\n", "must be a table"), ("x = '\udcff'", "not TOML")],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=part) as caught:
        load_config(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "loop", "dangling"])
def test_what_is_not_a_file_is_not_passed_over(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pyproject.toml"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("pyproject.toml" if kind == "loop" else "missing.toml")
    with pytest.raises(UsageError, match=r"pyproject\.toml: is not a file"):
        load_config(tmp_path)


def test_a_search_can_start_at_a_file(tmp_path: Path) -> None:
    _write(tmp_path, '[tool.bitgate]\ncandidates = ["pkg:f"]\n')
    (tmp_path / "module.py").write_text("")
    assert load_config(tmp_path / "module.py").candidates == (("pkg:f", None),)
