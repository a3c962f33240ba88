"""Decoration: whether decorating a definition that a slice leaves out changes something that the slice reads."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from harness.load.effects import READS, executed_nodes, is_constant
from harness.load.statement import bound_name, in_this_scope, root_name
from harness.load.targets import Trees
from harness.load.tree import Module

Matters: TypeAlias = Callable[[str, str], bool]
"""Whether a slice takes and reads a name, given as module and name."""

CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__"})
_PLAIN_CALLS: Final = frozenset({"bool", "float", "int", "len", "str"})
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def decoration_changes(
    trees: Trees, module: str, name: str, calls: int, matters: Matters, seen: frozenset[tuple[str, str]] = frozenset()
) -> bool:
    """Whether calling ``name`` of a module changes a name that matters, as far as its source tells.

    ``calls`` is 1 for ``@name`` and 2 for ``@name(...)``, which calls what the first call returns. What happens when
    the decorated function is called does not count: nobody calls it. A name of the tree that is neither a function
    nor a class may change itself.
    """
    if (module, name) in seen:
        return False
    seen |= {(module, name)}
    found = list(_bindings(trees, module, name))
    for source, node in found:
        if isinstance(node, _Function):
            if _function_changes(trees, source, node, calls, matters, seen):
                return True
        elif isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, _Function) and part.name in CONSTRUCTORS]
            if any(_function_changes(trees, source, method, 1, matters, seen) for method in methods):
                return True
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            if any(decoration_changes(trees, source.name, base, 1, matters, seen) for base in bases):
                return True
        elif matters(module, name):
            return True
    return not found and matters(module, name)


def _function_changes(
    trees: Trees, source: Module, function: _Function, calls: int, matters: Matters, seen: frozenset[tuple[str, str]]
) -> bool:
    nodes = list(_executed(function, calls))
    rebound = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    local = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} - rebound
    local |= {node.name for node in nodes if isinstance(node, _Function)}
    local |= {argument.arg for node in ast.walk(function) for argument in [node] if isinstance(argument, ast.arg)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    changed, read = set[str](), set[int]()
    for node in nodes:
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                changed |= {root} if (root := root_name(node)) else set()
            case ast.Call(func=ast.Attribute(attr=attribute) as method):
                root = root_name(method)
                changed |= {root} if root and attribute not in READS else set()
                read |= {id(part) for part in ast.walk(method)}
            case ast.Call(func=ast.Name() as callee):
                read.add(id(callee))
    # Whoever is handed an object may change it, under another name too.
    handed = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in read}
    changed = {name for name in changed if not _is_inert(trees, source.name, name, definitions=False)}
    changed |= {name for name in handed - changed if not _is_inert(trees, source.name, name, definitions=True)}
    return any(matters(source.name, name) for name in (changed - local) | rebound) or any(
        decoration_changes(trees, source.name, name, 1, matters, seen) for name in called - local
    )


def _executed(function: _Function, calls: int) -> Iterator[ast.AST]:
    """What calling a function executes; with ``calls`` above 1, also what calling its result executes."""
    own = [node for statement in function.body for node in executed_nodes(statement)]
    yield from own
    called = {node.func.id for node in own if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    returned = [part for node in own if isinstance(node, ast.Return) and node.value for part in ast.walk(node.value)]
    names = {node.id for node in returned if isinstance(node, ast.Name)}
    for node in own:
        if isinstance(node, _Function) and node is not function:
            if node.name in called:
                yield from _executed(node, 1)
            if calls > 1 and node.name in names:
                yield from _executed(node, calls - 1)
        elif isinstance(node, ast.Lambda) and calls > 1 and node in returned:
            yield from executed_nodes(node.body)


def _bindings(
    trees: Trees, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
) -> Iterator[tuple[Module, ast.AST]]:
    """What binds a name in the tree, imports followed; nothing for a name of another package or a builtin."""
    source = trees.module(module)
    if source is None or (module, name) in seen:
        return
    seen |= {(module, name)}
    for number in source.bindings.get(name, ()):
        statement = source.statements[number]
        for node in in_this_scope([statement.node]):
            if isinstance(node, ast.ImportFrom):
                target = source.absolute(node)
                for alias in node.names:
                    if bound_name(node, alias) == name and target and trees.tree.holds(target):
                        yield from _bindings(trees, target, alias.name, seen)
            elif isinstance(node, _Function | ast.ClassDef):
                if node.name == name:
                    yield source, node
            elif isinstance(node, ast.stmt) and name in _assigned(node):
                yield source, node


def _assigned(node: ast.stmt) -> set[str]:
    parts = in_this_scope(ast.iter_child_nodes(node)) if not hasattr(node, "body") else ()
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _is_inert(trees: Trees, module: str, name: str, *, definitions: bool) -> bool:
    """Whether a name stands for a value that nobody can change in place, or with ``definitions`` for a definition."""
    found = [node for _, node in _bindings(trees, module, name)]
    return bool(found) and all(
        (definitions and isinstance(node, _Function | ast.ClassDef)) or _is_plain(node) for node in found
    )


def _is_plain(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    match node.value:
        case ast.Compare() | ast.JoinedStr():
            return True
        case ast.Call(func=ast.Name(id=called)):
            return called in _PLAIN_CALLS
    return is_constant(node)
