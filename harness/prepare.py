"""Prepare: the candidate beside its reference, loaded into this process and ready to be called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from harness.contract import Contract
from harness.contracts import contract_named, importable_from
from harness.errors import HarnessError, LoadError
from harness.examine import Subject
from harness.job import Job
from harness.journal import Journal, Phase
from harness.load import load
from harness.load.spec import CandidateSpec, parse_spec
from harness.load.stubs import Stub, builtin_stubs, parse_stub, stubs_from_config
from harness.load.traits import traits_of
from harness.materialise import signature_of
from harness.observe import Function, end_copy, launched
from harness.stages import Stage, stages_of
from harness.surroundings import Surroundings, take

Send: TypeAlias = Callable[..., None]
"""Sends a message to the parent: its kind, and fields."""


def prepare(job: Job, journal: Journal, send: Send) -> tuple[Subject, list[Stage], Surroundings]:
    """Load the candidate and what it is compared with; what it is, its stages, and how the process looked before.

    Raises:
        LoadError: the candidate could not be loaded, or cannot be called as the reference is.
        HarnessError: the contract has no peer for it.
    """
    target = job.target
    if target.project:
        importable_from(target.project)
    contract = contract_named(target.contract, target.contract_modules)
    reference = _imported(contract.reference)
    device = torch.device(target.device)
    _interpret_kernels(device)
    spec = parse_spec(target.candidate, root=Path(target.root))
    peer_name, peer = peer_of(contract, spec, device)
    # A folder of the user's that is called candidates must not hide ours.
    if spec.kind != "registered" and target.root not in sys.path:
        sys.path.insert(0, target.root)
    surroundings = take(reference)
    journal.phase(Phase.LOADING)
    loaded = load(
        spec, function=contract.function, device="cuda" if device.type == "cuda" else "cpu", stubs=_stubs(job)
    )
    end_copy()
    journal.phase(Phase.ENGINE)
    send(
        "loaded",
        how=loaded.how,
        file=loaded.file,
        digest=loaded.digest,
        definitions=list(loaded.definitions),
        unused=_unused_stubs(job, loaded.definitions),
        skipped=list(loaded.skipped),
    )
    candidate: Function = loaded.function
    signature = signature_of(reference)
    signature.check_accepted_by(candidate)
    if target.observe == "launch" and contract.launch is not None:
        reference, candidate = launched(reference, contract.launch), launched(candidate, contract.launch)
    subject = Subject(
        contract=contract,
        reference=reference,
        candidate=candidate,
        signature=signature,
        device=device,
        journal=journal,
        peer=peer,
        peer_name=peer_name,
        check_pinned=device.type == "cuda",
    )
    stages = stages_of(subject, cuda_graph=traits_of(spec).cuda_graph)
    return subject, stages, surroundings.with_additions()


def _interpret_kernels(device: torch.device) -> None:
    """Have Triton, which is not imported yet, run kernels in its interpreter where there is no GPU to compile for."""
    if device.type == "cuda":
        os.environ.pop("TRITON_INTERPRET", None)
    else:
        os.environ["TRITON_INTERPRET"] = "1"


def peer_of(contract: Contract, spec: CandidateSpec, device: torch.device) -> tuple[str, Function | None]:
    """The kernel that stands in for the reference where results are rounded, and its name; None where none are.

    Raises:
        HarnessError: the contract names none but the candidate itself, or the peer cannot be loaded.
    """
    if contract.exact is None:
        return "", None
    named = traits_of(spec).peer
    for text in contract.peers if named is None else (named,):
        other = parse_spec(text, root=Path())
        if other.location != spec.location and not _same_file(other, spec):
            kind: Literal["cpu", "cuda"] = "cuda" if device.type == "cuda" else "cpu"
            try:
                return text, load(other, function=contract.function, device=kind, stubs=builtin_stubs()).function
            except LoadError as error:
                raise HarnessError(f"its peer cannot be loaded: {error}") from error
    raise HarnessError(f"contract {contract.name} names no peer for {spec.text}: give it two.")


def _same_file(registered: CandidateSpec, spec: CandidateSpec) -> bool:
    """Whether a file given by its path is a registered candidate's own."""
    return spec.kind == "file" and Path(spec.location).parts[-2:] == Path(f"{registered.location}.py").parts


def _stubs(job: Job) -> Mapping[str, Stub]:
    given = dict(parse_stub(text) for text in job.target.stub_arguments)
    return {**builtin_stubs(), **stubs_from_config(job.target.stubs), **given}


def _unused_stubs(job: Job, definitions: tuple[str, ...]) -> list[str]:
    """Stubs given with ``--stub`` that took no name's place: most likely misspelt."""
    used = [definition.removeprefix("stub ").replace(":", ".") for definition in definitions]
    given = [parse_stub(text)[0] for text in job.target.stub_arguments]
    return [name for name in given if not any(other == name or other.endswith(f".{name}") for other in used)]


def _imported(path: str) -> Function:
    module, _, name = path.partition(":")
    function: Function = getattr(importlib.import_module(module), name)
    return function
