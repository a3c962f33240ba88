"""Slice: the definitions that one function needs, wherever in its source tree they are."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.errors import LoadError
from harness.load.narrow import narrow_class
from harness.load.statement import bound_name
from harness.load.stubs import Stub, find_stub
from harness.load.targets import Target, Trees, import_targets, is_installed, name_targets, star_provider
from harness.load.tree import Module, Tree
from harness.load.unresolved import no_such_name, unresolved_names, why_unbound
from harness.load.uses import Chain, Import, uses_of

MODULE_NAMES: Final = frozenset(
    {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__path__", "__builtins__"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """What a slice takes of one module: statement numbers, each with the node to execute in its place."""

    module: Module
    nodes: Mapping[int, ast.stmt]


@dataclass(frozen=True, slots=True)
class Slice:
    """The parts of all modules that a function needs.

    ``stubs`` are the names (module, name) replaced by stubs; ``missing`` are names of packages that are not installed,
    replaced by stubs too. ``later`` are modules that functions import when they are called.
    """

    tree: Tree
    parts: Mapping[str, Part]
    stubs: Mapping[tuple[str, str], Stub]
    missing: Mapping[str, Stub]
    later: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Site:
    """Where a name is needed. A ``soft`` need may stay unmet; ``called`` where the name is called there."""

    where: str
    soft: bool = False
    called: bool = False


@dataclass(slots=True)
class _Search:
    """The state of one search for needed names."""

    trees: Trees
    narrowed: Mapping[tuple[str, int], ast.ClassDef] = field(default_factory=dict)
    widen: bool = False
    kept: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    waiting: list[tuple[str, int]] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)
    used: dict[tuple[str, str], Stub] = field(default_factory=dict)
    missing: dict[str, Stub] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    unresolved: dict[str, str] = field(default_factory=dict)


def slice_function(tree: Tree, module: str, qualname: str, stubs: Mapping[str, Stub]) -> Slice:
    """Follow every name that ``module:qualname`` needs, without executing anything of the tree.

    Raises:
        LoadError: the function does not exist, or names cannot be resolved: the message lists all of them.
    """
    trees = Trees(tree, stubs)
    source = trees.module(module)
    name, *path = qualname.split(".")
    if source is None or (name not in source.bindings and star_provider(trees, source, name) is None):
        raise LoadError(no_such_name(source, module, name))
    numbers = source.bindings.get(name, ())
    node = source.statements[numbers[0]].node if len(numbers) == 1 else None
    narrowed = narrow_class(node, path) if path and isinstance(node, ast.ClassDef) else None
    if narrowed is not None:
        search = _search(_Search(trees, {(module, numbers[0]): narrowed}), module, name)
        if not search.widen:
            return _result(search)
    return _result(_search(_Search(trees), module, name))


def _search(search: _Search, module: str, name: str) -> _Search:
    _need(search, module, name, _Site(module))
    while search.waiting and not search.widen:
        _follow_statement(search, *search.waiting.pop())
    return search


def _result(search: _Search) -> Slice:
    if search.unresolved:
        raise LoadError(unresolved_names(search.unresolved))
    nodes: dict[str, dict[int, ast.stmt]] = {}
    parts: dict[str, Part] = {}
    for (name, number), bound in sorted(search.kept.items()):
        module = search.trees.module(name)
        if module is not None:
            node = search.narrowed.get((name, number), module.statements[number].node)
            nodes.setdefault(name, {})[number] = _only(node, bound)
            parts[name] = Part(module, nodes[name])
    return Slice(search.trees.tree, parts, search.used, search.missing, tuple(dict.fromkeys(search.later)))


def _only(node: ast.stmt, bound: set[str]) -> ast.stmt:
    """An import statement with the needed names only; any other statement as it is."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return node
    aliases = [alias for alias in node.names if bound_name(node, alias) in bound]
    if node.names[0].name == "*":
        aliases = [ast.copy_location(ast.alias(name), node.names[0]) for name in sorted(bound)]
    if isinstance(node, ast.Import):
        return ast.copy_location(ast.Import(aliases), node)
    return ast.copy_location(ast.ImportFrom(node.module, aliases, node.level), node)


