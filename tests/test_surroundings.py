"""Whatever a candidate changes in its process is seen; what it restores, or only adds to a module, is not."""

from __future__ import annotations

import atexit
import builtins
import gc
import json
import math
import os
import random
import resource
import signal
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import harness.compare
import harness.examine
from harness.surroundings import take


def reference() -> int:
    return 1


def other(*_: Any) -> int:
    return 2


class Agreeable:
    """Says that it equals anything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __call__(self, *_: Any) -> None: ...


def test_nothing_has_changed_where_nothing_was_done() -> None:
    snapshot = take(reference)
    assert snapshot.change() is None
    assert snapshot.change(in_hypothesis=True) is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        *((builtins, name) for name in ("len", "print", "sorted", "ValueError", "__import__")),
        *((os, name) for name in ("getpid", "_exit", "write", "fork")),
        *((time, "monotonic"), (json, "dumps"), (math, "prod"), (gc, "disable"), (types, "FunctionType")),
        *((np, name) for name in ("empty", "int64", "ndarray", "linalg", "array_equal")),
        *((torch, name) for name in ("equal", "int32", "cuda", "Tensor", "empty", "from_numpy")),
        *((torch.nn.functional, "pad"), (torch.linalg, "norm"), (np.linalg, "norm")),
        *((torch.Tensor, name) for name in ("backward", "split", "__len__", "__rsub__")),
        *((torch.nn.Module, "forward"), (harness.examine, "compare"), (harness.compare, "compare")),
        (harness.examine.Subject, "__init__"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_replaced_or_removed_name_is_reported_until_it_is_restored(owner: Any, name: str) -> None:
    snapshot = take(reference)
    where = f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else owner.__name__
    before = vars(owner)[name]
    # Judged at once: with these names replaced, little else can run.
    setattr(owner, name, other)
    replaced = snapshot.change()
    setattr(owner, name, before)
    restored = snapshot.change()
    delattr(owner, name)
    removed = snapshot.change()
    setattr(owner, name, before)
    assert replaced == f"{where}.{name} was replaced"
    assert restored is None
    assert removed == f"{where}.{name} was removed"


def test_a_name_added_to_a_module_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = take(reference)
    monkeypatch.setattr(torch, "a_new_name", other, raising=False)
    monkeypatch.setattr(np, "a_new_name", other, raising=False)
    monkeypatch.setitem(sys.modules, "a_new_module", types.ModuleType("a_new_module"))
    assert snapshot.change() is None


@pytest.mark.parametrize("name", ["shape", "tolist", "__eq__", "__add__", "data_ptr"])
def test_a_member_that_hides_an_inherited_one_is_a_change(name: str) -> None:
    snapshot = take(reference)
    assert name not in vars(torch.Tensor)
    setattr(torch.Tensor, name, other)
    changed = snapshot.change()
    delattr(torch.Tensor, name)
    assert changed == f"torch.Tensor.{name} was replaced"
    assert snapshot.change() is None


@pytest.mark.parametrize("function", [reference, harness.compare.compare, harness.compare._walk])
def test_replaced_code_of_the_reference_or_of_ours_is_reported(function: Any) -> None:
    snapshot = take(reference)
    before = function.__code__
    function.__code__ = other.__code__
    changed = snapshot.change()
    function.__code__ = before
    assert changed == f"the code of {function.__module__}.{function.__qualname__} was replaced"
    assert snapshot.change() is None


def signal_setting(number: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return lambda: signal.getsignal(number), lambda value: signal.signal(number, value)


def set_path(value: list[str]) -> None:
    sys.path[:] = value


CORE = resource.RLIMIT_CORE
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any]] = {
    "the working directory was changed from": (os.getcwd, os.chdir, "/"),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "torch's default device": (lambda: None, torch.set_default_device, "meta"),
    "torch's number of threads was changed from": (torch.get_num_threads, torch.set_num_threads, 7),
    "torch's gradient mode was changed from True to False": (torch.is_grad_enabled, torch.set_grad_enabled, False),
    "torch's deterministic mode": (
        torch.are_deterministic_algorithms_enabled,
        torch._C._set_deterministic_algorithms,
        True,
    ),
    "NumPy's error handling": (np.geterr, lambda value: np.seterr(**value), dict.fromkeys(np.geterr(), "raise")),
    "the recursion limit was changed from": (sys.getrecursionlimit, sys.setrecursionlimit, 20_000),
    "the garbage collector's switch": (gc.isenabled, lambda on: gc.enable() if on else gc.disable(), False),
    "the trace function": (sys.gettrace, sys.settrace, Agreeable()),
    "the profile function": (sys.getprofile, sys.setprofile, Agreeable()),
    "the import path": (lambda: [*sys.path], set_path, ["/"]),
    "the file mode mask was changed from": (lambda: os.umask(0o022), os.umask, 0o077),
    "os.environ was changed": (lambda: os.environ, lambda value: setattr(os, "environ", value), {}),
    "sys.stdout was changed": (lambda: sys.stdout, lambda value: setattr(sys, "stdout", value), sys.__stderr__),
    "sys.stderr was changed": (lambda: sys.stderr, lambda value: setattr(sys, "stderr", value), None),
    "a signal handler": (*signal_setting(signal.SIGUSR1), other),
    "a signal handler ": (*signal_setting(signal.SIGTERM), Agreeable()),
    "a signal handler  ": (*signal_setting(signal.SIGALRM), signal.SIG_IGN),
    "a timer": (lambda: 0, lambda seconds: signal.setitimer(signal.ITIMER_PROF, seconds), 1000),
    "a resource limit": (
        lambda: resource.getrlimit(CORE),
        lambda value: resource.setrlimit(CORE, value),
        (resource.getrlimit(CORE)[0] - 1 if resource.getrlimit(CORE)[0] else 1, resource.getrlimit(CORE)[1]),
    ),
    "Python's random state": (
        random.getstate,
        lambda state: random.random() if state is None else random.setstate(state),
        None,
    ),
    "torch's random state": (
        torch.get_rng_state,
        lambda state: torch.rand(1) if state is None else torch.set_rng_state(state),
        None,
    ),
}


@pytest.mark.parametrize("phrase", SETTINGS)
def test_a_changed_setting_is_reported_until_it_is_restored(phrase: str) -> None:
    read, write, value = SETTINGS[phrase]
    before = read()
    write(before) if phrase.startswith("the file mode") else None
    snapshot = take(reference)
    write(value)
    changed = snapshot.change()
    write(before)
    assert changed is not None
    assert changed.startswith(phrase.rstrip())
    assert snapshot.change() is None


def test_a_function_that_runs_at_exit_is_reported() -> None:
    snapshot = take(reference)
    atexit.register(other)
    changed = snapshot.change()
    atexit.unregister(other)
    assert changed is not None
    assert changed.startswith("what runs at exit was changed")


def test_entering_inference_mode_is_reported() -> None:
    snapshot = take(reference)
    with torch.inference_mode():
        changed = snapshot.change()
    assert changed == "torch's inference mode was changed from False to True"
    assert snapshot.change() is None


def test_every_number_drawn_from_numpy_is_reported() -> None:
    before = np.random.get_state(legacy=True)
    for _ in range(3):
        snapshot = take(reference)
        np.random.random()
        assert snapshot.change() == "NumPy's random state was changed"
    np.random.set_state(before)


def test_variables_of_the_environment_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = take(reference)
    for name, text, phrase in (("HOME", "/x", "HOME was changed"), ("BITGATE_NEW", "1", "BITGATE_NEW was added")):
        with monkeypatch.context() as patched:
            patched.setenv(name, text)
            assert snapshot.change() == f"the environment variable {phrase}"
    monkeypatch.delenv("HOME")
    assert snapshot.change() == "the environment variable HOME was removed"
    monkeypatch.undo()
    assert snapshot.change() is None


def test_a_file_that_was_closed_or_replaced_is_reported(tmp_path: Path) -> None:
    number = os.open(tmp_path, os.O_RDONLY)
    snapshot = take(reference)
    copy = os.dup(number)
    assert snapshot.change() is None
    os.close(number)
    closed = snapshot.change()
    os.dup2(copy, number)
    assert snapshot.change() is None
    os.close(number)
    os.close(copy)
    assert closed == f"file descriptor {number} was closed or replaced"


def test_state_that_can_no_longer_be_read_is_a_change() -> None:
    snapshot = take(reference)
    before = sys.stderr
    del sys.stderr
    changed = snapshot.change()
    sys.stderr = before
    assert changed is not None
    assert snapshot.change() is None


def test_what_a_library_adds_when_it_is_imported_can_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = take(reference)
    monkeypatch.setenv("BITGATE_NEW", "1")
    atexit.register(other)
    accepted = snapshot.with_additions()
    assert accepted.change() is None
    monkeypatch.setenv("HOME", "/x")
    assert accepted.change() == "the environment variable HOME was changed"
    assert snapshot.with_additions().change() == "the environment variable HOME was changed"
    atexit.unregister(other)


def test_what_hypothesis_changes_is_not_reported_and_the_rest_is() -> None:
    seen: list[str | None] = []
    snapshot = take(reference)

    @hypothesis.settings(max_examples=20, database=None, deadline=None)
    @hypothesis.seed(1)
    @hypothesis.given(st.lists(st.integers()), st.randoms())
    def draws(numbers: list[int], source: random.Random) -> None:
        seen.append(snapshot.change(in_hypothesis=True))

    draws()
    assert set(seen) == {None}
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    changed = snapshot.change(in_hypothesis=True)
    torch.set_num_threads(before)
    assert changed is not None


@pytest.mark.parametrize(("name", "excused"), [("MY_FLAG", False), ("TRITON_SOMETHING", True)])
def test_a_library_that_is_imported_meanwhile_excuses_its_own_variables_alone(
    name: str, excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = take(test_a_library_that_is_imported_meanwhile_excuses_its_own_variables_alone)
    monkeypatch.setitem(sys.modules, "imported_meanwhile", types.ModuleType("imported_meanwhile"))
    monkeypatch.setenv(name, "1")
    assert (before.change() is None) is excused
