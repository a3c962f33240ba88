"""Config: the ``[tool.bitgate]`` table of a project."""

from __future__ import annotations

import datetime
import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from harness.errors import UsageError

KEYS: Final = ("candidates", "cases", "contracts", "stubs")
"""Keys that the table may have."""

_CANDIDATE_KEYS: Final = ("spec", "contract")
_IMPORT_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Config:
    """What a project has configured.

    Example::

        [tool.bitgate]
        candidates = ["package.module:function", {spec = "x.py::f", contract = "causal_conv1d_metadata"}]
        cases = ["tests/cases"]
        contracts = ["package.module:CONTRACT"]
        stubs = {PIN_MEMORY = false}
    """

    root: Path
    """Folder of the pyproject.toml, or where the search for one began."""
    candidates: tuple[tuple[str, str | None], ...] = ()
    """Extra candidates: each a spec, and the contract where the spec does not tell."""
    cases: tuple[Path, ...] = ()
    """Folders of case files to replay."""
    stubs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Names that candidates sliced out of a file may not find, with what to use instead; as written in the table."""
    contracts: tuple[str, ...] = ()
    """Extra contracts as ``package.module:NAME``."""

    @property
    def saved_cases(self) -> Path:
        """Folder where failing cases are saved and found again."""
        return self.root / ".bitgate" / "cases"


def load_config(start: Path) -> Config:
    """Read the table from the nearest pyproject.toml in ``start`` or a folder above it.

    Without a file or without a table everything has its default; ``tests/cases`` is replayed where it exists.

    Raises:
        UsageError: the file cannot be read, or a key or a value in it is not what it should be; the message names the
            file, the key, the value and the keys there are.
    """
    start = start.resolve()
    folder = start if start.is_dir() else start.parent
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    file = next((path for path in files if os.path.lexists(path)), None)
    root = file.parent if file else folder
    table = _table(file) if file else {}
    name = str(file)
    _check_keys(table, KEYS, f"{name}: [tool.bitgate]")
    cases = tuple(root / _text(item, name, "cases") for item in _list(table, "cases", name))
    for path in cases:
        if not path.is_dir():
            raise UsageError(f"{name}: [tool.bitgate] cases: {path} is not a folder. Create it or remove the entry.")
    default = root / "tests" / "cases"
    if "cases" not in table and default.is_dir():
        cases = (default,)
    stubs = table.get("stubs", {})
    if not isinstance(stubs, dict):
        raise _wrong(name, "stubs", stubs, "a table of names and values")
    _check_stub("stubs", stubs, name)
    return Config(
        root=root,
        candidates=tuple(_candidate(item, name) for item in _list(table, "candidates", name)),
        cases=cases,
        stubs=MappingProxyType(stubs),
        contracts=tuple(_contract(item, name) for item in _list(table, "contracts", name)),
    )


def _table(file: Path) -> dict[str, Any]:
    try:
        if not file.is_file():
            raise UsageError(f"{file}: is not a file. Correct or remove it.")
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot read it: {error.strerror}. Check its permissions.") from error
    except ValueError as error:
        raise UsageError(f"{file}: not TOML: {error}. Correct the file.") from error
    tool = document.get("tool", {})
    table = tool.get("bitgate", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.bitgate] must be a table with {_known(KEYS)}, got {_shown(table)}.")
    return table


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"{where}: unknown key {key!r} = {_shown(value)}; {hint}The known keys are {_known(known)}."
            )


def _list(table: Mapping[str, Any], key: str, file: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise _wrong(file, key, value, "a list")
    return value


def _text(value: object, file: str, key: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(file, key, value, "a string that is not empty")
    return value


def _check_stub(key: str, value: object, file: str) -> None:
    """Refuse dates and times, which TOML has and stubs, sent as JSON, do not."""
    if isinstance(value, datetime.date | datetime.time):
        raise _wrong(file, key, value, "text, a number, true, false, a list or a table")
    for name, item in value.items() if isinstance(value, dict) else ():
        _check_stub(f"{key}.{name}", item, file)
    for item in value if isinstance(value, list) else ():
        _check_stub(key, item, file)


def _candidate(item: object, file: str) -> tuple[str, str | None]:
    if not isinstance(item, dict):
        if not isinstance(item, str) or not item.strip():
            raise _wrong(file, "candidates", item, "a spec or a table {spec = ..., contract = ...}")
        return item, None
    _check_keys(item, _CANDIDATE_KEYS, f"{file}: [tool.bitgate] candidates")
    spec = _text(item.get("spec"), file, "candidates.spec")
    return spec, _text(item["contract"], file, "candidates.contract") if "contract" in item else None


def _contract(item: object, file: str) -> str:
    if not isinstance(item, str) or not _IMPORT_PATH.fullmatch(item):
        raise _wrong(file, "contracts", item, 'an import path such as "package.module:CONTRACT"')
    return item


def _wrong(file: str, key: str, value: object, wanted: str) -> UsageError:
    return UsageError(
        f"{file}: [tool.bitgate] {key}: expected {wanted}, got {_shown(value)}. The known keys are {_known(KEYS)}."
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


def _known(keys: Iterable[str]) -> str:
    return ", ".join(keys)
