"""The Python API's one verb: check a candidate."""

from __future__ import annotations

from pathlib import Path

from harness import session
from harness.config import load_config
from harness.errors import UsageError
from harness.options import Device, Observe, Options
from harness.report.page import page_text
from harness.supervise import Nursery
from harness.verdict import Result


def check(
    candidate: str,
    *,
    contract: str | None = None,
    profile: str = "gate",
    observe: Observe = "strict",
    device: Device = "auto",
    seed: int | None = None,
    time_limit: float = 3600.0,
    case_timeout: float = 10.0,
    memory_limit: str = "4G",
    stubs: tuple[str, ...] = (),
    cases_dir: Path | None = None,
    start: Path | None = None,
    nursery: Nursery | None = None,
) -> Result:
    """Check one candidate: what ``bitgate check CANDIDATE`` does, as a function.

    Args:
        candidate: ``contract/name``, ``package.module:function`` or ``path/to/file.py::function``.
        contract: needed only where the function's name is not known to a contract.
        profile: ``commit``, ``gate``, ``premerge`` or ``nightly``.
        observe: ``strict`` (everything returned) or ``launch`` (what the kernel launch reads).
        device: ``cpu``, ``cuda`` or ``auto``.
        seed: of the property search; by default 0 for deterministic profiles, else a new one.
        time_limit: seconds for the whole check.
        case_timeout: seconds for one call.
        memory_limit: memory of the candidate's process, such as ``4G``.
        stubs: ``NAME=VALUE`` for names in the candidate's source tree that cannot be resolved.
        cases_dir: where counterexamples are saved and found again; by default ``.bitgate/cases`` of the project.
        start: folder from which the project's ``pyproject.toml`` is looked for; by default the working folder.
        nursery: a running :class:`Nursery` to use; without one, every call starts and ends its own (about a second).

    Raises:
        UsageError: an argument is wrong.
        HarnessError: the nursery does not start.

    >>> check("causal_conv1d_metadata/numpy_prefix_sums", profile="commit").verdict.value
    'equal'
    """
    if not isinstance(candidate, str):
        given = type(candidate).__name__
        raise UsageError(f"candidate is a {given}: give a string such as 'path/to/file.py::function'.")
    options = Options(
        contract=contract,
        profile=profile,
        observe=observe,
        device=device,
        seed=seed,
        time_limit=time_limit,
        case_timeout=case_timeout,
        memory_limit=memory_limit,
        workers=1,
        stubs=stubs,
        saved=cases_dir,
    )
    return session.check([candidate], options, load_config(start or Path.cwd()), nursery=nursery)[0]


def explain(result: Result) -> str:
    """Everything known about a result, as text: the page that ``bitgate check`` prints for a failure."""
    return page_text(result)
