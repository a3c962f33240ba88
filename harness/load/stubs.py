"""Stubs: values that take the place of names which a slice cannot compute."""

from __future__ import annotations

import ast
import copy
import importlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from types import SimpleNamespace
from typing import Any, Final, Literal

from harness.errors import UsageError
from harness.load.spec import DOTTED

Device = Literal["cpu", "cuda"]

FORMS: Final = ("value", "cpu", "cuda", "returns", "expression", "import", "object", "decorator", "absorbs", "refuses")
"""Keys of a stub written as a table; ``cpu`` and ``cuda`` go together, each of the others stands alone."""


@dataclass(frozen=True, slots=True)
class Stub:
    """What takes the place of a name.

    ``kind`` says what ``cpu`` and ``cuda`` (what to use on each device) hold: ``value`` the value itself, ``function``
    the constant that a function returns, ``expression`` Python source, ``import`` the dotted name of an installed
    module, ``object`` nothing: the attributes are in ``members``. ``decorator`` returns what it decorates; ``absorber``
    takes any call or attribute; ``refusal`` is a function that raises, for what is named but never called. A
    ``builtin`` stub ships with bitgate and gives way to the user's.
    """

    kind: Literal["value", "function", "expression", "import", "object", "decorator", "absorber", "refusal"]
    cpu: Any = None
    cuda: Any = None
    members: tuple[tuple[str, Stub], ...] = ()
    builtin: bool = False

    def build(self, device: Device, *, import_module: Callable[[str], Any] = importlib.import_module) -> Any:
        """The object that takes the name's place on ``device``; evaluates the source of an ``expression``."""
        constant = copy.deepcopy(self.cuda if device == "cuda" else self.cpu)
        match self.kind:
            case "value":
                return constant
            case "function":
                return _constant_function(constant)
            case "expression":
                return eval(str(constant), {})
            case "import":
                return import_module(str(constant))
            case "object":
                return SimpleNamespace(**{name: member.build(device) for name, member in self.members})
            case "decorator":
                return _identity_decorator
            case "absorber":
                return _Absorber()
            case "refusal":
                return partial(_refuse, str(constant))


class _Absorber:
    """Takes any attribute, call, item or ``with`` and stays itself; false, empty when iterated."""

    __slots__ = ()

    def __getattr__(self, name: str) -> _Absorber:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **kwargs: object) -> _Absorber:
        return self

    def __getitem__(self, key: object) -> _Absorber:
        return self

    def __enter__(self) -> _Absorber:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False


def find_stub(stubs: Mapping[str, Stub], module: str, name: str) -> Stub | None:
    """The stub for ``name`` in ``module``: the user's full name, then the user's bare name, then a built-in one."""
    full, bare = stubs.get(f"{module}.{name}" if module else name), stubs.get(name)
    if full is not None and not full.builtin:
        return full
    return bare if bare is not None and not bare.builtin else full


def parse_stub(text: str) -> tuple[str, Stub]:
    """Read a ``--stub`` option: ``NAME=VALUE``, or ``NAME()=VALUE`` for a function that returns VALUE.

    VALUE is a Python literal. NAME is a full name (``package.module.NAME``) or a bare one, which matches in any module.

    >>> parse_stub("package.flags.is_available()=False")[0]
    'package.flags.is_available'

    Raises:
        UsageError: there is no ``=``, the name is no name, or the value is no literal.
    """
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"--stub {text}: expected NAME=VALUE or NAME()=VALUE, for example --stub PIN_MEMORY=False")
    try:
        constant = ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise UsageError(
            f"--stub {text}: {value.strip()!r} is not a Python literal; a string needs quotes of its own "
            "(--stub 'NAME=\"text\"'), anything else belongs in [tool.bitgate.stubs]"
        ) from error
    stripped = name.strip()
    kind: Literal["value", "function"] = "function" if stripped.endswith("()") else "value"
    return _checked_name(stripped.removesuffix("()"), f"--stub {text}"), Stub(kind, constant, constant)


