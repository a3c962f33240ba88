"""Correct versions of compute_causal_conv1d_metadata, each written in another way: none of them may be accused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Metadata: TypeAlias = tuple[dict[int, dict[str, Any]], torch.Tensor, torch.Tensor]

_scratch: list[torch.Tensor] = []
_staging: list[torch.Tensor] = []
_copied: list[torch.cuda.Event] = []
_side: list[torch.cuda.Stream] = []
_answers: dict[tuple[torch.dtype, torch.device, tuple[int, ...]], Metadata] = {}


def python_loops(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Walks over the tokens of every row in steps of a tile and fills lists of the final size."""
    positions = query_start_loc_p_cpu.tolist()
    counts: list[int] = []
    rows: list[int] = []
    offsets: list[int] = []
    for row, (start, end) in enumerate(itertools.pairwise(positions)):
        if end <= start - 8:
            raise ValueError(f"row {row} ends before it starts")
        steps = range(start, end, 8)
        counts.append(len(steps))
        rows += [row] * len(steps)
        offsets += range(len(steps))
    mlist = _host(torch.tensor(rows, dtype=torch.int64), device)
    offsetlist = _host(torch.tensor(offsets, dtype=torch.int32), device)
    surplus = [-1] * (2 * max(1024, len(rows)) - len(rows))
    batch_ptr = torch.tensor(rows + surplus, dtype=torch.int32, device=device)
    token_chunk_offset_ptr = torch.tensor(offsets + surplus, dtype=torch.int32, device=device)
    tables: dict[str, Any] = {}
    tables["nums"] = torch.tensor(counts, dtype=query_start_loc_p_cpu.dtype)
    tables["tot"] = sum(counts)
    tables["mlist"] = mlist
    tables["mlist_len"] = len(rows)
    tables["offsetlist"] = offsetlist
    tables["batch_ptr"] = batch_ptr
    tables["token_chunk_offset_ptr"] = token_chunk_offset_ptr
    return {8: tables}, batch_ptr, token_chunk_offset_ptr


