"""Page: one failure, told so that it is understood without knowing the harness."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from io import StringIO
from types import MappingProxyType
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.paths import shown_path
from harness.report.snippet import python_snippet, replay_command
from harness.report.text import one_line, plain
from harness.verdict import Difference, Finding, Result, Symptom, Verdict

SENTENCES: Final[Mapping[Symptom, str]] = MappingProxyType(
    {
        Symptom.DIFFERENT: "For the same input, the candidate returns something other than the reference.",
        Symptom.RAISED: "The candidate raises an exception that the reference does not raise on the same input.",
        Symptom.DID_NOT_RAISE: "The candidate returns where the reference raises an exception on the same input.",
        Symptom.MUTATED_INPUT: "After the call, the candidate's arguments are not what the reference leaves behind.",
        Symptom.UNSTABLE: "The candidate gives two different answers to the same call.",
        Symptom.STALE: "The candidate answers for what a tensor held before it was changed in place.",
        Symptom.REUSED_OUTPUT: "A later call changes, or shares memory with, what an earlier call returned.",
        Symptom.OUT_OF_BOUNDS: "The candidate writes to memory beside the tensors that it was given or had allocated.",
        Symptom.LATE: "What the candidate returns is not there when its caller's kernel reads it.",
        Symptom.CHANGED_GLOBALS: "The candidate changes something in its process that outlives the call.",
        Symptom.CRASHED: "The candidate's process ended during the call.",
        Symptom.HUNG: "One call of the candidate took longer than the limit, and its process was stopped.",
        Symptom.OUT_OF_MEMORY: "The candidate's process grew past the memory limit.",
    }
)
"""What each symptom means, in one sentence."""

_SEVERAL_CALLS: Final = frozenset({Symptom.UNSTABLE, Symptom.STALE, Symptom.REUSED_OUTPUT})
_MOST_ROWS: Final = 10
_LABEL: Final = 14


def print_page(console: Console, result: Result, *, function: str | None = None, needs: Collection[str] = ()) -> None:
    """Print everything known about a failed, unfinished or unloadable candidate.

    Args:
        console: where to print; Python code, paths and commands are never wrapped or cut.
        result: the outcome to explain.
        function: the reference's function name, for the Python code.
        needs: the packages that the contract needs, for the same.
    """
    title = f"{headline(result)}: {one_line(result.candidate, 500)} against {one_line(result.contract, 200)}"
    emit(console, title, "bold")
    if result.finding is not None:
        _print_finding(console, result, result.finding, function, needs)
        if result.reason:
            block(console, "reason", plain(result.reason, 4_000))
    else:
        _print_reason(console, result)
    for note in result.notes:
        block(console, "note", plain(note, 2_000))
    if result.source:
        block(console, "source", plain(result.source, 2_000))
    if result.output:
        emit(console, "")
        emit(console, "The last that the candidate's process printed:")
        quote(console, "\n".join(plain(result.output, 4_000, keep="tail").rstrip("\n").split("\n")[-40:]))


def page_text(result: Result, *, function: str | None = None, needs: Collection[str] = ()) -> str:
    """The page as text without colour."""
    stream = StringIO()
    console = Console(file=stream, width=100, color_system=None, force_terminal=False)
    print_page(console, result, function=function, needs=needs)
    return stream.getvalue()


def headline(result: Result) -> str:
    """One or two words for the outcome: the verdict, ``not loaded``, ``skipped``, or the verdict with how it failed."""
    if result.skipped:
        return "skipped"
    if not result.loaded:
        return "not loaded"
    if result.symptom is None or result.symptom.value == result.verdict.value:
        return result.verdict.value
    return f"{result.verdict.value} ({result.symptom.value})"


def cause(result: Result) -> str:
    """One line that says what is wrong with a result that is not equal."""
    if result.finding is None:
        return one_line(result.reason or "no reason was given", 300)
    finding = result.finding
    seen = str(finding.difference) if finding.difference else finding.message or SENTENCES[finding.symptom]
    return one_line(f"{finding.symptom.value}: {seen}", 300)


def emit(console: Console, text: str, style: str = "") -> None:
    """Print text as it is: not wrapped, not cut, no markup, no highlighting."""
    console.print(Text(_encodable(console, text), style=style), soft_wrap=True)


def quote(console: Console, text: str) -> None:
    """Print what a candidate said, each line behind a bar, so that none reads as a line of the report."""
    for line in text.split("\n"):
        emit(console, f"  | {line}")


def block(console: Console, label: str, text: str) -> None:
    """Print a labelled text; its further lines stand behind bars."""
    first, *rest = text.rstrip("\n").split("\n")
    emit(console, f"{label:<{_LABEL}} {first}")
    if rest:
        quote(console, "\n".join(rest))


def _print_finding(
    console: Console, result: Result, finding: Finding, function: str | None, needs: Collection[str]
) -> None:
    emit(console, SENTENCES[finding.symptom])
    emit(console, "")
    if finding.difference is not None:
        _print_difference(console, finding.difference)
    if finding.step:
        block(console, "which call", one_line(finding.step, 500))
    if finding.message:
        block(console, "what was seen", plain(finding.message, 4_000))
    if finding.search:
        seed = f", seed {result.seed}" if finding.search == "property" else ""
        block(console, "found by", f"{one_line(finding.search, 100)} search{seed}")
    emit(console, "")
    snippet = python_snippet(result, finding, function, needs)
    if snippet is None:
        size = f"{finding.case.size():,} elements"
        emit(console, f"The input is not shown ({size}) and was not saved; --json FILE writes it whole.")
    else:
        emit(console, "The smallest input found that shows it, as Python:")
        emit(console, "")
        emit(console, snippet)
        if finding.step or finding.symptom in _SEVERAL_CALLS:
            emit(console, "")
            emit(console, "It takes more than one call on the same arguments; the command below repeats them.")
    emit(console, "")
    if result.case_file is not None:
        block(console, "case file", one_line(shown_path(result.case_file), 8_192))
    block(console, "run it again", replay_command(result))


def _print_difference(console: Console, difference: Difference) -> None:
    where, aspect = one_line(difference.path, 500), one_line(difference.aspect, 100)
    if not where or where.startswith("["):
        where = f"the returned value{', at ' if where else ''}{where}"
    extent = f" of {difference.count:,} of {difference.total:,} elements" if difference.count else ""
    block(console, "what differs", f"{where}: {aspect}{extent}")
    if not difference.elements:
        block(console, "expected", plain(difference.expected, 1_000))
        block(console, "got", plain(difference.got, 1_000))
        return
    table = Table(box=None, header_style="bold", pad_edge=True, padding=(0, 2))
    for column in ("index", "expected", "got"):
        table.add_column(column, overflow="fold")
    shown = difference.elements[:_MOST_ROWS]
    for element in shown:
        cells = (str(list(element.index)), one_line(element.expected, 60), one_line(element.got, 60))
        table.add_row(*(Text(_encodable(console, cell)) for cell in cells))
    console.print(table)
    if difference.count > len(shown):
        emit(console, f"  ... and {difference.count - len(shown):,} more")


def _print_reason(console: Console, result: Result) -> None:
    default = "no reason was given; run it again with --case-timeout and --time-limit raised"
    block(console, "reason" if result.loaded else "error", plain(result.reason or default, 4_000))
    missed = [one_line(name, 100) for name in result.required if not result.strata.get(name)]
    if result.verdict is Verdict.INCONCLUSIVE and result.loaded and missed:
        block(console, "never hit", one_line(", ".join(missed), 2_000))
    if result.loaded:
        block(console, "run it again", replay_command(result))


def _encodable(console: Console, text: str) -> str:
    """What the console's encoding cannot express becomes a backslash escape instead of an error."""
    return text.encode(console.encoding, "backslashreplace").decode(console.encoding)
