"""Text: making strings that came from a candidate harmless, and writing report files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from harness.errors import UsageError

# Sequences that a terminal acts on: operating system commands and the like up to their terminator, then control
# sequences, then two-byte escapes. An unterminated command loses its introducer only, so that it cannot hide text.
_ESCAPES: Final = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]?",
)
# Control characters other than newline and tab, line separators, zero-width and direction marks (which can make a line
# read as another), lone surrogates, and code points that XML 1.0 does not allow.
_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_REPLACEMENT: Final = "\ufffd"


def plain(text: str, limit: int, *, keep: Literal["head", "tail"] = "head") -> str:
    r"""Text that is safe to print, to parse and to read: at most ``limit`` characters, no terminal escapes.

    Escape sequences are removed. Control characters other than newline and tab, lone surrogates, zero-width and
    direction marks become U+FFFD. Longer text keeps its ``"head"`` or ``"tail"`` and says how long it was. Markup is
    not touched: what prints the text must take it as text (``rich.text.Text``, an XML library).

    >>> plain("\x1b[31mred\x1b[0m\r\n", 80)
    'red\n'
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}; give the number of characters to keep")
    mark = ""
    if len(text) > limit:
        mark = f"... ({len(text):,} characters) ..."[:limit]
        room = limit - len(mark)
        text = text[:room] if keep == "head" else text[len(text) - room :]
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _HARMFUL.sub(_REPLACEMENT, text)
    return text + mark if keep == "head" else mark + text


def one_line(text: str, limit: int) -> str:
    """As :func:`plain`, with newlines and tabs as spaces."""
    return plain(text, limit).replace("\n", " ").replace("\t", " ")


def write_report(path: Path, content: bytes) -> None:
    """Write a report, making its folder; a reader sees the old file or the new one, never half of it.

    Raises:
        UsageError: the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write the report: {error.strerror}. Choose another path.") from error
