"""Case: one concrete input, that is, the named arguments of one call."""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from harness.drawn import DrawnValue
from harness.errors import UsageError
from harness.value import (
    DTYPES,
    INTEGER_BITS,
    TARGET_DEVICE,
    ArrayValue,
    DeviceValue,
    ListValue,
    Number,
    TensorValue,
    Value,
    value_from_json,
    value_to_json,
    value_to_python,
)

__all__ = [
    "DTYPES",
    "FORMAT",
    "INTEGER_BITS",
    "TARGET_DEVICE",
    "ArrayValue",
    "Case",
    "CaseFile",
    "DeviceValue",
    "DrawnValue",
    "ListValue",
    "Number",
    "TensorValue",
    "Value",
    "case_from_json",
    "read_case_file",
]

FORMAT: Final = 1
"""Version of the case file format, written as ``bitgate_case``."""
_CALLED_MODULES: Final = re.compile(r"(?<![\w.])([a-z_]\w*(?:\.[a-z_]\w*)*)\.\w+\(").findall
"""What stands before the last dot of every function that is called in a Python expression."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The named arguments of one call of one contract's function. Immutable; compares and hashes by content."""

    contract: str
    arguments: Mapping[str, Value]

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    # By content to the last bit: to Python, 0.0 equals -0.0, True equals 1, and NaN equals nothing.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True)

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this case."""
        return hashlib.sha256(self._key().encode()).hexdigest()[:12]

    def size(self) -> int:
        """Number of elements in all arguments together: a rough measure for "smaller"."""
        return sum(map(_elements, self.arguments.values()))

    def to_json(self) -> dict[str, Any]:
        """The case as an object for ``json.dumps``; the inverse is :func:`case_from_json`."""
        arguments = {name: value_to_json(value) for name, value in self.arguments.items()}
        return {"bitgate_case": FORMAT, "contract": self.contract, "arguments": arguments}

    def to_python(
        self,
        function: str,
        *,
        device: str = "cpu",
        derived: Mapping[str, str] = MappingProxyType({}),
        printed: Collection[str] | None = None,
    ) -> str:
        """The case as Python source that builds the arguments and calls ``function`` with them by name.

        ``derived`` are arguments that no case holds, as expressions of the others' names in which functions of modules
        are written in full (``package.module.function(x)``). With ``printed``, what the call returns is printed, and
        after it these arguments.
        """
        lines: list[str] = []
        passed: list[str] = []
        for name, value in self.arguments.items():
            source = value_to_python(value, device)
            # What is derived, and what is printed, refers to arguments by name.
            if derived or name in (printed or ()) or isinstance(value, TensorValue | DrawnValue | ArrayValue):
                lines.append(f"{name} = {source}")
                source = name
            passed.append(f"{name}={source}")
        for name, source in derived.items():
            lines.append(f"{name} = {source}")
            passed.append(f"{name}={name}")
        modules = [("struct", "struct."), ("torch", "torch."), ("numpy as np", "np.")]
        call = f"{function}({', '.join(passed)})"
        calls = [call] if printed is None else [f"print({call})", *(f"print({name})" for name in printed)]
        text = "\n".join([*lines, *calls])
        called = {module for source in derived.values() for module in _CALLED_MODULES(source)}
        imports = [module for module, use in modules if use in text] + sorted(called - {*self.arguments})
        return "\n".join([*(f"import {module}" for module in imports), text])


def _elements(value: Value) -> int:
    if isinstance(value, DrawnValue):
        return math.prod(value.shape)
    return len(value.data) if isinstance(value, TensorValue | ArrayValue | ListValue) else 0


def case_from_json(document: object, *, source: str = "case") -> Case:
    """Read a case from its JSON object.

    Raises:
        UsageError: the object is not a case of this format; the message names ``source`` and the offending key.
    """
    version = document.get("bitgate_case") if isinstance(document, dict) else None
    if not isinstance(document, dict) or type(version) is not int or version != FORMAT:
        raise UsageError(f'{source}: not a bitgate case: expected an object with "bitgate_case": {FORMAT}.')
    contract, arguments = document.get("contract"), document.get("arguments")
    if not isinstance(contract, str) or not isinstance(arguments, dict):
        raise UsageError(f'{source}: expected "contract" (a string) and "arguments" (an object).')
    values: dict[str, Value] = {}
    for name, value in arguments.items():
        try:
            values[str(name)] = value_from_json(value)
        except ValueError as error:
            raise UsageError(
                f"{source}: malformed argument {name!r}: {error}. Compare it with a file in tests/cases/."
            ) from error
    return Case(contract, values)


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A saved case, with the calls that must come before it (usually none) and how it was found."""

    case: Case
    before: tuple[Case, ...] = ()
    note: str = ""

    def write(self, folder: Path) -> Path:
        """Save under ``folder`` with a name made from the content; an existing file of that name is the same case."""
        document = self.case.to_json()
        if self.before:
            document["before"] = [case.to_json()["arguments"] for case in self.before]
        if self.note:
            document["note"] = self.note
        name = CaseFile(self.case, self.before).name
        folder.mkdir(parents=True, exist_ok=True)
        # Another process may be saving the same case at this moment.
        path, partial = folder / name, folder / f".{name}.{secrets.token_hex(4)}.partial"
        partial.write_text(json.dumps(document) + "\n", encoding="utf-8")
        partial.replace(path)
        return path

    @property
    def name(self) -> str:
        """File name: ``CONTRACT-DIGEST.json``."""
        digest = hashlib.sha256("".join(case.digest for case in (*self.before, self.case)).encode()).hexdigest()
        return f"{self.case.contract}-{digest[:12]}.json"


def read_case_file(path: Path) -> CaseFile:
    """Read one saved case.

    Raises:
        UsageError: the file is missing, is not JSON, or is not a case.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the case file: {error.strerror}. Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}. A case file holds one JSON object.") from error
    case = case_from_json(document, source=str(path))
    before, note = document.get("before", []), document.get("note", "")
    if not isinstance(before, list) or not isinstance(note, str):
        raise UsageError(f'{path}: "before" must be a list of argument objects, and "note" a string.')
    template = {"bitgate_case": FORMAT, "contract": case.contract}
    earlier = tuple(case_from_json({**template, "arguments": item}, source=str(path)) for item in before)
    return CaseFile(case, earlier, note)
