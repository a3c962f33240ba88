from __future__ import annotations

import ast
import textwrap

import pytest

from harness.load.narrow import narrow_class


def narrowed(source: str, *path: str) -> str | None:
    node = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(node, ast.ClassDef)
    result = narrow_class(node, path)
    return None if result is None else ast.unparse(result)


SOURCE = """
@decorated
class C(Base, option=1):
    SIZE = 1
    LIMIT = SIZE + 1
    UNUSED = 2
    @staticmethod
    def alone(x: C.Type = None): return x
    @classmethod
    def reads(cls): return cls.LIMIT
    @staticmethod
    def by_name(): return C.alone(C.SIZE)
    def instance(self): return self.anything
    @classmethod
    def inherits(cls): return cls.elsewhere
    @classmethod
    def hands_on(cls): return make(cls)
    def calls_super(self): return super().calls_super()
    @staticmethod
    def makes(): return C()
    class Inner:
        @staticmethod
        def deep(): return 1
        @staticmethod
        def up(): return C.SIZE
"""


@pytest.mark.parametrize(
    ("path", "members"),
    [
        (["alone"], ["alone"]),
        (["reads"], ["SIZE", "LIMIT", "reads"]),
        (["by_name"], ["SIZE", "alone", "by_name"]),
        (["instance"], ["instance"]),
        (["Inner", "deep"], ["Inner"]),
    ],
)
def test_a_class_is_cut_down_to_what_the_method_reaches(path: list[str], members: list[str]) -> None:
    text = narrowed(SOURCE, *path)
    assert text is not None
    assert text.startswith("class C:")
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef)
    names = [part.targets[0].id if isinstance(part, ast.Assign) else part.name for part in node.body]  # type: ignore[attr-defined]
    assert names == members


@pytest.mark.parametrize(
    "path", [["inherits"], ["hands_on"], ["calls_super"], ["makes"], ["absent"], ["Inner", "up"], ["SIZE", "real"]]
)
def test_a_class_stays_whole_where_the_method_needs_it(path: list[str]) -> None:
    assert narrowed(SOURCE, *path) is None
