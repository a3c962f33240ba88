"""Drawn value: a tensor argument whose elements follow from a seed, so that a large case is a small file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.layout import check_layout

_Hash: TypeAlias = NDArray[np.uint64]
_Draw: TypeAlias = Callable[[_Hash], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class DrawnValue:
    """A ``torch.Tensor`` argument of floating-point numbers: element type, shape, and what to draw from ``seed``.

    ``numbers`` is one of :data:`NUMBERS`. ``nan`` lists (axis, start, stop): every element whose index on that axis
    lies in the range is NaN instead. ``strides`` and ``offset`` are as in :class:`harness.value.TensorValue`.
    """

    dtype: Literal["float16", "bfloat16", "float32", "float64"]
    shape: tuple[int, ...]
    numbers: str
    seed: int = 0
    nan: tuple[tuple[int, int, int], ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0
    device: Literal["cpu", "target"] = "cpu"

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(_DTYPES)}")
        if self.numbers not in NUMBERS:
            raise ValueError(f"numbers {self.numbers!r} is not one of {', '.join(NUMBERS)}")
        if min(self.shape, default=0) < 0:
            raise ValueError(f"shape {list(self.shape)} has a negative size")
        if not 0 <= self.seed < 1 << 32:
            raise ValueError(f"seed {self.seed} is not in 0 to 2**32 - 1")
        for axis, start, stop in self.nan:
            if not (0 <= axis < len(self.shape) and 0 <= start <= stop <= self.shape[axis]):
                raise ValueError(f"nan {[axis, start, stop]} is no range of shape {list(self.shape)}")
        check_layout(self.shape, self.strides, self.offset)

    def elements(self) -> NDArray[np.float64]:
        """The elements before they are rounded to ``dtype``; the same on every machine."""
        index = np.arange(math.prod(self.shape), dtype=np.uint64)
        drawn = NUMBERS[self.numbers](_mixed(index + np.uint64(self.seed << 32))).reshape(self.shape)
        for axis, start, stop in self.nan:
            drawn[(slice(None),) * axis + (slice(start, stop),)] = np.nan
        return drawn


def drawn_to_json(value: DrawnValue) -> dict[str, Any]:
    """A drawn value as an object for ``json.dumps``; the inverse is :func:`drawn_from_json`."""
    document: dict[str, Any] = {"drawn": value.dtype, "shape": list(value.shape), "numbers": value.numbers}
    document["seed"] = value.seed
    if value.nan:
        document["nan"] = [list(part) for part in value.nan]
    return document


def drawn_from_json(document: Mapping[str, Any], layout: Mapping[str, Any]) -> DrawnValue:
    """Read a drawn value; ``layout`` holds its strides, offset and device.

    Raises:
        ValueError: it is not one; the message names the offending key.
    """
    shape, seed, nan = document.get("shape"), document.get("seed"), document.get("nan", [])
    if not isinstance(shape, list) or any(type(size) is not int for size in shape):
        raise ValueError('"shape" must be a list of integers')
    if type(seed) is not int:
        raise ValueError('"seed" must be an integer')
    if not isinstance(nan, list) or any(
        not isinstance(part, list) or len(part) != 3 or any(type(number) is not int for number in part) for part in nan
    ):
        raise ValueError('"nan" must be a list of [axis, start, stop]')
    dtype, numbers = document.get("drawn"), document.get("numbers")
    if not isinstance(dtype, str) or not isinstance(numbers, str):
        raise ValueError('"drawn" must be an element type and "numbers" a word')
    parts = tuple((axis, start, stop) for axis, start, stop in nan)
    return DrawnValue(dtype, tuple(shape), numbers, seed, parts, **layout)  # type: ignore[arg-type]


def _mixed(state: _Hash) -> _Hash:
    """SplitMix64's output function: well-distributed 64 bits of every state.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        state = (state + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def _integers(largest: int) -> _Draw:
    """Whole numbers from ``-largest`` to ``largest``."""
    return lambda bits: (bits % np.uint64(2 * largest + 1)).astype(np.float64) - largest


def _uniform(largest: float) -> _Draw:
    """Numbers from ``-largest`` to ``largest`` with 24 random bits."""
    return lambda bits: (bits >> np.uint64(40)).astype(np.float64) * (2.0**-23 * largest) - largest


def _positive(largest: float) -> _Draw:
    """Numbers up to ``largest``."""
    draw = _uniform(largest)
    return lambda bits: np.abs(draw(bits))


def _with(special: tuple[float, ...], draw: _Draw) -> _Draw:
    """What ``draw`` draws, with one of the special numbers in about one of sixteen places."""

    def drawn(bits: _Hash) -> NDArray[np.float64]:
        chosen = np.asarray(special)[(bits >> np.uint64(8)) % np.uint64(len(special))]
        return np.where(bits >> np.uint64(4) & np.uint64(15) == 0, chosen, draw(bits))

    return drawn


_DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
NUMBERS: Final[Mapping[str, _Draw]] = MappingProxyType(
    {
        "integers": _integers(16),
        "integers or -0.0": _with((-0.0,), _integers(16)),
        "ordinary": _with((-0.0,), _uniform(2.0)),
        "steep": _with((-0.0,), _uniform(64.0)),
        "positive": _positive(2000.0),
        "extreme": _with((float("inf"), 6e-8), _positive(2000.0)),
    }
)
"""What can be drawn: ``integers`` from -16 to 16, of which products of two are exact even in bfloat16, with negative
zeros among them or without; ``ordinary`` numbers between -2 and 2; ``steep`` ones between -64 and 64, whose sums of
products are far out on an activation; ``positive`` ones up to 2,000, whose products overflow in float16; ``extreme``
ones, with infinities and a number that is subnormal in float16 among them. Sums of products of the last two are
infinite, never NaN, of whose bits every processor has its own.
"""
