"""What cannot run here is found out beforehand, with the cause and with what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.contract import Contract, Probe
from harness.load import Traits
from harness.skip import shown_device, why_probe_skipped, why_skipped

ContractOf = Callable[..., Contract]


@pytest.fixture
def contract(contract_of: ContractOf) -> Contract:
    return contract_of()


def adapts(upstream: str) -> Traits:
    return Traits(upstream=upstream)


@pytest.mark.parametrize(
    ("traits", "device", "cuda", "said"),
    [
        (Traits(), "cpu", False, None),
        (Traits(), "cuda", True, None),
        (Traits(("cuda",)), "cuda", True, None),
        (
            Traits(),
            "cuda",
            False,
            "torch sees no CUDA device on this machine. Use --device cpu, or another machine.",
        ),
        (
            Traits(("cuda",)),
            "cuda",
            False,
            "torch sees no CUDA device on this machine. Use a machine with a GPU.",
        ),
        (Traits(("cuda",)), "cpu", True, "it runs on cuda only. Use --device cuda."),
        (
            Traits(("cuda",)),
            "cpu",
            False,
            "it runs on cuda only. Use --device cuda on a machine with a GPU.",
        ),
        (Traits(("cpu",)), "cuda", True, "it runs on cpu only. Use --device cpu."),
        (adapts("json.decoder:py_scanstring"), "cpu", False, None),
        (
            adapts("nowhere_at_all.ops:f"),
            "cpu",
            False,
            "nowhere_at_all is not installed. Run pip install --no-deps nowhere_at_all.",
        ),
        (
            adapts("json.nowhere:f"),
            "cpu",
            False,
            "the installed json has no module json.nowhere. Install another version of json.",
        ),
    ],
)
def test_a_candidate_runs_or_is_skipped_with_its_cause(
    contract: Contract, traits: Traits, device: str, cuda: bool, said: str | None
) -> None:
    skip = why_skipped(contract, traits, device, cuda=cuda)
    assert skip is None if said is None else str(skip) == f"skipped, because {said}"


@pytest.mark.parametrize(
    ("package", "command"),
    [("nowhere_at_all", "pip install nowhere_at_all"), ("triton", 'pip install "bitgate[triton]"')],
)
def test_a_package_that_the_contract_needs_is_named_with_the_command_that_installs_it(
    contract: Contract, package: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.skip.is_installed", lambda name: False)
    skip = why_skipped(replace(contract, needs=(package,)), Traits(), "cpu", cuda=False)
    assert str(skip) == f"skipped, because {package} is not installed. Run {command}."


def test_all_that_is_missing_is_said_at_once(contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    traits = Traits(devices=("cuda",), upstream="sglang.kernels.conv:f")
    monkeypatch.setattr("harness.skip.is_installed", lambda name: False)
    skip = why_skipped(contract, traits, "cpu", cuda=False)
    assert str(skip) == (
        "skipped, because sglang is not installed and it runs on cuda only. "
        "Run pip install --no-deps sglang, and use --device cuda on a machine with a GPU."
    )
    assert skip is not None
    assert not skip.installable
    skip = why_skipped(replace(contract, needs=("triton", "triton")), traits, "cpu", cuda=False)
    assert str(skip) == (
        "skipped, because triton is not installed, sglang is not installed and it runs on cuda only. "
        'Run pip install "bitgate[triton]", run pip install --no-deps sglang, '
        "and use --device cuda on a machine with a GPU."
    )
    skip = why_skipped(replace(contract, needs=("triton",)), adapts("sglang.kernels.conv:f"), "cpu", cuda=False)
    assert skip is not None
    assert skip.installable


def test_upstream_is_installed_under_its_distributions_name(
    contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.skip.is_installed", lambda name: False)
    skip = why_skipped(contract, adapts("fla.modules.conv:f"), "cpu", cuda=False)
    assert str(skip).endswith("Run pip install --no-deps fla-core.")


def test_upstream_is_found_without_importing_it(
    contract: Contract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "upstream_that_raises"
    (package / "ops").mkdir(parents=True)
    for path in ("__init__.py", "ops/__init__.py", "ops/conv.py"):
        (package / path).write_text("raise AssertionError('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert why_skipped(contract, adapts("upstream_that_raises.ops.conv:f"), "cpu", cuda=False) is None
    missing = why_skipped(contract, adapts("upstream_that_raises.ops.other:f"), "cpu", cuda=False)
    assert missing is not None
    assert "has no module upstream_that_raises.ops.other" in missing.cause


def test_a_probe_is_skipped_without_its_device_or_a_package(contract: Contract) -> None:
    def prepare(case: Any, device: torch.device) -> Callable[[Any], Any]:
        raise AssertionError("prepared")

    probe = Probe(name="kernel", cases=lambda profile, compiled: (), fits=lambda case, compiled: True, prepare=prepare)
    assert why_probe_skipped(contract, probe, "cpu", cuda=False) is None
    assert "no CUDA device" in str(why_probe_skipped(contract, probe, "cuda", cuda=False))
    needy = replace(probe, needs=("nowhere_at_all",))
    assert "nowhere_at_all is not installed" in str(why_probe_skipped(contract, needy, "cpu", cuda=False))


@pytest.mark.parametrize(
    ("needs", "shown"),
    [((), {"cpu": "cpu", "cuda": "cuda"}), (("triton",), {"cpu": "cpu, Triton's interpreter", "cuda": "cuda"})],
)
def test_kernels_without_a_gpu_are_said_to_be_interpreted(needs: tuple[str, ...], shown: Mapping[str, str]) -> None:
    assert {device: shown_device(device, needs) for device in ("cpu", "cuda")} == shown
