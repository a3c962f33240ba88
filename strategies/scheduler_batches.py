"""Whole scheduler batches, and the cumulative lengths that each caller of the convolution's metadata cuts from them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class SchedulerBatch:
    """The rows of one engine step, in the scheduler's order: decodes, speculative rows, prefills, padding.

    ``decodes`` and ``padding`` count rows, the others hold the tokens of each row. A decode row has one token, a
    speculative row its draft tokens and one more. Padding rows have none: they fill the batch up to a size for which a
    CUDA graph was captured.
    """

    decodes: int
    speculative: tuple[int, ...]
    prefills: tuple[int, ...]
    padding: int

    def query_start_loc(self) -> list[int]:
        """Cumulative lengths of all rows."""
        return _accumulated([1] * self.decodes, self.speculative, self.prefills, [0] * self.padding)

    def of_prefills(self) -> list[int]:
        """What Mamba and ShortConv pass: the prefill rows, re-based so that they start at 0."""
        return _accumulated(self.prefills)

    def without_speculation(self) -> list[int]:
        """What GDN passes: all rows but the speculative ones; decodes and padding rows remain."""
        return _accumulated([1] * self.decodes, self.prefills, [0] * self.padding)

    def active_without_speculation(self) -> list[int]:
        """What Kimi K3 (KDA) passes: as GDN, without the padding rows."""
        return _accumulated([1] * self.decodes, self.prefills)


CALLERS: Final = (
    SchedulerBatch.of_prefills,
    SchedulerBatch.without_speculation,
    SchedulerBatch.active_without_speculation,
    SchedulerBatch.query_start_loc,
)


def scheduler_batches(
    *,
    max_decodes: int = 12,
    max_speculative: int = 4,
    max_prefills: int = 4,
    max_length: int = 600,
    max_padding: int = 6,
) -> st.SearchStrategy[SchedulerBatch]:
    """Batches of an engine with chunked prefill, speculative decoding and padding to captured sizes.

    Args:
        max_decodes, max_speculative, max_prefills, max_padding: most rows of each kind.
        max_length: most tokens of a prefill row in one step.

    Example::

        @given(scheduler_batches())
        def test_my_builder(batch):
            my_builder(batch.query_start_loc(), num_prefills=len(batch.prefills))
    """
    return st.builds(
        SchedulerBatch,
        decodes=st.integers(0, max_decodes),
        speculative=st.lists(st.integers(2, 8), max_size=max_speculative).map(tuple),
        prefills=st.lists(st.integers(1, max_length), max_size=max_prefills).map(tuple),
        padding=st.integers(0, max_padding),
    )


def caller_arguments(batches: st.SearchStrategy[SchedulerBatch] | None = None) -> st.SearchStrategy[list[int]]:
    """The cumulative lengths that one of the callers passes for one of ``batches``."""
    return st.builds(
        lambda caller, batch: caller(batch),
        st.sampled_from(CALLERS),
        scheduler_batches() if batches is None else batches,
    )


def _accumulated(*lengths: list[int] | tuple[int, ...]) -> list[int]:
    return list(accumulate((length for kind in lengths for length in kind), initial=0))
