"""Nursery: a process that has imported torch once and forks a fresh child for every job.

Three generations, so that nothing a candidate does reaches the parent::

    parent ── nursery ── guardian ── child (runs the candidate)

The guardian adopts whatever the child leaves behind (Linux's child subreaper), ends it, and tells the parent how the
child ended. The nursery does the same for a guardian that a candidate has killed. Every generation ends with the one
above it, and takes with it what is below.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from harness.journal import Journal

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_F_SEAL_FUTURE_WRITE: Final = 0x10
"""Linux's fcntl.h; Python has no name for it before 3.15."""
HARNESS_FAILED: Final = 97
"""Exit status of a child in which the harness itself, not the candidate, failed."""
DESCRIPTORS: Final = 4
"""What comes with every job: the write ends of the pipes for messages, output and status, and the journal."""
_CLEARING: Final = 5.0
"""Seconds that a guardian tries to end what its child left behind."""


def main(descriptor: int) -> None:
    """Serve the parent at the other end of the socket ``descriptor`` until it closes it or dies."""
    control = socket.socket(fileno=descriptor)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # Imported here and once: a forked child starts with all of it in memory.
    import torch

    from harness import worker  # noqa: F401
    from harness.contracts import all_contracts

    _draw_alike_everywhere()
    # Python 3.12 and later warn of threads at a fork. Those there are belong to libraries and wait for work.
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    torch.set_num_threads(1)
    all_contracts()
    gc.collect()
    gc.freeze()
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with contextlib.suppress(OSError):
        control.send(json.dumps({"cuda_devices": devices}).encode())
        _serve(control)
    _end_below()


def _draw_alike_everywhere() -> None:
    """Keep Hypothesis from drawing constants out of whatever source is imported, and storing them in the user's folder.

    The same seed draws the same cases then, wherever this package and the candidate lie.
    """
    from hypothesis.internal.conjecture import providers

    nothing = getattr(providers, "_local_constants", None)
    if nothing is not None:
        vars(providers)["_get_local_constants"] = lambda: nothing


def _serve(control: socket.socket) -> None:
    """Fork a guardian for every job that comes in, and end what a guardian that was killed could not end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    guardians: set[int] = set()
    sources: list[socket.socket | int] = [control, woken]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if woken in ready:
            os.read(woken, 4096)
            if _reap(guardians):
                _kill_below(spared=guardians)
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 4096, DESCRIPTORS)
        if not message:
            return
        scratch = Path(json.loads(message)["scratch"])
        guardian = os.fork()
        if guardian == 0:
            try:
                signal.set_wakeup_fd(-1)
                for number in (control.fileno(), woken, wake):
                    os.close(number)
                _guard(scratch, *descriptors)
            finally:
                os._exit(HARNESS_FAILED)
        guardians.add(guardian)
        for number in descriptors:
            os.close(number)


def _reap(guardians: set[int]) -> bool:
    """Collect every process that has ended. Whether one of them was no guardian, or one that did not finish."""
    stray = False
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, code = ended
            stray = stray or pid not in guardians or code != 0
            guardians.discard(pid)
    return stray


def _guard(scratch: Path, messages: int, output: int, status: int, journal: int) -> None:
    """Fork the child, wait for it, end what it left behind, and report its start and its end as JSON lines."""
    _end_with_parent(signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(status)
        _run(scratch, messages, output, journal)

    def end(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    for number in (messages, output, journal):
        os.close(number)
    _say(status, pid=child, guardian=os.getpid())
    while True:
        pid, code = os.waitpid(-1, 0)
        if pid == child:
            break
    ended, alone = _end_below()
    ending = {"signal": os.WTERMSIG(code)} if os.WIFSIGNALED(code) else {"status": os.WEXITSTATUS(code)}
    _say(status, **ending, left_behind=ended)
    os._exit(0 if alone else HARNESS_FAILED)


def _say(descriptor: int, **fields: int) -> None:
    # The parent may be gone; what is below must be ended all the same.
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(fields).encode() + b"\n")


def _end_below() -> tuple[int, bool]:
    """Kill every process below this one, and what these start meanwhile: how many there were, and whether all ended."""
    killed: set[int] = set()
    deadline = time.monotonic() + _CLEARING
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return len(killed), True
        killed |= _kill_below()
        time.sleep(0.005)
    return len(killed), False


def _kill_below(spared: Collection[int] = ()) -> set[int]:
    """Kill what is below this process, except the children in ``spared`` and what is below those; whom it was."""
    killed = set()
    for child in psutil.Process().children():
        if child.pid in spared:
            continue
        with contextlib.suppress(psutil.Error):
            for process in (child, *child.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    process.kill()
                    killed.add(process.pid)
    return killed


def _run(scratch: Path, messages: int, output: int, journal: int) -> None:
    """Become the child: own session, output into the pipe, scratch working folder; carry out the job and exit."""
    from harness.job import JOB_FILE, WORKING_FOLDER, read_job
    from harness.worker import Channel, carry_out

    status = HARNESS_FAILED
    try:
        os.setsid()
        _end_with_parent(signal.SIGKILL)
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
            carry_out(job, _sealed(journal), channel)
            status = 0
        except BaseException:
            channel.send("failed", message=traceback.format_exc(limit=-8))
    finally:
        os._exit(status)


def _sealed(descriptor: int) -> Journal:
    """The journal, mapped; nothing but this mapping can write to it from now on."""
    from harness.journal import Journal

    journal = Journal(Path(f"/proc/self/fd/{descriptor}"))
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
    os.close(descriptor)
    return journal


def _end_with_parent(how: signal.Signals) -> None:
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:
        os._exit(HARNESS_FAILED)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