def _need(search: _Search, module: str, name: str, site: _Site, *, imported: bool = False) -> None:
    """Take what defines ``name`` in ``module``. A name that is ``imported`` from there cannot be a builtin."""
    key = (module, name)
    if any(key == (owner, narrowed.name) for (owner, _), narrowed in search.narrowed.items()) and key in search.seen:
        search.widen = True
    if key in search.seen or _is_stubbed(search, module, site):
        return
    stub = find_stub(search.trees.stubs, module, name)
    source = search.trees.module(module) if stub is None else None
    if stub is not None:
        search.used[key] = stub
        if stub.kind == "import":
            _need_installed(search, str(stub.cpu), site)
    elif source is None:
        _report(search, key, site, f"there is no module {module} in {search.trees.tree.root}")
        return
    elif name in source.bindings:
        search.seen.add(key)
        for number in _statements(source, name):
            _keep(search, source, number, name)
    elif (star := star_provider(search.trees, source, name)) is not None:
        search.kept.setdefault((module, star.number), set()).add(name)
        if star.module is not None:
            _need(search, star.module, name, site, imported=True)
    elif source.is_package and search.trees.module(f"{module}.{name}") is not None:
        pass
    elif name in source.writers:
        for number in _statements(source, name):
            _keep(search, source, number, name)
    elif name in MODULE_NAMES or (not imported and hasattr(builtins, name)):
        return
    else:
        _report(search, key, site, why_unbound(source, name))
        return
    search.seen.add(key)


def _statements(source: Module, name: str) -> list[int]:
    """The statements that give ``name`` its value: they bind it, change it in place or call a function that sets it."""
    numbers = set(source.bindings.get(name, ()))
    writers = source.writers.get(name, frozenset())
    own = not any(name in source.statements[number].imports for number in numbers)
    for number, statement in enumerate(source.statements):
        if (own and name in statement.touches) or statement.calls & writers:
            numbers.add(number)
    return sorted(numbers)


def _keep(search: _Search, source: Module, number: int, name: str) -> None:
    statement = source.statements[number]
    key = (source.name, number)
    names = search.kept.get(key)
    if isinstance(statement.node, ast.Import | ast.ImportFrom):
        if names is not None and name in names:
            return
        search.kept.setdefault(key, set()).add(name)
        for alias in statement.node.names:
            if bound_name(statement.node, alias) == name:
                _follow_import(search, source, Import(statement.node, alias, bool(statement.guards), local=False))
    elif names is None:
        search.kept[key] = set()
        search.waiting.append(key)
    for guard in statement.guards:
        _keep(search, source, guard, "")


def _follow_statement(search: _Search, module: str, number: int) -> None:
    source = search.trees.module(module)
    assert source is not None
    node: ast.stmt = search.narrowed.get((module, number), source.statements[number].node)
    uses = uses_of(node, str(source.file))
    own = {node.name} if (module, number) in search.narrowed and isinstance(node, ast.ClassDef) else set()
    for use in uses.imports:
        _follow_import(search, source, use)
    called = {chain.name for chain in uses.chains if chain.called and not chain.attributes}
    for name, line in uses.loads.items():
        if name not in own:
            _need(search, module, name, _Site(search.trees.where(source, line), called=name in called))
    for name, line in uses.soft.items():
        _need(search, module, name, _Site(search.trees.where(source, line), soft=True))
    for chain in uses.chains:
        for target in _chain_targets(search, source, chain, uses.imports, {**uses.soft, **uses.loads}):
            site = _Site(search.trees.where(source, chain.line), called=chain.called)
            _need_chain(search, target, chain.attributes, site)


