"""Pytest plugin: every candidate is one test item, so that ``pytest -n auto`` spreads them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from harness.choice import Chosen
    from harness.options import Options
    from harness.supervise import Nursery

_NURSERY: Final = pytest.StashKey[Any]()
_FOUND: Final = pytest.StashKey[list[Any]]()
_PREFIX: Final = "bitgate::"


class BitgateError(Exception):
    """A candidate that is not equal to its reference; the text is the failure page."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--bitgate`` flags."""
    group = parser.getgroup("bitgate", "differential testing of metadata helpers")
    group.addoption("--bitgate", action="store_true", help="check candidates: one test item each")
    group.addoption(
        "--bitgate-candidate",
        action="append",
        default=[],
        metavar="SPEC",
        help="contract/name, package.module:function or path/to/file.py::function (repeatable; implies --bitgate; "
        "default: every registered and configured candidate)",
    )
    parser.addoption("--bitgate-ids", action="append", default=[], help=argparse.SUPPRESS)
    group.addoption("--bitgate-contract", metavar="NAME", help="contract, where the function's name does not tell")
    group.addoption("--bitgate-profile", default="gate", metavar="NAME", help="commit, gate, premerge or nightly")
    group.addoption("--bitgate-observe", default="strict", metavar="LEVEL", help="strict or launch")
    group.addoption("--bitgate-device", default="auto", metavar="DEVICE", help="cpu, cuda or auto")


def pytest_configure(config: pytest.Config) -> None:
    """Find the candidates, so that a wrong name ends the run at once, and in one line."""
    ours = [argument for argument in config.args if _is_ours(argument)]
    if ours:
        # Out of the arguments, where pytest would look for files of that name, into the options, which pytest-xdist
        # hands to its workers.
        config.option.bitgate_ids = [*config.option.bitgate_ids, *ours]
        config.args[:] = [argument for argument in config.args if argument not in ours]
    if config.option.bitgate_ids or config.getoption("--bitgate") or config.getoption("--bitgate-candidate"):
        config.stash[_FOUND] = _find(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add one item per candidate."""
    for nodeid, chosen, options in config.stash.get(_FOUND, ()):
        name = chosen.spec
        items.append(CandidateItem.from_parent(session, name=name, nodeid=nodeid, chosen=chosen, options=options))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the child processes. A run in which every candidate was skipped is no green one."""
    nursery: Nursery | None = session.config.stash.get(_NURSERY, None)
    if nursery is not None:
        nursery.close()
    if _skipped_all(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why a run without failures fails."""
    if _skipped_all(config):
        terminalreporter.write_line("bitgate: every candidate was skipped, so nothing was checked", red=True)


def _skipped_all(config: pytest.Config) -> bool:
    """Whether there were candidates to check and none of them was run."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if _FOUND not in config.stash or terminal is None:
        return False
    outcomes = ("passed", "failed", "error", "skipped")
    reported = {kind for kind in outcomes for report in terminal.stats.get(kind, ()) if _is_ours(report.nodeid)}
    return reported == {"skipped"}


def _is_ours(nodeid: str) -> bool:
    return nodeid.startswith(_PREFIX)


class CandidateItem(pytest.Item):
    """The check of one candidate."""

    def __init__(self, *, chosen: Chosen, options: Options, **fixed: Any) -> None:
        super().__init__(**fixed)
        self.chosen = chosen
        self.options = options

    def runtest(self) -> None:
        """Check the candidate; anything but equal fails, an inconclusive check too.

        One that cannot run here is skipped, unless it was named.
        """
        from harness import session
        from harness.config import load_config
        from harness.report.page import page_text
        from harness.supervise import Nursery
        from harness.verdict import Verdict

        if _NURSERY not in self.config.stash:
            self.config.stash[_NURSERY] = Nursery()
        nursery: Nursery = self.config.stash[_NURSERY]
        config = load_config(self.config.invocation_params.dir)
        result = session.check_chosen([self.chosen], self.options, config, nursery=nursery)[0]
        if result.skipped:
            pytest.skip(result.reason.removeprefix("skipped, "))
        if result.verdict is not Verdict.EQUAL:
            contract = self.chosen.contract
            raise BitgateError(page_text(result, function=contract.function, needs=contract.needs))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure page instead of a stack trace."""
        return str(excinfo.value) if isinstance(excinfo.value, BitgateError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """What pytest prints for the item."""
        return self.path, None, f"bitgate {self.chosen.spec}"


def _find(config: pytest.Config) -> list[tuple[str, Chosen, Options]]:
    """Node id, candidate and options of every item."""
    from dataclasses import replace

    from harness import errors
    from harness.choice import choose
    from harness.config import load_config
    from harness.options import Options

    try:
        options = Options(
            contract=config.getoption("--bitgate-contract"),
            profile=config.getoption("--bitgate-profile"),
            observe=config.getoption("--bitgate-observe"),
            device=config.getoption("--bitgate-device"),
            workers=1,
        )
        project = load_config(config.invocation_params.dir)
        candidates = choose(config.getoption("--bitgate-candidate"), options, project)
    except errors.BitgateError as error:
        raise pytest.UsageError(str(error)) from error
    found = {
        f"{_PREFIX}{chosen.contract.name}::{chosen.spec}": (chosen, replace(options, contract=chosen.contract.name))
        for chosen in candidates
    }
    wanted: list[str] = config.option.bitgate_ids or list(found)
    for nodeid in wanted:
        if nodeid not in found:
            raise pytest.UsageError(f"no candidate has the node id {nodeid}: use one of {', '.join(found)}.")
    named = bool(config.option.bitgate_ids)
    return [
        (nodeid, replace(chosen, named=chosen.named or named), options)
        for nodeid in dict.fromkeys(wanted)
        for chosen, options in [found[nodeid]]
    ]
