"""Value: one argument of a case, as data, as JSON and as Python source."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from harness.drawn import DrawnValue, drawn_from_json, drawn_to_json
from harness.layout import check_layout, layout_to_python

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
_CANONICAL_NAN: Final = "7ff8000000000000"
_SIXTEEN_DIGITS: Final = re.compile("[0-9a-f]{16}").fullmatch


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A ``torch.Tensor`` argument: element type, elements in row-major order, shape and place.

    ``device`` is ``"cpu"`` or ``"target"`` (the device the check runs on). ``shape`` defaults to one dimension.
    ``strides``, in elements, default to those of a contiguous tensor; ``offset`` is how many elements the first one
    lies past a well-aligned address.
    """

    dtype: str
    data: tuple[Number, ...]
    shape: tuple[int, ...] = ()
    device: Literal["cpu", "target"] = "cpu"
    strides: tuple[int, ...] = ()
    offset: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.dtype, self.data, self.shape))
        check_layout(self.shape, self.strides, self.offset)


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A ``numpy.ndarray`` argument: element type (NumPy has no bfloat16), elements in row-major order, shape."""

    dtype: str
    data: tuple[Number, ...]
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype == "bfloat16":
            raise ValueError("dtype 'bfloat16' does not exist in NumPy: use a tensor")
        object.__setattr__(self, "shape", _checked_shape(self.dtype, self.data, self.shape))


@dataclass(frozen=True, slots=True)
class ListValue:
    """A Python list argument of plain numbers."""

    data: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """The ``torch.device`` that the check runs on: whatever ``--device`` chose."""


TARGET_DEVICE: Final = DeviceValue()

Value: TypeAlias = TensorValue | DrawnValue | ArrayValue | ListValue | DeviceValue | int | float | bool | str | None


def value_to_json(value: Value) -> Any:
    """A value as an object for ``json.dumps``; the inverse is :func:`value_from_json`."""
    if isinstance(value, TensorValue):
        document = {"tensor": value.dtype, **_elements_to_json(value.dtype, value.data)}
        if value.shape != (len(value.data),):
            document["shape"] = list(value.shape)
        return document | _layout_to_json(value)
    if isinstance(value, DrawnValue):
        return drawn_to_json(value) | _layout_to_json(value)
    if isinstance(value, ArrayValue):
        document = {"array": value.dtype, **_elements_to_json(value.dtype, value.data)}
        return document if value.shape == (len(value.data),) else {**document, "shape": list(value.shape)}
    if isinstance(value, ListValue):
        return {"list": [_number_to_json(number) for number in value.data]}
    if isinstance(value, DeviceValue):
        return {"device": "target"}
    return _number_to_json(value) if isinstance(value, float) else value


def value_from_json(document: Any) -> Value:
    """Read a value from its JSON object.

    Raises:
        ValueError: it is not one; the message names the offending key.
    """
    if document is None or isinstance(document, bool | int | float | str):
        return document
    if not isinstance(document, dict):
        raise ValueError(f"a {type(document).__name__} is not an argument value")
    if "tensor" in document:
        return TensorValue(*_elements_from_json("tensor", document), **_layout_from_json(document))
    if "drawn" in document:
        return drawn_from_json(document, _layout_from_json(document))
    if "array" in document:
        return ArrayValue(*_elements_from_json("array", document))
    if "list" in document:
        return ListValue(tuple(map(_number_from_json, _listed("list", document))))
    if "bits" in document:
        return _number_from_json(document)
    if document.get("device") == "target":
        return TARGET_DEVICE
    raise ValueError("an object needs one of the keys tensor, drawn, array, list, bits, or device: target")


def value_to_python(value: Value, device: str) -> str:
    """A value as a Python expression of ``torch``, ``np`` and ``struct``."""
    if isinstance(value, TensorValue | ArrayValue):
        make, prefix = ("torch.tensor", "torch") if isinstance(value, TensorValue) else ("np.array", "np")
        dtype = "np.bool_" if prefix == "np" and value.dtype == "bool" else f"{prefix}.{value.dtype}"
        source = f"{make}({_list_to_python(value.data)}, dtype={dtype})"
        if value.shape != (len(value.data),):
            source += f".reshape({list(value.shape)!r})"
        return source if isinstance(value, ArrayValue) else _placed(source, value, device)
    if isinstance(value, DrawnValue):
        numbers = tuple(value.elements().reshape(-1).tolist())
        source = f"torch.tensor({_list_to_python(numbers)}, dtype=torch.{value.dtype}).reshape({list(value.shape)!r})"
        return _placed(source, value, device)
    if isinstance(value, ListValue):
        return _list_to_python(value.data)
    if isinstance(value, DeviceValue):
        return f'torch.device("{device}")'
    return _number_to_python(value) if isinstance(value, float) else repr(value)


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest element of an integer type."""
    bits = INTEGER_BITS.get(dtype)
    return (0, 255 if dtype == "uint8" else 1) if bits is None else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _placed(source: str, value: TensorValue | DrawnValue, device: str) -> str:
    """``source``, an expression of a contiguous tensor in main memory, with the value's layout and on its device."""
    dtype, device = f"torch.{value.dtype}", device if value.device == "target" else "cpu"
    return layout_to_python(source, value.shape, value.strides, value.offset, dtype=dtype, device=device)


