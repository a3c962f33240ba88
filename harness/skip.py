"""Skip: why a candidate or a probe cannot run on a machine, found out without running or importing anything of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from harness.contract import Contract, Probe
from harness.errors import LoadError
from harness.load.loaded import installed_tree
from harness.load.targets import is_installed
from harness.load.traits import EVERYWHERE, Traits

EXTRAS: Final = frozenset({"triton"})
"""Packages that an extra of this one, of the same name, installs."""
_DISTRIBUTIONS: Final[Mapping[str, str]] = MappingProxyType({"fla": "fla-core"})
"""What an upstream package is installed as, where that is another name."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Why something cannot run: the cause, as half a sentence, and what to do, as a sentence.

    ``installable`` is whether installing a package is enough.
    """

    cause: str
    step: str
    installable: bool = False

    def __str__(self) -> str:
        return f"skipped, because {self.cause}. {self.step}"


def why_skipped(contract: Contract, traits: Traits, device: str, *, cuda: bool) -> Skip | None:
    """Why a candidate with these traits cannot be run on ``device``, all causes together; None if it can.

    ``cuda`` is whether torch sees a CUDA device.
    """
    return _together(
        [
            *_packages_missing(contract.needs),
            _upstream_missing(traits.upstream),
            _device_missing(device, traits.devices, cuda=cuda),
        ]
    )


def why_probe_skipped(contract: Contract, probe: Probe, device: str, *, cuda: bool) -> Skip | None:
    """Why a probe cannot be run on ``device``, all causes together; None if it can."""
    needs = _packages_missing((*contract.needs, *probe.needs))
    return _together([*needs, _device_missing(device, EVERYWHERE, cuda=cuda)])


def shown_device(device: str, needs: Iterable[str]) -> str:
    """The device for a reader: with the interpreter that stands in for a GPU where kernels run without one."""
    return f"{device}, Triton's interpreter" if device == "cpu" and "triton" in needs else device


def _together(found: Iterable[Skip | None]) -> Skip | None:
    """One skip for all that is missing, so that nobody installs a package to hear of the next cause afterwards."""
    skips = [skip for skip in found if skip is not None]
    if not skips:
        return None
    causes = [skip.cause for skip in skips]
    cause = " and ".join([part for part in (", ".join(causes[:-1]), causes[-1]) if part])
    first, *others = [skip.step.removesuffix(".") for skip in skips]
    steps = [first, *(f"{step[0].lower()}{step[1:]}" for step in others)]
    step = ", and ".join([part for part in (", ".join(steps[:-1]), steps[-1]) if part])
    return Skip(cause, f"{step}.", installable=all(skip.installable for skip in skips))


def _device_missing(device: str, devices: tuple[str, ...], *, cuda: bool) -> Skip | None:
    if device not in devices:
        others = " or ".join(devices)
        where = " on a machine with a GPU" if devices == ("cuda",) and not cuda else ""
        return Skip(f"it runs on {others} only", f"Use --device {devices[0]}{where}.")
    if device == "cuda" and not cuda:
        step = "Use --device cpu, or another machine." if "cpu" in devices else "Use a machine with a GPU."
        return Skip("torch sees no CUDA device on this machine", step)
    return None


def _packages_missing(needs: Iterable[str]) -> list[Skip]:
    missing = [package for package in dict.fromkeys(needs) if not is_installed(package)]
    wanted = [f'"bitgate[{package}]"' if package in EXTRAS else package for package in missing]
    return [
        Skip(f"{package} is not installed", f"Run pip install {name}.", installable=True)
        for package, name in zip(missing, wanted, strict=True)
    ]


def _upstream_missing(upstream: str | None) -> Skip | None:
    if upstream is None:
        return None
    module = upstream.partition(":")[0]
    package = module.partition(".")[0]
    distribution = _DISTRIBUTIONS.get(package, package)
    if not is_installed(module):
        return Skip(f"{package} is not installed", f"Run pip install --no-deps {distribution}.", installable=True)
    try:
        installed_tree(module)
    except LoadError:
        step = f"Install another version of {distribution}."
        return Skip(f"the installed {package} has no module {module}", step, installable=True)
    return None
