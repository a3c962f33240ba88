"""An audit counts the seeded faults that the search catches, and names the ones it misses."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.audit import audit, audited_contracts, listed_faults
from harness.case import TARGET_DEVICE, Case, CaseFile, TensorValue
from harness.config import load_config
from harness.contracts import contract_named
from harness.errors import UsageError
from harness.options import Options
from harness.report.audit import show_audit
from harness.supervise import Nursery

WriteCandidate = Callable[..., str]

CONTRACT = contract_named("causal_conv1d_metadata")
FUNCTION = "compute_causal_conv1d_metadata"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "tests" / "faults" / CONTRACT.name
    path.mkdir(parents=True)
    return path


def seed(folder: Path, spec: str, text: str) -> None:
    """Put a candidate file into the folder of faults, with this list."""
    source = Path(spec.partition("::")[0])
    (folder / "faults.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "faults.toml").write_text(text, encoding="utf-8")


def test_a_fault_is_caught_only_with_a_listed_symptom(
    folder: Path, tmp_path: Path, write_candidate: WriteCandidate, nursery: Nursery
) -> None:
    spec = write_candidate("got = right(query_start_loc_p_cpu, device)\ngot[0][8]['tot'] += 1\nreturn got")
    entry = f'["faults.py::{FUNCTION}"]\nprofile = "commit"\nsymptoms = '
    for symptoms, caught in (('["different"]', True), ('["crashed", "hung"]', False)):
        seed(folder, spec, entry + symptoms)
        (audited,) = audit([CONTRACT], Options(), load_config(tmp_path), nursery=nursery)
        assert audited.caught is caught
        assert not (tmp_path / ".bitgate").exists()


def test_a_fault_that_is_none_is_reported_as_missed(
    folder: Path, tmp_path: Path, write_candidate: WriteCandidate, nursery: Nursery
) -> None:
    seed(folder, write_candidate(), f'["faults.py::{FUNCTION}"]\nprofile = "commit"\nsymptoms = ["different"]')
    audited = audit(audited_contracts([], load_config(tmp_path)), Options(), load_config(tmp_path), nursery=nursery)
    stream = StringIO()
    show_audit(audited, Console(file=stream, width=200))
    text = stream.getvalue()
    assert "0 of 1 seeded faults caught" in text
    assert f"missed  {folder / 'faults.py'}::{FUNCTION}" in text
    assert "expected different; the check said equal" in text


def test_a_fault_that_shows_on_a_gpu_alone_is_skipped_without_one(
    folder: Path, tmp_path: Path, write_candidate: WriteCandidate, nursery: Nursery
) -> None:
    if nursery.cuda_devices():
        pytest.skip("this machine has a GPU")
    seed(
        folder,
        write_candidate(),
        f'["faults.py::{FUNCTION}"]\nprofile = "commit"\nsymptoms = ["late"]\ndevice = "cuda"',
    )
    audited = audit([CONTRACT], Options(), load_config(tmp_path), nursery=nursery)
    stream = StringIO()
    show_audit(audited, Console(file=stream, width=200))
    assert audited[0].result.skipped
    assert f"skipped  faults.py::{FUNCTION}: it shows on a cuda device only" in stream.getvalue()
    assert "audit: 0 of 0 caught" in stream.getvalue()


def test_a_fault_with_a_case_of_its_own_is_caught_by_that_case_and_no_search(
    folder: Path, tmp_path: Path, write_candidate: WriteCandidate, nursery: Nursery
) -> None:
    values = (0, 123_456, 123_457)
    spec = write_candidate(f"if query_start_loc_p_cpu.tolist() == {list(values)}: return None")
    case = CaseFile(
        Case(CONTRACT.name, {"query_start_loc_p_cpu": TensorValue("int32", values), "device": TARGET_DEVICE})
    )
    path = case.write(folder)
    entry = f'["faults.py::{FUNCTION}"]\nprofile = "commit"\nsymptoms = ["different"]\n'
    for more, caught in ((f'case = "{path.name}"', True), ("", False)):
        seed(folder, spec, entry + more)
        (audited,) = audit([CONTRACT], Options(), load_config(tmp_path), nursery=nursery)
        assert audited.caught is caught, audited.result


def test_an_audit_can_be_of_the_faults_of_one_device_alone(
    folder: Path, tmp_path: Path, write_candidate: WriteCandidate, nursery: Nursery
) -> None:
    seed(folder, write_candidate(), f'["faults.py::{FUNCTION}"]\nprofile = "commit"\nsymptoms = ["different"]')
    assert audit([CONTRACT], Options(), load_config(tmp_path), only_device="cuda", nursery=nursery) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not TOML"),
        ('["faults.py"]\n', "names no function"),
        ('["other.py::f"]\n', "names no function"),
        ('["faults.py::f"]\nprofile = "commit"', "needs profile and symptoms"),
        ('["faults.py::f"]\nprofile = "commit"\nsymptoms = ["odd"]', "needs profile and symptoms"),
        ('["faults.py::f"]\nprofile = "commit"\nsymptoms = ["hung"]\ndevice = "abacus"', "choose cpu or cuda"),
        ('["faults.py::f"]\nprofile = "commit"\nsymptoms = ["hung"]\ncase = "no.json"', "there is no such file"),
        ('["faults.py::f"]\nprofile = "often"\nsymptoms = ["hung"]', "choose one of"),
    ],
)
def test_a_malformed_list_is_one_clear_line(folder: Path, tmp_path: Path, text: str, said: str) -> None:
    (folder / "faults.py").write_text("")
    (folder / "faults.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        listed_faults(CONTRACT, tmp_path)


def test_a_project_without_faults_has_nothing_to_audit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no contract has a list of seeded faults"):
        audited_contracts([], load_config(tmp_path))
    with pytest.raises(UsageError, match="an audit needs a list"):
        listed_faults(CONTRACT, tmp_path)
