"""The registered contracts: one module in this folder each, found by being there; and those that a project adds."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from harness.contract import Contract
from harness.errors import HarnessError, UsageError


def all_contracts(extra: Iterable[str] = ()) -> dict[str, Contract]:
    """Every contract by name, in the order of the names; ``extra`` are more of them as ``package.module:NAME``.

    Raises:
        HarnessError: a module of this folder defines no ``CONTRACT``, or two define the same name.
        UsageError: an extra contract cannot be imported, is none, or has a name that is taken.
    """
    contracts = dict(_registered())
    for path in extra:
        contract = _extra(path)
        if contract.name in contracts:
            raise UsageError(f"contract {path}: the name {contract.name!r} is taken: rename it.")
        contracts[contract.name] = contract
    return dict(sorted(contracts.items()))


def importable_from(folder: str) -> None:
    """Let extra contracts be imported from a folder, which hides no module that can be imported already."""
    if folder not in sys.path:
        sys.path.append(folder)


def contract_named(name: str, extra: Iterable[str] = ()) -> Contract:
    """The contract called ``name``.

    Raises:
        UsageError: there is none; the message lists the names there are.
    """
    contracts = all_contracts(extra)
    if name not in contracts:
        raise UsageError(f"no contract is named {name!r}: use one of {', '.join(contracts)}.")
    return contracts[name]


def contract_for_function(function_name: str, extra: Iterable[str] = ()) -> Contract | None:
    """The contract that a function of this name is known to implement, or None."""
    return next((c for c in all_contracts(extra).values() if function_name in c.upstream_names), None)


def _extra(path: str) -> Contract:
    module, _, name = path.partition(":")
    try:
        contract = getattr(import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(f"contract {path}: cannot be imported: {error!r}. Check [tool.bitgate] contracts.") from error
    if not isinstance(contract, Contract):
        raise UsageError(f"contract {path}: is a {type(contract).__name__}, not a harness.Contract.")
    return contract


@cache
def _registered() -> MappingProxyType[str, Contract]:
    contracts: dict[str, Contract] = {}
    for module_name in sorted(module.name for module in iter_modules(__path__)):
        contract = getattr(import_module(f"{__name__}.{module_name}"), "CONTRACT", None)
        if not isinstance(contract, Contract):
            raise HarnessError(f"harness/contracts/{module_name}.py defines no CONTRACT: bind one or move the file.")
        if contract.name in contracts:
            raise HarnessError(f"two modules in harness/contracts define {contract.name!r}: rename one of them.")
        contracts[contract.name] = contract
    return MappingProxyType(dict(sorted(contracts.items())))
