"""Console: the report that a person reads in a terminal or in a CI log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.report.page import block, emit, headline, print_page
from harness.report.text import one_line, plain
from harness.skip import shown_device
from harness.verdict import ExitCode, Result, Verdict, exit_code, overall

__all__ = ["ProgressLines", "plain", "progress", "show"]

MEANINGS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.EQUAL: "every candidate agreed with its reference in every case that was run",
        ExitCode.DIFFERENT: "at least one candidate is not the same function as its reference",
        ExitCode.USAGE: "at least one candidate could not be loaded, so it was not checked",
        ExitCode.INCONCLUSIVE: "too little was checked to say that the candidates are equal",
        ExitCode.INTERRUPTED: "the run was interrupted",
    }
)
"""What each exit code means, in one phrase."""

_STYLES: Final = MappingProxyType(
    {"equal": "green", "different": "bold red", "inconclusive": "yellow", "skipped": "dim"}
)
_MOST_LINES: Final = 8
_MOST_MEASURES: Final = 20


def show(
    results: Iterable[Result],
    console: Console,
    *,
    functions: Mapping[str, str] | None = None,
    needs: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Print one line per candidate, a page per failure, and the verdict.

    Args:
        results: the outcomes, in the order in which they are shown.
        console: where to print; colour is used only on a terminal, and never carries meaning alone.
        functions: the reference's function name of each contract, for the Python code of failures.
        needs: the packages that each contract needs, which tell what runs kernels where there is no GPU.
    """
    outcomes = list(results)
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in outcomes:
        device = shown_device(result.device, (needs or {}).get(result.contract, ()))
        setting = ", ".join(part for part in (result.profile, result.observe, device) if part)
        groups.setdefault((result.contract, setting), []).append(result)
    for (contract, setting), group in groups.items():
        emit(console, one_line(contract, 200) + (f" ({one_line(setting, 200)})" if setting else ""), "bold")
        _print_lines(console, group)
        _print_proved(console, group)
        emit(console, "")
    for result in outcomes:
        if not result.skipped and (result.verdict is not Verdict.EQUAL or not result.loaded):
            needed = (needs or {}).get(result.contract, ())
            print_page(console, result, function=(functions or {}).get(result.contract), needs=needed)
            emit(console, "")
    emit(console, _last_line(outcomes), f"bold {_STYLES[overall(outcomes).value]}")


@dataclass(slots=True)
class ProgressLines:
    """Where a running check says how far it is. Without a bar, saying so does nothing. Safe to use from threads."""

    _bar: Progress | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def update(self, candidate: str, stage: str, done: int, total: int | None) -> None:
        """Show that ``candidate`` has run ``done`` of ``total`` cases of ``stage``; None: the total is unknown."""
        if self._bar is None:
            return
        with self._lock:
            task = self._tasks.pop(candidate, None)
            if task is None:
                task = self._bar.add_task("", total=total)
            self._tasks[candidate] = task
            # The candidates heard of last are shown; the others are waiting or finished.
            if len(self._tasks) > _MOST_LINES:
                self._bar.remove_task(self._tasks.pop(next(iter(self._tasks))))
            name = f"{one_line(candidate, 60)}  {one_line(stage, 20)}"
            self._bar.update(task, description=name, completed=done)
            self._bar.tasks[self._bar.task_ids.index(task)].total = total


@contextmanager
def progress(console: Console | None = None) -> Iterator[ProgressLines]:
    """Show how far a check is while it runs, and leave nothing behind.

    Args:
        console: where to draw; by default a console on standard error. Nothing is drawn where it is not a terminal.
    """
    console = console or Console(stderr=True)
    # FORCE_COLOR makes rich take a CI log for a terminal, where a bar would be drawn thousands of times.
    if not (console.is_interactive and console.file.isatty()):
        yield ProgressLines()
        return
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield ProgressLines(bar)


