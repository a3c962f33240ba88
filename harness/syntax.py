"""Syntax: the tree of a Python source, read by one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Final

_ONE: Final = threading.Lock()


def parse_source(source: str | bytes, file: str = "<unknown>") -> ast.Module:
    """What ``ast.parse`` returns, in any thread.

    CPython counts how deep a tree is nested in one place for all threads: two of them at once can end in a SystemError
    ("AST constructor recursion depth mismatch"), as was seen with CPython 3.11.7.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ``ast.parse`` does.
    """
    with _ONE:
        return ast.parse(source, file)
