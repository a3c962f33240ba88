"""bitgate: is this rewritten metadata helper, to the last bit, the function it replaces?"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from harness.api import check, explain
    from harness.case import ArrayValue, Case, CaseFile, DeviceValue, ListValue, TensorValue, read_case_file
    from harness.contract import Contract, Stratum
    from harness.errors import BitgateError, HarnessError, LoadError, UsageError
    from harness.supervise import Nursery
    from harness.verdict import Difference, ExitCode, Finding, Result, Symptom, Verdict, exit_code

__all__ = [
    "ArrayValue",
    "BitgateError",
    "Case",
    "CaseFile",
    "Contract",
    "DeviceValue",
    "Difference",
    "ExitCode",
    "Finding",
    "HarnessError",
    "ListValue",
    "LoadError",
    "Nursery",
    "Result",
    "Stratum",
    "Symptom",
    "TensorValue",
    "UsageError",
    "Verdict",
    "check",
    "exit_code",
    "explain",
    "read_case_file",
]

# Resolved on first use: the pytest plugin is imported by every pytest run of an environment, and must cost it nothing.
_MODULES: Final = MappingProxyType(
    {
        "api": ("check", "explain"),
        "case": ("ArrayValue", "Case", "CaseFile", "DeviceValue", "ListValue", "TensorValue", "read_case_file"),
        "contract": ("Contract", "Stratum"),
        "errors": ("BitgateError", "HarnessError", "LoadError", "UsageError"),
        "supervise": ("Nursery",),
        "verdict": ("Difference", "ExitCode", "Finding", "Result", "Symptom", "Verdict", "exit_code"),
    }
)


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"harness.{module}"), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
