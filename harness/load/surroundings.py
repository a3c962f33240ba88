"""Surroundings: module-level statements around a slice that may change what it does; taken where plain, else listed."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from harness.load.decoration import decoration_changes
from harness.load.effects import SETTERS, Effects, changed_names, effects_of, executed_nodes, first_line, is_constant
from harness.load.statement import bound_name, in_this_scope
from harness.load.stubs import find_stub
from harness.load.targets import Trees, star_providers
from harness.load.tree import Module

MOST_CHARACTERS: Final = 80
COMPILERS: Final = frozenset({"gluon", "tl", "torch", "triton"})
"""Names under which trees re-export compilers: their decorators and calls leave other names alone."""

Kept = Mapping[tuple[str, int], Collection[str]]
"""What a slice takes so far: (module, statement number), with the names that an import statement binds."""


@dataclass(slots=True)
class _Look:
    """One look around a slice; effects are read from the syntax once."""

    trees: Trees
    kept: Kept
    effects: dict[tuple[str, int], Effects] = field(default_factory=dict)
    changes: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)


def surround(trees: Trees, kept: Kept, take: Callable[[str, int], bool]) -> tuple[str, ...]:
    """Offer plain statements that may change a slice to ``take``, and list the others.

    ``take`` adds a statement to ``kept`` where that needs nothing from elsewhere, and says whether it did. The result
    has one ``file:line: source`` of at most 80 characters for each statement left out, in the order of the files.
    """
    look = _Look(trees, kept)
    refused: set[tuple[str, int]] = set()
    progress = True
    while progress:
        progress = False
        for source, number in list(_omitted(look)):
            key = (source.name, number)
            # An earlier statement may have taken this one along.
            if key not in refused and key not in kept and _may_take(look, source, number):
                took = take(*key)
                progress |= took
                refused |= set() if took else {key}
    return tuple(
        _text(source, number)
        for source, number in _omitted(look)
        if _counts(look, source, number) or _is_alias(look, source, number)
    )


def _omitted(look: _Look) -> Iterator[tuple[Module, int]]:
    for name in sorted({name for name, _ in look.kept}):
        source = look.trees.module(name)
        for number, statement in enumerate(source.statements if source else ()):
            imports = isinstance(statement.node, ast.Import | ast.ImportFrom)
            if (
                source
                and not imports
                and (name, number) not in look.kept
                and "__all__" not in statement.binds | statement.touches
            ):
                yield source, number


def _effects(look: _Look, source: Module, number: int) -> Effects:
    key = (source.name, number)
    if key not in look.effects:
        look.effects[key] = effects_of(source.statements[number])
    return look.effects[key]


def _may_take(look: _Look, source: Module, number: int) -> bool:
    effects = _effects(look, source, number)
    if _is_alias(look, source, number):
        return True
    return effects.plain and _reaches(look, source, effects.evaluated) and _calls_the_tree(look, source, number)


def _counts(look: _Look, source: Module, number: int) -> bool:
    effects = _effects(look, source, number)
    if effects.dynamic or effects.sets or _reaches(look, source, effects.evaluated):
        return True
    if any(
        decoration_changes(look.trees, source.name, name, calls, partial(_matters, look))
        for name, calls in effects.decorators
        if name not in COMPILERS
    ):
        return True
    return any(_names_alias(look, source, name) for name in effects.names)


def _matters(look: _Look, module: str, name: str) -> bool:
    """Whether a name is of the slice, and is read there."""
    if not _is_defined(look, module, name):
        return False
    if not look.read:
        for owner, number in look.kept:
            kept = look.trees.module(owner)
            look.read |= _read_names(kept.statements[number].node) if kept else set()
    return name in look.read


def _read_names(node: ast.stmt) -> set[str]:
    """Names that a statement does more with than to set their items."""
    parts = list(ast.walk(node))
    stored = {id(part.value) for part in parts if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store)}
    names = {
        part.id
        for part in parts
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and id(part) not in stored
    }
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}


def _names_alias(look: _Look, source: Module, name: str) -> bool:
    return any(
        (source.name, number) not in look.kept and _is_alias(look, source, number)
        for number in source.bindings.get(name, ())
    )


def _is_alias(look: _Look, source: Module, number: int) -> bool:
    """Whether a statement gives an object of the slice another name, which an omitted statement then uses."""
    root = _effects(look, source, number).alias_of
    return root is not None and _reaches(look, source, {root}) and _is_used(look, source, number, frozenset())


def _is_used(look: _Look, source: Module, number: int, seen: frozenset[int]) -> bool:
    """Whether an omitted statement hands on or changes what this one binds, perhaps under a further name."""
    binds = source.statements[number].binds
    seen |= {number}
    for other in range(len(source.statements)):
        if other in seen or (source.name, other) in look.kept:
            continue
        effects = _effects(look, source, other)
        if binds & effects.names or (effects.alias_of in binds and _is_used(look, source, other, seen)):
            return True
    return False


def _reaches(look: _Look, source: Module, names: Collection[str]) -> bool:
    """Whether one of the names is of the slice and can be changed, or is a function that changes one that is."""
    if source.name not in look.changes:
        functions = [part.node for part in source.statements if isinstance(part.node, ast.FunctionDef)]
        look.changes[source.name] = {function.name: changed_names(function) for function in functions}
    changes = look.changes[source.name]
    return any(
        (_is_defined(look, source.name, name) and not _is_constant(source, name))
        or any(_is_defined(look, source.name, changed) for changed in changes.get(name, ()))
        for name in names
        if name not in COMPILERS
    )


def _is_constant(source: Module, name: str) -> bool:
    numbers = source.bindings.get(name, ())
    return bool(numbers) and all(is_constant(source.statements[number].node) for number in numbers)


def _is_defined(look: _Look, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> bool:
    """Whether the slice takes ``name`` of ``module`` from the tree, by import or by definition."""
    source = look.trees.module(module)
    if source is None or (module, name) in seen or find_stub(look.trees.stubs, module, name) is not None:
        return False
    seen |= {(module, name)}
    for number in source.bindings.get(name, ()):
        kept = look.kept.get((module, number))
        statement = source.statements[number]
        if kept is None:
            continue
        if name not in statement.imports:
            return True
        for node in in_this_scope([statement.node]):
            if not isinstance(node, ast.Import | ast.ImportFrom) or (node is statement.node and name not in kept):
                continue
            for alias in node.names:
                target = source.absolute(node) if isinstance(node, ast.ImportFrom) else alias.name
                if bound_name(node, alias) != name or target is None or not look.trees.tree.holds(target):
                    continue
                if isinstance(node, ast.Import) or look.trees.is_module(target, alias.name):
                    return True
                if _is_defined(look, target, alias.name, seen):
                    return True
    if name in source.bindings:
        return False
    stars = (
        star for star in star_providers(look.trees, source, name) if name in look.kept.get((module, star.number), ())
    )
    return any(star.module is not None and _is_defined(look, star.module, name, seen) for star in stars)


def _calls_the_tree(look: _Look, source: Module, number: int) -> bool:
    """Whether all that a statement calls is of the tree or a builtin: other packages may do anything."""
    for part in executed_nodes(source.statements[number].node):
        func = part.func if isinstance(part, ast.Call) else None
        while isinstance(func, ast.Attribute | ast.Subscript | ast.Call):
            func = func.func if isinstance(func, ast.Call) else func.value
        if not isinstance(func, ast.Name):
            if func is not None:
                return False
            continue
        own = any(func.id not in source.statements[n].imports for n in source.bindings.get(func.id, ()))
        builtin = func.id not in source.bindings and hasattr(builtins, func.id)
        if not (own or builtin or func.id in SETTERS or _is_defined(look, source.name, func.id)):
            return False
    return True


def _text(source: Module, number: int) -> str:
    line = first_line(source.statements[number])
    text = f"{source.file.name}:{line}: {source.text.splitlines()[line - 1].strip()}"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
