"""Execute: run the statements of a slice, each module in a namespace of its own, without importing the tree."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType, TracebackType
from typing import Any

from harness.errors import LoadError
from harness.load.slice import Part, Slice
from harness.load.statement import static_test
from harness.load.stubs import Device
from harness.load.targets import is_installed
from harness.load.uses import compile_statements


@dataclass(slots=True)
class _Unit:
    """A module-level statement to execute once."""

    node: ast.stmt
    binds: frozenset[str]
    done: bool = False


@dataclass(slots=True)
class _Run:
    """The namespaces of one slice while it is executed, and later for imports inside its functions."""

    slice: Slice
    device: Device
    modules: dict[str, ModuleType] = field(default_factory=dict)
    units: dict[str, list[_Unit]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    builtins: dict[str, Any] = field(default_factory=dict)
    failure: tuple[BaseException, str, _Unit] | None = None


def execute(part: Slice, module: str, *, device: Device) -> ModuleType:
    """Execute a slice and return the namespace of ``module``.

    Modules are entered as Python enters them, at their first import, and each executes its statements in the order of
    its file. Functions keep access to the slice: an import inside a function finds the slice's modules. None of them
    stays in ``sys.modules``.

    Raises:
        LoadError: a statement raised; the message names it, the exception and what to do.
    """
    run = _Run(part, device)
    run.builtins = {**vars(builtins), "__import__": partial(_import, run)}
    try:
        entry = _load(run, module)
        for later in part.later:
            _load(run, later)
    except BaseException as error:
        raise LoadError(_describe(run, error)) from error
    assert isinstance(entry, ModuleType)
    return entry


def _import(
    run: _Run,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Stands for ``builtins.__import__``, whose parameters it has, in the code of a slice."""
    absolute = name
    if level:
        package = str((globals or {}).get("__package__", ""))
        absolute = importlib.util.resolve_name("." * level + name, package)
    top = absolute.partition(".")[0]
    if run.slice.tree.holds(absolute):
        module = _load(run, absolute)
        for attribute in fromlist or ():
            if isinstance(module, ModuleType) and attribute not in vars(module):
                _load_submodule(run, module, attribute)
        return module if fromlist else _load(run, top)
    if not is_installed(absolute) and any(missing.partition(".")[0] == top for missing in run.slice.missing):
        return _stand_in(run, absolute if fromlist else top)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


def _load(run: _Run, name: str) -> Any:
    """The namespace of a module of the tree, executed up to its end unless it is being executed already."""
    parent_name, _, last = name.rpartition(".")
    stub = run.slice.stubs.get((parent_name, last)) if parent_name else None
    if stub is not None and name not in run.slice.parts:
        return vars(_load(run, parent_name))[last]
    if name not in run.modules:
        parent = _load(run, parent_name) if parent_name else None
        # Entering the parent may have entered this module.
        if name not in run.modules:
            _create(run, name, parent)
    module = run.modules[name]
    if name not in run.running and not all(unit.done for unit in run.units[name]):
        with _registered(run, name):
            run.running.add(name)
            try:
                for unit in run.units[name]:
                    _execute_unit(run, name, unit)
            finally:
                run.running.discard(name)
    return module


def _create(run: _Run, name: str, parent: Any) -> None:
    path = run.slice.tree.find(name)
    names = {stub: value for (module, stub), value in run.slice.stubs.items() if module == name}
    if path is None and not names:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    part = run.slice.parts.get(name)
    is_package = path is None or path.is_dir() or path.name == "__init__.py"
    module = ModuleType(name)
    module.__dict__.update(
        __builtins__=run.builtins,
        __file__=str(path),
        __package__=name if is_package else name.rpartition(".")[0],
        __getattr__=partial(_missing_attribute, run, name),
        **({"__path__": []} if is_package else {}),
    )
    run.modules[name] = module
    run.units[name] = _units(part) if part else []
    module.__dict__.update(_stub_values(run, name))
    if isinstance(parent, ModuleType):
        vars(parent).setdefault(name.rpartition(".")[2], module)


def _units(part: Part) -> list[_Unit]:
    kept = {id(part.module.statements[number].node): (number, node) for number, node in part.nodes.items()}
    nodes = [node for statement in part.module.body for node in _prune(statement, kept)]
    bound = {id(node): part.module.statements[number].binds for number, node in kept.values()}
    return [
        _Unit(node, frozenset().union(*(bound.get(id(inner), frozenset()) for inner in ast.walk(node))))
        for node in nodes
    ]


