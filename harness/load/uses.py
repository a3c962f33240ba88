"""Uses: the names that one statement needs from its module, as the compiler sees them."""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Final

from harness.load.statement import bound_name, in_this_scope

ANNOTATIONS: Final = __future__.annotations.compiler_flag
LOADS: Final = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
MODULE_NAMES: Final = frozenset(
    {
        "__annotations__",
        "__builtins__",
        "__conditional_annotations__",
        "__doc__",
        "__file__",
        "__loader__",
        "__name__",
        "__package__",
        "__path__",
        "__spec__",
    }
)
"""Names that every module has, so that nothing in the source defines them."""
MARKERS: Final = re.compile(r"""['"]?(\w+)(\.(ClassVar|InitVar|KW_ONLY))?\b""")
"""Annotations that dataclasses look up by name, so that they must exist although no annotation is evaluated."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A name with the attributes read from it: ``a.b.c`` is ``("b", "c")`` of ``a``. ``called``: a call follows."""

    name: str
    attributes: tuple[str, ...]
    line: int
    called: bool


@dataclass(frozen=True, slots=True)
class Import:
    """One name of an import statement inside another statement (a function, a ``try``).

    ``forgiving`` where it stands in a ``try`` or a ``with``, so that its failure may be expected; ``local`` where it
    binds inside a function.
    """

    node: ast.Import | ast.ImportFrom
    alias: ast.alias
    forgiving: bool
    local: bool

    @property
    def bound(self) -> str:
        """The name that it binds."""
        return bound_name(self.node, self.alias)


@dataclass(frozen=True, slots=True)
class Uses:
    """What a statement refers to: ``loads`` maps global names to the first line, ``soft`` names may be missing."""

    loads: Mapping[str, int]
    soft: Mapping[str, int]
    chains: tuple[Chain, ...]
    imports: tuple[Import, ...]


def compile_statements(body: list[ast.stmt], file: str) -> CodeType:
    """Compile module-level statements so that annotations are not evaluated and lines stay those of the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: CodeType = compile(ast.Module(body, []), file, "exec", flags=ANNOTATIONS, dont_inherit=True)
    return code


def uses_of(node: ast.stmt, file: str) -> Uses:
    """The names that executing ``node``, and calling what it defines, needs from the module.

    For an ``if`` only the test counts: the statements inside it are taken one by one.
    """
    part: ast.stmt = ast.copy_location(ast.Expr(node.test), node) if isinstance(node, ast.If) else node
    loads: dict[str, int] = {}
    soft: dict[str, int] = {}
    for name, line, is_soft in _loads(compile_statements([part], file)):
        (soft if is_soft else loads).setdefault(name, line)
    imports = tuple(_imports([part], forgiving=False, local=False))
    if not isinstance(part, ast.Import | ast.ImportFrom):
        for temporary in _temporaries(part, imports):
            loads.pop(temporary, None)
    for definition in ast.walk(part):
        if isinstance(definition, ast.ClassDef):
            for marker in _dataclass_markers(definition):
                soft.setdefault(marker, definition.lineno)
    return Uses(loads, soft, tuple(_chains(part)), imports)


def evaluated_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of a statement other than annotations."""
    yield node
    for child in _children(node):
        yield from evaluated_nodes(child)


def _loads(code: CodeType) -> Iterator[tuple[str, int, bool]]:
    is_class_body = not code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "<module>"
    own = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_NAME"} if is_class_body else set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in LOADS and instruction.argval not in MODULE_NAMES:
            positions = instruction.positions
            line = (positions.lineno if positions else None) or code.co_firstlineno
            yield str(instruction.argval), line, instruction.argval in own
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loads(constant)


def _temporaries(node: ast.stmt, imports: Iterable[Import]) -> set[str]:
    """Names that a compound statement binds for itself before it reads them."""
    targets: list[ast.AST] = []
    names = {use.bound for use in imports if not use.local}
    for part in in_this_scope([node]):
        match part:
            case ast.For(target=target) | ast.AsyncFor(target=target):
                targets.append(target)
            case ast.withitem(optional_vars=ast.expr() as target):
                targets.append(target)
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
    return names | {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def _dataclass_markers(definition: ast.ClassDef) -> Iterator[str]:
    for part in definition.body:
        if isinstance(part, ast.AnnAssign):
            found = MARKERS.match(ast.unparse(part.annotation))
            if found and (found[3] or found[1] in ("ClassVar", "InitVar", "KW_ONLY")):
                yield found[1]


def _chains(node: ast.AST, *, called: bool = False) -> Iterator[Chain]:
    attributes: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        attributes.insert(0, inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        if isinstance(inner.ctx, ast.Load):
            yield Chain(inner.id, tuple(attributes), inner.lineno, called)
        return
    for child in _children(inner):
        yield from _chains(child, called=isinstance(inner, ast.Call) and child is inner.func)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, ast.AST))


def _imports(nodes: Iterable[ast.AST], *, forgiving: bool, local: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (Import(node, alias, forgiving, local) for alias in node.names)
        elif isinstance(node, ast.Try | ast.TryStar | ast.With):
            yield from _imports(ast.iter_child_nodes(node), forgiving=True, local=local)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(ast.iter_child_nodes(node), forgiving=forgiving, local=True)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _imports(ast.iter_child_nodes(node), forgiving=forgiving, local=local)
