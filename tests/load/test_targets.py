from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.load.targets import Target, Trees, is_installed, name_targets
from harness.load.tree import Tree

Write = Callable[[Mapping[str, str]], Path]


def test_installed_means_that_the_top_package_can_be_imported() -> None:
    assert [is_installed(name) for name in ("sys", "json.decoder", "numpy.typing")] == [True, True, True]
    assert not is_installed("missing_package.part")


def test_a_folder_that_only_has_the_name_of_a_package_is_no_package(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write({"some_space/part/mod.py": "", "some_space/single.py": ""})))
    names = ("some_space", "some_space.part.mod", "some_space.single", "some_space.other")
    assert [is_installed(name) for name in names] == [False, True, True, False]


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("from pkg import sub as name", [Target("tree", "pkg.sub")]),
        ("from . import again as name", [Target("tree", "pkg.sub")]),
        ("import pkg.sub as name", [Target("tree", "pkg.sub")]),
        ("from .stars import again as name", [Target("tree", "pkg.sub")]),
        ("from .sub import thing as name", []),
        ("name = 3", []),
        ("import json as name", []),
        ("import missing_package.part as name", [Target("missing", "missing_package.part")]),
        (
            "try:\n    import missing_package as name\nexcept ImportError: pass",
            [Target("missing", "missing_package", optional=True)],
        ),
        (
            "if x:\n    from pkg import sub as name\nelse:\n    from pkg import mod as name",
            [Target("tree", "pkg.sub"), Target("tree", "pkg.mod")],
        ),
        ("from .mod import name", []),
    ],
)
def test_a_name_stands_for_the_modules_that_its_imports_lead_to(
    write: Write, source: str, targets: list[Target]
) -> None:
    root = write({"pkg/__init__.py": "from . import sub as again", "pkg/sub.py": "def thing(): pass"})
    write({"pkg/stars.py": "from pkg import *", "pkg/mod.py": source})
    assert list(name_targets(Trees(Tree(root, "pkg"), {}), "pkg.mod", "name")) == targets
