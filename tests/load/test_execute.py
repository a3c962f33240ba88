from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import LoadError
from harness.load import Loaded

Write = Callable[[Mapping[str, str]], Path]
Slice = Callable[..., Loaded]
Value = Callable[..., Any]


def test_an_import_cycle_is_entered_at_any_module(value: Value) -> None:
    source = "from .a import x\nY = 2\ndef f(): return x, x2()\ndef x2(): return Y"
    files = {"pkg/a.py": "from .mod import Y\nX = Y + 1\ndef more(): return X\nx = more()"}
    assert value(source, files) == (3, 2)


def test_a_cycle_through_functions_only_is_no_trouble(value: Value) -> None:
    source = "from . import a\ndef f(n=3): return 0 if n == 0 else a.g(n - 1)"
    assert value(source, {"pkg/a.py": "from pkg.mod import f\ndef g(n): return 1 + f(n)"}) == 3


def test_a_module_is_executed_once_and_shared(value: Value) -> None:
    source = "from . import a, b\ndef f(): return a.LOG is b.log()"
    files = {"pkg/a.py": "LOG = []", "pkg/b.py": "from .a import LOG\ndef log(): return LOG"}
    assert value(source, files) is True


def test_imports_inside_functions_see_the_same_modules(value: Value) -> None:
    source = """
    from .state import STATE
    def f():
        from pkg.state import STATE as again
        import pkg.state
        return again is STATE and pkg.state.STATE is STATE
    """
    assert value(source, {"pkg/state.py": "STATE = object()"}) is True


def test_standard_library_and_installed_packages_are_really_imported(value: Value) -> None:
    source = """
    import os.path as p
    import numpy as np
    from math import *
    def f(): return p is os_path(), np.int64(floor(2.5))
    def os_path():
        import os
        return os.path
    """
    assert value(source) == (True, 2)


def test_dataclasses_keep_class_variables_and_init_variables(value: Value) -> None:
    source = """
    import dataclasses
    from dataclasses import dataclass, InitVar, KW_ONLY, field
    from typing import ClassVar
    import typing as t
    @dataclass
    class Point:
        count: ClassVar[int] = 7
        total: t.ClassVar[int] = 8
        x: "int"
        scale: InitVar[int]
        _: KW_ONLY
        tags: list[Unknown] = field(default_factory=list)
        def __post_init__(self, scale): self.x *= scale
    def f():
        point = Point(2, 3)
        return point.x, point.tags, [field.name for field in dataclasses.fields(point)]
    """
    assert value(source) == (6, [], ["x", "tags"])
    assert "pkg.mod" not in sys.modules


def test_a_failed_guarded_import_takes_the_fallback(value: Value) -> None:
    source = """
    try:
        from .fast import run
        FAST = True
    except ImportError:
        from .slow import run
        FAST = False
    def f(): return FAST, run()
    """
    files = {"pkg/fast.py": "raise_now = __import__('nowhere_at_all')\ndef run(): return raise_now"}
    assert value(source, {**files, "pkg/slow.py": "def run(): return 'slow'"}) == (False, "slow")


def test_a_condition_that_fails_leaves_the_name_unbound_as_in_python(value: Value) -> None:
    with pytest.raises(NameError, match="ops"):
        value("import sys\nif sys.platform == 'none':\n    from ._ops import ops\ndef f(): return ops")


def test_reading_a_name_that_was_not_taken_says_so(value: Value) -> None:
    source = "from . import a\nNAME = 'oth' + 'er'\ndef f(): return getattr(a.module(), NAME)"
    files = {"pkg/a.py": "other = 1\ndef module():\n    import pkg.a as me\n    return me"}
    assert value(source, files) == 1
    with pytest.raises(AttributeError, match=r"--stub pkg\.a\.absent=VALUE"):
        value(source.replace("'oth' + 'er'", "'absent'"), files)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("A = 1 / 0", "ZeroDivisionError: division by zero"),
        ("A = exit(3)", "SystemExit: 3"),
        ("A = int('x')", "ValueError"),
        ("A = (_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt"),
        ("from math import absent as A", "ImportError: cannot import name 'absent'"),
    ],
)
def test_a_statement_that_raises_is_named_with_its_place(value: Value, statement: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        value(f"\n# first\n{statement}\ndef f(): return A")
    text = str(caught.value)
    assert "pkg/mod.py:2: a definition that the function needs raised" in text
    assert said in text
    assert "--stub pkg.mod.A=VALUE" in text


def test_the_innermost_failing_statement_of_several_modules_is_named(value: Value) -> None:
    with pytest.raises(LoadError, match=r"pkg/deep\.py:2: .*--stub pkg\.deep\.B=VALUE"):
        value("from .deep import B\ndef f(): return B", {"pkg/deep.py": "A = {}\nB = A['missing']"})


def test_a_stub_may_depend_on_the_device(write: Write) -> None:
    from harness.load import load, parse_spec, stubs_from_config

    root = write({"mod.py": "def f(): return PINNED"})
    stubs = stubs_from_config({"PINNED": {"cpu": False, "cuda": True}})
    spec = parse_spec("mod.py::f", root=root)
    assert load(spec, function="", device="cpu", stubs=stubs).function() is False
    assert load(spec, function="", device="cuda", stubs=stubs).function() is True


def test_a_stubbed_name_survives_a_statement_that_also_binds_it(value: Value) -> None:
    assert value("A, B = 1, 2\ndef f(): return A, B", {}, "A=9") == (9, 2)


def test_modules_imported_by_functions_are_executed_while_loading(value: Value) -> None:
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        value("def f():\n    from .late import x\n    return x", {"pkg/late.py": "x = 1 / 0"})


def test_an_already_imported_package_of_the_same_name_is_left_alone(
    value: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type(sys)("pkg")
    monkeypatch.setitem(sys.modules, "pkg", other)
    assert value("from .a import x\ndef f(): return x", {"pkg/a.py": "x = 1"}) == 1
    assert sys.modules["pkg"] is other
