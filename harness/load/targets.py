"""Targets: the modules that a name stands for, found by following imports and re-exports."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.load.statement import bound_name, in_this_scope
from harness.load.stubs import Stub, find_stub
from harness.load.tree import Module, Tree, read_module


@dataclass(frozen=True, slots=True)
class Trees:
    """A tree with its stubs; remembers the modules that have been read."""

    tree: Tree
    stubs: Mapping[str, Stub]
    read: dict[str, Module | None] = field(default_factory=dict)

    def module(self, name: str) -> Module | None:
        """The module of that name, or None where the tree has no such file."""
        if name not in self.read:
            self.read[name] = read_module(self.tree, name)
        return self.read[name]

    def is_module(self, parent: str, name: str) -> bool:
        """Whether ``name`` of the package ``parent`` is a module, and no other thing of that name."""
        source = self.module(parent)
        bound = source is not None and name in source.bindings
        return not bound and self.tree.find(f"{parent}.{name}") is not None

    def where(self, module: Module, line: int) -> str:
        """A place in the tree as ``path:line``, the path relative to the tree's root."""
        return f"{module.file.relative_to(self.tree.root)}:{line}"


@dataclass(frozen=True, slots=True)
class Target:
    """A module that a name stands for: of the tree, or of a package that is not installed.

    ``optional`` where the import may fail, because it is guarded or happens only when a function is called.
    """

    kind: Literal["tree", "missing"]
    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Star:
    """A star import that provides a name: its statement number, and its module where that is of the tree."""

    number: int
    module: str | None


def name_targets(
    trees: Trees, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
) -> Iterator[Target]:
    """The modules that ``name`` in ``module`` may stand for; nothing for a name that is no module."""
    stub = find_stub(trees.stubs, module, name)
    if stub is not None and stub.kind == "import" and not is_installed(str(stub.cpu)):
        yield Target("missing", str(stub.cpu))
    source = trees.module(module)
    if stub is not None or source is None or (module, name) in seen:
        return
    seen |= {(module, name)}
    for number in source.bindings.get(name, ()):
        statement = source.statements[number]
        for node in in_this_scope([statement.node]):
            if isinstance(node, ast.Import | ast.ImportFrom):
                optional = bool(statement.guards) or node is not statement.node
                for alias in node.names:
                    if bound_name(node, alias) == name:
                        yield from import_targets(trees, source, node, alias, seen, optional=optional)
    if name not in source.bindings:
        stars = list(star_providers(trees, source, name))
        for star in stars:
            if star.module is not None:
                yield from name_targets(trees, star.module, name, seen)
        if not stars and source.is_package and trees.tree.find(f"{module}.{name}") is not None:
            yield Target("tree", f"{module}.{name}")


def import_targets(
    trees: Trees,
    source: Module,
    node: ast.Import | ast.ImportFrom,
    alias: ast.alias,
    seen: frozenset[tuple[str, str]] = frozenset(),
    *,
    optional: bool,
) -> Iterator[Target]:
    """The modules that one name of an import statement in ``source`` stands for."""
    if isinstance(node, ast.Import):
        module: str | None = alias.name if alias.asname else alias.name.partition(".")[0]
        external = module
    else:
        module = source.absolute(node)
        external = f"{module}.{alias.name}"
    if module is None or external is None:
        return
    if not trees.tree.holds(module):
        if not is_installed(module):
            yield Target("missing", external, optional)
    elif isinstance(node, ast.Import):
        yield Target("tree", module)
    elif module == source.name and trees.tree.find(external) is not None:
        # ``from . import part`` in the package itself: the name is the submodule.
        yield Target("tree", external)
    else:
        yield from name_targets(trees, module, alias.name, seen)


def star_providers(trees: Trees, source: Module, name: str, seen: frozenset[str] = frozenset()) -> Iterator[Star]:
    """The ``from … import *`` statements of a module that provide ``name``; the last one executed wins."""
    seen |= {source.name}
    for number, statement in enumerate(source.statements):
        node = statement.node
        module = source.absolute(node) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" else None
        if module is None or module in seen:
            continue
        if not trees.tree.holds(module):
            if is_installed(module) and hasattr(importlib.import_module(module), name):
                yield Star(number, None)
            continue
        provider = trees.module(module)
        if provider is None or name not in (provider.exports or [name]) or (name[0] == "_" and not provider.exports):
            continue
        if name in provider.bindings or any(star_providers(trees, provider, name, seen)):
            yield Star(number, module)


def is_installed(name: str) -> bool:
    """Whether the top package of a dotted name can be imported; nothing is imported to find out.

    A folder without ``__init__.py`` that happens to have the package's name counts only where it holds the next part.
    """
    top, _, rest = name.partition(".")
    if top in sys.modules or top in sys.builtin_module_names:
        return True
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if found is None or found.origin is not None:
        return found is not None
    part = rest.partition(".")[0]
    places = [Path(location) for location in found.submodule_search_locations or ()]
    return bool(part) and any((place / part).is_dir() or any(place.glob(f"{part}.*")) for place in places)
