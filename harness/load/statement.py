"""Statement: what one module-level statement binds and changes, read from its syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement at module level, or inside a module-level ``if``: the unit that a slice takes or leaves.

    ``binds`` are the names that it gives a value, ``imports`` those of them that an import statement gives it.
    ``touches`` are names whose object it changes in place (``NAME[key] = …``, ``NAME.update(…)``, ``@NAME.register``);
    ``calls`` are functions that it calls for their effect. ``guards`` are the numbers of the ``if`` statements around
    it. An ``if`` is itself a statement here, of which only the test counts.
    """

    node: ast.stmt
    binds: frozenset[str]
    imports: frozenset[str]
    touches: frozenset[str]
    calls: frozenset[str]
    guards: tuple[int, ...]


def static_test(test: ast.expr) -> bool | None:
    """What the test of an ``if`` is while a candidate is loaded, where that is plain: TYPE_CHECKING, ``__main__``."""
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return False
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = static_test(operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=ast.And(), values=values) if any(static_test(value) is False for value in values):
            return False
    return None


def in_this_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node below ``nodes`` that is executed with them: not the bodies of functions, lambdas and classes."""
    for node in nodes:
        yield node
        if isinstance(node, Definition):
            outside: list[ast.AST] = [*node.decorator_list]
            if isinstance(node, ast.ClassDef):
                outside += [*node.bases, *node.keywords]
            else:
                outside += [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
            yield from in_this_scope(outside)
        elif not isinstance(node, ast.Lambda):
            yield from in_this_scope(ast.iter_child_nodes(node))


def bound_name(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """The name that one part of an import statement binds."""
    return alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)


def root_name(node: ast.AST) -> str | None:
    """The name at the left end of a chain of attributes and items: ``a`` of ``a.b[0].c``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def collect_statements(
    body: Sequence[ast.stmt], guards: tuple[int, ...], statements: list[Statement], typing_only: set[str]
) -> None:
    """Append the statements of a module body in order; ``typing_only`` receives the names bound for type checkers."""
    for node in body:
        if not isinstance(node, ast.If):
            statements.append(_statement([node], node, guards))
            if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name):
                typing_only.add(node.target.id)
            continue
        holds = static_test(node.test)
        if holds is None:
            statements.append(_statement([node.test], node, guards))
            inner = (*guards, len(statements) - 1)
            collect_statements(node.body, inner, statements, typing_only)
            collect_statements(node.orelse, inner, statements, typing_only)
        else:
            taken, skipped = (node.body, node.orelse) if holds else (node.orelse, node.body)
            collect_statements(taken, guards, statements, typing_only)
            typing_only |= _bound(skipped)
            typing_only |= {
                part.target.id
                for part in skipped
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            }


def _statement(parts: Sequence[ast.AST], node: ast.stmt, guards: tuple[int, ...]) -> Statement:
    imports: set[str] = set()
    touches: set[str] = set()
    calls: set[str] = set()
    for part in in_this_scope(parts):
        changed: list[ast.expr] = []
        match part:
            case ast.Import() | ast.ImportFrom():
                imports |= _bound([part])
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                changed = [target for target in targets if not isinstance(target, ast.Name)]
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) if not isinstance(target, ast.Name):
                changed = [target]
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):
                changed = [method]
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
                calls.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                called = [use.func if isinstance(use, ast.Call) else use for use in part.decorator_list]
                changed = [use for use in called if isinstance(use, ast.Attribute)]
        touches |= {root for target in changed if (root := root_name(target))}
    bound = frozenset(_bound(parts))
    return Statement(node, bound, frozenset(imports), frozenset(touches), frozenset(calls), guards)


def _bound(parts: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    comprehension_targets: set[int] = set()
    for part in in_this_scope(parts):
        match part:
            case ast.comprehension(target=target):
                comprehension_targets |= {id(inner) for inner in ast.walk(target)}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import():
                names |= {bound_name(part, alias) for alias in part.names}
            case ast.ImportFrom():
                names |= {bound_name(part, alias) for alias in part.names if alias.name != "*"}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
    annotated = {id(p.target) for p in in_this_scope(parts) if isinstance(p, ast.AnnAssign) and p.value is None}
    for part in in_this_scope(parts):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names |= {part.id} if id(part) not in comprehension_targets | annotated else set()
    return names


def global_writers(body: Sequence[ast.stmt]) -> dict[str, frozenset[str]]:
    """The module-level functions that declare each name ``global``."""
    writers: dict[str, set[str]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ast.walk(node):
                if isinstance(part, ast.Global):
                    for name in part.names:
                        writers.setdefault(name, set()).add(node.name)
    return {name: frozenset(functions) for name, functions in writers.items()}


def exports(body: Sequence[ast.stmt]) -> frozenset[str] | None:
    """``__all__`` where it is a plain list of strings."""
    found: frozenset[str] | None = None
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=items) | ast.Tuple(elts=items)):
                texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
                found = frozenset(texts) if len(texts) == len(items) else None
            case ast.AugAssign(target=ast.Name(id="__all__")):
                return None
    return found
