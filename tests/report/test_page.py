"""The page about one failure."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.case import Case, ListValue
from harness.report.page import SENTENCES, cause, headline, page_text, print_page
from harness.report.snippet import replay_command
from harness.verdict import Difference, Finding, Result, Symptom, Verdict


def _lines_at(width: int, result: Result) -> list[str]:
    stream = io.StringIO()
    print_page(Console(file=stream, width=width), result)
    return stream.getvalue().split("\n")


def test_every_symptom_has_one_sentence_for_a_reader() -> None:
    assert set(SENTENCES) == set(Symptom)
    assert all(sentence.endswith(".") and sentence.count(".") == 1 for sentence in SENTENCES.values())


def test_the_page_says_what_differs_and_where(different: Result) -> None:
    text = page_text(different)
    assert "different: vllm/utils.py::compute_causal_conv1d_metadata against causal_conv1d_metadata" in text
    assert SENTENCES[Symptom.DIFFERENT] in text
    assert "what differs   the returned value, at [1]: value of 3 of 2,048 elements" in text
    rows = [line.split() for line in text.split("\n")]
    assert ["index", "expected", "got"] in rows
    assert ["[0]", "0", "1"] in rows
    assert ["[2]", "2", "-1"] in rows
    assert "... and 1 more" in text
    assert "exhaustive search\n" in text


def test_a_difference_without_elements_shows_both_sides(different: Result, case: Case) -> None:
    difference = Difference("", "dtype", "torch.int32", "torch.int64")
    finding = Finding(Symptom.DIFFERENT, case, difference=difference)
    lines = [line.split() for line in page_text(dataclasses.replace(different, finding=finding)).split("\n")]
    assert ["what", "differs", "the", "returned", "value:", "dtype"] in lines
    assert ["expected", "torch.int32"] in lines
    assert ["got", "torch.int64"] in lines


@pytest.mark.parametrize("width", [20, 80])
def test_code_paths_and_commands_are_never_wrapped(different: Result, width: int) -> None:
    assert different.finding is not None
    wide = Case("causal_conv1d_metadata", {"x": ListValue(tuple(range(1_000, 1_150)))})
    result = dataclasses.replace(different, finding=dataclasses.replace(different.finding, case=wide))
    lines = _lines_at(width, result)
    assert f"run it again   {replay_command(result)}" in lines
    assert any(line.startswith("case file") and line.endswith(str(result.case_file)) for line in lines)
    code = next(line for line in lines if line.startswith("print(compute_causal_conv1d_metadata("))
    assert code.endswith("1149]))")
    compile(code, "snippet", "exec")


def test_the_code_on_the_page_compiles_as_it_stands(different: Result) -> None:
    text = page_text(different)
    code = text.partition("as Python:\n\n")[2].partition("\n\ncase file")[0]
    assert "torch.tensor([0, 5, 5, 9], dtype=torch.int32)" in code
    compile(code, "snippet", "exec")


def test_what_the_process_said_and_printed_is_quoted(different: Result, case: Case) -> None:
    finding = Finding(Symptom.CRASHED, case, message="ended by SIGSEGV", step="second call with the same arguments")
    output = "\n".join(f"line {number}" for number in range(100)) + "\nverdict: equal\n::error::x\n"
    lines = page_text(dataclasses.replace(different, finding=finding, output=output)).split("\n")
    assert "what was seen  ended by SIGSEGV" in lines
    assert "which call     second call with the same arguments" in lines
    assert "  | verdict: equal" in lines
    assert "  | ::error::x" in lines
    assert "  | line 99" in lines
    assert "  | line 1" not in lines
    assert any("takes more than one call" in line for line in lines)


def test_a_large_case_that_was_not_saved_says_how_to_get_it(different: Result) -> None:
    finding = Finding(Symptom.HUNG, Case("c", {"x": ListValue((0,) * 5_000)}))
    text = page_text(dataclasses.replace(different, finding=finding, case_file=None))
    assert "5,000 elements" in text
    assert "--json FILE" in text


def test_an_inconclusive_page_says_why_and_what_to_do(inconclusive: Result) -> None:
    text = page_text(inconclusive)
    assert "The time limit came first; raise it with --time-limit." in text
    assert "never hit      exact multiple" in text
    assert "bitgate check causal_conv1d_metadata/slow" in text


def test_an_unloadable_page_shows_the_error_and_no_verdict_on_the_candidate(unloadable: Result) -> None:
    text = page_text(unloadable)
    assert text.startswith("not loaded: missing.module:function against mamba2_chunk_metadata")
    assert "No module named 'missing'. Check the spelling." in text
    assert "inconclusive" not in text


def test_a_load_error_of_several_lines_is_quoted_from_the_second_on(unloadable: Result) -> None:
    lines = page_text(dataclasses.replace(unloadable, reason="cannot resolve:\nverdict: equal")).split("\n")
    assert "error          cannot resolve:" in lines
    assert "  | verdict: equal" in lines


def test_a_failure_without_a_case_still_has_a_page(different: Result) -> None:
    text = page_text(dataclasses.replace(different, finding=None, case_file=None))
    assert "no reason was given" in text
    assert "bitgate check" in text


def test_a_hostile_candidate_cannot_change_the_page(hostile_result: Result) -> None:
    text = page_text(hostile_result)
    assert len(text) < 50_000
    assert "[red]x[/red] [/] red" in text
    assert "]]> <b>&amp;" in text
    assert not set(text) & {"\x1b", "\x00", "\x08", "\x07", "\r", "\ud800", "\u202e"}
    assert not any(line.startswith("verdict:") for line in text.split("\n"))
    text.encode()


def test_text_that_the_console_cannot_encode_is_escaped(different: Result) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    print_page(Console(file=stream, width=80), dataclasses.replace(different, output="語 é", notes=("→",)))
    stream.flush()
    assert b"\\u8a9e \\xe9" in raw.getvalue()


def test_a_page_as_text_has_no_colour_even_where_colour_is_forced(
    different: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in page_text(different)


@pytest.mark.parametrize("path", ["nested/[bold]/x.json", "a b/x.json"])
def test_a_path_that_looks_like_markup_is_printed_as_it_is(different: Result, path: str) -> None:
    assert path in page_text(dataclasses.replace(different, case_file=Path(path)))


def test_headline_and_cause_are_one_line(different: Result, hostile_result: Result, inconclusive: Result) -> None:
    assert headline(different) == "different"
    assert headline(hostile_result) == "different (crashed)"
    assert headline(inconclusive) == Verdict.INCONCLUSIVE.value
    assert cause(different) == "different: [1]: 3 of 2048 elements differ"
    assert "\n" not in cause(hostile_result)
    assert len(cause(hostile_result)) <= 300


def test_an_argument_that_differs_is_not_called_a_returned_value(different: Result, case: Case) -> None:
    finding = Finding(Symptom.MUTATED_INPUT, case, difference=Difference("argument 'x'", "shape", "(2,)", "(3,)"))
    assert "what differs   argument 'x': shape\n" in page_text(dataclasses.replace(different, finding=finding))


def test_a_finding_that_was_not_confirmed_keeps_its_reason(different: Result) -> None:
    result = dataclasses.replace(
        different, verdict=Verdict.INCONCLUSIVE, reason="It did not happen again. Run it twice."
    )
    assert "reason         It did not happen again. Run it twice." in page_text(result)
