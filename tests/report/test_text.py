"""What makes text harmless."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.report.text import one_line, plain, write_report


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\text", "text"),
        ("\x9b2Jtext", "text"),
        ("\x1bctext", "text"),
        ("a\x00b\x08c\x7f", "a\ufffdb\ufffdc\ufffd"),
        ("\ud800", "\ufffd"),
        ("a\u202eb\u2066c\u200bd", "a\ufffdb\ufffdc\ufffdd"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
        ("[red]x[/red] ]]>", "[red]x[/red] ]]>"),
        ("é 語", "é 語"),
    ],
)
def test_plain_removes_escapes_and_replaces_control_characters(raw: str, clean: str) -> None:
    assert plain(raw, 100) == clean


def test_an_unterminated_escape_hides_no_text() -> None:
    assert "the rest" in plain("\x1b]0;the rest\nof the output", 100)
    assert "\x1b" not in plain("\x1b" * 50 + "[", 100)


@pytest.mark.parametrize("limit", [1, 10, 40, 100])
def test_plain_keeps_to_its_limit_and_says_how_long_the_text_was(limit: int) -> None:
    assert len(plain("x" * 10_000_000, limit)) <= limit
    assert "10,000,000 characters" in plain("x" * 10_000_000, 100)


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(st.characters()), st.integers(1, 60), st.sampled_from(["head", "tail"]))
def test_no_text_gets_through_plain_unsafe(text: str, limit: int, keep: Literal["head", "tail"]) -> None:
    clean = plain(text, limit, keep=keep)
    assert len(clean) <= limit
    assert clean.encode().decode() == clean
    assert not [char for char in clean if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]


def test_plain_keeps_the_end_the_caller_asks_for() -> None:
    text = "start" + "-" * 1_000 + "end"
    assert plain(text, 60).startswith("start-")
    assert plain(text, 60, keep="tail").endswith("-end")
    assert plain("short", 60, keep="tail") == "short"


def test_plain_refuses_a_limit_that_keeps_nothing() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        plain("text", 0)


def test_one_line_has_one_line() -> None:
    assert one_line("a\nb\tc\r\nd", 100) == "a b c d"


def test_a_report_is_written_into_a_folder_that_did_not_exist(tmp_path: Path) -> None:
    write_report(tmp_path / "new" / "report.txt", b"text")
    assert (tmp_path / "new" / "report.txt").read_bytes() == b"text"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.txt"]


def test_a_report_that_cannot_be_written_names_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file.report\.txt: cannot write the report"):
        write_report(tmp_path / "file" / "report.txt", b"text")
