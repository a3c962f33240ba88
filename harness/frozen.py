"""Frozen references: the digest that shows a reference is still the one that was announced."""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import importlib.util
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.config import load_config
from harness.contract import Contract
from harness.contracts import contract_named, importable_from
from harness.errors import BitgateError, HarnessError, UsageError
from harness.paths import shown_path
from harness.syntax import parse_source

FILE: Final = "frozen.toml"
"""Lies beside the references whose digests it holds."""

IGNORED_FIELDS: Final = frozenset({"ctx", "type_comment"})
"""Fields of syntax trees that follow from the rest or that no program can see."""

HEADER: Final = """\
# Digests of the frozen references. A reference whose digest differs from this file is refused.
# Change with: python -m harness.frozen announce CONTRACT --reason "why the truth changes"
"""


def digest_of(source: str) -> str:
    """SHA-256 of a module's syntax tree, as 64 hexadecimal digits; the same under every supported Python.

    Formatting, comments and docstrings do not count; everything else does.

    Raises:
        SyntaxError: ``source`` is not Python.
    """
    return hashlib.sha256(_canonical(parse_source(source)).encode("ascii")).hexdigest()


def frozen_digests(folder: Path | None = None) -> dict[str, str]:
    """Announced digest of each contract's reference, from the ``frozen.toml`` in ``folder`` (default: ``references``).

    Raises:
        HarnessError: the file is missing or is not what :func:`announce` writes.
    """
    path = (_package_folder("references") if folder is None else folder) / FILE
    return {name: entry["digest"] for name, entry in _entries(path).items()}


def verify(contract: Contract) -> str:
    """The digest of a contract's reference, which must be the announced one. Imports nothing.

    Raises:
        HarnessError: the reference cannot be found, was never announced, or has changed since.
    """
    path = reference_file(contract)
    digest = digest_of(_read(path))
    known = frozen_digests(path.parent) if (path.parent / FILE).exists() else {}
    announced = known.get(contract.name)
    command = f'python -m harness.frozen announce {contract.name} --reason "..."'
    if announced is None:
        raise HarnessError(
            f"reference {contract.reference} has no frozen digest in {shown_path(path.parent / FILE)}: "
            f"announce it with {command}"
        )
    if digest != announced:
        raise HarnessError(
            f"reference {contract.reference} has changed: its digest is {digest[:12]}, {path.parent.name}/{FILE} has "
            f"{announced[:12]}. Undo the change, or announce it with {command}"
        )
    return digest


def announce(contract: Contract, *, reason: str) -> Path:
    """Record the present digest of a contract's reference, with today's date and a reason; returns the file.

    Raises:
        UsageError: the reason is empty.
        HarnessError: the reference or the file cannot be read.
    """
    if not reason.strip():
        raise UsageError("--reason is empty: say in a sentence why the reference changes.")
    source = reference_file(contract)
    path = source.parent / FILE
    entries = _entries(path) if path.exists() else {}
    entries[contract.name] = {
        "digest": digest_of(_read(source)),
        "date": datetime.date.today(),
        "reason": " ".join(reason.split()),
    }
    tables = [
        f'[{name}]\ndigest = "{entry["digest"]}"\ndate = {entry["date"]}\n'
        f"reason = {json.dumps(entry['reason'], ensure_ascii=False)}\n"
        for name, entry in sorted(entries.items())
    ]
    path.write_text("\n".join([HEADER, *tables]), encoding="utf-8")
    return path


def reference_file(contract: Contract) -> Path:
    """The source file of a contract's reference, found without importing it (and so without importing torch).

    Raises:
        HarnessError: there is no such file.
    """
    top, *rest = contract.reference.partition(":")[0].split(".")
    spec = importlib.util.find_spec(top)
    if spec is not None and not rest and spec.origin:
        return Path(spec.origin)
    if rest:
        module = _package_folder(top).joinpath(*rest)
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.is_file():
                return path
    raise HarnessError(f"reference {contract.reference} was not found: run from the project, or install it.")


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise HarnessError(f"the package {package!r} was not found: run from the project, or install it.")
    return Path(next(iter(spec.submodule_search_locations)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path}: cannot read the reference: {error.strerror}. Check the path.") from error


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    try:
        entries: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path}: cannot read the digests: {error.strerror}. Restore the file.") from error
    except tomllib.TOMLDecodeError as error:
        raise HarnessError(f"{path}: not TOML: {error}. Restore the file.") from error
    for name, entry in entries.items():
        if not isinstance(entry, Mapping) or set(entry) != {"digest", "date", "reason"}:
            raise HarnessError(f"{path}: [{name}] must hold digest, date and reason, nothing else. Restore the file.")
    return entries


def _canonical(part: object) -> str:
    """A syntax tree as text. ``ast.dump`` will not do: what it prints has changed from one Python to the next."""
    if isinstance(part, ast.Constant):
        # !a and not !r: which characters the latter escapes depends on Python's version of Unicode.
        return f"{type(part.value).__name__}:{part.value!a}"
    if isinstance(part, ast.JoinedStr):
        # Python 3.12.0 and 3.12.1 end some format specifications with an empty string.
        values = [value for value in part.values if not (isinstance(value, ast.Constant) and value.value == "")]
        return f"JoinedStr({_canonical(values)})"
    if isinstance(part, ast.AST):
        fields = [f"{name}={_canonical(value)}" for name, value in ast.iter_fields(part) if _counts(name, value)]
        return f"{type(part).__name__}({','.join(fields)})"
    if isinstance(part, list):
        return f"[{','.join(_canonical(item) for item in part if not _is_docstring(item))}]"
    return ascii(part)


def _counts(name: str, value: object) -> bool:
    """Whether a field says anything: Pythons differ in which empty fields a node has (``type_params``, for one)."""
    if isinstance(value, list):
        return not all(_is_docstring(item) for item in value)
    return value is not None and name not in IGNORED_FIELDS


def _is_docstring(item: object) -> bool:
    """Whether a statement is a string and nothing else: a docstring, of an attribute too, which does nothing."""
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m harness.frozen announce CONTRACT --reason "..."``."""
    parser = argparse.ArgumentParser(prog="python -m harness.frozen", description="The frozen references' digests.")
    commands = parser.add_subparsers(required=True, metavar="announce")
    command = commands.add_parser("announce", help="record the digest of a reference that changed on purpose")
    command.add_argument("contract", metavar="CONTRACT", help="name of the contract whose reference changed")
    command.add_argument("--reason", required=True, help="why the truth changes, in a sentence")
    options = parser.parse_args(arguments)
    try:
        config = load_config(Path.cwd())
        if config.contracts:
            importable_from(str(config.root))
        path = announce(contract_named(options.contract, config.contracts), reason=options.reason)
    except BitgateError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path}: announced {options.contract}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
