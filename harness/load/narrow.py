"""Narrow: a class cut down to one of its methods."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from harness.load.statement import Definition, in_this_scope
from harness.load.uses import evaluated_nodes


def narrow_class(node: ast.ClassDef, path: Sequence[str]) -> ast.ClassDef | None:
    """The class with only the member that ``path`` names and the members which that one reaches by name.

    Bases, metaclass and class decorators are dropped, so that a static method of a class deep inside an engine does not
    need the engine. None where the method cannot do without the whole class: it uses ``super()``, hands its class on,
    or reads members that the class does not define itself.
    """
    members: dict[str, list[ast.stmt]] = {}
    for statement in node.body:
        for name in _names(statement):
            members.setdefault(name, []).append(statement)
    if path[0] not in members:
        return None
    if len(path) > 1:
        inner = members[path[0]][-1]
        narrowed = narrow_class(inner, path[1:]) if isinstance(inner, ast.ClassDef) else None
        if narrowed is None or any(isinstance(part, ast.Name) and part.id == node.name for part in ast.walk(narrowed)):
            return None
        return _with_body(node, [narrowed])
    kept: dict[int, ast.stmt] = {}
    waiting = [path[0]]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for statement in members[name]:
            kept[id(statement)] = statement
            reached = _members_used(statement, node.name, members.keys())
            if reached is None:
                return None
            waiting += reached
    return _with_body(node, [statement for statement in node.body if id(statement) in kept])


def _with_body(node: ast.ClassDef, body: list[ast.stmt]) -> ast.ClassDef:
    parts = {field: getattr(node, field) for field in node._fields}
    return ast.copy_location(
        ast.ClassDef(**{**parts, "bases": [], "keywords": [], "decorator_list": [], "body": body}), node
    )


def _names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, Definition):
        return {statement.name}
    stored = (part for part in in_this_scope([statement]) if isinstance(part, ast.Name))
    return {part.id for part in stored if isinstance(part.ctx, ast.Store)}


def _members_used(statement: ast.stmt, class_name: str, members: Collection[str]) -> list[str] | None:
    """Members that one member reaches through the class's name, ``cls`` or the class body; None: it needs them all."""
    handles = {class_name}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = {part.id for part in statement.decorator_list if isinstance(part, ast.Name)}
        parameters = [*statement.args.posonlyargs, *statement.args.args]
        # An instance method receives its object from the caller, with whatever class that has.
        if "classmethod" in decorators and parameters:
            handles.add(parameters[0].arg)
    found: list[str] = []
    read = set()
    for part in evaluated_nodes(statement):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in handles:
            if part.attr not in members:
                return None
            found.append(part.attr)
            read.add(id(part.value))
        elif isinstance(part, ast.Name) and part.id in ("super", "__class__"):
            return None
    for part in evaluated_nodes(statement):
        if isinstance(part, ast.Name) and part.id in handles and id(part) not in read:
            return None
    in_body = (part.id for part in in_this_scope([statement]) if isinstance(part, ast.Name))
    return found + [name for name in in_body if name in members]
