"""Slice: the definitions that one function needs, wherever in its source tree they are."""

from __future__ import annotations

import ast
import builtins
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from harness.errors import LoadError
from harness.load.narrow import narrow_class
from harness.load.statement import bound_name
from harness.load.stubs import Stub, find_stub
from harness.load.surroundings import surround
from harness.load.targets import Target, Trees, import_targets, is_installed, name_targets, star_providers
from harness.load.tree import Module, Tree
from harness.load.unresolved import no_such_name, too_many_modules, unresolved_names, why_unbound
from harness.load.uses import MODULE_NAMES, Chain, Import, uses_of

MOST_MODULES: Final = 200
"""A function that needs more modules than this needs the whole engine; helpers need one to ten."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a slice takes of one module: statement numbers, each with the node to execute in its place."""

    module: Module
    nodes: Mapping[int, ast.stmt]


@dataclass(frozen=True, slots=True)
class Slice:
    """The parts of all modules that a function needs.

    ``stubs`` are the names (module, name) replaced by stubs; ``missing`` are names of packages that are not installed,
    replaced by stubs too. ``later`` are modules that functions import when they are called. ``skipped`` lists what was
    left out and may change what the function does; ``extra`` counts those that were taken for that reason.
    """

    tree: Tree
    parts: Mapping[str, Part]
    stubs: Mapping[tuple[str, str], Stub]
    missing: Mapping[str, Stub]
    later: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    extra: int = 0


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
    waiting: deque[tuple[str, int]] = field(default_factory=deque)
    seen: set[tuple[str, str]] = field(default_factory=set)
    used: dict[tuple[str, str], Stub] = field(default_factory=dict)
    missing: dict[str, Stub] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    unresolved: dict[str, str] = field(default_factory=dict)


def slice_function(
    tree: Tree, module: str, qualname: str, stubs: Mapping[str, Stub], *, surroundings: bool = True
) -> Slice:
    """Follow every name that ``module:qualname`` needs, without executing anything of the tree.

    With ``surroundings``, plain statements that may change these names are taken too; without, they are only listed.

    Raises:
        LoadError: the function does not exist, or names cannot be resolved: the message lists all of them.
    """
    name, *path = qualname.split(".")
    # A stub for the candidate itself would have us check the stub.
    trees = Trees(tree, {key: stub for key, stub in stubs.items() if key not in (name, f"{module}.{name}")})
    source = trees.module(module)
    if source is None or (name not in source.bindings and not any(star_providers(trees, source, name))):
        raise LoadError(no_such_name(source, module, name))
    numbers = source.bindings.get(name, ())
    node = source.statements[numbers[0]].node if len(numbers) == 1 else None
    narrowed = narrow_class(node, path) if path and isinstance(node, ast.ClassDef) else None
    if narrowed is not None:
        search = _search(_Search(trees, {(module, numbers[0]): narrowed}), module, name)
        if not search.widen:
            return _result(search, surroundings=surroundings)
    return _result(_search(_Search(trees), module, name), surroundings=surroundings)


def _search(search: _Search, module: str, name: str) -> _Search:
    _need(search, module, name, _Site(module))
    _follow(search, module)
    return search


def _follow(search: _Search, module: str) -> None:
    while search.waiting and not search.widen:
        # Breadth first: what is near the function is complete when the search is given up.
        _follow_statement(search, *search.waiting.popleft())
        if len(search.trees.read) > MOST_MODULES:
            source = search.trees.module(module)
            imports = [number for owner, number in search.kept if owner == module]
            used = {name for number in imports for name in _tree_imports(search, source, number)} if source else set()
            raise LoadError(too_many_modules(search.trees.tree.top, MOST_MODULES, used))


def _tree_imports(search: _Search, source: Module, number: int) -> set[str]:
    """The full names that one statement imports from the tree and that are needed."""
    node = source.statements[number].node
    if not isinstance(node, ast.ImportFrom) or not search.trees.tree.holds(source.absolute(node) or ""):
        return set()
    bound = search.kept[source.name, number]
    return {f"{source.absolute(node)}.{alias.name}" for alias in node.names if bound_name(node, alias) in bound}


