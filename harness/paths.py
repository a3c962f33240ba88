"""Paths: files as a reader wants them named."""

from __future__ import annotations

from pathlib import Path


def shown_path(path: Path) -> str:
    """A path from the working folder if it lies below, else in full."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
