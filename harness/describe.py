"""Describe: short texts for values that came from a candidate, made without running any code of theirs."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

SHOWN: Final = 16
"""How many items of a list or a dictionary a description shows."""

# Types are looked up by identity: to hash or to compare a class may run code of its metaclass.
_LITERALS: Final = (type(None), bool, float, complex, torch.dtype, torch.device)
_TENSORS: Final = (torch.Tensor, np.ndarray)
_SEQUENCES: Final[dict[Any, str]] = {list: "[{}]", tuple: "({})", dict: "{{{}}}", torch.Size: "Size({})"}
_SPANS: Final = (range, slice)
_SCALARS: Final = tuple(set(np.sctypeDict.values()) - {np.void, np.object_})

# Read past a metaclass that answers for its class.
_qualname, _module = type.__dict__["__qualname__"].__get__, type.__dict__["__module__"].__get__


def describe(value: Any, limit: int = 120, depth: int = 3) -> str:
    """A short text for a value; empty for a type whose ``repr`` is not known to be harmless."""
    kind = type(value)
    if is_one_of(kind, _LITERALS):
        text = repr(value)
    elif kind is int:
        text = repr(value) if value.bit_length() < 4 * limit else f"an int of {value.bit_length()} bits"
    elif kind is str or kind is bytes:
        text = repr(value[:limit])
    elif is_one_of(kind, _TENSORS):
        text = _tensor_text(value)
    elif is_one_of(kind, _SEQUENCES):
        text = _items_text(kind, value, limit, depth) if depth else "…"
    elif is_one_of(kind, _SPANS):
        parts = (describe(part, limit, max(depth - 1, 0)) for part in (value.start, value.stop, value.step))
        text = f"{kind.__name__}({', '.join(parts)})"
    elif is_one_of(kind, _SCALARS):
        text = str(value)
    else:
        text = ""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def type_name(kind: type) -> str:
    """The name of a type, with its module unless it is a builtin."""
    try:
        module = _module(kind)
    except AttributeError:
        module = ""
    name = _text(_qualname(kind))
    return name if type(module) is str and module == "builtins" else f"{_text(module)}.{name}"


def typed_keys(mapping: dict[Any, Any]) -> str:
    """The keys of a dictionary, each with its type: ``8`` and ``8.0`` are the same key to Python, not to a caller."""
    keys = [f"{type_name(type(key))} {describe(key)}".rstrip() for key in islice(mapping, SHOWN)]
    return f"{len(mapping)} keys: {describe(keys, 400)}"


def number_text(number: object) -> str:
    """A number with all its bits: a float in hexadecimal too, and NaN with its payload."""
    if not isinstance(number, float):
        return repr(number)
    if math.isnan(number):
        return f"nan (bits {struct.pack('>d', number).hex()})"
    return f"{number!r} ({number.hex()})"


def is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """Whether a type is one of some others, decided without running code of a metaclass."""
    return any(kind is known for known in kinds)


def _items_text(kind: type, value: Any, limit: int, depth: int) -> str:
    items = value.items() if kind is dict else ((None, item) for item in value)
    parts = []
    for key, item in islice(items, SHOWN):
        text = describe(item, limit, depth - 1)
        parts.append(f"{describe(key, limit, depth - 1)}: {text}" if kind is dict else text)
    if len(value) > SHOWN:
        parts.append("…")
    return _SEQUENCES[kind].format(", ".join(parts))


def _tensor_text(value: Any) -> str:
    try:
        dtype = value.dtype.str if type(value) is np.ndarray else value.dtype
        return f"of {dtype}, shape {list(value.shape)}"
    except RuntimeError:
        return "without a shape"


def _text(name: object) -> str:
    return name[:200] if type(name) is str else "?"