def _print_lines(console: Console, group: list[Result]) -> None:
    names = [one_line(result.candidate, 500) for result in group]
    counts = [_count(result.cases, "case") for result in group]
    strata = [f"{_hit(result)}/{len(result.required)} strata" if result.required else "" for result in group]
    width = min(60, max(cell_len(name) for name in names))
    for result, name, cases, hit in zip(group, names, counts, strata, strict=True):
        word = headline(result).partition(" (")[0]
        line = f"{word:<12}  {name}{' ' * (width - cell_len(name))}"
        if result.loaded and not result.skipped:
            hit = f"{hit:>{max(map(len, strata))}}   " if any(strata) else ""
            line += f"   {cases:>{max(map(len, counts))}}   {hit}{result.seconds:,.1f} s"
        if result.symptom is not None and result.symptom.value != word:
            line += f"   {result.symptom.value}"
        emit(console, line.rstrip(), _STYLES.get(word, "bold magenta"))
        if result.skipped:
            block(console, "  reason", plain(result.reason.removeprefix("skipped, "), 4_000))
        if result.verdict is Verdict.EQUAL:
            # Of a candidate that is no file of ours, the reader wants to know what was executed.
            if result.stages:
                emit(console, f"  cases       {_searches(result)}")
            if result.source.startswith("sliced"):
                block(console, "  source", plain(result.source, 2_000))
            for note in result.notes:
                block(console, "  note", plain(note, 2_000))
        if result.measures:
            emit(console, f"  measures    {_measured(result)}")


_DID: Final = MappingProxyType(
    {
        **{"replay": "saved", "exhaustive": "exhaustive", "scale": "large", "property": "drawn"},
        **{"probe": "probed", "asynchrony": "on a busy device", "graph": "as graphs", "concurrency": "at once"},
    }
)


def _searches(result: Result) -> str:
    """How many cases each search contributed."""
    return ", ".join(f"{stage.cases:,} {_DID.get(stage.search, stage.search)}" for stage in result.stages)


def _measured(result: Result) -> str:
    """Numbers that decide nothing, each with what it measures."""
    shown = [f"{value:.3g} {one_line(name, 100)}" for name, value in result.measures.items()]
    more = [f"and {len(shown) - _MOST_MEASURES} more"] if len(shown) > _MOST_MEASURES else []
    return "; ".join([*shown[:_MOST_MEASURES], *more])


def _print_proved(console: Console, group: list[Result]) -> None:
    proved: dict[tuple[str, int], list[str]] = {}
    for result in group:
        if result.verdict is Verdict.EQUAL and result.loaded and result.space:
            cases = sum(stage.cases for stage in result.stages if stage.space and stage.complete)
            proved.setdefault((result.space, cases), []).append(one_line(result.candidate, 500))
    for (space, cases), names in proved.items():
        who = "" if len(names) == len(group) else f": {', '.join(names)}"
        emit(console, f"proved equal in every one of these {_count(cases, 'case')}{who}")
        for clause in one_line(space, 2_000).split("; "):
            emit(console, f"  - {clause}")


def _last_line(results: list[Result]) -> str:
    words = [result.verdict.value if result.loaded and not result.skipped else headline(result) for result in results]
    kinds = dict.fromkeys(words)
    if len(kinds) < 2 and not kinds.keys() & {"not loaded", "skipped"}:
        counted = _count(len(results), "candidate")
    else:
        counted = ", ".join(f"{words.count(kind)} {kind}" for kind in kinds)
    code = exit_code(results)
    meaning = MEANINGS[code] if results else "there was nothing to check; name a candidate or a contract"
    if kinds.keys() == {"skipped"}:
        meaning = "every candidate was skipped, so nothing was checked"
    elif "skipped" in kinds:
        meaning += "; those skipped were not run"
    return f"verdict: {overall(results).value} ({counted}); exit code {int(code)}: {meaning}"


def _hit(result: Result) -> int:
    """How many of the required strata were hit."""
    return sum(result.strata.get(name, 0) > 0 for name in result.required)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
