"""Reports: what a check found, for a terminal, for programs and for CI servers."""

from __future__ import annotations

from harness.report.console import progress, show
from harness.report.text import plain

__all__ = ["plain", "progress", "show"]
