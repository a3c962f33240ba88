"""Caching: right on a first call, wrong because of what an earlier call left behind."""

from __future__ import annotations

import threading
import weakref
from functools import lru_cache
from typing import Any

import torch

from .assemble import Metadata, assemble, counts_of, parts, rows_of, table_size

_by_shape: dict[tuple[int, torch.dtype], Metadata] = {}
_by_id: dict[int, Metadata] = {}
_by_address: dict[tuple[int, int, torch.dtype], Metadata] = {}
_by_total: dict[tuple[int, int, torch.dtype], Metadata] = {}
_by_numbers: dict[tuple[int, ...], Metadata] = {}
_by_content: dict[tuple[torch.dtype, tuple[int, ...]], Metadata] = {}
_tables: dict[tuple[int, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}
_entry: dict[str, Any] = {}
_scratch: list[torch.Tensor] = []
_last: list[tuple[weakref.ref[torch.Tensor], Metadata]] = []
_calls = 0
_busy = False
_lock = threading.Lock()


def cached_by_shape(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns copies of the first answer for as many rows."""
    key = (len(query_start_loc_p_cpu), query_start_loc_p_cpu.dtype)
    return _copied(_by_shape, key, query_start_loc_p_cpu, device)


def cached_by_id(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns copies of the first answer for the same tensor object."""
    return _copied(_by_id, id(query_start_loc_p_cpu), query_start_loc_p_cpu, device)


def cached_by_address(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns copies of the first answer for the same memory, shape and dtype."""
    key = (query_start_loc_p_cpu.data_ptr(), len(query_start_loc_p_cpu), query_start_loc_p_cpu.dtype)
    return _copied(_by_address, key, query_start_loc_p_cpu, device)


def cached_by_total(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns copies of the first answer for as many rows and tokens."""
    tokens = int(query_start_loc_p_cpu[-1] - query_start_loc_p_cpu[0])
    key = (len(query_start_loc_p_cpu), tokens, query_start_loc_p_cpu.dtype)
    return _copied(_by_total, key, query_start_loc_p_cpu, device)


def cached_by_numbers_without_dtype(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns copies of the first answer for the same numbers, although their dtype may differ."""
    return _copied(_by_numbers, tuple(query_start_loc_p_cpu.tolist()), query_start_loc_p_cpu, device)


def cached_for_the_last_tensor(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Remembers the last tensor object and returns copies of its answer when it comes again."""
    if not _last or _last[0][0]() is not query_start_loc_p_cpu:
        _last[:] = [(weakref.ref(query_start_loc_p_cpu), assemble(query_start_loc_p_cpu, device))]
    return _copy(_last[0][1])


def cached_by_lru_cache(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Caches with functools.lru_cache, for which a tensor is its identity."""
    return _copy(_assemble_once(query_start_loc_p_cpu, device))


def cached_by_content_and_shared(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns the same objects again for the same content; the values are right."""
    key = (query_start_loc_p_cpu.dtype, tuple(query_start_loc_p_cpu.tolist()))
    if key not in _by_content:
        _by_content[key] = assemble(query_start_loc_p_cpu, device)
    return _by_content[key]


def tables_refilled(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps one pair of tables for each size, refills and returns it."""
    _, *fresh = assemble(query_start_loc_p_cpu, device)
    batch_ptr, offset_ptr = _tables.setdefault((len(fresh[0]), device), (fresh[0].clone(), fresh[1].clone()))
    batch_ptr.copy_(fresh[0])
    offset_ptr.copy_(fresh[1])
    return assemble(query_start_loc_p_cpu, device, batch_ptr=batch_ptr, token_chunk_offset_ptr=offset_ptr)


def entry_refilled(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps one inner dictionary, refills and returns it."""
    nums_dict, batch_ptr, offset_ptr = assemble(query_start_loc_p_cpu, device)
    _entry.update(nums_dict[8])
    return {8: _entry}, batch_ptr, offset_ptr


def scratch_keeps_old_entries(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies the row table out of a scratch buffer that is not padded anew after a larger batch."""
    rows = rows_of(counts_of(query_start_loc_p_cpu))
    size = table_size(len(rows))
    if not _scratch or len(_scratch[0]) != size:
        _scratch[:] = [torch.full((size,), -1, dtype=torch.int32, device=device)]
    _scratch[0][: len(rows)] = rows
    return assemble(query_start_loc_p_cpu, device, batch_ptr=_scratch[0].clone())


def second_call_wrong(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Answers wrongly once, on the second call in the process."""
    return _wrong_on(range(2, 3), query_start_loc_p_cpu, device)


def seventh_call_wrong(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Answers wrongly once, on the seventh call in the process."""
    return _wrong_on(range(7, 8), query_start_loc_p_cpu, device)


def every_call_from_the_fiftieth_wrong(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Answers wrongly from the fiftieth call in the process on."""
    return _wrong_on(range(50, 1_000_000_000), query_start_loc_p_cpu, device)


def busy_after_an_error(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Marks itself as busy and stays so after a malformed batch, so that every later call raises."""
    global _busy
    if _busy:
        raise RuntimeError("already running")
    _busy = True
    metadata = assemble(query_start_loc_p_cpu, device)
    _busy = False
    return metadata


def locked_after_an_error(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Never releases its lock after a malformed batch, so that the next call waits for ever."""
    _lock.acquire()
    metadata = assemble(query_start_loc_p_cpu, device)
    _lock.release()
    return metadata


@lru_cache(maxsize=64)
def _assemble_once(query_start_loc: torch.Tensor, device: torch.device) -> Metadata:
    return assemble(query_start_loc, device)


def _copied(cache: dict[Any, Metadata], key: object, query_start_loc: torch.Tensor, device: torch.device) -> Metadata:
    if key not in cache:
        cache[key] = assemble(query_start_loc, device)
    return _copy(cache[key])


def _copy(metadata: Metadata) -> Metadata:
    entry = {name: part.clone() if isinstance(part, torch.Tensor) else part for name, part in parts(metadata).items()}
    return {8: entry}, entry["batch_ptr"], entry["token_chunk_offset_ptr"]


def _wrong_on(calls: range, query_start_loc: torch.Tensor, device: torch.device) -> Metadata:
    global _calls
    _calls += 1
    metadata = assemble(query_start_loc, device)
    if _calls in calls:
        parts(metadata)["tot"] += 1
    return metadata
