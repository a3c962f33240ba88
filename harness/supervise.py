"""Supervise: the nursery as its parent sees it: start it, give it jobs, start it again, end it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from harness.errors import HarnessError
from harness.job import JOB_FILE, Job
from harness.journal import Journal, Reading
from harness.poison import PATTERNS
from harness.watch import END_LIMIT, Ending, Limits, Watchdog, parsed, watch

START_LIMIT: Final = 120.0
"""Seconds that the nursery may take to import torch."""
ATTEMPTS: Final = 3
"""How often a job is begun, should the nursery be killed meanwhile: by a candidate next to it, or by the system."""


class Nursery:
    """A running nursery process. ``run`` may be called from several threads; a nursery that was killed is restarted.

    One that was closed stays closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False
        self._closed = False
        self._cuda_devices = 0
        self._start()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the nursery and everything below it. Jobs that are running raise HarnessError."""
        self._closed = True
        # A thread that holds the lock is waiting for an answer: it now gets one.
        self._hang_up()
        with self._lock:
            self._end()

    def run(self, job: Job, limits: Limits, on_progress: Callable[[Reading], None] | None = None) -> Ending:
        """Run one job in a fresh child and return how it ended; never raises for what the child does.

        Raises:
            HarnessError: no child could be started, or the nursery was closed.
        """
        deadline = time.monotonic() + job.seconds
        for _ in range(ATTEMPTS):
            left = max(deadline - time.monotonic(), 0.0)
            process, ending = self._attempt(replace(job, seconds=left), limits, on_progress)
            self._check_open()
            if ending.how == "unstarted" or _stopped(process):
                process.kill()
                process.wait()
                ending.how = "unstarted" if ending.how == "unstarted" else "lost"
            # Without its nursery a guardian ends its child: that says nothing about this candidate.
            elif ending.how not in ("lost", f"signal {int(signal.SIGKILL)}") or not _gone(process):
                return ending
        if ending.how == "unstarted":
            raise HarnessError("cannot start a child process: the nursery does not answer. Is the machine overloaded?")
        return ending

    def _attempt(
        self, job: Job, limits: Limits, on_progress: Callable[[Reading], None] | None
    ) -> tuple[subprocess.Popen[bytes], Ending]:
        with tempfile.TemporaryDirectory(prefix="bitgate-", ignore_cleanup_errors=True) as folder:
            scratch = Path(folder)
            token = secrets.token_hex(16)
            (scratch / JOB_FILE).write_text(replace(job, token=token).to_text(), encoding="utf-8")
            memory, journal = _new_journal()
            pipes = [os.pipe() for _ in range(3)]
            reads, writes = [read for read, _ in pipes], [write for _, write in pipes]
            try:
                try:
                    process = self._spawn(scratch, [*writes, memory])
                finally:
                    for descriptor in (*writes, memory):
                        os.close(descriptor)
                watchdog = Watchdog(journal, limits, time.monotonic() + job.seconds + limits.grace_seconds)
                return process, watch(reads, journal, token, watchdog, on_progress)
            finally:
                for descriptor in reads:
                    os.close(descriptor)
                journal.close()

    def _spawn(self, scratch: Path, descriptors: list[int]) -> subprocess.Popen[bytes]:
        """Ask for a child; the nursery process that was asked."""
        message = json.dumps({"scratch": str(scratch)}).encode()
        with self._lock:
            for _ in range(2):
                self._check_open()
                try:
                    self._wait_ready()
                    assert self._control is not None
                    assert self._process is not None
                    socket.send_fds(self._control, [message], descriptors)
                    return self._process
                except OSError:
                    self._end()
                    self._check_open()
                    self._start()
        raise HarnessError(
            "cannot start a child process: the nursery ended twice. Run `bitgate list` to see the machine."
        )

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._control is not None:
                self._control.shutdown(socket.SHUT_RDWR)

    def _check_open(self) -> None:
        if self._closed:
            raise HarnessError("the nursery was closed: start a new one.")

    def _end(self) -> None:
        """End the process, which ends what is below it when its socket is closed."""
        self._hang_up()
        if self._control is not None:
            self._control.close()
        if self._process is None:
            return
        if self._ready:
            with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
                # A candidate may have stopped it.
                self._process.send_signal(signal.SIGCONT)
                self._process.wait(END_LIMIT)
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {
            **os.environ,
            "MALLOC_PERTURB_": str(PATTERNS[0]),
            "PYTHONHASHSEED": "0",
            # Counting devices must not start CUDA: a process that has started it cannot fork.
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-P", "-m", "harness.nursery", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._control, self._ready = ours, False

    def _wait_ready(self) -> None:
        if self._ready:
            return
        assert self._control is not None
        self._control.settimeout(START_LIMIT)
        message = parsed(self._control.recv(4096))
        if not isinstance(message, dict):
            raise OSError("the nursery closed its socket")
        self._control.settimeout(None)
        self._ready, self._cuda_devices = True, int(message["cuda_devices"])

    def cuda_devices(self) -> int:
        """How many CUDA devices torch sees on this machine.

        Raises:
            HarnessError: the nursery does not start.
        """
        with self._lock:
            try:
                self._wait_ready()
            except OSError as error:
                raise HarnessError(f"the nursery did not start: {error}. Try: python -c 'import torch'") from error
        return self._cuda_devices


def _stopped(process: subprocess.Popen[bytes]) -> bool:
    try:
        return bool(psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def _gone(process: subprocess.Popen[bytes]) -> bool:
    try:
        # A process that is ending closes its files, which is what we saw, shortly before it has ended.
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return False
    return True


def _new_journal() -> tuple[int, Journal]:
    """A journal in memory that nobody can cut short under its readers, and a descriptor of it for the child."""
    memory = os.memfd_create("bitgate-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    journal = Journal.create(Path(f"/proc/self/fd/{memory}"))
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return memory, journal
