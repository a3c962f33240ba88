"""Case: one concrete input, that is, the named arguments of one call."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from harness.errors import UsageError

FORMAT: Final = 1
"""Version of the case file format, written as ``bitgate_case``."""

Number: TypeAlias = int | float | bool
DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "bool",
        "uint8": "int",
        "int8": "int",
        "int16": "int",
        "int32": "int",
        "int64": "int",
        "float16": "float",
        "bfloat16": "float",
        "float32": "float",
        "float64": "float",
    }
)
"""Element types that a case can hold, each with the kind of number it is written as."""

INTEGER_BITS: Final[Mapping[str, int]] = MappingProxyType({"int8": 8, "int16": 16, "int32": 32, "int64": 64})


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A ``torch.Tensor`` argument: element type, elements in row-major order, shape and place.

    ``device`` is ``"cpu"`` or ``"target"`` (the device the check runs on). ``shape`` defaults to one dimension.
    """

    dtype: str
    data: tuple[Number, ...]
    shape: tuple[int, ...] = ()
    device: Literal["cpu", "target"] = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.dtype, self.data, self.shape))


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A ``numpy.ndarray`` argument: element type, elements in row-major order, shape."""

    dtype: str
    data: tuple[Number, ...]
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.dtype, self.data, self.shape))


@dataclass(frozen=True, slots=True)
class ListValue:
    """A Python list argument of plain numbers."""

    data: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """The ``torch.device`` that the check runs on: whatever ``--device`` chose."""


TARGET_DEVICE: Final = DeviceValue()

Value: TypeAlias = TensorValue | ArrayValue | ListValue | DeviceValue | int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Case:
    """The named arguments of one call of one contract's function. Immutable; compares and hashes by content."""

    contract: str
    arguments: Mapping[str, Value] = field(compare=False)
    _key: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))
        object.__setattr__(self, "_key", json.dumps(self.to_json(), sort_keys=True))

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this case."""
        return hashlib.sha256(self._key.encode()).hexdigest()[:12]

    def size(self) -> int:
        """Number of elements in all arguments together: a rough measure for "smaller"."""
        return sum(len(v.data) for v in self.arguments.values() if isinstance(v, TensorValue | ArrayValue | ListValue))

    def to_json(self) -> dict[str, Any]:
        """The case as an object for ``json.dumps``; the inverse is :func:`case_from_json`."""
        arguments = {name: _value_to_json(value) for name, value in self.arguments.items()}
        return {"bitgate_case": FORMAT, "contract": self.contract, "arguments": arguments}

    def to_python(self, function: str, *, device: str = "cpu") -> str:
        """The case as Python source that builds the arguments and calls ``function`` with them by name."""
        lines: list[str] = []
        passed: list[str] = []
        for name, value in self.arguments.items():
            source = _value_to_python(value, device)
            if isinstance(value, TensorValue | ArrayValue):
                lines.append(f"{name} = {source}")
                source = name
            passed.append(f"{name}={source}")
        modules = [("torch", "torch."), ("numpy as np", "np.")]
        text = "\n".join([*lines, f"{function}({', '.join(passed)})"])
        return "\n".join([*(f"import {module}" for module, use in modules if use in text), text])


def case_from_json(document: object, *, source: str = "case") -> Case:
    """Read a case from its JSON object.

    Raises:
        UsageError: the object is not a case of this format; the message names ``source`` and the offending key.
    """
    if not isinstance(document, dict) or document.get("bitgate_case") != FORMAT:
        raise UsageError(f'{source}: not a bitgate case: expected an object with "bitgate_case": {FORMAT}.')
    contract, arguments = document.get("contract"), document.get("arguments")
    if not isinstance(contract, str) or not isinstance(arguments, dict):
        raise UsageError(f'{source}: expected "contract" (a string) and "arguments" (an object).')
    try:
        return Case(contract, {str(name): _value_from_json(value) for name, value in arguments.items()})
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(f"{source}: malformed argument: {error}. Compare it with a file in tests/cases/.") from error


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
        path, partial = folder / name, folder / f".{name}.partial"
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
    before = document.get("before", [])
    if not isinstance(before, list):
        raise UsageError(f'{path}: "before" must be a list of argument objects.')
    template = {"bitgate_case": FORMAT, "contract": case.contract}
    earlier = tuple(case_from_json({**template, "arguments": item}, source=str(path)) for item in before)
    return CaseFile(case, earlier, str(document.get("note", "")))


def _checked_shape(dtype: str, data: tuple[Number, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    shape = shape or (len(data),)
    if math.prod(shape) != len(data) or min(shape) < 0:
        raise ValueError(f"shape {list(shape)} does not hold {len(data)} elements")
    return shape


def _value_to_json(value: Value) -> Any:
    if isinstance(value, TensorValue):
        document = {"tensor": value.dtype, **_elements_to_json(value.dtype, value.data)}
        if value.shape != (len(value.data),):
            document["shape"] = list(value.shape)
        return document if value.device == "cpu" else {**document, "device": value.device}
    if isinstance(value, ArrayValue):
        document = {"array": value.dtype, **_elements_to_json(value.dtype, value.data)}
        return document if value.shape == (len(value.data),) else {**document, "shape": list(value.shape)}
    if isinstance(value, ListValue):
        return {"list": list(value.data)}
    if isinstance(value, DeviceValue):
        return {"device": "target"}
    return value


def _value_from_json(document: Any) -> Value:
    if document is None or isinstance(document, bool | int | float | str):
        return document
    if not isinstance(document, dict):
        raise ValueError(f"{document!r} is not an argument value")
    if "tensor" in document:
        data = _elements_from_json(document["tensor"], document)
        device = document.get("device", "cpu")
        if device not in ("cpu", "target"):
            raise ValueError(f'tensor device {device!r} is neither "cpu" nor "target"')
        return TensorValue(document["tensor"], data, tuple(document.get("shape", ())), device)
    if "array" in document:
        data = _elements_from_json(document["array"], document)
        return ArrayValue(document["array"], data, tuple(document.get("shape", ())))
    if "list" in document:
        return ListValue(tuple(document["list"]))
    if document.get("device") == "target":
        return TARGET_DEVICE
    raise ValueError(f"{document!r} is not an argument value")


def _elements_to_json(dtype: str, data: tuple[Number, ...]) -> dict[str, Any]:
    if DTYPES[dtype] == "float":
        return {"bits": [struct.pack(">d", float(number)).hex() for number in data]}
    return {"data": list(data)}


def _elements_from_json(dtype: object, document: dict[str, Any]) -> tuple[Number, ...]:
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if kind is None:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    if kind == "float":
        return tuple(struct.unpack(">d", bytes.fromhex(item))[0] for item in document["bits"])
    data = document["data"]
    wanted = bool if kind == "bool" else int
    if not isinstance(data, list) or any(type(item) is not wanted for item in data):
        raise ValueError(f"data of {dtype} must be a list of {wanted.__name__}")
    bits = INTEGER_BITS.get(str(dtype))
    if bits is not None and any(not -(1 << bits - 1) <= item < 1 << bits - 1 for item in data):
        raise ValueError(f"data does not fit {dtype}")
    return tuple(data)


def _value_to_python(value: Value, device: str) -> str:
    if isinstance(value, TensorValue | ArrayValue):
        make, prefix = ("torch.tensor", "torch") if isinstance(value, TensorValue) else ("np.array", "np")
        dtype = "np.bool_" if prefix == "np" and value.dtype == "bool" else f"{prefix}.{value.dtype}"
        source = f"{make}({_list_to_python(value.data)}, dtype={dtype})"
        if value.shape != (len(value.data),):
            source += f".reshape({list(value.shape)!r})"
        target = isinstance(value, TensorValue) and value.device == "target" and device != "cpu"
        return f'{source}.to("{device}")' if target else source
    if isinstance(value, ListValue):
        return _list_to_python(value.data)
    if isinstance(value, DeviceValue):
        return f'torch.device("{device}")'
    return _number_to_python(value) if isinstance(value, float) else repr(value)


def _list_to_python(numbers: tuple[Number, ...]) -> str:
    return f"[{', '.join(map(_number_to_python, numbers))}]"


def _number_to_python(number: Number) -> str:
    return repr(number) if math.isfinite(number) else f'float("{number}")'
