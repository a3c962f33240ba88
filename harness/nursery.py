"""Nursery: a process that has imported torch once and forks a fresh child for every job.

Three generations, so that nothing a candidate does reaches the parent::

    parent ── nursery ── guardian ── child (runs the candidate)

The guardian adopts whatever the child leaves behind (Linux's child subreaper), ends it, and tells the parent how the
child ended. Every generation dies with the one above it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Final

import psutil

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
HARNESS_FAILED: Final = 97
"""Exit status of a child in which the harness itself, not the candidate, failed."""


def main(descriptor: int) -> None:
    """Serve the parent at the other end of the socket ``descriptor`` until it closes it."""
    _die_with_parent()
    control = socket.socket(fileno=descriptor)
    # Imported here and once: a forked child starts with all of it in memory.
    import hypothesis  # noqa: F401
    import torch

    from harness import worker  # noqa: F401
    from harness.contracts import all_contracts

    torch.set_num_threads(1)
    all_contracts()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    control.send(json.dumps({"cuda_devices": devices}).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 3)
        if not message:
            return
        scratch = Path(json.loads(message)["scratch"])
        if os.fork() == 0:
            control.close()
            try:
                _guard(scratch, *descriptors)
            finally:
                os._exit(HARNESS_FAILED)
        for number in descriptors:
            os.close(number)


def _guard(scratch: Path, messages: int, output: int, status: int) -> None:
    """Fork the child, wait for it, end what it left behind, and report its start and its end as JSON lines."""
    _die_with_parent()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(status)
        _run(scratch, messages, output)
    os.close(messages)
    os.close(output)
    os.write(status, json.dumps({"pid": child}).encode() + b"\n")
    while True:
        pid, code = os.waitpid(-1, 0)
        if pid == child:
            break
    left = _end_descendants()
    ending = {"signal": os.WTERMSIG(code)} if os.WIFSIGNALED(code) else {"status": os.WEXITSTATUS(code)}
    os.write(status, json.dumps({**ending, "left_behind": left}).encode() + b"\n")
    os._exit(0)


def _end_descendants() -> int:
    """Kill every process that the child left behind, and what these start meanwhile; how many there were."""
    ended = 0
    deadline = time.monotonic() + 5.0
    while (alive := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
        for process in alive:
            try:
                process.kill()
                ended += 1
            except psutil.Error:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue
        time.sleep(0.005)
    return ended


def _run(scratch: Path, messages: int, output: int) -> None:
    """Become the child: own session, output into the pipe, scratch working folder; carry out the job and exit."""
    from harness.job import JOB_FILE, JOURNAL_FILE, WORKING_FOLDER, read_job
    from harness.journal import Journal
    from harness.worker import Channel, carry_out

    status = HARNESS_FAILED
    try:
        os.setsid()
        _die_with_parent()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        empty = os.open(os.devnull, os.O_RDONLY)
        for source, number in ((empty, 0), (output, 1), (output, 2)):
            os.dup2(source, number)
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
        faulthandler.enable(2)
        working = scratch / WORKING_FOLDER
        working.mkdir(exist_ok=True)
        os.chdir(working)
        job = read_job(scratch / JOB_FILE)
        (scratch / JOB_FILE).unlink()
        channel = Channel(messages, job.token)
        try:
            carry_out(job, Journal(scratch / JOURNAL_FILE), channel)
            status = 0
        except BaseException:
            channel.send("failed", message=traceback.format_exc(limit=-8))
    finally:
        os._exit(status)


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(HARNESS_FAILED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
