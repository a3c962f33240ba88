from __future__ import annotations

import ast

import pytest

from harness.load.uses import Chain, uses_of


@pytest.mark.parametrize(
    ("source", "loads"),
    [
        ("def f(x: A = b) -> C: return x + d", {"b", "d"}),
        ("@deco(e)\ndef f():\n    def g(): return [h for h in i]\n    return g", {"deco", "e", "i"}),
        ("x: A = b", {"b"}),
        (
            "class C(B, metaclass=M):\n    y: A = z\n    def m(self): return super().m() + C.y",
            {"B", "M", "z", "super", "C"},
        ),
        ("def f():\n    x = 1\n    def g(): return x\n    return g", set()),
        ("def f():\n    global g\n    g = h", {"h"}),
        ("for i in a: b[i] = i", {"a", "b"}),
        ("with a as b: c(b)", {"a", "c"}),
        ("f = lambda x, y=k: x(y, z)", {"k", "z"}),
        ("if a and b:\n    c = d", {"a", "b"}),
    ],
)
def test_a_statement_loads_the_global_names_that_the_compiler_sees(source: str, loads: set[str]) -> None:
    assert set(uses_of(ast.parse(source).body[0], "file.py").loads) == loads


def test_names_that_a_class_body_binds_itself_are_soft() -> None:
    uses = uses_of(ast.parse("class C:\n    x = 1\n    y = x + z").body[0], "file.py")
    assert (set(uses.loads), set(uses.soft)) == ({"z"}, {"x"})


def test_loads_carry_the_line_of_their_first_use() -> None:
    uses = uses_of(ast.parse("def f():\n    pass\n    return a(\n        b)\n").body[0], "file.py")
    assert dict(uses.loads) == {"a": 3, "b": 4}


def test_chains_hold_attributes_and_calls_but_no_annotations() -> None:
    uses = uses_of(ast.parse("def f(x: m.T): return m.a.b(m.c, m)[0].d").body[0], "file.py")
    assert set(uses.chains) == {
        Chain("m", ("a", "b"), 1, True),
        Chain("m", ("c",), 1, False),
        Chain("m", (), 1, False),
    }


def test_inner_imports_know_whether_they_may_fail_and_where_they_bind() -> None:
    source = "def f():\n    import a.b\n    try:\n        from c import d as e\n    except ImportError: pass"
    uses = uses_of(ast.parse(source).body[0], "file.py")
    assert [(use.bound, use.forgiving, use.local) for use in uses.imports] == [("a", False, True), ("e", True, True)]
    (top,) = uses_of(ast.parse("with x:\n    import a").body[0], "file.py").imports
    assert (top.bound, top.forgiving, top.local) == ("a", True, False)
