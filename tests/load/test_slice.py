from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import LoadError
from harness.load import Loaded

Write = Callable[[Mapping[str, str]], Path]
Slice = Callable[..., Loaded]
Value = Callable[..., Any]


def test_a_function_is_loaded_without_importing_its_package(value: Value) -> None:
    assert value("def f():\n    return __name__") == "pkg.mod"
    assert not [name for name in sys.modules if name.partition(".")[0] == "pkg"]


def test_only_needed_definitions_are_executed(write: Write, sliced: Slice) -> None:
    write(
        {
            "mod.py": """
            import not_a_package
            SIZE = 8
            BROKEN = 1 / 0
            def helper(): return SIZE
            def other(): return not_a_package.thing
            def f(): return helper()
            """
        }
    )
    loaded = sliced("mod.py::f")
    assert loaded.function() == 8
    assert loaded.definitions == ("mod:SIZE", "mod:helper", "mod:f")
    assert loaded.how == "sliced"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("A: int = 3\ndef f(): return A", 3, id="annotated"),
        pytest.param("A = 1\nA += 2\ndef f(): return A", 3, id="augmented"),
        pytest.param("(A, [B, *C]) = 1, (2, 3, 4)\ndef f(): return A, B, C", (1, 2, [3, 4]), id="unpacked"),
        pytest.param("B = (A := 5) + 1\ndef f(): return A", 5, id="walrus"),
        pytest.param("X = [y for i in range(3) if (y := i)]\ndef f(): return y", 2, id="walrus in a comprehension"),
        pytest.param("if (A := 7) > 3: pass\ndef f(): return A", 7, id="walrus in a test"),
        pytest.param("T = {}\nT['a'] = 1\nT.update(b=2)\ndef f(): return T", {"a": 1, "b": 2}, id="changed in place"),
        pytest.param("T = []\nfor i in range(3): T.append(i)\ndef f(): return T", [0, 1, 2], id="filled by a loop"),
        pytest.param("def f(): return 1\ndef f(): return 2", 2, id="defined twice"),
        pytest.param("if 1 > 2:\n    A = 1\nelif 2 > 1:\n    A = 2\nelse:\n    A = 3\ndef f(): return A", 2, id="elif"),
        pytest.param("if 1 > 2:\n    def f(): return 1\nelse:\n    def f(): return 2", 2, id="conditional function"),
        pytest.param("try:\n    import nowhere as n\nexcept ImportError:\n    n = 4\ndef f(): return n", 4, id="try"),
        pytest.param("with open(__file__) as file:\n    A = file.read(4)\ndef f(): return A", "with", id="with"),
        pytest.param("match 3:\n    case int(A): pass\ndef f(): return A", 3, id="match"),
        pytest.param("K = 2\ndef f(x=K, *, y=K + 1): return x, y", (2, 3), id="defaults"),
        pytest.param("K = 2\nclass C:\n    x = K\n    y = x + 1\ndef f(): return C.y", 3, id="class body"),
        pytest.param("class B:\n    z = 1\nclass C(B): pass\ndef f(): return C.z", 1, id="base class"),
        pytest.param(
            "K = 2\ndef f(): return [[K * j for j in range(i)] for i in range(3)]", [[], [0], [0, 2]], id="nested"
        ),
        pytest.param("K = 2\ndef f():\n    def g(): return lambda: K\n    return g()()", 2, id="inner functions"),
        pytest.param("N = None\ndef f():\n    global N\n    N = 3\n    return g()\ndef g(): return N", 3, id="global"),
        pytest.param("def init():\n    global N\n    N = 3\ninit()\ndef f(): return N", 3, id="set by an initialiser"),
        pytest.param(
            "def f():\n    global NEW\n    NEW = 3\n    return NEW", 3, id="global set by the function itself"
        ),
        pytest.param("max = min\ndef f(): return max(1, 2)", 1, id="a builtin redefined"),
        pytest.param("x = 9\ndef f():\n    x = 1\n    return x", 1, id="a local of the same name"),
        pytest.param(
            "from functools import singledispatch\n@singledispatch\ndef g(x): return 0\n"
            "@g.register(int)\ndef _(x): return 1\ndef f(): return g(3), g('')",
            (1, 0),
            id="registered on a function",
        ),
    ],
)
def test_module_level_names_get_the_value_that_python_gives_them(value: Value, source: str, expected: object) -> None:
    assert value(source) == expected


