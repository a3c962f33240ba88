from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.load.tree import Tree, locate, read_module

Write = Callable[[Mapping[str, str]], Path]


@pytest.mark.parametrize(
    ("files", "file", "root", "module"),
    [
        pytest.param(
            {"a/__init__.py": "", "a/b/__init__.py": "", "a/b/c.py": ""}, "a/b/c.py", "", "a.b.c", id="package"
        ),
        pytest.param({"a/__init__.py": ""}, "a/__init__.py", "", "a", id="the package itself"),
        pytest.param({"a/c.py": ""}, "a/c.py", "a", "c", id="script"),
        pytest.param({"a/b/c.py": "import a.b.d", "a/b/d.py": ""}, "a/b/c.py", "", "a.b.c", id="named by an import"),
        pytest.param({"a/b/c.py": "from ..d import x", "a/d.py": ""}, "a/b/c.py", "", "a.b.c", id="climbed to"),
        pytest.param(
            {"a/__init__.py": "", "a/b/c.py": "from a import x"}, "a/b/c.py", "", "a.b.c", id="gap in a package"
        ),
        pytest.param(
            {"a/a/__init__.py": "", "a/a/c.py": "import a.d", "a/d.py": ""}, "a/a/c.py", "a", "a.c", id="checkout"
        ),
        pytest.param(
            {"numpy/c.py": "import numpy as np\nimport numpy.typing"}, "numpy/c.py", "numpy", "c", id="folder name"
        ),
    ],
)
def test_the_tree_of_a_file_starts_where_its_package_does(
    write: Write, files: Mapping[str, str], file: str, root: str, module: str
) -> None:
    folder = write(files)
    tree, name = locate(folder / file)
    assert (tree.root, name) == (folder / root, module)


def test_a_tree_holds_its_package_and_its_neighbours_but_not_installed_ones(write: Write) -> None:
    root = write(
        {"repo/top/__init__.py": "", "repo/near.py": "", "repo/json.py": "", "site-packages/top/__init__.py": ""}
    )
    write({"site-packages/numpy/__init__.py": "", "site-packages/near.py": ""})
    checkout, installed = Tree(root / "repo", "top"), Tree(root / "site-packages", "top")
    assert [name for name in ("top.x", "near", "json", "numpy") if checkout.holds(name)] == ["top.x", "near"]
    assert [name for name in ("top.x", "near", "json", "numpy") if installed.holds(name)] == ["top.x"]


@pytest.mark.parametrize(
    ("source", "binds"),
    [
        ("a: int", set()),
        ("a: int = 1", {"a"}),
        ("a.b = c[0] = 1", set()),
        ("for a, (b, *c) in x: d = 1", {"a", "b", "c", "d"}),
        ("while (a := 1): pass", {"a"}),
        ("with x as (a, b), y as c: pass", {"a", "b", "c"}),
        ("try: import a.b\nexcept E as c: pass\nelse: d = 1\nfinally: e = 1", {"a", "c", "d", "e"}),
        ("from a import b as c, d", {"c", "d"}),
        ("[a for a in (b := [])]", {"b"}),
        ("def f(x=(a := 1)):\n    y = 2", {"f", "a"}),
        ("class C:\n    y = 2", {"C"}),
        ("lambda x: (y := 1)", set()),
        ("match x:\n    case {'a': b, **c} | [b, *c]: pass\n    case D() as d: pass", {"b", "c", "d"}),
        ("if x:\n    a = 1\nelif y:\n    b = 1\nelse:\n    c = 1", {"a", "b", "c"}),
        ("if TYPE_CHECKING:\n    a = 1\nelse:\n    b = 1", {"b"}),
        ("if t.TYPE_CHECKING and x:\n    a = 1", set()),
    ],
)
def test_statements_bind_the_names_that_python_binds(write: Write, source: str, binds: set[str]) -> None:
    module = read_module(Tree(write({"mod.py": source}), "mod"), "mod")
    assert module is not None
    assert set(module.bindings) == binds


def test_the_guards_of_a_statement_are_the_tests_around_it(write: Write) -> None:
    source = "if a:\n    if b:\n        x = 1\n    else:\n        y = 1\nz = 1"
    module = read_module(Tree(write({"mod.py": source}), "mod"), "mod")
    assert module is not None

    def guards(name: str) -> list[str]:
        (number,) = module.bindings[name]
        tests = [module.statements[guard].node for guard in module.statements[number].guards]
        return [ast.unparse(test.test) for test in tests if isinstance(test, ast.If)]

    assert (guards("x"), guards("y"), guards("z")) == (["a", "b"], ["a", "b"], [])


def test_names_for_type_checkers_are_told_apart(write: Write) -> None:
    source = "if TYPE_CHECKING:\n    from a import B\n    c: int\n    d = 1\nd = 2\ne: int"
    module = read_module(Tree(write({"mod.py": source}), "mod"), "mod")
    assert module is not None
    assert module.typing_only == {"B", "c", "e"}


def test_relative_imports_start_from_the_package(write: Write) -> None:
    tree = Tree(write({"a/__init__.py": "", "a/b/__init__.py": "", "a/b/c.py": ""}), "a")
    package, module = read_module(tree, "a.b"), read_module(tree, "a.b.c")
    assert package is not None
    assert module is not None
    assert [source.absolute(ast.ImportFrom("d", [], 1)) for source in (package, module)] == ["a.b.d", "a.b.d"]
    assert [source.absolute(ast.ImportFrom(None, [], 2)) for source in (package, module)] == ["a", "a"]
    assert module.absolute(ast.ImportFrom("x", [], 3)) is None
    assert read_module(tree, "a.missing") is None