def _prune(node: ast.stmt, kept: Mapping[int, tuple[int, ast.stmt]]) -> list[ast.stmt]:
    """The kept statements at or below ``node``, inside the ``if`` statements that guard them."""
    if not isinstance(node, ast.If):
        return [kept[id(node)][1]] if id(node) in kept else []
    holds = static_test(node.test)
    body = [inner for statement in node.body for inner in _prune(statement, kept)]
    orelse = [inner for statement in node.orelse for inner in _prune(statement, kept)]
    if holds is not None:
        return body if holds else orelse
    if id(node) not in kept:
        return []
    empty = ast.copy_location(ast.Pass(), node)
    return [ast.copy_location(ast.If(node.test, body or [empty], orelse), node)]


def _execute_unit(run: _Run, name: str, unit: _Unit) -> None:
    if unit.done:
        return
    namespace = vars(run.modules[name])
    unit.done = True
    try:
        exec(compile_statements([unit.node], namespace["__file__"]), namespace)
    except BaseException as error:
        # A handler around an import may still catch this; the next import then tries again, as Python does.
        unit.done = False
        if run.failure is None or run.failure[0] is not error:
            run.failure = (error, name, unit)
        raise
    namespace.update(_stub_values(run, name, unit.binds))


def _stub_values(run: _Run, name: str, only: frozenset[str] | None = None) -> dict[str, Any]:
    return {
        stubbed: stub.build(run.device, import_module=partial(_import_named, run))
        for (module, stubbed), stub in run.slice.stubs.items()
        if module == name and (only is None or stubbed in only)
    }


def _missing_attribute(run: _Run, name: str, attribute: str) -> Any:
    """Stands for a module's ``__getattr__``: in an import cycle, define the name ahead of its turn."""
    units = run.units[name]
    wanted = [number for number, unit in enumerate(units) if attribute in unit.binds and not unit.done]
    if wanted and not attribute.startswith("__"):
        for unit in units[: wanted[-1] + 1]:
            _execute_unit(run, name, unit)
        if attribute in vars(run.modules[name]):
            return vars(run.modules[name])[attribute]
    child = f"{name}.{attribute}"
    if child in run.slice.parts:
        return _load(run, child)
    raise AttributeError(
        f"module {name!r} has no {attribute!r} here: it was not imported, only the definitions that the candidate's "
        f"source names were taken; --stub {child}=VALUE supplies it"
    )


def _load_submodule(run: _Run, module: ModuleType, attribute: str) -> None:
    child = f"{module.__name__}.{attribute}"
    pending = any(attribute in unit.binds and not unit.done for unit in run.units[module.__name__])
    if hasattr(module, "__path__") and not pending and run.slice.tree.find(child) is not None:
        _load(run, child)


def _import_named(run: _Run, name: str) -> Any:
    """Import by dotted name for a stub: the installed module, or its stand-in."""
    return importlib.import_module(name) if is_installed(name) else _stand_in(run, name)


def _stand_in(run: _Run, name: str) -> Any:
    """An object for a package that is not installed: it has the attributes that stubs supply, and no others."""
    stub = run.slice.missing.get(name)
    if stub is not None:
        return stub.build(run.device)
    module = ModuleType(name)
    inner = {
        other.removeprefix(f"{name}.").partition(".")[0] for other in run.slice.missing if other.startswith(f"{name}.")
    }
    for attribute in sorted(inner):
        setattr(module, attribute, _stand_in(run, f"{name}.{attribute}"))
    return module


@contextmanager
def _registered(run: _Run, name: str) -> Iterator[None]:
    """Keep a module in ``sys.modules`` while it executes: dataclasses look up their string annotations there."""
    before = sys.modules.get(name)
    sys.modules[name] = run.modules[name]
    try:
        yield
    finally:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before


def _describe(run: _Run, error: BaseException) -> str:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if run.failure is None:
        return f"executing the slice raised {what}; name another function or supply the name with --stub"
    _, name, unit = run.failure
    file = str(vars(run.modules[name])["__file__"])
    line = next((line for path, line in reversed(_lines(error.__traceback__)) if path == file), unit.node.lineno)
    options = " or ".join(f"--stub {name}.{bound}=VALUE" for bound in sorted(unit.binds)[:3])
    advice = f"{options} supplies what this statement defines" if options else "correct the statement"
    return f"{file}:{line}: a definition that the function needs raised {what}; {advice}"


def _lines(traceback: TracebackType | None) -> list[tuple[str, int]]:
    lines = []
    while traceback is not None:
        lines.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return lines
