"""Surroundings: the state of the process that a candidate must leave as it found it."""

from __future__ import annotations

import atexit
import builtins
import gc
import importlib
import logging
import os
import random
import resource
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch

_WATCHED: Final = (
    *("builtins", "gc", "json", "math", "mmap", "os", "random", "signal", "struct", "sys", "threading", "time"),
    *("types", "numpy", "numpy.linalg", "numpy.random", "torch", "torch.nn.functional", "torch.cuda", "torch.linalg"),
)
_WATCHED_CLASSES: Final = (torch.Tensor, torch.nn.Module)
_OWN: Final = ("harness", "references")
# Written by the interpreter or by the libraries themselves while they work; torch.Storage follows the default dtype.
_LIVELY: Final = frozenset(
    {"__builtins__", "__warningregistry__", "last_exc", "last_type", "last_value", "last_traceback", "Storage"}
)
_LIBRARIES: Final = ("CUDA", "CUBLAS", "KMP_", "MKL_", "NCCL_", "OMP_", "PYTORCH_", "TORCH", "TRITON_")
"""How environment variables begin that libraries add when they are imported."""
_FOLDERS: Final = {"torch": os.path.join(os.path.dirname(torch.__file__), "")}
_SIMPLE: Final = (bool, int, float, str, type(None))

_getcwd, _environ, _fstat = os.getcwd, os.environ, os.fstat
# Below signal.getsignal, which compares a handler with its constants, and so runs the handler's own equality.
_getsignal = importlib.import_module("_signal").getsignal


