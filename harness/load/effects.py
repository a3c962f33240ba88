"""Effects: what a module-level statement may do to other names when it is executed, read from its syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.load.statement import Definition, Statement, root_name
from harness.load.uses import evaluated_nodes

NAMESPACES: Final = frozenset({"globals", "locals", "vars", "exec", "eval"})
"""Builtins through which a statement can reach names that its source does not spell."""
SETTERS: Final = frozenset({"setattr", "delattr"})
HARMLESS: Final = frozenset(
    {
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "enumerate",
        "float",
        "frozenset",
        "hasattr",
        "hash",
        "id",
        "int",
        "isinstance",
        "issubclass",
        "len",
        "list",
        "max",
        "min",
        "print",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "type",
        "zip",
    }
)
"""Builtins that leave their arguments as they are."""
READS: Final = frozenset({"copy", "count", "get", "index", "items", "keys", "values"})
"""Methods of the builtin containers that leave the container as it is."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What executing a statement may change.

    ``evaluated`` are names that it hands to somebody: base classes, callees, call arguments, and names that it changes
    in place. ``decorators`` are names that it decorates definitions with: 1 for ``@name``, 2 for ``@name(...)``, which
    calls what the first call returns. ``alias_of`` is the name whose object it binds to another name. ``dynamic`` where
    it reaches names through ``globals()`` and the like; ``sets`` where it uses ``setattr``. ``plain`` where it is a
    call for its effect or a change in place, and nothing that it calls hides from its source.
    """

    evaluated: frozenset[str]
    decorators: frozenset[tuple[str, int]]
    alias_of: str | None
    dynamic: bool
    sets: bool
    plain: bool

    @property
    def names(self) -> frozenset[str]:
        """Every name that it hands to somebody, changes or decorates with."""
        return self.evaluated | {name for name, _ in self.decorators}


def effects_of(statement: Statement) -> Effects:
    """The effects of one statement; of an ``if``, those of its test."""
    node = statement.node
    part = node.test if isinstance(node, ast.If) else node
    evaluated = set(statement.touches)
    decorators: set[tuple[str, int]] = set()
    factories: set[int] = set()
    dynamic = sets = False
    for inner in executed_nodes(part):
        match inner:
            case ast.Call(func=func):
                evaluated |= _arguments(inner) if id(inner) in factories else _handed_over(inner)
                dynamic |= isinstance(func, ast.Name) and func.id in NAMESPACES
                sets |= isinstance(func, ast.Name) and func.id in SETTERS
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                # A test whether a module was imported changes nothing.
                dynamic |= not isinstance(node, ast.If)
            case ast.AugAssign(target=ast.Name(id=name)):
                evaluated.add(name)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                handed: list[ast.expr] = []
                for decorator in inner.decorator_list:
                    match decorator:
                        case ast.Name(id=name):
                            decorators.add((name, 1))
                        case ast.Call(func=ast.Name(id=name)):
                            decorators.add((name, 2))
                            factories.add(id(decorator))
                        case ast.Call():
                            pass  # seen as a call
                        case _:
                            handed.append(decorator)
                if isinstance(inner, ast.ClassDef):
                    handed += [*inner.bases, *(keyword.value for keyword in inner.keywords)]
                evaluated |= {name for expression in handed for name in _names(expression)}
    plain = _is_plain(statement) and not dynamic
    return Effects(frozenset(evaluated), frozenset(decorators), _alias_of(node), dynamic, sets, plain)


def changed_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Names of the module that calling ``function`` rebinds or changes in place."""
    rebound: set[str] = set()
    local = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    changed: set[str] = set()
    for part in ast.walk(function):
        match part:
            case ast.Global(names=names):
                rebound |= set(names)
            case ast.Name(id=name, ctx=ast.Store()):
                local.add(name)
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                changed |= {root} if (root := root_name(part)) else set()
            case ast.Call(func=ast.Attribute(attr=attribute) as method) if attribute not in READS:
                changed |= {root} if (root := root_name(method)) else set()
    return frozenset(rebound | (changed - local))


def executed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that is executed with a statement: class bodies are, bodies of functions and annotations are not."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
        children: list[ast.AST] = [*node.decorator_list, *defaults]
    elif isinstance(node, ast.Lambda):
        children = []
    else:
        fields = ((name, value) for name, value in ast.iter_fields(node) if name != "annotation")
        values = [item for _, value in fields for item in (value if isinstance(value, list) else [value])]
        children = [item for item in values if isinstance(item, ast.AST)]
    for child in children:
        yield from executed_nodes(child)


def _handed_over(call: ast.Call) -> set[str]:
    func = call.func
    if isinstance(func, ast.Name) and func.id in HARMLESS:
        return set()
    reads = isinstance(func, ast.Attribute) and func.attr in READS
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return {name for part in [*([] if reads else [func]), *arguments] for name in _names(part)}


def _arguments(call: ast.Call) -> set[str]:
    """Names that a call hands over, but not those that it unpacks or iterates over: they stay as they are."""
    values = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    values += [keyword.value for keyword in call.keywords if keyword.arg is not None]
    iterated = {id(part.iter) for value in values for part in ast.walk(value) if isinstance(part, ast.comprehension)}
    return {
        part.id
        for value in values
        for part in executed_nodes(value)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and id(part) not in iterated
    }


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in executed_nodes(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))


def _alias_of(node: ast.stmt) -> str | None:
    match node:
        case ast.Assign(targets=targets, value=value) if all(isinstance(target, ast.Name) for target in targets):
            return root_name(value)
        case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
            return root_name(value)
    return None


def _is_plain(statement: Statement) -> bool:
    match statement.node:
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete():
            return bool(statement.touches) and not statement.binds
    return False


def is_constant(node: ast.stmt) -> bool:
    """Whether a statement binds its names to a literal that nobody can change in place."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    allowed = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)
    return all(isinstance(part, allowed) for part in evaluated_nodes(node.value))


def first_line(statement: Statement) -> int:
    """The line in which the source of a statement begins, decorators included."""
    node = statement.node
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
