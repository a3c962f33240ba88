"""The Python API: importing it costs nothing, and its one verb does what the command line does."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import harness
from harness.case import read_case_file
from harness.errors import UsageError
from harness.supervise import Nursery
from harness.verdict import Result, Symptom, Verdict

WriteCandidate = Callable[..., str]
Check = Callable[..., Result]

FUNCTION = "compute_causal_conv1d_metadata"
UTILS = "vllm/v1/attention/backends/utils.py"


def python(source: str, folder: Path) -> str:
    """What a program prints that runs in a process of its own."""
    command = [sys.executable, "-P", "-W", "error", "-c", textwrap.dedent(source)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    source = """
    import sys
    import harness
    print(sorted({"torch", "numpy", "hypothesis", "typer", "rich", "psutil"} & sys.modules.keys()))
    """
    assert python(source, tmp_path) == "[]"


def test_the_verb_is_a_function_however_it_is_reached(tmp_path: Path) -> None:
    source = """
    import harness.session, harness.cli
    from harness import check
    import harness
    print(callable(check), harness.check is check)
    """
    assert python(source, tmp_path) == "True True"


@pytest.mark.parametrize("name", harness.__all__)
def test_every_public_name_is_there_and_hides_behind_no_module(name: str) -> None:
    assert getattr(harness, name).__doc__
    assert find_spec(f"harness.{name}") is None, "a module of that name would take its place once it is imported"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'verify_everything'"):
        harness.verify_everything  # noqa: B018


def test_a_check_without_a_nursery_starts_and_ends_its_own(tmp_path: Path) -> None:
    source = f"""
    import psutil
    from harness import Verdict, check
    from pathlib import Path
    result = check("causal_conv1d_metadata/searchsorted", profile="commit", device="cpu", start=Path({str(tmp_path)!r}))
    print(result.verdict is Verdict.EQUAL, psutil.Process().children())
    """
    assert python(source, tmp_path) == "True []"


def test_what_is_found_is_a_value_to_work_with(quick_check: Check, write_candidate: WriteCandidate) -> None:
    result = quick_check(write_candidate("if 0 in lengths(query_start_loc_p_cpu): return None"), seed=7)
    assert (result.verdict, result.symptom, result.seed) == (Verdict.DIFFERENT, Symptom.DIFFERENT, 7)
    assert result.finding is not None
    assert result.finding.difference is not None
    assert (result.finding.difference.aspect, result.finding.difference.got) == ("type", "NoneType None")
    assert result.case_file is not None
    assert read_case_file(result.case_file).case == result.finding.case


def test_the_same_seed_draws_the_same_cases_and_another_seed_others(
    quick_check: Check, write_candidate: WriteCandidate
) -> None:
    spec = write_candidate()
    first, again, other = quick_check(spec), quick_check(spec, seed=0), quick_check(spec, seed=1)
    assert (first.seed, again.seed, other.seed) == (0, 0, 1)
    assert first.strata == again.strata
    assert first.strata != other.strata


def test_a_wrong_argument_is_a_usage_error(nursery: Nursery, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--profile 'thorough'"):
        harness.check("causal_conv1d_metadata/searchsorted", profile="thorough", start=tmp_path, nursery=nursery)
    with pytest.raises(UsageError, match="not a candidate"):
        harness.check("nonsense", start=tmp_path, nursery=nursery)


def test_a_level_of_observation_decides_what_is_compared(quick_check: Check, write_candidate: WriteCandidate) -> None:
    spec = write_candidate("got = right(query_start_loc_p_cpu, device)\ngot[0][8]['mlist_len'] = -1\nreturn got")
    assert quick_check(spec).verdict is Verdict.DIFFERENT
    assert quick_check(spec, observe="launch").verdict is Verdict.EQUAL


# --- the real function, out of the real source tree


def test_the_upstream_function_is_equal_and_is_checked_without_its_package(upstream: Path, quick_check: Check) -> None:
    result = quick_check(f"{upstream / UTILS}::{FUNCTION}", profile="gate", case_timeout=10.0, memory_limit="4G")
    assert result.verdict is Verdict.EQUAL, result
    assert result.source.startswith("sliced from ")
    for name in (FUNCTION, "np_to_pinned_tensor", "stub vllm.utils.torch_utils:PIN_MEMORY"):
        assert name in result.source, result.source


def test_the_upstream_function_is_equal_by_its_import_path_too(
    upstream: Path, quick_check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The nursery took the environment of its start: a new one sees the path.
    monkeypatch.setenv("PYTHONPATH", f"{upstream}:{Path(harness.__file__).parents[1]}")
    with Nursery() as own:
        result = quick_check(f"vllm.v1.attention.backends.utils:{FUNCTION}", nursery=own)
    assert result.verdict is Verdict.EQUAL, result
    assert "np_to_pinned_tensor" in result.source
