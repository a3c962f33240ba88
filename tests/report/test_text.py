"""What makes text harmless."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.report.text import check_report_path, one_line, plain, write_report


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


def test_a_report_replaces_the_file_that_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        check_report_path(tmp_path / "report.txt")
        write_report(tmp_path / "report.txt", content)
        assert (tmp_path / "report.txt").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_report_follows_a_link(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "folder").mkdir()
    if exists:
        (tmp_path / "folder" / "file").write_text("old")
    (tmp_path / "link").symlink_to("folder/file")
    check_report_path(tmp_path / "link")
    write_report(tmp_path / "link", b"text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file").read_bytes() == b"text"


def test_a_report_goes_into_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_report_path(tmp_path / "pipe")
    # Open for both, which waits for nobody.
    reader = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        write_report(tmp_path / "pipe", b"text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_a_report_goes_on_where_an_open_file_is(tmp_path: Path, folder: str) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as stream:
        stream.write(b"before ")
        check_report_path(Path(f"{folder}/{stream.fileno()}"))
        write_report(Path(f"{folder}/{stream.fileno()}"), b"report")
        stream.write(b" after")
    assert (tmp_path / "file").read_bytes() == b"before report after"


def test_a_report_goes_into_a_pipe_that_is_open() -> None:
    reader, writer = os.pipe()
    try:
        check_report_path(Path(f"/dev/fd/{writer}"))
        write_report(Path(f"/dev/fd/{writer}"), b"text")
        assert os.read(reader, 100) == b"text"
        with pytest.raises(UsageError, match="open for reading only"):
            check_report_path(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)
        os.close(writer)
    with pytest.raises(UsageError, match="Bad file descriptor"):
        check_report_path(Path(f"/dev/fd/{writer}"))


def test_a_report_can_go_to_a_device() -> None:
    check_report_path(Path("/dev/null"))
    write_report(Path("/dev/null"), b"text")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "is a folder"),
        ("-", "write /dev/stdout"),
        ("missing/report.txt", "there is no folder .*missing"),
        ("file/report.txt", "there is no folder .*file"),
        ("loop", "loop: cannot write the report"),
        ("x" * 5_000, r"^.{,300}: cannot write the report: File name too long"),
        ("/proc/report.txt", "/proc/report.txt: cannot write the report"),
    ],
)
def test_a_path_that_takes_no_report_is_refused_without_touching_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("loop").symlink_to("loop")
    with pytest.raises(UsageError, match=said):
        check_report_path(Path(path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop"]


def test_a_report_that_cannot_be_written_names_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file.report\.txt: cannot write the report"):
        write_report(tmp_path / "file" / "report.txt", b"text")