def _settings() -> dict[str, Any]:
    # Objects that a candidate can have made stand here by their identity: their equality is its code.
    return {
        "the working directory": _working_directory(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "torch's number of threads": torch.get_num_threads(),
        "torch's inference mode": torch.is_inference_mode_enabled(),
        "torch's gradient mode": torch.is_grad_enabled(),
        "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        "torch's precision of matrix products": torch.get_float32_matmul_precision(),
        "torch's anomaly detection": torch.is_anomaly_enabled(),
        "NumPy's error handling": tuple(sorted(np.geterr().items())),
        "NumPy's print options": tuple(sorted((name, str(value)) for name, value in np.get_printoptions().items())),
        # Libraries add filters that keep warnings quiet when they are imported; none makes errors of them.
        "what warnings become errors": tuple(id(item) for item in warnings.filters if item[0] == "error"),
        "the level of logging": logging.root.manager.disable,
        "the garbage collector's thresholds": gc.get_threshold(),
        "the interpreter's switch interval": sys.getswitchinterval(),
        "the names of builtins": frozenset(vars(builtins)),
        "the recursion limit": sys.getrecursionlimit(),
        "the garbage collector's switch": gc.isenabled(),
        _GC_CALLBACKS: tuple(map(id, gc.callbacks)),
        _AT_EXIT: atexit._ncallbacks(),
        "a resource limit": tuple(map(resource.getrlimit, _LIMITS)),
        "the trace function": (id(sys.gettrace()),),
        "the profile function": (id(sys.getprofile()),),
        "the import path": tuple(sys.path),
        "the file mode mask": _umask(),
        "os.environ": (id(os.environ),),
        "sys.stdout": (id(sys.stdout),),
        "sys.stderr": (id(sys.stderr),),
        "a timer": tuple(signal.getitimer(timer) != (0.0, 0.0) for timer in _TIMERS),
        "a signal handler": tuple(id(_getsignal(number)) for number in _SIGNALS),
        "Python's random state": random.getstate(),
        "NumPy's random state": _numpy_random_state(),
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
    }


def _working_directory() -> str | None:
    try:
        return _getcwd()
    except FileNotFoundError:
        return None


_GC_CALLBACKS: Final = "the list of the garbage collector's callbacks"
_AT_EXIT: Final = "what runs at exit"
_HYPOTHESIS: Final = (
    *("Python's random state", "NumPy's random state", "torch's random state", "the recursion limit"),
    "what warnings become errors",
    _GC_CALLBACKS,
)
_SIGNALS: Final = tuple(sorted(signal.valid_signals()))
_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS: Final = tuple(sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A snapshot of the process, taken before a candidate is loaded."""

    names: tuple[tuple[str, Mapping[str, Any], dict[str, Any]], ...]
    settings: dict[str, Any]
    environment: dict[str, str]
    codes: tuple[tuple[types.FunctionType, Any], ...]
    files: dict[int, tuple[int, int]]
    """Open file descriptors, each with the device and the number of its file."""
    modules: int
    """How many modules had been imported."""

    def with_additions(self) -> Surroundings:
        """This snapshot and what importing a library adds: environment variables, functions that run at exit."""
        settings = {**self.settings, _AT_EXIT: atexit._ncallbacks()}
        environment = {**_environ, **self.environment}
        return replace(self, settings=settings, environment=environment, modules=len(sys.modules))

    def change(self, *, in_hypothesis: bool = False) -> str | None:
        """What differs from the snapshot, as one phrase, or None. Additions of new names to modules do not count.

        ``in_hypothesis`` leaves out what Hypothesis itself changes while it runs a test.
        """
        for owner, live, before in self.names:
            for name, value in before.items():
                now = live.get(name, _MISSING)
                if now is not value and not _replaced_by_library(owner, name, now):
                    return f"{owner}.{name} was {'removed' if name not in live else 'replaced'}"
        for function, code in self.codes:
            if function.__code__ is not code:
                return f"the code of {function.__module__}.{function.__qualname__} was replaced"
        try:
            settings = _settings()
        except Exception:
            return "a module's state can no longer be read"
        # A library that is imported during a call may add what it adds when it is imported before.
        imported = len(sys.modules) > self.modules
        for what, value in settings.items():
            if imported and what == _AT_EXIT and value > self.settings[what]:
                continue
            if not (in_hypothesis and what in _HYPOTHESIS) and value != self.settings[what]:
                shown = f" from {self.settings[what]!r} to {value!r}" if isinstance(value, _SIMPLE) else ""
                return f"{what} was changed{shown if len(shown) < 300 else ''}"
        for name, text in self.environment.items():
            if _environ.get(name) != text:
                return f"the environment variable {name} was {'changed' if name in _environ else 'removed'}"
        for name in _environ:
            if name not in self.environment and not (imported and name.startswith(_LIBRARIES)):
                return f"the environment variable {name} was added"
        for number, file in self.files.items():
            if _file(number) != file:
                return f"file descriptor {number} was closed or replaced"
        return None


def take(reference: Callable[..., Any]) -> Surroundings:
    """Snapshot the process as it is: names in the libraries that helpers use, settings, open files, and ourselves."""
    names = []
    for owner, live, members in _namespaces():
        before = {name: value for name, value in members if name not in _LIVELY and _worth_watching(value)}
        names.append((owner, live, before))
    functions = {id(value): value for _, _, before in names for value in before.values() if _is_own(value)}
    functions[id(reference)] = reference
    codes = tuple((function, function.__code__) for function in functions.values())
    open_files = ((number, _file(number)) for number in map(int, os.listdir("/proc/self/fd")))
    files = {number: file for number, file in open_files if file is not None}
    return Surroundings(tuple(names), _settings(), dict(_environ), codes, files, len(sys.modules))


def _is_own(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and value.__module__.split(".")[0] in _OWN


def _file(descriptor: int) -> tuple[int, int] | None:
    try:
        status = _fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _namespaces() -> Iterator[tuple[str, Mapping[str, Any], Iterable[tuple[str, Any]]]]:
    """Name, live view and present members of every module and class that is watched."""
    modules = {name: importlib.import_module(name) for name in _WATCHED}
    own = {name: module for name, module in sorted(sys.modules.items()) if name.split(".")[0] in _OWN}
    classes = [*_WATCHED_CLASSES]
    for name, module in {**modules, **own}.items():
        if isinstance(module, types.ModuleType):
            yield name, vars(module), vars(module).items()
        if name in own:
            classes += [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == name]
    for kind in classes:
        yield f"{kind.__module__}.{kind.__qualname__}", vars(kind), _members(kind)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class has, and, as missing, what it inherits: a new member of its own would hide that."""
    inherited = {name for base in kind.__mro__[1:] for name in vars(base)}
    yield from dict.fromkeys(inherited - vars(kind).keys(), _MISSING).items()
    yield from vars(kind).items()


def _worth_watching(value: Any) -> bool:
    return (
        value is _MISSING
        or callable(value)
        or isinstance(value, types.ModuleType | torch.dtype | property | classmethod | staticmethod)
    )


def _replaced_by_library(owner: str, name: str, value: Any) -> bool:
    """Whether a library wrapped its own function: importing torch's compiler, for one, wraps torch.manual_seed."""
    folder = _FOLDERS.get(owner)
    if folder is None or type(value) is not types.FunctionType or value.__name__ != name:
        return False
    return value.__code__.co_filename.startswith(folder)


def _numpy_random_state() -> tuple[Any, ...]:
    _, key, *rest = np.random.get_state(legacy=True)
    return (np.asarray(key).tobytes(), *rest)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_MISSING: Final = object()
