"""Surroundings: the state of the process that a candidate must leave as it found it."""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

_WATCHED: Final = (
    *(
        "builtins",
        "os",
        "sys",
        "time",
        "json",
        "math",
        "struct",
        "random",
        "threading",
        "signal",
        "gc",
        "types",
        "mmap",
    ),
    *("numpy", "numpy.linalg", "numpy.random", "torch", "torch.nn.functional", "torch.cuda", "torch.linalg"),
)
_WATCHED_CLASSES: Final = (torch.Tensor, torch.nn.Module)
_OWN: Final = ("harness", "references")
# Written by the interpreter or by the libraries themselves while they work.
_LIVELY: Final = frozenset(
    {"__builtins__", "__warningregistry__", "last_exc", "last_type", "last_value", "last_traceback"}
)
_SIMPLE: Final = (bool, int, float, str, type(None))

_getcwd, _environ = os.getcwd, os.environ


def _settings() -> dict[str, Any]:
    return {
        "the working directory": _getcwd(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "torch's number of threads": torch.get_num_threads(),
        "torch's gradient mode": torch.is_grad_enabled(),
        "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        "NumPy's error handling": tuple(sorted(np.geterr().items())),
        "the recursion limit": sys.getrecursionlimit(),
        "the garbage collector's switch": gc.isenabled(),
        "the trace function": sys.gettrace(),
        "the profile function": sys.getprofile(),
        "the import path": tuple(sys.path),
        "the file mode mask": _umask(),
        "os.environ": id(os.environ),
        "sys.stdout": id(sys.stdout),
        "sys.stderr": id(sys.stderr),
        "a signal handler": tuple(signal.getsignal(number) for number in _SIGNALS),
        "Python's random state": hash(random.getstate()),
        "NumPy's random state": np.random.get_state()[1].tobytes(),  # type: ignore[index]
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
    }


_HYPOTHESIS: Final = ("Python's random state", "NumPy's random state", "torch's random state", "the recursion limit")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGSEGV, signal.SIGCHLD, signal.SIGPIPE)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A snapshot of the process, taken before a candidate is loaded."""

    names: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]
    settings: dict[str, Any]
    environment: dict[str, str]
    codes: tuple[tuple[Callable[..., Any], Any], ...]

    def change(self, *, in_hypothesis: bool = False) -> str | None:
        """What differs from the snapshot, as one phrase, or None. Additions of new names do not count.

        ``in_hypothesis`` leaves out what Hypothesis itself changes while it runs a test.
        """
        for owner, live, before in self.names:
            for name, value in before.items():
                if live.get(name, _MISSING) is not value:
                    return f"{owner}.{name} was {'removed' if name not in live else 'replaced'}"
        for function, code in self.codes:
            if function.__code__ is not code:
                return f"the code of {function.__module__}.{function.__qualname__} was replaced"
        for what, value in _settings().items():
            if not (in_hypothesis and what in _HYPOTHESIS) and value != self.settings[what]:
                shown = f" from {self.settings[what]!r} to {value!r}" if isinstance(value, _SIMPLE) else ""
                return f"{what} was changed{shown if len(shown) < 300 else ''}"
        for name, text in self.environment.items():
            if _environ.get(name) != text:
                return f"the environment variable {name} was {'changed' if name in _environ else 'removed'}"
        return None


def take(reference: Callable[..., Any]) -> Surroundings:
    """Snapshot the process as it is: names in the libraries that helpers use, settings, environment, and ourselves."""
    names = []
    for owner, live in _namespaces():
        before = {name: value for name, value in live.items() if name not in _LIVELY and _worth_watching(value)}
        names.append((owner, live, before))
    return Surroundings(tuple(names), _settings(), dict(_environ), ((reference, reference.__code__),))


def _namespaces() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in _WATCHED:
        yield name, vars(importlib.import_module(name))
    for kind in _WATCHED_CLASSES:
        yield f"{kind.__module__}.{kind.__qualname__}", _Members(kind)
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] in _OWN and isinstance(module, types.ModuleType):
            yield name, vars(module)


class _Members(dict[str, Any]):
    """The members of a class, read live: ``vars`` of a class is no dictionary that one could keep."""

    def __init__(self, kind: type) -> None:
        super().__init__(vars(kind))
        self.kind = kind

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self.kind).get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in vars(self.kind)


def _worth_watching(value: Any) -> bool:
    return callable(value) or isinstance(value, types.ModuleType | torch.dtype | property | classmethod | staticmethod)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_MISSING: Final = object()
