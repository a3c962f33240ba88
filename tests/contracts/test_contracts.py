"""The registry of contracts."""

from __future__ import annotations

import pytest

from harness.contracts import all_contracts, contract_for_function, contract_named
from harness.errors import UsageError


def test_contracts_are_listed_by_name_in_order() -> None:
    contracts = all_contracts()
    assert "causal_conv1d_metadata" in contracts
    assert list(contracts) == sorted(contract.name for contract in contracts.values())


def test_changing_the_returned_dictionary_does_not_change_the_registry() -> None:
    all_contracts().clear()
    assert all_contracts()


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'conv1d'.*causal_conv1d_metadata"):
        contract_named("conv1d")


def test_a_function_is_recognised_by_its_upstream_name() -> None:
    assert contract_for_function("compute_causal_conv1d_metadata") is contract_named("causal_conv1d_metadata")
    assert contract_for_function("main") is None
