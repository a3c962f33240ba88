"""Interpreter: the order in which Triton's interpreter runs the programs of a launch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reversed_programs() -> Iterator[None]:
    """While it is entered, the interpreter runs a launch's programs from the last to the first.

    A GPU runs them in any order, and at once. The interpreter goes from the first to the last, so that a program that
    needs what another one has written is right there, by luck. Nothing happens where Triton is not imported.
    """
    builder = getattr(sys.modules.get("triton.runtime.interpreter"), "interpreter_builder", None)
    if builder is None:
        yield
        return
    forward = type(builder).set_grid_idx

    def backward(*index: int) -> None:
        forward(builder, *(size - 1 - place for size, place in zip(builder.grid_dim, index, strict=True)))

    builder.set_grid_idx = backward
    try:
        yield
    finally:
        del builder.set_grid_idx