def stubs_from_config(table: Mapping[str, Any]) -> dict[str, Stub]:
    """Read the table ``[tool.bitgate.stubs]``.

    A plain value stands for itself, ``"name()"`` for a function that returns it. A table spells out another form:
    ``{cpu = …, cuda = …}``, ``{value = …}``, ``{returns = …}``, ``{expression = "None"}``, ``{import = "module"}``,
    ``{object = {…}}`` with members of the same forms, ``{decorator = true}``, ``{absorbs = true}``,
    ``{refuses = "why"}``. Dotted names need no quotes.

    Raises:
        UsageError: an entry has none of these forms; the message names it.
    """
    return dict(_entries(table, ""))


def builtin_stubs() -> Mapping[str, Stub]:
    """The stubs that ship with bitgate, for vLLM, SGLang and flash-linear-attention (``stubs.toml``)."""
    text = resources.files(__package__ or "harness.load").joinpath("stubs.toml").read_text(encoding="utf-8")
    return {name: replace(stub, builtin=True) for name, stub in stubs_from_config(tomllib.loads(text)).items()}


def _entries(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Stub]]:
    for key, entry in table.items():
        name = f"{prefix}{key}"
        # An unquoted dotted key arrives from TOML as a table of tables.
        if isinstance(entry, Mapping) and entry and not set(entry) & set(FORMS):
            yield from _entries(entry, f"{name}.")
        else:
            yield _named(name, entry, where=f"stub {name!r}")


def _named(name: str, entry: Any, *, where: str) -> tuple[str, Stub]:
    is_function = name.endswith("()")
    name = _checked_name(name.removesuffix("()"), where)
    if is_function:
        return name, Stub("function", *_per_device(entry))
    return name, _stub(entry if isinstance(entry, Mapping) else {"value": entry}, where)


def _checked_name(name: str, where: str) -> str:
    if not DOTTED.fullmatch(name):
        raise UsageError(f"{where}: {name!r} is not a name; write NAME or package.module.NAME")
    return name


def _stub(entry: Mapping[str, Any], where: str) -> Stub:
    forms = set(entry)
    if forms == {"cpu", "cuda"} or forms == {"value"}:
        return Stub("value", *_per_device(entry))
    if len(forms) == 1:
        (form,) = forms
        content = entry[form]
        if form == "returns":
            return Stub("function", *_per_device(content))
        if form in ("decorator", "absorbs") and content is True:
            return Stub("decorator" if form == "decorator" else "absorber")
        if form == "refuses" and isinstance(content, str):
            return Stub("refusal", content, content)
        if form == "expression" and all(isinstance(text, str) for text in _per_device(content)):
            return Stub("expression", *_per_device(content))
        if form == "import" and isinstance(content, str) and DOTTED.fullmatch(content):
            return Stub("import", content, content)
        if form == "object" and isinstance(content, Mapping):
            members = (_named(name, member, where=f"{where}: member {name!r}") for name, member in content.items())
            return Stub("object", members=tuple(members))
    raise UsageError(
        f"{where}: {dict(entry)!r} is not a stub; write a plain value or a table with cpu and cuda, or with one of "
        f"{', '.join(form for form in FORMS if form not in ('cpu', 'cuda'))}"
    )


def _per_device(content: Any) -> tuple[Any, Any]:
    if isinstance(content, Mapping) and set(content) == {"cpu", "cuda"}:
        return content["cpu"], content["cuda"]
    if isinstance(content, Mapping) and set(content) == {"value"}:
        return content["value"], content["value"]
    return content, content


def _constant_function(constant: Any) -> Callable[..., Any]:
    def stub(*args: object, **kwargs: object) -> Any:
        return constant

    return stub


def _refuse(reason: str, *args: object, **kwargs: object) -> Any:
    raise NotImplementedError(f"replaced by a stub: {reason}")


def _identity_decorator(*args: Any, **kwargs: Any) -> Any:
    """Serves as ``@decorator`` and as ``@decorator(option)``."""
    if len(args) == 1 and not kwargs and callable(args[0]):
        return args[0]
    return lambda function: function
