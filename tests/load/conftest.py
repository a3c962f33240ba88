"""Fixtures: small source trees on disk, and loading from them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.load import Loaded, load, parse_spec, parse_stub

Write = Callable[[Mapping[str, str]], Path]
Slice = Callable[..., Loaded]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes files, given as ``{path: source}``, and returns the folder they are in."""

    def write_files(files: Mapping[str, str]) -> Path:
        for name, source in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source).lstrip("\n"), encoding="utf-8")
        return tmp_path

    return write_files


@pytest.fixture
def sliced(tmp_path: Path) -> Slice:
    """Loads ``path.py::function`` from the folder that the test wrote to, with ``--stub`` options."""

    def load_sliced(spec: str, *options: str, device: Any = "cpu") -> Loaded:
        stubs = dict(parse_stub(option) for option in options)
        return load(parse_spec(spec, root=tmp_path), function="", device=device, stubs=stubs)

    return load_sliced


@pytest.fixture
def value(write: Write, sliced: Slice) -> Callable[..., Any]:
    """Writes ``pkg/mod.py`` (and more files), slices its ``f``, and returns what ``f()`` returns."""

    def call(source: str, files: Mapping[str, str] | None = None, *options: str) -> Any:
        write({"pkg/__init__.py": "raise AssertionError('the package was imported')", "pkg/mod.py": source})
        write(files or {})
        return sliced("pkg/mod.py::f", *options).function()

    return call
