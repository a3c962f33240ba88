from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.load import Loaded, builtin_stubs, load, parse_spec

Write = Callable[[Mapping[str, str]], Path]
Slice = Callable[..., Loaded]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("T = {}\ndef fill(x): x['a'] = 1\nfill(T)\ndef f(): return T", id="a call"),
        pytest.param("T = {}\ndef fill(): T['a'] = 1\nfill()\ndef f(): return T", id="a call without arguments"),
        pytest.param("T = {}\nalias = T\nalias['a'] = 1\ndef f(): return T", id="an alias"),
        pytest.param("T = {}\nalias = T\nagain = alias\nagain.update(a=1)\ndef f(): return T", id="alias of an alias"),
        pytest.param("T = [1]\nalias = T\nalias += [2]\ndef f(): return T", id="an augmented alias"),
        pytest.param("class C:\n    x = 1\nsetattr(C, 'x', 2)\ndef f(): return C.x", id="setattr"),
        pytest.param("T = []\ndef add(x): T.append(x)\nadd(1)\ndef f(): add(2); return T", id="a callee of the slice"),
        pytest.param("T = {}\nif len(T) == 0:\n    T.setdefault('a', []).append(1)\ndef f(): return T", id="guarded"),
    ],
)
def test_plain_statements_around_the_slice_are_executed_as_in_the_module(
    write: Write, sliced: Slice, source: str
) -> None:
    namespace: dict[str, object] = {"__name__": "mod"}
    exec(source, namespace)
    expected = namespace["f"]() if callable(namespace["f"]) else None
    write({"mod.py": source})
    loaded = sliced("mod.py::f")
    assert loaded.function() == expected
    assert loaded.skipped == ()


