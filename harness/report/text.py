"""Text: making strings that came from a candidate harmless, and writing report files."""

from __future__ import annotations

import fcntl
import os
import re
import sys
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
_MOST_LINKS: Final = 40
"""As many as Linux follows in one path."""


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


def check_report_path(path: Path) -> None:
    """Check that a report can be written to a path, before there is one; what is there is not touched.

    Raises:
        UsageError: it cannot.
    """
    if path == Path("-"):
        raise UsageError(f"{path}: is no file: write /dev/stdout for standard output, or ./- for a file of that name.")
    try:
        if (descriptor := _descriptor(path)) is not None:
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise UsageError(f"{path}: is open for reading only. Choose another path.")
            return
        target = path.resolve()
        if target.is_dir():
            raise UsageError(f"{path}: is a folder: name a file in it.")
        if not target.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {target.parent}: make it first.")
        if target.exists() and not target.is_file():
            # Opening a pipe would wait for its reader, or end what the reader reads.
            if not os.access(target, os.W_OK):
                raise UsageError(f"{path}: must not be written. Choose another path.")
            return
        partial = _partial(target)
        partial.touch()
        partial.unlink()
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, error) from error


def write_report(path: Path, content: bytes) -> None:
    """Write a report; a reader of a file sees the old one or the new one, never half of it.

    Links are followed. What is no regular file (a device, a pipe, a descriptor such as ``/dev/stdout``) is written to.

    Raises:
        UsageError: the report cannot be written.
    """
    try:
        if (descriptor := _descriptor(path)) is not None:
            sys.stdout.flush()
            # Not opened by its name: a file behind it would be written from its start, over what is in it.
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                stream.write(content)
            return
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        partial = _partial(target)
        try:
            partial.write_bytes(content)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, error) from error


def _descriptor(path: Path) -> int | None:
    """The descriptor of this process that ``/dev/stdout``, ``/dev/fd/N`` and links to them name; None: a usual path."""
    own = Path("/proc/self/fd").resolve()
    for _ in range(_MOST_LINKS):
        if path.name.isdecimal() and path.parent.resolve() == own:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.partial")


def _unwritable(path: Path, error: Exception) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else "it is a link to itself"
    return UsageError(f"{one_line(str(path), 200)}: cannot write the report: {reason}. Choose another path.")