def _chain_targets(
    search: _Search, source: Module, chain: Chain, imports: tuple[Import, ...], loads: Mapping[str, int]
) -> Iterator[Target]:
    for use in imports:
        if use.bound == chain.name:
            optional = use.forgiving or use.local
            yield from import_targets(search.trees, source, use.node, use.alias, optional=optional)
    if chain.name in loads:
        yield from name_targets(search.trees, source.name, chain.name)


def _follow_import(search: _Search, source: Module, use: Import) -> None:
    trees, node, name = search.trees, use.node, use.alias.name
    site = _Site(trees.where(source, node.lineno), soft=use.forgiving)
    module = source.absolute(node) if isinstance(node, ast.ImportFrom) else name
    if module is None:
        climbs = "." * getattr(node, "level", 0)
        _report(search, (climbs, name), site, "the relative import leaves the source tree")
    elif not trees.tree.holds(module):
        # A function's own import of a package fails only when it is called, as it would at home.
        external = f"{module}.{name}" if isinstance(node, ast.ImportFrom) else module
        _need_installed(search, external, _Site(site.where, soft=use.forgiving or use.local))
    elif isinstance(node, ast.Import):
        if not _is_stubbed(search, module, site) and trees.module(module) is None:
            parent, _, last = module.rpartition(".")
            _report(search, (parent, last), site, f"there is no module {module} in {trees.tree.root}")
    elif name == "*":
        _need_all(search, module, site)
    else:
        _need(search, module, name, site, imported=True)
    if use.local and not use.forgiving and module is not None and trees.tree.holds(module):
        search.later.append(module)


def _need_chain(search: _Search, target: Target, attributes: tuple[str, ...], site: _Site) -> None:
    """Take ``target.a.b.c``, where the target is a module: each attribute is a name of the one before."""
    if target.kind == "missing":
        name = ".".join([target.name, *attributes])
        _need_installed(search, name, _Site(site.where, site.soft or target.optional, site.called), used=True)
    elif _is_stubbed(search, target.name, site):
        return
    elif not attributes or attributes[0] == "__dict__":
        # The module is handed on as an object: whoever gets it may read any name.
        _need_all(search, target.name, site)
    elif attributes[0] not in MODULE_NAMES:
        first, *rest = attributes
        _need(search, target.name, first, _Site(site.where, site.soft, site.called and not rest), imported=True)
        for inner in name_targets(search.trees, target.name, first):
            _need_chain(search, inner, tuple(rest), site)


def _need_all(search: _Search, module: str, site: _Site) -> None:
    source = search.trees.module(module)
    if (module, "*") in search.seen or source is None:
        return
    search.seen.add((module, "*"))
    for name in source.bindings:
        _need(search, module, name, site)


def _is_stubbed(search: _Search, module: str, site: _Site) -> bool:
    """Whether the module itself, or a package it is in, is replaced by a stub."""
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        parent, last = ".".join(parts[: end - 1]), parts[end - 1]
        stub = find_stub(search.trees.stubs, parent, last)
        if stub is not None and search.trees.is_module(parent, last):
            search.used[parent, last] = stub
            return True
    return False


def _need_installed(search: _Search, name: str, site: _Site, *, used: bool = False) -> None:
    """Check a name of another package: installed, or replaced by a stub. A name merely imported may still be unused."""
    if is_installed(name):
        return
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        prefix = ".".join(parts[:end])
        stub = find_stub(search.trees.stubs, "", prefix)
        if stub is not None:
            search.missing[prefix] = stub
            return
    if used or not any(other.startswith(f"{name}.") for other in search.trees.stubs):
        _report(search, ("", ".".join(parts[:2])), site, f"the package {parts[0]} is not installed; install it, or use")


def _report(search: _Search, key: tuple[str, str], site: _Site, reason: str) -> None:
    if site.soft:
        return
    name = ".".join(part for part in key if part)
    option = f"--stub {name}{'()' if site.called else ''}=VALUE"
    search.unresolved.setdefault(name, f"(needed at {site.where}): {reason}\n      {option}")