def test_a_change_to_an_imported_object_is_executed(write: Write, sliced: Slice) -> None:
    write({"pkg/__init__.py": "", "pkg/tiles.py": "T = {'a': 1}"})
    write({"pkg/mod.py": "from .tiles import T\nT['a'] = 2\ndef f(): return T"})
    loaded = sliced("pkg/mod.py::f")
    assert loaded.function() == {"a": 2}
    assert loaded.skipped == ()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "H = []\ndef hook(g):\n    H.append(g)\n    return g\n@hook\ndef h1(): pass\ndef f(): return hook, H",
            ["mod.py:5: @hook"],
            id="registered by a decorator",
        ),
        pytest.param(
            "H = []\ndef hook(g):\n    H.append(g)\n    return g\nclass C:\n    @hook\n    def m(self): pass\n"
            "def f(): return H",
            ["mod.py:5: class C:"],
            id="a decorator in a class body",
        ),
        pytest.param(
            "class B:\n    def __init_subclass__(cls): pass\nclass A(B): pass\ndef f(): return B.__subclasses__()",
            ["mod.py:3: class A(B): pass"],
            id="a subclass",
        ),
        pytest.param(
            "T = 8\ndef change(g):\n    global T\n    T = 16\n    return g\n"
            "@change\ndef other(): pass\ndef f(): return T",
            ["mod.py:6: @change"],
            id="a decorator that sets a global",
        ),
        pytest.param(
            "H = {}\ndef name(n):\n    def add(g):\n        H[n] = g\n        return g\n    return add\n"
            "@name('a')\ndef other(): pass\ndef f(): return name, H",
            ["mod.py:7: @name('a')"],
            id="registered by what a decorator returns",
        ),
        pytest.param(
            "H = []\ndef keep(g): H.append(g)\ndef hook(g):\n    keep(g)\n    return g\n@hook\ndef other(): pass\n"
            "@hook\ndef f(): return H",
            ["mod.py:6: @hook"],
            id="registered by what a decorator calls",
        ),
        pytest.param(
            "H = []\ndef hook(g):\n    alias = H\n    alias.append(g)\n    return g\n@hook\ndef other(): pass\n"
            "def f(): return hook, H",
            ["mod.py:6: @hook"],
            id="registered under another name",
        ),
        pytest.param(
            "H = []\ndef hook(g):\n    list.append(H, g)\n    return g\n@hook\ndef g(): pass\ndef f(): return hook, H",
            ["mod.py:5: @hook"],
            id="registered by another's method",
        ),
        pytest.param(
            "class Hook:\n    def __init__(self, g):\n        Hook.last = g\n@Hook\ndef other(): pass\n"
            "def f(): return Hook.last",
            ["mod.py:4: @Hook"],
            id="a class as a decorator",
        ),
        pytest.param(
            "class Base:\n    def __init__(self, g):\n        Base.last = g\nclass Hook(Base): pass\n"
            "@Hook\ndef other(): pass\ndef f(): return Hook, Base.last",
            ["mod.py:5: @Hook"],
            id="a base class of a decorator",
        ),
        pytest.param(
            "def hook(g): return g\nT = {}\ndef tag(t): return hook\n@tag(T)\ndef other(): pass\n"
            "@tag(1)\ndef f(): return T",
            ["mod.py:4: @tag(T)"],
            id="handed to a decorator",
        ),
        pytest.param(
            "T = 8\nglobals().update(T=16)\ndef f(): return T", ["mod.py:2: globals().update(T=16)"], id="update"
        ),
        pytest.param("T = 8\nglobals()['T'] = 16\ndef f(): return T", ["mod.py:2: globals()['T'] = 16"], id="globals"),
        pytest.param("T = 8\nexec('T = 16')\ndef f(): return T", ["mod.py:2: exec('T = 16')"], id="exec"),
        pytest.param(
            "import sys\nT = 8\nsys.modules[__name__].T = 16\ndef f(): return T",
            ["mod.py:3: sys.modules[__name__].T = 16"],
            id="sys.modules",
        ),
        pytest.param(
            "import nowhere\nT = {}\nnowhere.fill(T)\ndef f(): return T", ["mod.py:3: nowhere.fill(T)"], id="elsewhere"
        ),
        pytest.param(
            "import nowhere\nT = {}\nA = T\nA['a'] = nowhere.X\ndef f(): return T",
            ["mod.py:3: A = T", "mod.py:4: A['a'] = nowhere.X"],
            id="an alias that needs another package",
        ),
        pytest.param(
            "T = {}\ndef fill(x): return nowhere\nX = fill(T)\ndef f(): return T",
            ["mod.py:3: X = fill(T)"],
            id="argument",
        ),
        pytest.param(
            "T = {}\ndef fill(x): raise ValueError\nfill(T)\ndef f(): return T",
            ["mod.py:3: fill(T)"],
            id="one that raises",
        ),
    ],
)
def test_other_statements_that_may_change_the_slice_are_listed(
    write: Write, sliced: Slice, source: str, expected: list[str]
) -> None:
    write({"mod.py": source})
    assert list(sliced("mod.py::f").skipped) == expected


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "from functools import wraps\ndef cached(g):\n    seen = {}\n    @wraps(g)\n    def call(x):\n"
            "        H.append(x)\n        if x not in seen: seen[x] = g(x)\n        return seen[x]\n    return call\n"
            "H = []\n@cached\ndef other(x): return x\n@cached\ndef f(): return H",
            id="what it does is done when the other is called",
        ),
        pytest.param(
            "import functools\nimport nowhere\ndef guard(*, names=()):\n"
            "    def decorate(g):\n        kept = set(names)\n"
            "        @functools.wraps(g)\n        def call(x): return g(x, kept, H)\n        return call\n"
            "    return decorate\nH = {}\n@guard(names=['x'])\ndef other(x): return nowhere.x\n"
            "@guard()\ndef f(): return H",
            id="nor does what it returns",
        ),
        pytest.param(
            "import os\nN = [2, 4]\nK = {'a': 1}\nSIZE = int(os.environ.get('NO_SUCH_SIZE', '4'))\nH = {}\n"
            "def tune(sizes, *, a=0):\n    def decorate(g):\n        H[g] = max(SIZE, a)\n        return g\n"
            "    return decorate\n@tune([n + 1 for n in N], **K)\ndef other(): pass\n"
            "@tune([n for n in N], **K)\ndef f(): return N, K",
            id="lists that it iterates over, and a registry that the slice never reads",
        ),
        pytest.param(
            "def twice(n): return twice(n - 1) if n else 0\ndef hook(g):\n    twice(2)\n    return g\n"
            "@hook\ndef other(): pass\n@hook\ndef f(): return 1",
            id="recursion",
        ),
    ],
)
def test_decorators_that_leave_the_slice_alone_are_not_listed(write: Write, sliced: Slice, source: str) -> None:
    write({"mod.py": source})
    assert sliced("mod.py::f").skipped == ()


