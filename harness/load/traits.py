"""Traits: what a candidate's file says of itself in module constants, read without executing anything."""

from __future__ import annotations

import ast
import difflib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from harness.errors import UsageError
from harness.syntax import parse_source

if TYPE_CHECKING:
    from harness.load.spec import CandidateSpec

EVERYWHERE: Final = ("cpu", "cuda")
"""Devices that a candidate runs on if it does not say otherwise."""
_CLOSE: Final = 0.8
"""How much a constant's name must be like a known one, of 1, to be taken for it misspelt."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a candidate says of itself.

    ``devices`` (constant ``DEVICES``) is where it can run. ``upstream`` (``UPSTREAM``) is ``package.module:function``
    for an adapter, whose function takes that function as its first argument. ``peer`` (``PEER``) is the registered
    candidate, ``contract/name``, that it is compared with where the arithmetic is not exact. ``cuda_graph``
    (``CUDA_GRAPH``) is whether its launches can be captured in a CUDA graph and replayed.
    """

    devices: tuple[str, ...] = EVERYWHERE
    upstream: str | None = None
    peer: str | None = None
    cuda_graph: bool = False


def traits_of(spec: CandidateSpec) -> Traits:
    """What a candidate says of itself: the constants of its file, read without executing it. A module says nothing.

    Raises:
        UsageError: a constant of a registered candidate is malformed.
    """
    if spec.kind == "module":
        return Traits()
    registered = spec.kind == "registered"
    contract, _, name = spec.location.partition("/")
    path = next(registered_files(contract, name), None) if registered else Path(spec.location)
    syntax = syntax_of(path) if path else None
    return traits_in(syntax, path, strict=registered) if path and syntax else Traits()


def registered_files(contract: str, name: str) -> Iterator[Path]:
    """The files of the ``candidates`` package that two patterns match, found without importing anything."""
    spec = importlib.util.find_spec("candidates")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(location).glob(f"{contract}/{name}.py"))


def syntax_of(path: Path) -> ast.Module | None:
    """What a file contains; None where that cannot be read: loading it says why."""
    try:
        return parse_source(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def traits_in(syntax: ast.Module, path: Path, *, strict: bool) -> Traits:
    """The traits that a file's module-level constants state.

    With ``strict``, for a file of the ``candidates`` package, a constant of the right name with another value is an
    error, and so is one of almost the right name. Without, it is taken for one that the file has for purposes of its
    own, and left alone.

    Raises:
        UsageError: a constant is malformed or misspelt; the message names the file, the line and what to write.
    """
    traits = Traits()
    for node in syntax.body:
        if strict:
            _check_spelling(node, path)
        for name in _assigned(node) & _READERS.keys():
            field, form, read = _READERS[name]
            try:
                value = read(ast.literal_eval(node.value))  # type: ignore[attr-defined]
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
                if strict:
                    raise UsageError(f"{path}:{node.lineno}: {name} must be {form}; correct it") from error
                continue
            traits = replace(traits, **{field: value})
    if strict and traits.peer is not None:
        _check_peer(traits.peer, path)
    return traits


def _assigned(node: ast.stmt) -> set[str]:
    match node:
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return {name}
    return set()


def _check_spelling(node: ast.stmt, path: Path) -> None:
    for name in sorted(_assigned(node) - _READERS.keys()):
        close = difflib.get_close_matches(name, _READERS, n=1, cutoff=_CLOSE) if name.isupper() else []
        if close:
            raise UsageError(f"{path}:{node.lineno}: {name} means nothing here; did you mean {close[0]}?")


def _check_peer(peer: str, path: Path) -> None:
    contract, _, name = peer.partition("/")
    if contract != path.parent.name:
        raise UsageError(f"{path}: PEER {peer!r} belongs to another contract; name a candidate of {path.parent.name}")
    if name == path.stem:
        raise UsageError(f"{path}: PEER names the candidate itself; name another candidate of {contract}")
    if not path.with_name(f"{name}.py").is_file():
        raise UsageError(f"{path}: PEER {peer!r}: there is no such candidate; name one of {contract}")


def _devices(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple | list) or not value or not set(value) <= set(EVERYWHERE):
        raise ValueError
    return tuple(device for device in EVERYWHERE if device in value)


def _upstream(value: object) -> str:
    return _pair(value, ":", dotted=True)


def _peer(value: object) -> str:
    return _pair(value, "/", dotted=False)


def _pair(value: object, separator: str, *, dotted: bool) -> str:
    """A text of two names, or with ``dotted`` of two dotted names."""
    parts = value.split(separator) if isinstance(value, str) else []
    names = [name for part in parts for name in (part.split(".") if dotted else [part])]
    if len(parts) != 2 or not all(name.isidentifier() for name in names):
        raise ValueError
    return separator.join(parts)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


_READERS: Final[Mapping[str, tuple[str, str, Callable[[object], Any]]]] = MappingProxyType(
    {
        "DEVICES": ("devices", 'a tuple of "cpu" and "cuda", such as ("cuda",)', _devices),
        "UPSTREAM": ("upstream", 'text such as "package.module:function"', _upstream),
        "PEER": ("peer", 'text such as "contract/name"', _peer),
        "CUDA_GRAPH": ("cuda_graph", "True or False", _flag),
    }
)
"""For each constant: its field, its form in words, and a function that checks its value."""