def comprehensions(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Lists (row, offset) pairs in one comprehension and takes them apart again."""
    starts = query_start_loc_p_cpu.tolist()
    counts = [(end - start + 7) // 8 for start, end in itertools.pairwise(starts)]
    if any(count < 0 for count in counts):
        raise ValueError(f"negative counts in {counts}")
    pairs = [(row, offset) for row, count in enumerate(counts) for offset in range(count)]
    nums = torch.tensor(counts, dtype=query_start_loc_p_cpu.dtype)
    mlist = torch.tensor([row for row, _ in pairs], dtype=torch.int64)
    offsetlist = torch.tensor([offset for _, offset in pairs], dtype=torch.int32)
    return _filled(nums, mlist, offsetlist, device)


def torch_repeat_interleave(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Repeats row numbers and row starts with torch alone."""
    nums = (query_start_loc_p_cpu.diff() + 7).div(8, rounding_mode="floor")
    if bool(nums.lt(0).any()):
        raise ValueError("negative number of programs")
    wide = nums.to(torch.int64)
    rows = torch.repeat_interleave(torch.arange(len(wide)), wide)
    starts = torch.repeat_interleave(wide.cumsum(0) - wide, wide)
    return _filled(nums, rows, (torch.arange(len(rows)) - starts).to(torch.int32), device)


def numpy_repeat(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Repeats row numbers with numpy, which raises the ValueError itself."""
    nums = -(-np.diff(query_start_loc_p_cpu.numpy()) // 8)
    rows = np.repeat(np.arange(len(nums), dtype=np.int64), nums)
    starts = np.repeat(np.cumsum(nums, dtype=np.int64) - nums, nums)
    offsets = (np.arange(len(rows), dtype=np.int64) - starts).astype(np.int32)
    return _filled(*_tensors(nums, rows, offsets), device)


def numpy_bincount(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Counts how many rows end at each program; the running total of that is the row number."""
    nums = _counts(query_start_loc_p_cpu)
    ends = np.cumsum(nums, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    rows = np.cumsum(np.bincount(ends, minlength=total + 1)[:total], dtype=np.int64)
    offsets = (np.arange(total) - (ends - nums)[rows]).astype(np.int32)
    return _filled(*_tensors(nums, rows, offsets), device)


def indicators_of_new_rows(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Marks where a row with tokens begins, and sums up marks (row numbers) and resets (offsets)."""
    nums = _counts(query_start_loc_p_cpu)
    filled = np.flatnonzero(nums)
    begins = (np.cumsum(nums, dtype=np.int64) - nums)[filled]
    row_steps = np.zeros(int(nums.sum()), dtype=np.int64)
    row_steps[begins] = np.diff(filled, prepend=0)
    offset_steps = np.ones(len(row_steps), dtype=np.int64)
    offset_steps[begins] = 1 - np.concatenate([[1], nums[filled][:-1]])[: len(filled)]
    rows, offsets = np.cumsum(row_steps), np.cumsum(offset_steps).astype(np.int32)
    return _filled(*_tensors(nums, rows, offsets), device)


def iterators(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Draws rows and offsets from iterators, without a list."""
    nums = _counts(query_start_loc_p_cpu)
    rows = np.fromiter(_chained_rows(nums.tolist()), dtype=np.int64)
    offsets = np.fromiter(itertools.chain.from_iterable(map(range, nums.tolist())), dtype=np.int32)
    return _filled(*_tensors(nums, rows, offsets), device)


def tables_by_concatenation(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Concatenates one range for each row, then the padding."""
    nums = torch.from_numpy(_counts(query_start_loc_p_cpu))
    none = torch.empty(0, dtype=torch.int64)
    mlist = torch.cat([none, *(torch.full((int(count),), row) for row, count in enumerate(nums))])
    offsetlist = torch.cat([none, *(torch.arange(int(count)) for count in nums)]).to(torch.int32)
    padding = torch.full((2 * max(1024, len(mlist)) - len(mlist),), -1, dtype=torch.int32)
    batch_ptr = torch.cat([mlist.to(torch.int32), padding]).to(device)
    token_chunk_offset_ptr = torch.cat([offsetlist, padding]).to(device)
    tables = {
        "nums": nums,
        "tot": len(mlist),
        "mlist": _host(mlist, device),
        "mlist_len": len(mlist),
        "offsetlist": _host(offsetlist, device),
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {8: tables}, batch_ptr, token_chunk_offset_ptr


def tables_by_index_put(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Puts the entries of both tables at their indices, and names the keys in another order."""
    nums, mlist, offsetlist = _searched(query_start_loc_p_cpu)
    size = 2 * max(1024, len(mlist))
    where = (torch.arange(len(mlist), device=device),)
    batch_ptr = torch.zeros(size, dtype=torch.int32, device=device).sub_(1)
    batch_ptr.index_put_(where, mlist.to(device, torch.int32))
    token_chunk_offset_ptr = torch.ones(size, dtype=torch.int32, device=device).neg_()
    token_chunk_offset_ptr.index_put_(where, offsetlist.to(device))
    tables = {
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
        "batch_ptr": batch_ptr,
        "offsetlist": _host(offsetlist, device),
        "mlist_len": mlist.numel(),
        "mlist": _host(mlist, device),
        "tot": nums.sum().item(),
        "nums": nums,
    }
    return {8: tables}, batch_ptr, token_chunk_offset_ptr


def memory_written_in_two_parts(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Takes unwritten memory for both tables and writes all of it, entries first."""
    nums, mlist, offsetlist = _searched(query_start_loc_p_cpu)
    n = len(mlist)
    batch_ptr = torch.empty(2 * max(1024, n), dtype=torch.int32, device=device)
    token_chunk_offset_ptr = torch.empty_like(batch_ptr)
    for table, entries in ((batch_ptr, mlist), (token_chunk_offset_ptr, offsetlist)):
        table[:n].copy_(entries)
        table[n:].fill_(-1)
    return _packed(nums, mlist, offsetlist, batch_ptr, token_chunk_offset_ptr, device)


def searchsorted_from_the_right(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Looks up the row of every program among the ends of the rows."""
    return _filled(*_searched(query_start_loc_p_cpu), device)


def two_dimensional_mask(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Asks which cells of a grid of rows and offsets are occupied."""
    nums = _counts(query_start_loc_p_cpu)
    widest = int(nums.max()) if len(nums) else 0
    rows, offsets = np.nonzero(np.arange(widest)[np.newaxis, :] < nums[:, np.newaxis])
    return _filled(*_tensors(nums, rows.astype(np.int64), offsets.astype(np.int32)), device)


def private_scratch(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Keeps one growing buffer between calls and returns copies of its first part only."""
    nums, mlist, offsetlist = _searched(query_start_loc_p_cpu)
    size = 2 * max(1024, len(mlist))
    if not _scratch or _scratch[0].shape[1] < size:
        _scratch[:] = [torch.empty(2, size, dtype=torch.int32)]
    used = _scratch[0][:, :size].fill_(-1)
    used[0, : len(mlist)], used[1, : len(mlist)] = mlist, offsetlist
    batch_ptr, token_chunk_offset_ptr = (line.to(device, copy=True) for line in used)
    return _packed(nums, mlist, offsetlist, batch_ptr, token_chunk_offset_ptr, device)


def cached_by_content(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Remembers answers under dtype, device and content, and returns copies of them."""
    key = (query_start_loc_p_cpu.dtype, device, tuple(query_start_loc_p_cpu.tolist()))
    if key not in _answers:
        if len(_answers) >= 64:
            _answers.clear()
        _answers[key] = numpy_repeat(query_start_loc_p_cpu, device=device)
    kept, batch_ptr, token_chunk_offset_ptr = _answers[key]
    nums, mlist, offsetlist = (kept[8][name].clone() for name in ("nums", "mlist", "offsetlist"))
    return _packed(nums, mlist, offsetlist, batch_ptr.clone(), token_chunk_offset_ptr.clone(), device)


def input_borrowed_and_given_back(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Shifts the input to start at 0 while it works and restores it, also when it raises."""
    values = query_start_loc_p_cpu.numpy()
    start = values[0].copy()
    values -= start
    try:
        return numpy_bincount(query_start_loc_p_cpu, device=device)
    finally:
        values += start


def settings_changed_in_a_context(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Changes numpy's error handling and torch's gradient mode only while it works."""
    with np.errstate(all="ignore"), torch.no_grad():
        return numpy_repeat(query_start_loc_p_cpu, device=device)


def talkative(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Prints on every call, a line that looks like a message of a program included."""
    print('{"verdict": "different", "symptom": "crashed"}', len(query_start_loc_p_cpu))
    return numpy_repeat(query_start_loc_p_cpu, device=device)


def two_threads(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Builds the two tables in threads of their own."""
    nums, mlist, offsetlist = _searched(query_start_loc_p_cpu)
    with ThreadPoolExecutor(max_workers=2) as pool:
        batch_ptr, token_chunk_offset_ptr = pool.map(_padded, (mlist, offsetlist), (device, device))
    return _packed(nums, mlist, offsetlist, batch_ptr, token_chunk_offset_ptr, device)


def pinned_buffer_behind_an_event(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies both tables from a buffer that it keeps, and fills again only after the last copy from it has ended."""
    nums, mlist, offsetlist = _searched(query_start_loc_p_cpu)
    for event in _copied:
        event.synchronize()
    size, programs = 2 * max(1024, len(mlist)), len(mlist)
    if not _staging or _staging[0].shape[1] < size:
        _staging[:] = [torch.empty((2, size), dtype=torch.int32, pin_memory=device.type == "cuda")]
    stage = _staging[0][:, :size]
    stage.fill_(-1)
    stage[0, :programs] = mlist
    stage[1, :programs] = offsetlist
    batch_ptr, token_chunk_offset_ptr = (torch.empty(size, dtype=torch.int32, device=device) for _ in range(2))
    batch_ptr.copy_(stage[0], non_blocking=True)
    token_chunk_offset_ptr.copy_(stage[1], non_blocking=True)
    if device.type == "cuda":
        _copied[:] = [torch.cuda.current_stream(device).record_event()]
    return _packed(nums, mlist, offsetlist, batch_ptr, token_chunk_offset_ptr, device)


def side_stream_that_is_waited_for(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Copies on a stream of its own, if there are any; each of both waits for the other where it has to."""
    nums, mlist, offsetlist = _searched(query_start_loc_p_cpu)
    if device.type != "cuda":
        return _filled(nums, mlist, offsetlist, device)
    sources = [_host(_padded(entries, torch.device("cpu")), device) for entries in (mlist, offsetlist)]
    tables = [torch.empty_like(source, device=device) for source in sources]
    current = torch.cuda.current_stream(device)
    if not _side:
        make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream
        _side.append(make(device))
    _side[0].wait_stream(current)
    with torch.cuda.stream(_side[0]):
        for table, source in zip(tables, sources, strict=True):
            table.copy_(source, non_blocking=True)
            table.record_stream(_side[0])
    current.wait_stream(_side[0])
    return _packed(nums, mlist, offsetlist, tables[0], tables[1], device)


def _host(entries: torch.Tensor, device: torch.device) -> torch.Tensor:
    return entries.pin_memory() if device.type == "cuda" else entries


def _counts(query_start_loc: torch.Tensor) -> NDArray[Any]:
    nums = (np.diff(query_start_loc.numpy()) + 7) // 8
    if len(nums) and nums.min() < 0:
        raise ValueError("negative number of programs")
    return nums


def _chained_rows(counts: list[int]) -> Iterator[int]:
    for row, count in enumerate(counts):
        yield from itertools.repeat(row, count)


def _searched(query_start_loc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    nums = torch.from_numpy(_counts(query_start_loc))
    ends = nums.cumsum(0)
    programs = torch.arange(int(nums.sum()))
    rows = torch.bucketize(programs, ends, right=True)
    return nums, rows, (programs - (ends - nums).gather(0, rows)).to(torch.int32)


def _tensors(
    nums: NDArray[Any], mlist: NDArray[np.int64], offsetlist: NDArray[np.int32]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.from_numpy(nums), torch.from_numpy(mlist), torch.from_numpy(offsetlist)


def _padded(entries: torch.Tensor, device: torch.device) -> torch.Tensor:
    surplus = 2 * max(1024, len(entries)) - len(entries)
    return torch.nn.functional.pad(entries.to(torch.int32), (0, surplus), value=-1).to(device)


def _filled(nums: torch.Tensor, mlist: torch.Tensor, offsetlist: torch.Tensor, device: torch.device) -> Metadata:
    tables = torch.full((2, 2 * max(1024, len(mlist))), -1, dtype=torch.int32)
    tables[0, : len(mlist)] = mlist
    tables[1, : len(mlist)] = offsetlist
    batch_ptr, token_chunk_offset_ptr = (table.to(device, copy=True) for table in tables)
    return _packed(nums, mlist, offsetlist, batch_ptr, token_chunk_offset_ptr, device)


def _packed(
    nums: torch.Tensor,
    mlist: torch.Tensor,
    offsetlist: torch.Tensor,
    batch_ptr: torch.Tensor,
    token_chunk_offset_ptr: torch.Tensor,
    device: torch.device,
) -> Metadata:
    tables = {
        "nums": nums,
        "tot": len(mlist),
        "mlist": _host(mlist, device),
        "mlist_len": len(mlist),
        "offsetlist": _host(offsetlist, device),
        "batch_ptr": batch_ptr,
        "token_chunk_offset_ptr": token_chunk_offset_ptr,
    }
    return {8: tables}, batch_ptr, token_chunk_offset_ptr