def test_a_decorator_of_another_module_is_followed_there(write: Write, sliced: Slice) -> None:
    write({"pkg/__init__.py": "", "pkg/tools.py": "from .state import H\ndef hook(g):\n    H[g] = 1\n    return g\n"})
    write(
        {
            "pkg/state.py": "H = {}\n",
            "pkg/mod.py": "from .tools import hook\n@hook\ndef g(): pass\n@hook\ndef f(): pass",
        }
    )
    assert sliced("pkg/mod.py::f").skipped == ()
    write(
        {"pkg/mod.py": "from .state import H\nfrom .tools import hook\n@hook\ndef g(): pass\n@hook\ndef f(): return H"}
    )
    assert list(sliced("pkg/mod.py::f").skipped) == ["mod.py:3: @hook"]


@pytest.mark.parametrize(
    "around",
    [
        "def other(x: T = 1) -> T: pass",
        "__all__ = ['f']\n__all__ += list(T)",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    print(len(T))",
        "if __name__ == '__main__':\n    T.clear()",
        "import functools\n@functools.lru_cache\ndef other(): return T",
        "COUNT = len(T) + N",
        "ALIAS = T",
        "def other(): T.clear()",
        "import nowhere\nnowhere.start(N)",
        "'documentation'",
    ],
)
def test_statements_that_leave_the_slice_alone_are_neither_taken_nor_listed(
    write: Write, sliced: Slice, around: str
) -> None:
    write({"mod.py": f"import functools\nT = {{}}\nN = 3\n{around}\n@functools.lru_cache\ndef f(): return T, N\n"})
    loaded = sliced("mod.py::f")
    assert loaded.skipped == ()
    assert loaded.definitions == ("mod:T", "mod:N", "mod:f")


def test_taken_statements_count_as_definitions_and_in_the_digest(write: Write, sliced: Slice) -> None:
    source = "T = {}\ndef fill(x): x['a'] = 1\nfill(T)\ndef f(): return T\n"
    write({"mod.py": source})
    first = sliced("mod.py::f")
    assert first.definitions == ("mod:T", "mod:fill", "mod:line 3", "mod:f")
    write({"mod.py": source.replace("= 1", "= 2")})
    assert sliced("mod.py::f").digest != first.digest


def test_long_statements_are_cut(write: Write, sliced: Slice) -> None:
    write({"mod.py": f"globals().update({', '.join(f'name{n}={n}' for n in range(30))})\ndef f(): return 1"})
    (text,) = sliced("mod.py::f").skipped
    assert len(text) == 80
    assert text.startswith("mod.py:1: globals().update(name0=0")


def test_the_convolution_helper_of_vllm_leaves_nothing_out(upstream: Path) -> None:
    spec = "vllm/v1/attention/backends/utils.py::compute_causal_conv1d_metadata"
    loaded = load(parse_spec(spec, root=upstream), function="", device="cpu", stubs=builtin_stubs())
    assert loaded.skipped == (), textwrap.indent("\n".join(loaded.skipped), "  ")
