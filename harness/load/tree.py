"""Tree: the modules of a source tree, read and taken apart without executing them."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import LoadError
from harness.load.statement import Statement, collect_statements, exports, global_writers
from harness.syntax import parse_source

INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of source that belongs together: ``top`` is the package that the candidate is in, below ``root``."""

    root: Path
    top: str

    def holds(self, module: str) -> bool:
        """Whether ``module`` is part of this tree, so that it is read and never imported."""
        first = module.partition(".")[0]
        if first == self.top:
            return True
        # Siblings of a script belong to it; siblings of an installed package are other people's packages.
        if self.root.name in INSTALLED or first in sys.stdlib_module_names:
            return False
        return (self.root / f"{first}.py").is_file() or (self.root / first / "__init__.py").is_file()

    def find(self, module: str) -> Path | None:
        """The file of a module, the folder of a package without ``__init__.py``, or None."""
        path = self.root.joinpath(*module.split("."))
        candidates = (path / "__init__.py", path.parent / f"{path.name}.py")
        return next((file for file in candidates if file.is_file()), path if path.is_dir() else None)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the tree: its text and its statements, with the statements that bind each name."""

    name: str
    file: Path
    is_package: bool
    text: str
    body: Sequence[ast.stmt]
    statements: tuple[Statement, ...]
    bindings: Mapping[str, tuple[int, ...]]
    typing_only: frozenset[str]
    """Names bound only for type checkers."""
    writers: Mapping[str, frozenset[str]]
    """For a name that functions declare ``global``: these functions."""
    exports: frozenset[str] | None
    """``__all__`` where it is a plain list of strings."""

    @property
    def package(self) -> str:
        """What relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def absolute(self, node: ast.ImportFrom) -> str | None:
        """The module that a ``from … import`` names, or None where it points outside of every package."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".") if self.package else []
        if node.level > len(parts):
            return None
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def locate(file: Path) -> tuple[Tree, str]:
    """The tree that a file belongs to and its module name there.

    The package starts at the topmost folder of an unbroken row of ``__init__.py``, or higher up at a folder that the
    file's own imports name or climb to (packages without ``__init__.py``).
    """
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    imports = [node for node in ast.walk(parse(file)[1]) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    climbs = max((node.level for node in imports if isinstance(node, ast.ImportFrom)), default=0)
    tops = [top for top in [folder, *folder.parents] if any(_is_package_of(name, top, folder) for name in names)]
    tops += file.parents[climbs - 1 : climbs] if climbs else []
    for top in tops:
        folder = min(folder, top.parent, key=lambda path: len(path.parts))
    parts = list(file.relative_to(folder).with_suffix("").parts)
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    return Tree(folder, parts[0]), ".".join(parts)


def parse(file: Path) -> tuple[str, ast.Module]:
    """The text and the syntax tree of a source file.

    Raises:
        LoadError: the file cannot be read, decoded or parsed.
    """
    try:
        data = file.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except OSError as error:
        raise LoadError(
            f"{file}: cannot be read: {error.strerror or error}; check the path and its permissions"
        ) from error
    except (UnicodeDecodeError, SyntaxError) as error:
        raise LoadError(
            f"{file}: is not text in UTF-8 or the encoding it declares: {error}; save it as UTF-8"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return text, parse_source(data, str(file))
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise LoadError(
            f"{file}{line}: not valid for Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}; "
            "correct the file or use the Python version that it is written for"
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise LoadError(f"{file}: cannot be parsed: {error or type(error).__name__}; simplify the file") from error


def read_module(tree: Tree, name: str) -> Module | None:
    """Read a module of the tree; None without such a file. A package without ``__init__.py`` is an empty module."""
    path = tree.find(name)
    if path is None:
        return None
    if path.is_dir():
        return Module(name, path, True, "", (), (), {}, frozenset(), {}, None)
    text, syntax = parse(path)
    statements: list[Statement] = []
    typing_only: set[str] = set()
    collect_statements(syntax.body, (), statements, typing_only)
    bindings: dict[str, list[int]] = {}
    for number, statement in enumerate(statements):
        for bound in statement.binds:
            bindings.setdefault(bound, []).append(number)
    return Module(
        name,
        path,
        path.name == "__init__.py",
        text,
        syntax.body,
        tuple(statements),
        {bound: tuple(numbers) for bound, numbers in bindings.items()},
        frozenset(typing_only - bindings.keys()),
        global_writers(syntax.body),
        exports(syntax.body),
    )


def _is_package_of(module: str, top: Path, root: Path) -> bool:
    """Whether the folder ``top`` above ``root`` is the package that ``module`` is imported from."""
    first, *rest = module.split(".")
    if first != top.name or (root / first / "__init__.py").is_file():
        return False
    # A folder that merely has the name of a package (a checkout, a home) lacks the imported module.
    return (top / "__init__.py").is_file() or (bool(rest) and Tree(top.parent, first).find(module) is not None)