def _layout_to_json(value: TensorValue | DrawnValue) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if value.strides:
        document["strides"] = list(value.strides)
    if value.offset:
        document["offset"] = value.offset
    return document if value.device == "cpu" else {**document, "device": value.device}


def _layout_from_json(document: dict[str, Any]) -> dict[str, Any]:
    device, offset = document.get("device", "cpu"), document.get("offset", 0)
    strides = _listed("strides", document) if "strides" in document else []
    if device != "cpu" and device != "target":
        raise ValueError('"device" of a tensor must be "cpu" or "target"')
    if type(offset) is not int or any(type(stride) is not int for stride in strides):
        raise ValueError('"strides" must be a list of integers and "offset" an integer')
    return {"strides": tuple(strides), "offset": offset, "device": device}


def _checked_shape(dtype: str, data: tuple[Number, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    shape = shape or (len(data),)
    if min(shape) < 0 or math.prod(shape) != len(data):
        raise ValueError(f"shape {list(shape)} does not hold {len(data)} elements")
    return shape


def _number_to_json(number: Number) -> Any:
    # JSON has neither infinities nor NaN.
    return number if not isinstance(number, float) or math.isfinite(number) else {"bits": _bits_of(number)}


def _number_from_json(document: Any) -> Number:
    if isinstance(document, int | float):
        return document
    if not isinstance(document, dict) or "bits" not in document:
        raise ValueError(f"a {type(document).__name__} is not a number")
    return _number_of(document["bits"])


def _elements_to_json(dtype: str, data: tuple[Number, ...]) -> dict[str, Any]:
    if DTYPES[dtype] == "float":
        return {"bits": [_bits_of(float(number)) for number in data]}
    return {"data": list(data)}


def _elements_from_json(key: str, document: dict[str, Any]) -> tuple[str, tuple[Number, ...], tuple[int, ...]]:
    """Element type, elements and shape of a tensor or an array."""
    dtype, shape = document[key], tuple(_listed("shape", document)) if "shape" in document else ()
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if kind is None:
        raise ValueError(f'"{key}" is not one of {", ".join(DTYPES)}')
    if any(type(size) is not int for size in shape):
        raise ValueError('"shape" must be a list of integers')
    if kind == "float":
        return dtype, tuple(map(_number_of, _listed("bits", document))), shape
    data = tuple(_listed("data", document))
    wanted = bool if kind == "bool" else int
    if any(type(item) is not wanted for item in data):
        raise ValueError(f'"data" of {dtype} must be a list of {wanted.__name__}')
    low, high = limits(dtype)
    if any(not low <= item <= high for item in data):
        raise ValueError(f'"data" does not fit {dtype}, which holds {low} to {high}')
    return dtype, data, shape


def _listed(key: str, document: dict[str, Any]) -> list[Any]:
    items = document.get(key)
    if not isinstance(items, list):
        raise ValueError(f'"{key}" must be a list')
    return items


def _bits_of(number: float) -> str:
    return struct.pack(">d", number).hex()


def _number_of(bits: object) -> float:
    """A float from the 16 hexadecimal digits of its bits, which keep what JSON's numbers do not: NaN's payload."""
    if not isinstance(bits, str) or not _SIXTEEN_DIGITS(bits):
        raise ValueError('"bits" of a float must be 16 hexadecimal digits')
    number: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return number


def _list_to_python(numbers: tuple[Number, ...]) -> str:
    return f"[{', '.join(map(_number_to_python, numbers))}]"


def _number_to_python(number: Number) -> str:
    if not isinstance(number, float) or math.isfinite(number):
        return repr(number)
    bits = _bits_of(number)
    if math.isnan(number) and bits != _CANONICAL_NAN:
        return f'struct.unpack(">d", bytes.fromhex("{bits}"))[0]'
    return f'float("{number}")'
