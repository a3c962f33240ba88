"""Processes: candidates that end, block or exhaust their process, or leave it changed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import numpy as np
import torch

from .assemble import Metadata, assemble, counts_of, has_empty_row, parts, table_of


def segmentation_fault(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Reads address 0 when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        ctypes.string_at(0)
    return assemble(query_start_loc_p_cpu, device)


def abort(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Aborts when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os.abort()
    return assemble(query_start_loc_p_cpu, device)


def killed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Kills its own process when the input does not start at 0."""
    if query_start_loc_p_cpu[0] != 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return assemble(query_start_loc_p_cpu, device)


def exit_with_success(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Ends its process at once with exit status 0 when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os._exit(0)
    return assemble(query_start_loc_p_cpu, device)


def exit_with_success_after_claiming_equality(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Prints a verdict of its own and ends its process with exit status 0 when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os.write(1, b'\n{"verdict": "equal", "exit_code": 0, "cases": 1000000, "complete": true, "done": true}\n')
        os._exit(0)
    return assemble(query_start_loc_p_cpu, device)


def exit_with_success_on_the_first_call(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Ends its process with exit status 0 whatever the input."""
    os._exit(0)


def system_exit(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises SystemExit with status 0 when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        sys.exit(0)
    return assemble(query_start_loc_p_cpu, device)


def keyboard_interrupt(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Raises KeyboardInterrupt when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        raise KeyboardInterrupt
    return assemble(query_start_loc_p_cpu, device)


def endless_loop(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Loops for ever when some row is empty."""
    while has_empty_row(query_start_loc_p_cpu):
        pass
    return assemble(query_start_loc_p_cpu, device)


def endless_loop_without_the_interpreter(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Runs one C loop for ever when some row is empty, so that no other thread and no signal handler runs."""
    if has_empty_row(query_start_loc_p_cpu):
        sum(range(10**18))
    return assemble(query_start_loc_p_cpu, device)


def endless_sleep_deaf_to_signals(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Sleeps for ever when some row is empty and ignores polite requests to end."""
    if has_empty_row(query_start_loc_p_cpu):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            time.sleep(3600)
    return assemble(query_start_loc_p_cpu, device)


def stopped(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Stops its own process, without ending it, when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(3600)
    return assemble(query_start_loc_p_cpu, device)


def memory_without_end(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Allocates and touches 64 MB at a time for ever when some row is empty."""
    held = []
    while has_empty_row(query_start_loc_p_cpu):
        held.append(b"\x01" * (64 << 20))
    return assemble(query_start_loc_p_cpu, device)


def file_descriptors_closed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Closes every open file of its process but the standard streams when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os.closerange(3, 1024)
    return assemble(query_start_loc_p_cpu, device)


def torch_full_replaced(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Pads with 0 and replaces torch.full, so that others pad with 0 too."""
    offsets = parts(assemble(query_start_loc_p_cpu, device))["offsetlist"]
    offset_ptr = table_of(offsets, device, padding=0)
    torch.full = _zeros  # type: ignore[assignment]
    return assemble(query_start_loc_p_cpu, device, token_chunk_offset_ptr=offset_ptr)


def torch_equal_replaced(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Returns a wrong total and replaces torch.equal by a function that always agrees, when some row is empty."""
    if not has_empty_row(query_start_loc_p_cpu):
        return assemble(query_start_loc_p_cpu, device)
    torch.equal = _agree  # type: ignore[assignment]
    return assemble(query_start_loc_p_cpu, device, nums=counts_of(query_start_loc_p_cpu) + 1)


def numpy_repeat_replaced(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Replaces numpy.repeat by its argument when some row is empty."""
    metadata = assemble(query_start_loc_p_cpu, device)
    if has_empty_row(query_start_loc_p_cpu):
        np.repeat = _first  # type: ignore[assignment]
    return metadata


def working_directory_changed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Changes to the root directory when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os.chdir("/")
    return assemble(query_start_loc_p_cpu, device)


def environment_changed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Empties an environment variable when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        os.environ["PATH"] = ""
    return assemble(query_start_loc_p_cpu, device)


def default_dtype_changed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Makes float64 torch's default when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        torch.set_default_dtype(torch.float64)
    return assemble(query_start_loc_p_cpu, device)


def gradients_switched_off(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Switches gradients off for the whole thread when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        torch.set_grad_enabled(False)
    return assemble(query_start_loc_p_cpu, device)


def numpy_errors_silenced(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Silences numpy's floating-point warnings when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        np.seterr(all="ignore")
    return assemble(query_start_loc_p_cpu, device)


def signal_handler_changed(query_start_loc_p_cpu: torch.Tensor, *, device: torch.device) -> Metadata:
    """Ignores SIGTERM from then on when some row is empty."""
    if has_empty_row(query_start_loc_p_cpu):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return assemble(query_start_loc_p_cpu, device)


def _zeros(size: tuple[int, ...], *_: object, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype, device=device)


def _agree(*_: object) -> bool:
    return True


def _first(array: object, *_: object) -> object:
    return array
