"""Traits are read from module constants alone, and a malformed one is one clear line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.load import Traits, parse_spec, registered_candidates, traits_of

Write = Callable[[Mapping[str, str]], Path]
Registry = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def registry(write: Write, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Writes files of ``candidates/conv``, given by name, into a ``candidates`` package that hides ours."""

    def make(files: Mapping[str, str]) -> Path:
        root = write({"candidates/__init__.py": "raise AssertionError('imported')"})
        write({f"candidates/conv/{name}.py": source for name, source in files.items()})
        for name in [name for name in sys.modules if name.partition(".")[0] == "candidates"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(root))
        return root

    return make


ALL = """
raise AssertionError("executed")
DEVICES = ("cuda",)
UPSTREAM: str = "package.module:function"
PEER = "conv/other"
CUDA_GRAPH = True
"""


def test_a_registered_candidate_states_its_traits_in_constants_that_are_not_executed(registry: Registry) -> None:
    root = registry({"one": ALL, "other": "", "broken": "def f(:"})
    stated = Traits(devices=("cuda",), upstream="package.module:function", peer="conv/other", cuda_graph=True)
    assert [entry.traits for entry in registered_candidates()["conv"]] == [Traits(), stated, Traits()]
    assert traits_of(parse_spec("conv/one", root=root)) == stated
    assert traits_of(parse_spec("conv/other", root=root)) == Traits(("cpu", "cuda"), None, None, False)


def test_the_last_constant_counts_and_those_inside_other_statements_do_not(registry: Registry) -> None:
    source = "DEVICES = ('cpu',)\nDEVICES = ['cuda', 'cpu']\ndef f():\n    DEVICES = 3\nif f:\n    CUDA_GRAPH = 3\n"
    root = registry({"one": source})
    assert traits_of(parse_spec("conv/one", root=root)) == Traits()


@pytest.mark.parametrize(
    ("constant", "said"),
    [
        ('DEVICES = "cuda"', r'DEVICES must be a tuple of "cpu" and "cuda"'),
        ("DEVICES = ()", "DEVICES must be a tuple"),
        ('DEVICES = ("gpu",)', "DEVICES must be a tuple"),
        ("DEVICES = ([],)", "DEVICES must be a tuple"),
        ("DEVICES = devices()", "DEVICES must be a tuple"),
        ('UPSTREAM = "package.module"', r'UPSTREAM must be text such as "package.module:function"'),
        ('UPSTREAM = "package/module:function"', "UPSTREAM must be text"),
        ("UPSTREAM = 3", "UPSTREAM must be text"),
        ('PEER = "other"', 'PEER must be text such as "contract/name"'),
        ('PEER = "conv/other/more"', "PEER must be text"),
        ('PEER = "conv/*"', "PEER must be text"),
        ('PEER = "conv/one"', "PEER names the candidate itself"),
        ('PEER = "tables/other"', "belongs to another contract; name a candidate of conv"),
        ('PEER = "conv/missing"', "there is no such candidate"),
        ("CUDA_GRAPH = 1", "CUDA_GRAPH must be True or False"),
    ],
)
def test_a_malformed_constant_of_a_registered_candidate_is_one_line(
    registry: Registry, constant: str, said: str
) -> None:
    registry({"one": f"x = 1\n{constant}\n", "other": ""})
    with pytest.raises(UsageError, match=said) as caught:
        registered_candidates()
    assert "one.py" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("constant", "meant"),
    [
        ("CUDA_GRAPHS = True", "CUDA_GRAPH"),
        ('DEVICE = ("cuda",)', "DEVICES"),
        ('UPSTREAMS: str = "package.module:function"', "UPSTREAM"),
        ('PEERS = "conv/other"', "PEER"),
    ],
)
def test_a_misspelt_constant_of_a_registered_candidate_is_one_line_with_the_right_name(
    registry: Registry, constant: str, meant: str
) -> None:
    root = registry({"one": f"x = 1\n{constant}\n", "other": ""})
    name = constant.replace(":", " ").split()[0]
    for read in (registered_candidates, lambda: traits_of(parse_spec("conv/one", root=root))):
        with pytest.raises(UsageError, match=rf"one\.py:2: {name} means nothing here; did you mean {meant}\?$"):
            read()


def test_constants_that_are_like_no_trait_or_not_in_capitals_are_a_candidates_own(registry: Registry) -> None:
    root = registry({"one": "CHANNELS = 64\nTILE = 8\nUP = 1\nGRAPH = 2\ndevice = 'cuda'\nDevices = 3\n"})
    assert traits_of(parse_spec("conv/one", root=root)) == Traits()


def test_a_file_states_its_traits_in_the_same_constants(write: Write) -> None:
    root = write({"mine.py": f"{ALL}\ndef f(): pass\n"})
    stated = Traits(devices=("cuda",), upstream="package.module:function", peer="conv/other", cuda_graph=True)
    assert traits_of(parse_spec("mine.py::f", root=root)) == stated


def test_constants_that_a_file_has_for_purposes_of_its_own_are_left_alone(write: Write) -> None:
    root = write(
        {
            "mine.py": "DEVICE = 0\nDEVICES = range(8)\nUPSTREAM = 'https://x.y'\nPEER = 3\nCUDA_GRAPH = None\n"
            "def f(): pass"
        }
    )
    assert traits_of(parse_spec("mine.py::f", root=root)) == Traits()


def test_a_module_and_a_file_that_cannot_be_read_say_nothing(write: Write) -> None:
    root = write({"broken.py": "def f(:", "mod.py": "DEVICES = ('cuda',)"})
    assert traits_of(parse_spec("mod:f", root=root)) == Traits()
    assert traits_of(parse_spec("broken.py::f", root=root)) == Traits()
