"""Spec: how a user names a candidate on the command line."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from harness.errors import UsageError
from harness.load.traits import Traits, registered_files, syntax_of, traits_in

Kind: TypeAlias = Literal["registered", "module", "file"]

FORMS: Final = "contract/name, package.module:function or path/to/file.py::function"
DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
SHOWN: Final = 5
"""How many names an error message lists at most."""
_LONGEST: Final = 8_192
"""Characters of the longest spec: more than the longest path, 4,096 bytes, and a name."""


@dataclass(frozen=True, slots=True)
class CandidateSpec:
    """One candidate as named by the user, checked for form. Nothing has been imported or executed yet.

    ``location`` is ``contract/name`` for a registered candidate, ``package.module`` for a module, the absolute path for
    a file. ``qualname`` is ``function`` or ``Class.method``; it is empty for a registered candidate, which defines the
    contract's own function.
    """

    text: str
    kind: Kind
    location: str
    qualname: str


@dataclass(frozen=True, slots=True)
class RegisteredCandidate:
    """A file of the ``candidates`` package: its name, where it is, the first line of its docstring, its traits."""

    name: str
    path: Path
    summary: str
    traits: Traits


def parse_spec(text: str, *, root: Path) -> CandidateSpec:
    """Read a candidate spec; relative paths start at ``root``.

    >>> parse_spec("package.module:Class.method", root=Path.cwd()).qualname
    'Class.method'

    Raises:
        UsageError: the text has none of the three forms, or the file or the registered name does not exist.
    """
    text = text.strip()
    if not _is_utf8(text):
        raise UsageError(f"{text!a}: is not UTF-8; rename the file, or link to it under a name that is.")
    if len(text) > _LONGEST:
        raise UsageError(f"{_shortened(text)}: is no candidate; write {FORMS}")
    if "::" in text:
        return _file_spec(text, root=root)
    if ".py:" in text:
        path, _, name = text.rpartition(":")
        raise UsageError(f"{text}: a function in a file takes two colons: write {path}::{name}")
    if text.endswith(".py"):
        raise UsageError(f"{text}: names a file but no function in it{_functions_in(root / text)}")
    if ":" in text:
        return _module_spec(text)
    if "/" in text:
        return _registered_spec(text)
    near = _near_registered(text)
    if near:
        raise UsageError(f"{text}: a registered candidate is written contract/name; did you mean {_or(near)}?")
    if "." in text and DOTTED.fullmatch(text):
        module, _, name = text.rpartition(".")
        raise UsageError(f"{text}: names no function; did you mean {module}:{name}?")
    raise UsageError(f"{text!r}: not a candidate. Write {FORMS}; `bitgate list` shows the registered names.")


def registered_candidates() -> dict[str, list[RegisteredCandidate]]:
    """The candidates of the ``candidates`` package by contract, sorted by name; nothing in it is executed.

    Raises:
        UsageError: a constant by which a candidate states its traits is malformed.
    """
    found: dict[str, dict[str, RegisteredCandidate]] = {}
    for path in registered_files("*", "*"):
        if not path.stem.startswith("_") and path.stem.isidentifier() and path.parent.name.isidentifier():
            found.setdefault(path.parent.name, {}).setdefault(path.stem, _registered(path))
    return {contract: [names[name] for name in sorted(names)] for contract, names in sorted(found.items())}


def near(name: str, names: Iterable[str]) -> str:
    """What to suggest in place of an unknown name: ``; did you mean 'x'?``, else the names there are, else nothing."""
    known = sorted({other for other in names if other != name})
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {_or(close)}?"
    if not known:
        return ""
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"; there are {', '.join(known[:SHOWN])}{more}"


def check_defined(spec: CandidateSpec) -> None:
    """Check that a candidate's file mentions its function at all.

    Raises:
        UsageError: it does not.
    """
    if spec.kind != "file":
        return
    name = spec.qualname.rpartition(".")[2]
    syntax = syntax_of(Path(spec.location))
    if syntax is None:
        return
    nodes = list(ast.walk(syntax))
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    if name not in defined | bound:
        raise UsageError(f"{spec.text}: there is no {name!r} in that file{near(name, defined)}")


def _file_spec(text: str, *, root: Path) -> CandidateSpec:
    written, _, rest = text.partition("::")
    qualname = rest.replace("::", ".")
    if not written:
        raise UsageError(f"{text}: the name of the file is missing; write FILE.py{text}")
    try:
        path = (root / Path(written).expanduser()).resolve()
        folder, file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{_shortened(text)}: there can be no such file: {reason}") from error
    if not _is_utf8(str(path)):
        raise UsageError(f"{text}: {str(path)!a} is not UTF-8; rename the file or its folder.")
    if folder:
        raise UsageError(f"{text}: {written} is a folder; name a file in it.")
    if not file:
        raise UsageError(f"{text}: there is no file {path}{_near_files(path)}")
    if path.suffix != ".py":
        raise UsageError(f"{text}: {written} is not a Python source file; name a .py file.")
    if not qualname:
        raise UsageError(f"{text}: names no function{_functions_in(path)}")
    if not DOTTED.fullmatch(qualname):
        raise UsageError(f"{text}: {rest!r} is not a function name; write FILE.py::function or FILE.py::Class.method")
    return CandidateSpec(text, "file", str(path), qualname)


def _module_spec(text: str) -> CandidateSpec:
    module, _, qualname = text.partition(":")
    if "/" in module:
        raise UsageError(
            f"{text}: {module!r} is a path; write {module.removesuffix('.py')}.py::{qualname or 'function'}"
        )
    if not DOTTED.fullmatch(module):
        raise UsageError(f"{text}: {module!r} is not a module name; write package.module:function")
    if not DOTTED.fullmatch(qualname):
        raise UsageError(f"{text}: {qualname!r} is not a function name; write package.module:function or :Class.method")
    return CandidateSpec(text, "module", module, qualname)


def _registered_spec(text: str) -> CandidateSpec:
    contract, _, name = text.partition("/")
    registered = registered_candidates()
    if any(candidate.name == name for candidate in registered.get(contract, ())):
        return CandidateSpec(text, "registered", text, "")
    close = _near_registered(text)
    hint = f"did you mean {_or(close)}?" if close else "`bitgate list` shows the registered names"
    raise UsageError(f"{text}: no such registered candidate; {hint} (for a file, write path/to/file.py::function)")


def _near_registered(text: str) -> list[str]:
    names = [f"{contract}/{entry.name}" for contract, entries in registered_candidates().items() for entry in entries]
    close = [name for name in names if name.endswith(f"/{text}") or name.startswith(f"{text.rstrip('/')}/")]
    return (close or difflib.get_close_matches(text, names, n=3, cutoff=0.5))[:SHOWN]


def _near_files(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        missing = next(parent for parent in [folder, *folder.parents] if parent.parent.is_dir())
        return f" (there is no folder {missing})"
    return near(path.name, (other.name for other in folder.glob("*.py")))


def _functions_in(path: Path) -> str:
    """The functions that a file defines, to show a user who named none."""
    syntax = syntax_of(path)
    if syntax is None:
        return "; write FILE.py::function"
    names = [node.name for node in syntax.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    more = ", …" if len(names) > SHOWN else ""
    return f"; write {path.name}::NAME with one of {', '.join(names[:SHOWN])}{more}" if names else ""


def _registered(path: Path) -> RegisteredCandidate:
    syntax = syntax_of(path)
    if syntax is None:
        return RegisteredCandidate(path.stem, path, "", Traits())
    docstring = ast.get_docstring(syntax)
    summary = docstring.splitlines()[0].strip() if docstring else ""
    return RegisteredCandidate(path.stem, path, summary, traits_in(syntax, path, strict=True))


def _is_utf8(text: str) -> bool:
    """Whether the text has no surrogate; a byte of a file name that is not UTF-8 is one."""
    return text.encode(errors="ignore").decode() == text


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:60]}... ({len(text):,} characters)"


def _or(names: list[str]) -> str:
    return " or ".join(names)
