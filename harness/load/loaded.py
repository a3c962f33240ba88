"""Loaded: a candidate's function, and where it came from."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from harness.errors import LoadError
from harness.load.execute import execute
from harness.load.slice import Part, Slice, slice_function
from harness.load.spec import CandidateSpec, near
from harness.load.stubs import Device, Stub
from harness.load.traits import traits_of
from harness.load.tree import Tree, locate


@dataclass(frozen=True, slots=True)
class Loaded:
    """A candidate ready to be called.

    A static method comes as a plain function, a class method bound to its class, an instance method as a plain function
    whose first parameter is ``self``. ``digest`` is 16 hexadecimal digits of SHA-256 over the source that defines it:
    every statement of a slice, or the whole file of an imported module. ``definitions`` lists what a slice executed, as
    ``module:name`` and ``stub module:name``. ``skipped`` lists module-level statements that a slice left out although
    they may change what the function does, as ``file:line: source``.

    An adapter comes with its upstream function bound as the first argument. Its file is the adapter's; everything else
    covers both.
    """

    function: Callable[..., Any]
    how: Literal["imported", "sliced"]
    file: str
    digest: str
    definitions: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def load(spec: CandidateSpec, *, function: str, device: Device, stubs: Mapping[str, Stub]) -> Loaded:
    """Load a candidate. This runs its code: call it only in the process that executes the candidate.

    ``function`` is the name under which a registered candidate defines its version. A module is imported as usual;
    where that fails, the function is sliced out of the module's file. What an adapter adapts is sliced out of the
    installed package, which is never imported.

    Raises:
        LoadError: the function was not found, or could not be imported, sliced or executed up to its definition.
        UsageError: a registered candidate states its traits in a malformed way.
    """
    upstream = traits_of(spec).upstream
    try:
        loaded = _load(spec, function, device, stubs)
        if upstream is None:
            return loaded
        own = loaded.definitions or (f"candidates.{spec.location.replace('/', '.')}:{function}",)
        return _adapted(replace(loaded, definitions=own), upstream, device, stubs)
    except RecursionError as error:
        raise LoadError(f"{spec.text}: the source is nested or imported too deeply to follow; simplify it") from error
    except LoadError as error:
        raise LoadError(f"{spec.text}: {error}") from error


def installed_tree(module: str) -> Tree:
    """The tree of an importable module, found from its top package alone: nothing is executed.

    Raises:
        LoadError: the package is not installed, or has no file for the module.
    """
    top = module.partition(".")[0]
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise LoadError(f"there is no package {top}; install it or write path/to/file.py::function")
    places = found.submodule_search_locations or [str(Path(found.origin or top).with_suffix(""))]
    trees = [Tree(Path(location).parent, top) for location in places]
    tree = next((tree for tree in trees if tree.find(module) is not None), None)
    if tree is None:
        raise LoadError(f"there is no file for the module {module}; check its name")
    return tree


def _load(spec: CandidateSpec, function: str, device: Device, stubs: Mapping[str, Stub]) -> Loaded:
    if spec.kind == "registered":
        contract, _, name = spec.location.partition("/")
        return _import_function(f"candidates.{contract}.{name}", function)
    if spec.kind == "file":
        tree, module = locate(Path(spec.location))
        return _slice_function(tree, module, spec.qualname, device, stubs)
    return _load_module(spec, device, stubs)


def _adapted(adapter: Loaded, upstream: str, device: Device, stubs: Mapping[str, Stub]) -> Loaded:
    module, _, qualname = upstream.partition(":")
    adapted = _slice_function(installed_tree(module), module, qualname, device, stubs)
    return Loaded(
        partial(adapter.function, adapted.function),
        "sliced",
        adapter.file,
        hashlib.sha256(f"{adapter.digest} {adapted.digest}".encode()).hexdigest()[:16],
        (*adapter.definitions, *adapted.definitions),
        (*adapter.skipped, *adapted.skipped),
    )


def _load_module(spec: CandidateSpec, device: Device, stubs: Mapping[str, Stub]) -> Loaded:
    try:
        return _import_function(spec.location, spec.qualname)
    except _ImportFailed as failed:
        try:
            tree = installed_tree(spec.location)
            return _slice_function(tree, spec.location, spec.qualname, device, stubs)
        except LoadError as error:
            raise LoadError(f"{failed}\nwithout importing it: {error}") from failed


class _ImportFailed(LoadError):
    """The module itself could not be imported, so that slicing is worth a try."""


def _import_function(module: str, qualname: str) -> Loaded:
    top = module.partition(".")[0]
    before = {name for name in sys.modules if name.partition(".")[0] == top}
    try:
        imported = importlib.import_module(module)
    except BaseException as error:
        for name in [name for name in sys.modules if name.partition(".")[0] == top and name not in before]:
            del sys.modules[name]
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise _ImportFailed(
            f"importing {module} raised {what}{_where(error)}; correct it or install what it needs"
        ) from error
    found = _member(imported, qualname)
    file = str(getattr(imported, "__file__", None) or module)
    data = Path(file).read_bytes() if Path(file).is_file() else module.encode()
    return Loaded(found, "imported", _defining_file(found) or file, hashlib.sha256(data).hexdigest()[:16])


def _slice_function(tree: Tree, module: str, qualname: str, device: Device, stubs: Mapping[str, Stub]) -> Loaded:
    part = slice_function(tree, module, qualname, stubs)
    try:
        executed = execute(part, module, device=device)
    except LoadError:
        if not part.extra:
            raise
        # What surrounds the function may need more of its module than the slice has: then it is left out, and listed.
        part = slice_function(tree, module, qualname, stubs, surroundings=False)
        executed = execute(part, module, device=device)
    found = _member(executed, qualname)
    file = str(part.parts[module].module.file)
    definitions = tuple(_definitions(part))
    return Loaded(found, "sliced", _defining_file(found) or file, _digest(part), definitions, part.skipped)


def _member(module: ModuleType, qualname: str) -> Callable[..., Any]:
    found: Any = module
    walked = module.__name__
    for name in qualname.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            known = [other for other in vars(found) if not other.startswith("_")] if hasattr(found, "__dict__") else []
            raise LoadError(f"{walked} has no {name!r}{near(name, known)}") from error
        walked = f"{walked}.{name}"
    if not callable(found):
        raise LoadError(f"{walked} is {type(found).__name__} {found!r:.60}, which cannot be called; name a function")
    kinds = {
        "a coroutine function": inspect.iscoroutinefunction,
        "an asynchronous generator": inspect.isasyncgenfunction,
        "a generator": inspect.isgeneratorfunction,
    }
    for kind, test in kinds.items():
        if test(found):
            raise LoadError(f"{walked} is {kind}: a call runs none of it; name a function that returns its result")
    return found  # type: ignore[no-any-return]


def _defining_file(function: Callable[..., Any]) -> str | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_filename if code is not None else None


def _where(error: BaseException) -> str:
    """The last line of candidate code in a failed import, as `` at file:line``."""
    traceback, place = error.__traceback__, ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and "importlib" not in file and file != __file__:
            place = f" at {file}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _definitions(part: Slice) -> list[str]:
    names = []
    for name, taken in sorted(part.parts.items()):
        for number, node in sorted(taken.nodes.items()):
            statement = taken.module.statements[number]
            if isinstance(node, ast.Import | ast.ImportFrom | ast.If):
                continue
            bound = sorted(statement.binds) or [f"line {node.lineno}"]
            names += [f"{name}:{binding}" for binding in bound]
    stubs = [f"stub {module}:{name}" for module, name in part.stubs]
    stubs += [f"stub {name.rpartition('.')[0]}:{name.rpartition('.')[2]}" for name in part.missing]
    return list(dict.fromkeys([*names, *sorted(stubs)]))


def _digest(part: Slice) -> str:
    digest = hashlib.sha256()
    for name, taken in sorted(part.parts.items()):
        digest.update(f"{name}\n".encode())
        for number, node in sorted(taken.nodes.items()):
            digest.update(f"{_source(taken, number, node)}\n".encode())
    return digest.hexdigest()[:16]


def _source(taken: Part, number: int, node: ast.stmt) -> str:
    """The text of one statement in its file, comments included; of an import or a narrowed class, what was kept."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test)
    if isinstance(node, ast.Import | ast.ImportFrom) or node is not taken.module.statements[number].node:
        return ast.unparse(node)
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return "\n".join(taken.module.text.splitlines()[first - 1 : node.end_lineno])