def test_decorators_are_kept(value: Value) -> None:
    source = """
    import functools
    def twice(factor):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(): return function() * factor
            return wrapper
        return decorate
    FACTOR = 5
    @twice(FACTOR)
    def f(): return 2
    """
    assert value(source) == 10


def test_annotations_are_neither_evaluated_nor_followed(value: Value) -> None:
    source = """
    from missing_package import Tensor
    def f(x: Tensor = None, *rest: Absent.thing) -> list[Tensor]:
        y: AlsoAbsent = 3
        return y
    """
    assert value(source) == 3


def test_type_checking_branches_are_skipped(value: Value) -> None:
    source = """
    from typing import TYPE_CHECKING
    import typing
    if TYPE_CHECKING:
        from missing_package import Config
    else:
        Config = dict
    if not typing.TYPE_CHECKING:
        SIZE = 3
    def f(): return Config(size=SIZE)
    """
    assert value(source) == {"size": 3}


def test_the_main_block_is_not_executed(value: Value) -> None:
    assert value("A = 1\nif __name__ == '__main__':\n    A = 2\ndef f(): return A") == 1


@pytest.mark.parametrize(
    "use",
    [
        "from pkg.sub.deep import thing\ndef f(): return thing()",
        "from .sub.deep import thing as t\ndef f(): return t()",
        "import pkg.sub.deep\ndef f(): return pkg.sub.deep.thing()",
        "import pkg.sub.deep as d\ndef f(): return d.thing()",
        "from pkg.sub import deep\ndef f(): return deep.thing()",
        "from . import sub\ndef f(): return sub.deep.thing()",
        "from pkg.sub import again\ndef f(): return again()",
        "from pkg import sub as s\ndef f(): return s.again()",
        "from pkg.sub import *\ndef f(): return again()",
        "from pkg.stars import thing\ndef f(): return thing()",
        "from pkg.sub import *\nfrom pkg import stars\nfrom pkg.stars import *\ndef f(): return stars.thing()",
        "def f():\n    from pkg.sub.deep import thing\n    return thing()",
        "def f():\n    import pkg.sub.deep as d\n    return d.thing()",
        "def f():\n    import pkg.sub.deep\n    return pkg.sub.deep.thing()",
        "def f():\n    from .sub import deep\n    return deep.thing()",
        "try:\n    from pkg.sub.deep import thing\nexcept ImportError:\n    thing = None\ndef f(): return thing()",
        "class C:\n    from pkg.sub.deep import thing\ndef f(): return C.thing()",
    ],
)
def test_imports_inside_the_tree_are_followed_by_reading_files(value: Value, use: str) -> None:
    files = {
        "pkg/__init__.py": "import missing_package",
        "pkg/sub/__init__.py": "from .deep import thing as again\nfrom . import deep\nBROKEN = 1 / 0",
        "pkg/sub/deep.py": "BROKEN = 1 / 0\nANSWER = 42\ndef thing(): return ANSWER",
        "pkg/stars.py": "from .sub.deep import *",
    }
    assert value(use, files) == 42
    assert not [name for name in sys.modules if name.partition(".")[0] == "pkg"]


def test_each_module_has_its_own_namespace(value: Value) -> None:
    source = "from .other import g\nSIZE = 1\ndef f(): return SIZE, g()"
    assert value(source, {"pkg/other.py": "SIZE = 2\ndef g(): return SIZE"}) == (1, 2)


def test_a_tree_may_lack_init_files(write: Write, sliced: Slice) -> None:
    write(
        {
            "space/inner/mod.py": "from space.other.deep import g\nfrom ..near import h\ndef f(): return g() + h()",
            "space/other/deep.py": "def g(): return 1",
            "space/near.py": "def h(): return 2",
        }
    )
    loaded = sliced("space/inner/mod.py::f")
    assert loaded.function() == 3
    assert "space.inner.mod:f" in loaded.definitions


