from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.load import CandidateSpec, parse_spec, registered_candidates

Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def registry(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write(
        {
            "candidates/__init__.py": "raise AssertionError('imported')",
            "candidates/lengths/__init__.py": "",
            "candidates/lengths/prefix_sums.py": '"""Prefix sums.\n\nMore."""\nimport missing_package',
            "candidates/lengths/by_hand.py": "x = 1",
            "candidates/lengths/_shared.py": "x = 1",
            "candidates/lengths/broken.py": "def f(:",
            "candidates/indices/searchsorted.py": '"""Search."""',
        }
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "candidates"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(root))
    return root


def test_registered_candidates_are_listed_without_running_them(registry: Path) -> None:
    found = registered_candidates()
    assert {contract: [entry.name for entry in entries] for contract, entries in found.items()} == {
        "indices": ["searchsorted"],
        "lengths": ["broken", "by_hand", "prefix_sums"],
    }
    assert [entry.summary for entry in found["lengths"]] == ["", "", "Prefix sums."]
    assert found["indices"][0].path == registry / "candidates/indices/searchsorted.py"


def test_a_registered_name_is_a_spec(registry: Path) -> None:
    assert parse_spec("lengths/by_hand", root=registry) == CandidateSpec(
        "lengths/by_hand", "registered", "lengths/by_hand", ""
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("lengths/by_hnd", "did you mean lengths/by_hand"),
        ("length/by_hand", "did you mean lengths/by_hand"),
        ("by_hand", "did you mean lengths/by_hand"),
        ("indices/", "did you mean indices/searchsorted?"),
        ("what/ever", "`bitgate list`"),
    ],
)
def test_an_unknown_registered_name_is_answered_with_near_ones(registry: Path, text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spec(text, root=registry)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "location", "qualname"),
    [
        ("package.module:function", "package.module", "function"),
        ("package:Class.method", "package", "Class.method"),
        (" package.module:f ", "package.module", "f"),
    ],
)
def test_a_module_spec_names_a_module_and_a_function(tmp_path: Path, text: str, location: str, qualname: str) -> None:
    assert parse_spec(text, root=tmp_path) == CandidateSpec(text.strip(), "module", location, qualname)


@pytest.mark.parametrize(
    ("text", "qualname"),
    [("a/b.py::f", "f"), ("./a/b.py::C.m", "C.m"), ("a/b.py::C::m", "C.m"), ("a/../a/b.py::f", "f")],
)
def test_a_file_spec_is_relative_to_the_root(write: Write, text: str, qualname: str) -> None:
    root = write({"a/b.py": ""})
    assert parse_spec(text, root=root) == CandidateSpec(text, "file", str(root / "a/b.py"), qualname)


def test_an_absolute_path_stays_as_it_is(write: Write) -> None:
    root = write({"b.py": ""})
    assert parse_spec(f"{root}/b.py::f", root=Path("/nowhere")).location == str(root / "b.py")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a/b.py:f", "write a/b.py::f"),
        ("a/b.py", "write b.py::NAME with one of first, second"),
        ("a/b.py::", "write b.py::NAME with one of first, second"),
        ("a/bb.py::f", "did you mean b.py?"),
        ("x/b.py::f", "there is no folder"),
        ("a::f", "is a folder"),
        ("::x", "the name of the file is missing; write FILE.py::x"),
        ("b\udcffd.py::f", r"'b\udcffd.py::f': is not UTF-8"),
        ("~no-such-user/b.py::f", "there can be no such file"),
        ("a/b\0.py::f", "there can be no such file"),
        ("a/b.txt::f", "not a Python source file"),
        ("a/b.py::f()", "is not a function name"),
        ("a/b:f", "write a/b.py::f"),
        ("a-b:f", "is not a module name"),
        ("a.b:", "is not a function name"),
        ("a.b:f.", "is not a function name"),
        ("a.b.f", "did you mean a.b:f?"),
        ("", "Write contract/name"),
        ("nothing", "Write contract/name"),
    ],
)
def test_typical_mistakes_are_answered_with_what_to_write(write: Write, text: str, hint: str) -> None:
    root = write({"a/b.py": "def first(): pass\ndef _hidden(): pass\ndef second(): pass", "a/b.txt": ""})
    with pytest.raises(UsageError) as caught:
        parse_spec(text, root=root)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["x" * 5_000 + ".py::f", "x" * 300 + ".py::f", "x" * 9_000, "x" * 9_000 + ".py"])
def test_a_name_that_is_too_long_is_not_repeated(write: Write, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spec(text, root=write({"b.py": ""}))
    assert len(str(caught.value)) < 250


def test_a_folder_whose_name_is_not_utf8_is_refused(write: Write) -> None:
    root = write({"b.py": ""}) / "\udcff"
    root.mkdir()
    (root / "b.py").write_text("")
    with pytest.raises(UsageError, match="is not UTF-8; rename the file or its folder"):
        parse_spec("b.py::f", root=root)
