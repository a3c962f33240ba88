from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.load import Stub, builtin_stubs, parse_stub, stubs_from_config
from harness.load.stubs import find_stub


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("PIN_MEMORY=False", "PIN_MEMORY", False),
        ("a.b.SIZE = 8", "a.b.SIZE", 8),
        ("NAME='x=y'", "NAME", "x=y"),
        ("LIST=[1, (2, None)]", "LIST", [1, (2, None)]),
        ("TABLE={'cpu': 1, 'cuda': 2}", "TABLE", {"cpu": 1, "cuda": 2}),
    ],
)
def test_an_option_gives_a_name_a_literal(text: str, name: str, value: object) -> None:
    found, stub = parse_stub(text)
    assert (found, stub.build("cpu"), stub.build("cuda")) == (name, value, value)


def test_an_option_with_parentheses_makes_a_function() -> None:
    name, stub = parse_stub("a.is_available()=True")
    assert name == "a.is_available"
    assert stub.build("cpu")("anything", key=1) is True
    assert parse_stub("a.table()={'value': 1}")[1].build("cpu")() == {"value": 1}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("NAME", "expected NAME=VALUE"),
        ("NAME=text", "a string needs quotes"),
        ("NAME=", "not a Python literal"),
        ("a-b=1", "is not a name"),
        ("=1", "is not a name"),
        ("NAME=open('x')", "not a Python literal"),
    ],
)
def test_a_wrong_option_says_what_is_wrong(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        parse_stub(text)


def one(entry: Any, device: Any = "cpu") -> Any:
    (stub,) = stubs_from_config({"name": entry}).values()
    return stub.build(device)


def test_every_form_of_a_table_builds_its_object() -> None:
    assert one(3) == 3
    assert one({"value": {"a": 1}}) == {"a": 1}
    assert (one({"cpu": 1, "cuda": 2}), one({"cpu": 1, "cuda": 2}, "cuda")) == (1, 2)
    assert one({"returns": 4})() == 4
    assert one({"returns": {"cpu": 1, "cuda": 2}}, "cuda")() == 2
    assert one({"expression": "None"}) is None
    assert one({"expression": {"cpu": "1", "cuda": "2"}}, "cuda") == 2
    assert one({"expression": "lambda x: x + 1"})(2) == 3
    assert one({"import": "json"}).dumps([1]) == "[1]"
    platform = one({"object": {"is_cpu()": {"cpu": True, "cuda": False}, "name": "x", "inner": {"object": {"y": 1}}}})
    assert (platform.is_cpu(), platform.name, platform.inner.y) == (True, "x", 1)
    with pytest.raises(NotImplementedError, match="launches a kernel"):
        one({"refuses": "launches a kernel"})(1, key=2)


def test_an_identity_decorator_serves_with_and_without_options() -> None:
    decorator = one({"decorator": True})
    assert decorator(len) is len
    assert decorator(size=3)(len) is len
    assert decorator(3)(len) is len


def test_an_absorber_takes_anything_and_is_false() -> None:
    absorber = one({"absorbs": True})
    with absorber.warning("text", 1).deeper[0] as inner:
        assert not inner
    assert list(absorber) == []
    assert not hasattr(absorber, "__len__")


def test_dotted_names_need_no_quotes_in_configuration() -> None:
    stubs = stubs_from_config({"a": {"b": {"C": 1, "D": {"cpu": 2, "cuda": 3}}}, "e.f()": 4})
    assert {name: stub.kind for name, stub in stubs.items()} == {"a.b.C": "value", "a.b.D": "value", "e.f": "function"}


@pytest.mark.parametrize(
    "entry",
    [
        {"cpu": 1},
        {"value": 1, "returns": 2},
        {"decorator": False},
        {"absorbs": 1},
        {"expression": 3},
        {"import": "a-b"},
    ],
)
def test_a_wrong_table_names_the_entry_and_the_forms(entry: object) -> None:
    with pytest.raises(UsageError, match=r"stub 'name': .* is not a stub; write a plain value or a table with cpu and"):
        stubs_from_config({"name": entry})


def test_a_built_value_is_not_shared() -> None:
    stub = parse_stub("LIST=[]")[1]
    stub.build("cpu").append(1)
    assert stub.build("cpu") == []


def test_the_users_stub_wins_over_a_built_in_one() -> None:
    builtin = Stub("value", 1, 1, builtin=True)
    full, bare = Stub("value", 2, 2), Stub("value", 3, 3)
    assert find_stub({"m.NAME": builtin}, "m", "NAME") is builtin
    assert find_stub({"m.NAME": builtin, "NAME": bare}, "m", "NAME") is bare
    assert find_stub({"m.NAME": full, "NAME": bare}, "m", "NAME") is full
    assert find_stub({"other.NAME": full}, "m", "NAME") is None


def test_built_in_stubs_pin_memory_exactly_on_cuda() -> None:
    stubs = builtin_stubs()
    assert all(stub.builtin for stub in stubs.values())
    for device, pinned in (("cpu", False), ("cuda", True)):
        assert stubs["vllm.utils.torch_utils.PIN_MEMORY"].build(device) is pinned  # type: ignore[arg-type]
        probe = stubs["vllm.utils.platform_utils.is_pin_memory_available"].build(device)  # type: ignore[arg-type]
        platform = stubs["vllm.platforms.current_platform"].build(device)  # type: ignore[arg-type]
        assert (probe(), platform.is_pin_memory_available(), platform.is_cuda()) == (pinned, pinned, pinned)


@pytest.mark.parametrize(("x", "expected"), [(0, 0), (1, 1), (8, 1), (9, 2), (-3, 0)])
def test_the_ceiling_division_that_stands_in_for_triton_rounds_up(x: int, expected: int) -> None:
    assert builtin_stubs()["triton.cdiv"].build("cpu")(x, 8) == expected


def test_no_built_in_stub_touches_a_tensor_cache() -> None:
    assert not [name for name in builtin_stubs() if "tensor_cache" in name]