def test_a_script_sees_its_neighbours(write: Write, sliced: Slice) -> None:
    write({"script.py": "import neighbour\ndef f(): return neighbour.g()", "neighbour.py": "def g(): return 7"})
    assert sliced("script.py::f").function() == 7


@pytest.mark.parametrize(
    ("qualname", "arguments", "expected"),
    [
        ("C.static", (1,), 3),
        ("C.of_class", (), 2),
        ("C.instance", ("me",), ("me", 2)),
        ("C.with_helper", (), 4),
        ("C::static", (1,), 3),
        ("C.Inner.deep", (), 5),
        ("C.with_default", (), 2),
    ],
)
def test_a_method_needs_neither_bases_nor_the_rest_of_its_class(
    write: Write, sliced: Slice, qualname: str, arguments: tuple[object, ...], expected: object
) -> None:
    write(
        {
            "mod.py": """
            from missing_package import Base, registered
            K = 2
            @registered
            class C(Base):
                field = Base.field
                SIZE = 2
                @staticmethod
                def static(x): return x + K
                @classmethod
                def of_class(cls): return cls.SIZE
                def instance(self): return self, K
                @staticmethod
                def with_helper(): return C.static(2)
                @staticmethod
                def with_default(size=SIZE): return size
                class Inner:
                    @staticmethod
                    def deep(): return 5
            """
        }
    )
    assert sliced(f"mod.py::{qualname}").function(*arguments) == expected


def test_a_method_that_needs_its_bases_gets_the_whole_class(write: Write, sliced: Slice) -> None:
    write(
        {
            "mod.py": """
            class Base:
                SIZE = 3
                @classmethod
                def g(cls): return cls.SIZE
                @staticmethod
                def inherited(): return 8
            class C(Base):
                @classmethod
                def g(cls): return super().g() + 1
                @classmethod
                def h(cls): return cls.SIZE
                @classmethod
                def made(cls): return cls().g()
            """
        }
    )
    assert sliced("mod.py::C.g").function() == 4
    assert sliced("mod.py::C.h").function() == 3
    assert sliced("mod.py::C.made").function() == 4
    assert sliced("mod.py::C.inherited").function() == 8


def test_a_class_used_elsewhere_is_not_narrowed(write: Write, sliced: Slice) -> None:
    source = "class C:\n    size = 4\n    @staticmethod\n    def f(): return g()\ndef g(): return C().size"
    write({"mod.py": source})
    assert sliced("mod.py::C.f").function() == 4


def test_lines_and_source_are_those_of_the_file(write: Write, sliced: Slice) -> None:
    root = write({"mod.py": "A = 1\n\n\ndef unused(): pass\n\n\n# why\ndef f(x):\n    # note\n    return 1 / x\n"})
    function = sliced("mod.py::f").function
    assert inspect.getsource(function) == "def f(x):\n    # note\n    return 1 / x\n"
    with pytest.raises(ZeroDivisionError) as caught:
        function(0)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno) == (str(root / "mod.py"), 10)


def test_all_unresolved_names_are_listed_with_places_and_options(write: Write, sliced: Slice) -> None:
    write(
        {
            "pkg/__init__.py": "",
            "pkg/mod.py": """
            from typing import TYPE_CHECKING
            import missing_package.part as mp
            from .lazy import FLAG
            if TYPE_CHECKING:
                from .lazy import Config
            def f():
                x = undefined(FLAG)
                return mp.run(x, Config)
            """,
            "pkg/lazy.py": "def __getattr__(name): return 1",
        }
    )
    with pytest.raises(LoadError) as caught:
        sliced("pkg/mod.py::f")
    text = str(caught.value)
    assert "4 names" in text
    assert "--stub pkg.lazy.FLAG=VALUE" in text
    assert "__getattr__" in text
    assert "pkg.mod.Config (needed at pkg/mod.py:8): it is bound for type checkers only" in text
    assert "pkg.mod.undefined (needed at pkg/mod.py:7)" in text
    assert "--stub 'pkg.mod.undefined()=VALUE'" in text
    assert "missing_package is not installed" in text


@pytest.mark.parametrize(
    "options", [["FLAG=3"], ["pkg.lazy.FLAG=3"], ["pkg.mod.FLAG=3"]], ids=["bare", "where defined", "where used"]
)
def test_a_stub_supplies_an_unresolved_name(value: Value, options: list[str]) -> None:
    source = "from .lazy import FLAG\ndef f(): return FLAG"
    assert value(source, {"pkg/lazy.py": "def __getattr__(name): return 1"}, *options) == 3


