"""Nothing that a candidate returns or raises gets to run its own code, and texts stay short."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from harness.compare import compare
from harness.describe import describe, number_text, type_name
from harness.observe import Raised, outcome_difference

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> Any:
    RAN.clear()
    yield
    assert RAN == []


def trap(name: str) -> Any:
    def trapped(*_: Any, **__: Any) -> Any:
        RAN.append(name)
        raise AttributeError(name)

    return trapped


NAMES = (
    *("__eq__", "__ne__", "__hash__", "__repr__", "__str__", "__format__", "__bool__", "__len__", "__iter__"),
    *("__getitem__", "__contains__", "__getattr__", "__index__", "__int__", "__float__", "__array__", "__lt__"),
)


class Meta(type):
    """A class whose class answers, too."""

    __eq__ = trap("Meta.__eq__")
    __hash__ = trap("Meta.__hash__")
    __repr__ = trap("Meta.__repr__")
    __instancecheck__ = trap("Meta.__instancecheck__")
    __subclasscheck__ = trap("Meta.__subclasscheck__")

    def __getattribute__(cls, name: str) -> Any:
        RAN.append(f"Meta.{name}")
        return super().__getattribute__(name)


def hostile(base: type = object, metaclass: type = type) -> type:
    """A subclass of ``base`` whose every method is a trap."""
    members: dict[str, Any] = {name: trap(name) for name in NAMES}
    members["__class__"] = property(trap("__class__"))
    members["__module__"] = "builtins"
    return type.__new__(metaclass, "Hostile", (base,), members)


def instance(kind: type, *given: Any) -> Any:
    return kind.__mro__[1].__new__(kind, *given) if type(kind) is type else type.__call__(kind, *given)


class HostileName(str):
    __slots__ = ()
    __format__ = trap("name.__format__")
    __str__ = trap("name.__str__")
    __repr__ = trap("name.__repr__")
    __eq__ = trap("name.__eq__")
    __hash__ = str.__hash__


def odd_names() -> list[type]:
    # A class takes its module from the global names around it, where there are any.
    no_module = eval("type('NoModule', (), {})", {"__builtins__": {"type": type}})
    odd = type("Odd", (), {"__module__": instance(hostile())})
    text = type("Text", (), {"__module__": HostileName("builtins"), "__qualname__": HostileName("int")})
    return [no_module, odd, text, type("Long", (), {"__qualname__": "x" * 10**7})]


EXPECTED: list[Any] = [None, 1, 1.0, "1", [1], (1,), {8: 1}, {(8,): 1}, np.int64(1), torch.tensor([1]), np.array([1])]
EXPECTED += [torch.Size([1]), range(1), slice(1)]


def object_array() -> Any:
    array = np.empty(1, dtype=object)
    array.fill(instance(hostile()))
    return array


def values() -> dict[str, Any]:
    evil = instance(hostile())
    return {
        "object": evil,
        "object of a hostile class": instance(hostile(metaclass=Meta)),
        "int": instance(hostile(int), 1),
        "str": instance(hostile(str), "1"),
        "list": instance(hostile(list)),
        "dict": instance(hostile(dict)),
        "tuple": instance(hostile(tuple), (1,)),
        "NumPy scalar": instance(hostile(np.int64), 1),
        "array": np.array([1]).view(hostile(np.ndarray)),
        "object array": object_array(),
        "tensor": torch.Tensor._make_subclass(hostile(torch.Tensor), torch.tensor([1.0])),
        "inside a list": [evil],
        "inside a tuple": (evil,),
        "inside a slice": slice(evil),
        "inside a dictionary": {8: evil},
        "inside a size": torch.Size([instance(hostile(int), 1)]),
        "inside an exception": ValueError(evil),
        "a class": hostile(metaclass=Meta),
        **{f"odd name {number}": kind() for number, kind in enumerate(odd_names())},
    }


@pytest.mark.parametrize("name", values())
def test_a_hostile_value_is_a_difference_and_nothing_more(name: str) -> None:
    got = values()[name]
    RAN.clear()
    for expected in EXPECTED:
        found = compare(expected, got)
        assert found is not None
        assert len(found.got) < 800
        different = outcome_difference(expected, got, check_pinned=False)
        assert different is not None
        assert outcome_difference(Raised(ValueError()), got, check_pinned=False) is not None


class Key:
    """Has the hash and the equality of the number 8."""

    def __hash__(self) -> int:
        RAN.append("hash")
        return hash(8)

    def __eq__(self, other: object) -> bool:
        RAN.append("eq")
        return True


@pytest.mark.parametrize("expected", [{8: 1}, {"a": 1, 8: 1}, {(8,): 1}, {np.int64(8): 1}, {8.5: 1}])
def test_a_hostile_key_is_never_hashed_or_compared(expected: dict[Any, Any]) -> None:
    keys = {**expected}
    got: dict[Any, Any] = {(Key(),) if (8,) in keys else Key(): 1, **dict.fromkeys(list(expected)[1:], 1)}
    RAN.clear()
    found = compare(expected, got)
    assert found is not None
    assert found.aspect == "keys"


def test_a_hostile_exception_is_named_without_asking_it() -> None:
    class Error(ValueError):
        __str__ = trap("__str__")
        __repr__ = trap("__repr__")
        args = property(trap("args"))

    Error.__module__ = "builtins"
    for error in (Error("a"), ValueError(instance(hostile())), OSError(5, instance(hostile())), KeyError(Error("b"))):
        found = outcome_difference(1, Raised(error), check_pinned=False)
        assert found is not None
        assert found[1].got.startswith("raises ")
    assert Raised(Error("the reason")).message == "the reason"


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        b"x" * 10**7,
        10**100_000,
        range(10**100_000),
        [[["x" * 10**7] * 64] * 64] * 64,
        dict.fromkeys(range(64), "x" * 10**6),
        list(range(10**6)),
        {"x" * 10**6: 1},
        type("L" * 10**6, (), {})(),
        np.str_("x" * 10**6),
        torch.zeros((1,) * 60),
    ],
    ids=lambda value: type(value).__name__[:20],
)
def test_a_huge_value_has_a_short_text(value: Any) -> None:
    started = time.process_time()
    assert len(describe(value)) <= 120
    found = compare(None, value)
    assert found is not None
    assert len(found.got) <= 400
    assert time.process_time() - started < 2.0


def test_texts_show_plain_values_as_python_writes_them() -> None:
    assert describe([1, 2.5, "a", None, True, (1,), {"k": b"v"}]) == "[1, 2.5, 'a', None, True, (1), {'k': b'v'}]"
    assert describe(torch.zeros((2, 3), dtype=torch.int32)) == "of torch.int32, shape [2, 3]"
    assert describe(np.zeros(2, dtype=">i4")) == "of >i4, shape [2]"
    assert describe(slice(1, None)) == "slice(1, None, None)"
    assert describe(list(range(20))).endswith("15, …]")
    assert describe([[[[1]]]]) == "[[[…]]]"
    assert describe(object()) == ""
    assert type_name(int) == "int"
    assert type_name(torch.Tensor) == "torch.Tensor"
    assert number_text(1.5) == "1.5 (0x1.8000000000000p+0)"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([1, 0]).to_sparse(),
        lambda: torch.eye(2, dtype=torch.int64).to_sparse_csr(),
        lambda: torch.empty(2, dtype=torch.int64, device="meta"),
        lambda: torch.nested.nested_tensor([torch.tensor([1]), torch.tensor([2])]),
        lambda: torch._efficientzerotensor(2, dtype=torch.int64),
        lambda: torch.zeros(2).to_mkldnn(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        lambda: without_storage(),
        lambda: batched(),
    ],
    ids=["sparse", "CSR", "meta", "nested", "zero", "MKL-DNN", "quantized", "without storage", "of a vmap"],
)
def test_a_tensor_without_plain_memory_is_a_difference(make: Any) -> None:
    got = make()
    for expected in (torch.tensor([0, 0]), torch.zeros(2), torch.zeros((2, 2), dtype=torch.int64), torch.zeros(4)[::2]):
        assert compare(expected, got) is not None
        assert compare([expected, 1], [got, 1]) is not None
    assert describe(got)


def without_storage() -> torch.Tensor:
    tensor = torch.zeros(2, dtype=torch.int64)
    tensor.untyped_storage().resize_(0)
    return tensor


def batched() -> torch.Tensor:
    kept: list[torch.Tensor] = []

    def keep(row: torch.Tensor) -> torch.Tensor:
        kept.append(row)
        return row

    torch.func.vmap(keep)(torch.zeros((3, 2), dtype=torch.int64))
    return kept[0]
