"""The report in a terminal."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from harness.report.console import MEANINGS, progress, show
from harness.verdict import ExitCode, Finding, Result, Symptom, Verdict


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _shown(*results: Result, width: int = 80) -> str:
    stream = io.StringIO()
    show(results, Console(file=stream, width=width))
    return stream.getvalue()


def _verdict_line(*results: Result) -> str:
    return _shown(*results).rstrip("\n").split("\n")[-1]


def test_an_equal_candidate_has_one_line_with_what_was_run(equal: Result) -> None:
    lines = [" ".join(line.split()) for line in _shown(equal).split("\n")]
    assert "causal_conv1d_metadata (gate, strict, cpu)" in lines
    assert "equal causal_conv1d_metadata/numpy_prefix_sums 31,204 cases 2/2 strata 3.1 s" in lines


def test_proved_is_said_once_for_the_group_and_only_of_the_space(equal: Result) -> None:
    text = _shown(equal, dataclasses.replace(equal, candidate="causal_conv1d_metadata/other"))
    assert text.count("proved") == 1
    assert (
        "proved equal in every one of these 12,282 cases\n  - every batch of up to 3 rows of 0 to 17 tokens\n" in text
    )


def test_proved_names_its_candidates_where_others_are_not_equal(equal: Result, different: Result) -> None:
    text = _shown(equal, different)
    assert "of these 12,282 cases: causal_conv1d_metadata/numpy_prefix_sums\n" in text


def test_proved_is_not_said_without_a_completely_searched_space(
    equal: Result, different: Result, inconclusive: Result
) -> None:
    cut = tuple(dataclasses.replace(stage, complete=False) for stage in equal.stages)
    results = [dataclasses.replace(result, stages=equal.stages) for result in (different, inconclusive)]
    assert "proved" not in _shown(dataclasses.replace(equal, stages=cut), *results)


def test_proved_counts_the_cases_of_complete_spaces_only(equal: Result) -> None:
    cut = dataclasses.replace(equal.stages[0], cases=999, space="a space that was left early", complete=False)
    text = _shown(dataclasses.replace(equal, stages=(*equal.stages, cut)))
    assert "of these 12,282 cases\n" in text
    assert "left early" not in text


def test_an_equal_candidate_says_how_many_cases_each_search_ran(equal: Result) -> None:
    line = next(line for line in _shown(equal).split("\n") if line.startswith("  cases"))
    assert "12,282 exhaustive" in line


def test_failures_have_their_page_and_their_symptom_on_the_line(different: Result) -> None:
    assert different.finding is not None
    hung = dataclasses.replace(different, finding=Finding(Symptom.HUNG, different.finding.case))
    text = _shown(hung)
    line = next(line for line in text.split("\n") if line.startswith("different "))
    assert line.endswith("hung")
    assert "1/2 strata" in line
    assert "different (hung): vllm/utils.py" in text


def test_the_references_function_name_reaches_the_code(different: Result) -> None:
    stream = io.StringIO()
    result = dataclasses.replace(different, candidate="causal_conv1d_metadata/fast")
    show([result], Console(file=stream, width=80), functions={"causal_conv1d_metadata": "compute"})
    assert "from candidates.causal_conv1d_metadata.fast import compute" in stream.getvalue()


def test_notes_of_an_equal_candidate_are_shown(equal: Result) -> None:
    text = _shown(dataclasses.replace(equal, notes=("It left [red]a process[/red] behind.\n::error::x",)))
    assert "It left [red]a process[/red] behind." in text
    assert "\n  | ::error::x" in text


def test_the_last_line_is_the_verdict_with_the_exit_codes_meaning(
    equal: Result, different: Result, inconclusive: Result, unloadable: Result
) -> None:
    assert _verdict_line(equal, equal, equal) == f"verdict: equal (3 candidates); exit code 0: {MEANINGS[ExitCode(0)]}"
    assert _verdict_line(equal).startswith("verdict: equal (1 candidate); exit code 0: ")
    assert _verdict_line(equal, different).startswith("verdict: different (1 equal, 1 different); exit code 1: ")
    assert _verdict_line(equal, unloadable).startswith("verdict: inconclusive (1 equal, 1 not loaded); exit code 2: ")
    assert _verdict_line(unloadable).startswith("verdict: inconclusive (1 not loaded); exit code 2: ")
    assert _verdict_line(inconclusive).startswith("verdict: inconclusive (1 candidate); exit code 3: ")
    assert _verdict_line().startswith("verdict: inconclusive (0 candidates); exit code 3: there was nothing to check")


def test_a_skipped_candidate_is_one_line_with_its_reason_and_has_no_page(equal: Result, skipped: Result) -> None:
    text = _shown(equal, skipped)
    line = next(line for line in text.split("\n") if line.startswith("skipped "))
    assert line.split() == ["skipped", "causal_conv1d_metadata/on_gpu"]
    assert "  reason       because it runs on cuda only. Use --device cuda on a machine with a GPU.\n" in text
    assert "against causal_conv1d_metadata" not in text


def test_skipped_candidates_are_counted_and_do_not_decide(equal: Result, different: Result, skipped: Result) -> None:
    line = _verdict_line(equal, skipped, skipped)
    assert line.startswith("verdict: equal (1 equal, 2 skipped); exit code 0: ")
    assert line.endswith("; those skipped were not run")
    assert _verdict_line(different, skipped).startswith("verdict: different (1 different, 1 skipped); exit code 1: ")
    nothing = "exit code 3: every candidate was skipped, so nothing was checked"
    assert _verdict_line(skipped) == f"verdict: inconclusive (1 skipped); {nothing}"


def test_measures_are_one_line_of_their_candidate(equal: Result, different: Result) -> None:
    measures = {"ulps from float64, silu, bfloat16": 0.7012, "ulps from float64, silu, float32": 12.0}
    text = _shown(dataclasses.replace(equal, measures=measures))
    assert "  measures    0.701 ulps from float64, silu, bfloat16; 12 ulps from float64, silu, float32\n" in text
    assert "  measures    0.701 ulps" in _shown(dataclasses.replace(different, measures=measures))
    assert "measures" not in _shown(equal)


def test_measures_that_are_too_many_are_counted(equal: Result) -> None:
    text = _shown(dataclasses.replace(equal, measures={f"m{number}": float(number) for number in range(25)}))
    assert "; 19 m19; and 5 more\n" in text


@pytest.mark.parametrize(
    ("device", "needs", "shown"),
    [
        ("cpu", ("triton",), "gate, strict, cpu, Triton's interpreter"),
        ("cuda", ("triton",), "gate, strict, cuda"),
        ("cpu", (), "gate, strict, cpu"),
    ],
)
def test_the_heading_says_where_kernels_are_interpreted(
    equal: Result, device: str, needs: tuple[str, ...], shown: str
) -> None:
    stream = io.StringIO()
    result = dataclasses.replace(equal, device=device)
    show([result], Console(file=stream, width=80), needs={equal.contract: needs})
    assert f"{equal.contract} ({shown})\n" in stream.getvalue()


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_contracts_are_grouped(equal: Result, unloadable: Result) -> None:
    lines = _shown(equal, unloadable, dataclasses.replace(equal, candidate="x")).split("\n")
    first, second = (next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("causal", "mamba2"))
    assert [line.split()[1] for line in lines[first + 1 : second] if line.startswith("equal")] == [equal.candidate, "x"]
    assert "not loaded    missing.module:function" in lines


def test_colour_appears_on_a_terminal_only_and_never_alone(equal: Result, different: Result) -> None:
    stream = io.StringIO()
    show([equal, different], Console(file=stream, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[32mequal" in stream.getvalue()
    assert "\x1b" not in _shown(equal, different)
    assert all(verdict.value in _shown(equal, different) for verdict in (Verdict.EQUAL, Verdict.DIFFERENT))


def test_a_hostile_candidate_cannot_imitate_the_verdict(hostile_result: Result) -> None:
    text = _shown(hostile_result)
    assert [line for line in text.split("\n") if line.startswith("verdict:")] == [_verdict_line(hostile_result)]
    assert not set(text) & {"\x1b", "\x00", "\x08", "\ud800", "\u202e"}
    assert len(text) < 60_000


def test_progress_draws_on_a_terminal_and_survives_hostile_names(hostile: str) -> None:
    stream = _Terminal()
    console = Console(file=stream, width=100)
    with progress(console) as lines:
        lines.update("some/candidate", "exhaustive", 1, None)
        lines.update("some/candidate", "exhaustive", 5, 10)
        for number in range(20):
            lines.update(f"{number} {hostile}", hostile, number, 20)
        lines.update("last/candidate", "property", 7, 20)
        console.print("still here")
    assert "last/candidate" in stream.getvalue()
    assert "7/20" in stream.getvalue()
    assert "[red]x[/red]" in stream.getvalue()


def test_progress_is_silent_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    with progress(Console(file=stream)) as lines:
        lines.update("candidate", "exhaustive", 1, 2)
    with progress() as lines:
        lines.update("candidate", "exhaustive", 1, 2)
    assert stream.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_progress_draws_nothing_into_a_log_that_asks_for_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    with progress(Console(file=stream)) as lines:
        lines.update("candidate", "exhaustive", 1, 2)
    assert stream.getvalue() == ""