def test_a_stub_replaces_a_definition_before_it_is_followed(write: Write, sliced: Slice) -> None:
    write({"mod.py": "from missing_package import x\ndef probe(): return x\ndef f(): return probe()"})
    loaded = sliced("mod.py::f", "probe()=False")
    assert loaded.function() is False
    assert loaded.definitions == ("mod:f", "stub mod:probe")


def test_a_stub_supplies_a_package_that_is_not_installed(value: Value) -> None:
    source = "import missing_package as mp\nfrom missing_package.deep import g\ndef f(): return mp.SIZE, g()"
    assert value(source, {}, "missing_package.SIZE=2", "missing_package.deep.g()=3") == (2, 3)


def test_a_missing_package_needs_a_stub_for_every_attribute_used(value: Value) -> None:
    with pytest.raises(LoadError, match=r"missing_package\.OTHER"):
        value("import missing_package as mp\ndef f(): return mp.SIZE + mp.OTHER", {}, "missing_package.SIZE=2")


def test_a_stub_for_a_module_replaces_the_whole_module(value: Value) -> None:
    source = "from pkg import envs\nimport pkg.envs as e\nfrom pkg.envs import X\ndef f(): return envs, e"
    assert value(source.replace("from pkg.envs import X\n", ""), {"pkg/envs.py": "1 / 0"}, "pkg.envs=5") == (5, 5)


def test_a_module_handed_on_as_an_object_is_taken_whole(value: Value) -> None:
    source = "from pkg import names\ndef f(): return sorted(n for n in vars(names) if n.isupper())"
    assert value(source, {"pkg/names.py": "A = 1\nB = 2"}) == ["A", "B"]


def test_unknown_functions_are_answered_with_near_names(write: Write, sliced: Slice) -> None:
    write({"mod.py": "def compute_metadata(): pass\nclass C:\n    @staticmethod\n    def method(): pass"})
    with pytest.raises(LoadError, match="did you mean compute_metadata"):
        sliced("mod.py::compute_metdata")
    with pytest.raises(LoadError, match=r"did you mean C\.method"):
        sliced("mod.py::method")
    with pytest.raises(LoadError, match="did you mean method"):
        sliced("mod.py::C.methd")


def test_an_import_that_leaves_the_tree_is_reported(write: Write, sliced: Slice) -> None:
    write({"mod.py": "from ................... import x\ndef f(): return x"})
    with pytest.raises(LoadError, match="leaves the source tree"):
        sliced("mod.py::f")


def test_a_missing_module_of_the_tree_is_reported(value: Value) -> None:
    with pytest.raises(LoadError, match=r"--stub pkg\._version\.version=VALUE"):
        value("from ._version import version\ndef f(): return version")


def test_a_function_that_needs_the_whole_package_is_refused_early(write: Write, sliced: Slice) -> None:
    source = "from .m{0} import x as y\nfrom . import m{0} as m\ndef x(): return y(), m\n"
    many = {f"pkg/m{number}.py": source.format(number + 1) for number in range(230)}
    write({"pkg/__init__.py": "", **many})
    write({"pkg/mod.py": "from pkg.m0 import x\nfrom math import pi\ndef f(): return x(), pi"})
    with pytest.raises(LoadError, match=r"more than 200 modules of pkg; cut it off .*: pkg\.m0\.x$"):
        sliced("pkg/mod.py::f")


def test_a_stub_never_replaces_the_candidate_itself(value: Value) -> None:
    assert value("def f(): return 1", {}, "pkg.mod.f()=2") == 1
    assert value("def f(): return 1", {}, "f()=2") == 1


def test_a_star_import_under_a_condition_keeps_the_condition(value: Value) -> None:
    source = "import sys\nif sys.platform:\n    from .a import *\nelse:\n    from .b import *\ndef f(): return x"
    files = {"pkg/a.py": "x = 1", "pkg/b.py": "x = 2"}
    assert value(source, files) == 1
    assert value(source.replace("if sys", "if not sys"), files) == 2
