"""What a user names is found, or the message says what the mistake most likely is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.api import check, explain
from harness.choice import choose
from harness.config import Config
from harness.errors import UsageError
from harness.options import Options
from harness.verdict import Result, Verdict


def chosen(spec: str, folder: Path) -> str:
    """The message of a spec that is refused."""
    with pytest.raises(UsageError) as refused:
        choose([spec], Options(), Config(root=folder))
    return str(refused.value)


def test_a_misspelt_function_is_said_to_be_missing_before_a_contract_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "utils.py"
    file.write_text("from other import borrowed\ndef tables(x): return x\nalias = tables\n")
    assert "there is no 'tabels' in that file; did you mean tables?" in chosen(f"{file}::tabels", tmp_path)
    for name in ("tables", "alias", "borrowed"):
        assert "no contract is known" in chosen(f"{file}::{name}", tmp_path)


def test_a_name_near_a_known_function_is_suggested() -> None:
    message = chosen("package.module:compute_causal_conv1d_metadat", Path.cwd())
    assert "did you mean compute_causal_conv1d_metadata" in message
    assert "If it is a version of a function with a contract, add --contract" in message


def test_a_candidate_that_is_no_string_is_refused() -> None:
    with pytest.raises(UsageError, match="candidate is a function: give a string"):
        check(explain)  # type: ignore[arg-type]


def test_a_result_is_explained_as_the_page_that_a_check_prints() -> None:
    result = Result(
        contract="c",
        candidate="x.py::f",
        observe="strict",
        device="cpu",
        verdict=Verdict.INCONCLUSIVE,
        reason="so it is",
    )
    assert "inconclusive: x.py::f against c" in explain(result)
    assert "so it is" in explain(result)
