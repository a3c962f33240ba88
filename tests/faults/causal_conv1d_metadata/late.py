"""Late: tables that are right when they are looked at, and not when a kernel reads them.

Those that need a CUDA device are right on a CPU.
"""

from __future__ import annotations

import ctypes
import heapq
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import torch

from .assemble import PADDING, Metadata, assemble, counts_of, offsets_of, rows_of, table_of, table_size

Tables: TypeAlias = tuple[torch.Tensor, torch.Tensor]

SOON = 0.003
"""Seconds until a thread does what it should not; the comparison of a small batch takes less, a launch more."""

_actions: list[tuple[float, int, Callable[[], object]]] = []
_numbers = count()
_threads: list[threading.Thread] = []
_stages: dict[int, torch.Tensor] = {}
_streams: list[torch.cuda.Stream] = []
_calls = count()


def tables_filled_by_a_thread(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns padding and has a thread fill in the programs."""
    right = assemble(query_start_loc_p_cpu, device)
    batch_ptr = torch.full_like(right[1], PADDING)
    _later(SOON, lambda: batch_ptr.copy_(right[1]))
    return assemble(query_start_loc_p_cpu, device, batch_ptr=batch_ptr)


def row_table_spoilt_by_a_thread(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns what is right, and has a thread use the row table for something else."""
    right = assemble(query_start_loc_p_cpu, device)
    _later(SOON, lambda: right[1].fill_(0))
    return right


def row_table_borrowed_by_a_thread(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns what is right; a thread uses the row table for something else and puts back what was there."""
    right = assemble(query_start_loc_p_cpu, device)
    kept = right[1].clone()
    _later(SOON, lambda: right[1].fill_(PADDING))
    _later(20 * SOON, lambda: right[1].copy_(kept))
    return right


def pinned_buffer_refilled_on_every_call(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies from one pinned buffer, and does not wait for the last copy before it fills it again."""
    return _staged(query_start_loc_p_cpu, device, 0)


def ring_of_two_pinned_buffers(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies from two pinned buffers in turn, and does not wait for the last but one copy."""
    return _staged(query_start_loc_p_cpu, device, next(_calls) % 2)


def side_stream_not_waited_for(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies on a stream of its own, which waits for the current one, but not the other way round."""
    if device.type != "cuda":
        return assemble(query_start_loc_p_cpu, device)
    tables, sources = _padded(query_start_loc_p_cpu, device), _pinned(query_start_loc_p_cpu)
    side = _side_stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        _copy(tables, sources)
    return _assembled(query_start_loc_p_cpu, device, tables)


def side_stream_does_not_wait(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies on a stream of its own, which does not wait until the current one has written the padding."""
    if device.type != "cuda":
        return assemble(query_start_loc_p_cpu, device)
    tables, sources = _padded(query_start_loc_p_cpu, device), _pinned(query_start_loc_p_cpu)
    side = _side_stream(device)
    with torch.cuda.stream(side):
        _copy(tables, sources)
    torch.cuda.current_stream(device).wait_stream(side)
    return _assembled(query_start_loc_p_cpu, device, tables)


def event_recorded_before_the_copy(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies on a stream of its own, and lets the current stream wait for the moment before the copy."""
    if device.type != "cuda":
        return assemble(query_start_loc_p_cpu, device)
    tables, sources = _padded(query_start_loc_p_cpu, device), _pinned(query_start_loc_p_cpu)
    side, current = _side_stream(device), torch.cuda.current_stream(device)
    side.wait_stream(current)
    event = side.record_event()
    with torch.cuda.stream(side):
        _copy(tables, sources)
    current.wait_event(event)
    return _assembled(query_start_loc_p_cpu, device, tables)


def default_stream_hardwired(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Does everything on the default stream, whatever the current one is."""
    if device.type != "cuda":
        return assemble(query_start_loc_p_cpu, device)
    with torch.cuda.stream(torch.cuda.default_stream(device)):
        tables, sources = _padded(query_start_loc_p_cpu, device), _pinned(query_start_loc_p_cpu)
        _copy(tables, sources)
    return _assembled(query_start_loc_p_cpu, device, tables)


def pinned_temporary_freed_before_the_copy(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies from pinned memory through the driver, of which PyTorch knows nothing, and frees it on return."""
    if device.type != "cuda":
        return assemble(query_start_loc_p_cpu, device)
    tables, sources = _padded(query_start_loc_p_cpu, device), _pinned(query_start_loc_p_cpu)
    # The memory that is returned must not be what this frees.
    metadata = _assembled(query_start_loc_p_cpu, device, tables)
    driver, stream = ctypes.CDLL("libcuda.so.1"), torch.cuda.current_stream(device).cuda_stream
    for table, source in zip(tables, sources, strict=True):
        status = driver.cuMemcpyHtoDAsync_v2(
            ctypes.c_uint64(table.data_ptr()),
            ctypes.c_void_p(source.data_ptr()),
            ctypes.c_size_t(source.nbytes),
            ctypes.c_void_p(stream),
        )
        if status:
            raise RuntimeError(f"cuMemcpyHtoDAsync failed with {status}")
    return metadata


def _staged(query_start_loc: torch.Tensor, device: torch.device, number: int) -> Metadata:
    """Tables that are copied from pinned buffer ``number``."""
    if device.type != "cuda":
        return assemble(query_start_loc, device)
    entries = _entries(query_start_loc)
    programs = len(entries[0])
    stage = _stages.get(number)
    if stage is None or stage.shape[1] < programs:
        stage = _stages[number] = torch.empty((2, table_size(programs)), dtype=torch.int32, pin_memory=True)
    tables = _padded(query_start_loc, device)
    for table, row, source in zip(tables, stage, entries, strict=True):
        row[:programs] = source
        table[:programs].copy_(row[:programs], non_blocking=True)
    return _assembled(query_start_loc, device, tables)


def _entries(query_start_loc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    nums = counts_of(query_start_loc)
    rows = rows_of(nums)
    return rows, offsets_of(nums, rows)


def _padded(query_start_loc: torch.Tensor, device: torch.device) -> Tables:
    size = table_size(len(_entries(query_start_loc)[0]))
    batch_ptr, token_chunk_offset_ptr = (
        torch.full((size,), PADDING, dtype=torch.int32, device=device) for _ in range(2)
    )
    return batch_ptr, token_chunk_offset_ptr


def _pinned(query_start_loc: torch.Tensor) -> list[torch.Tensor]:
    """Entries and padding of both tables, in pinned memory."""
    return [table_of(entries, torch.device("cpu")).pin_memory() for entries in _entries(query_start_loc)]


def _copy(tables: Tables, sources: list[torch.Tensor]) -> None:
    """Copy on the current stream, without waiting for it."""
    for table, source in zip(tables, sources, strict=True):
        table.copy_(source, non_blocking=True)
        table.record_stream(torch.cuda.current_stream(table.device))


def _assembled(query_start_loc: torch.Tensor, device: torch.device, tables: Tables) -> Metadata:
    """The metadata with tables that are still to be filled; it does not wait for the device."""
    return assemble(query_start_loc, device, batch_ptr=tables[0], token_chunk_offset_ptr=tables[1])


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    if not _streams:
        make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream
        _streams.append(make(device))
    return _streams[0]


def _later(seconds: float, action: Callable[[], object]) -> None:
    """Have a thread do something in a while."""
    heapq.heappush(_actions, (time.monotonic() + seconds, next(_numbers), action))
    if not _threads:
        _threads.append(threading.Thread(target=_act, daemon=True))
        _threads[0].start()


def _act() -> None:
    while True:
        time.sleep(SOON / 10)
        while _actions and _actions[0][0] <= time.monotonic():
            heapq.heappop(_actions)[2]()
