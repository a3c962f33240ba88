"""Sources can be parsed by many threads at once."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.syntax import parse_source

SOURCES = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py"))[:20]]


def test_threads_get_the_trees_that_one_thread_gets() -> None:
    alone = [ast.dump(ast.parse(source)) for source in SOURCES]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert [ast.dump(tree) for tree in pool.map(parse_source, SOURCES)] == alone


def test_what_is_no_python_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        parse_source("def f(:", "broken.py")