def _take(search: _Search, module: str, number: int) -> bool:
    """Take one more statement, unless it needs an import, stub or module that the slice lacks, or a whole class."""
    trial = replace(
        search,
        kept={key: set(names) for key, names in search.kept.items()},
        seen=set(search.seen),
        used=dict(search.used),
        missing=dict(search.missing),
        later=list(search.later),
        waiting=deque(),
        unresolved={},
    )
    source = search.trees.module(module)
    assert source is not None
    _keep(trial, source, number, "")
    for name in source.statements[number].binds:
        _need(trial, module, name, _Site(module))
    try:
        _follow(trial, module)
    except LoadError:
        return False
    supplied = (trial.used, trial.missing, trial.later) == (search.used, search.missing, search.later)
    if trial.widen or trial.unresolved or not supplied or _imports_of(trial) != _imports_of(search):
        return False
    if {name for name, _ in trial.kept} != {name for name, _ in search.kept}:
        return False
    search.kept.update(trial.kept)
    search.seen.update(trial.seen)
    return True


def _imports_of(search: _Search) -> dict[tuple[str, int], set[str]]:
    return {key: names for key, names in search.kept.items() if names}


def _result(search: _Search, *, surroundings: bool) -> Slice:
    if search.unresolved:
        raise LoadError(unresolved_names(search.unresolved))
    needed = len(search.kept)
    skipped = surround(search.trees, search.kept, lambda module, number: surroundings and _take(search, module, number))
    nodes: dict[str, dict[int, ast.stmt]] = {}
    parts: dict[str, Part] = {}
    for (name, number), bound in sorted(search.kept.items()):
        module = search.trees.module(name)
        if module is not None:
            node = search.narrowed.get((name, number), module.statements[number].node)
            nodes.setdefault(name, {})[number] = _only(node, bound)
            parts[name] = Part(module, nodes[name])
    later = tuple(dict.fromkeys(search.later))
    extra = len(search.kept) - needed
    return Slice(search.trees.tree, parts, search.used, search.missing, later, skipped, extra)


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
            _need_installed(search, str(stub.cpu))
    elif source is None:
        _report(search, key, site, f"there is no module {module} in {search.trees.tree.root}")
        return
    elif name in source.bindings:
        search.seen.add(key)
        for number in _statements(source, name):
            _keep(search, source, number, name)
    elif stars := list(star_providers(search.trees, source, name)):
        search.seen.add(key)
        for star in stars:
            _keep(search, source, star.number, name)
            if star.module is not None:
                _need(search, star.module, name, site, imported=True)
    elif source.is_package and search.trees.module(f"{module}.{name}") is not None:
        pass
    elif name in source.writers:
        for number in _statements(source, name):
            _keep(search, source, number, name)
    elif not imported and hasattr(builtins, name):
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
        _report(search, (source.name, use.bound), site, "the relative import leaves the source tree")
    elif not trees.tree.holds(module):
        # Where the package is missing, each use of the name is reported.
        _need_installed(search, f"{module}.{name}" if isinstance(node, ast.ImportFrom) else module)
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
        if not _need_installed(search, ".".join([target.name, *attributes])):
            package, called = target.name.partition(".")[0], site.called and len(attributes) < 2
            missing = _Site(site.where, site.soft or target.optional, called)
            reason = f"the package {package} is not installed; install it, or use"
            _report(search, (target.name, *attributes[:1]), missing, reason)
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


def _need_installed(search: _Search, name: str) -> bool:
    """Whether a name of another package has a value: the package is installed, or a stub supplies the name."""
    parts = name.split(".")
    prefixes = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    stubbed = next((prefix for prefix in prefixes if find_stub(search.trees.stubs, "", prefix)), None)
    if is_installed(name) or stubbed is None:
        return is_installed(name)
    search.missing[stubbed] = search.trees.stubs[stubbed]
    return True


def _report(search: _Search, key: tuple[str, ...], site: _Site, reason: str) -> None:
    if site.soft:
        return
    name = ".".join(part for part in key if part)
    # Quoted where a shell would take the parentheses for its own.
    option = f"--stub '{name}()=VALUE'" if site.called else f"--stub {name}=VALUE"
    search.unresolved.setdefault(name, f"(needed at {site.where}): {reason}\n      {option}")
