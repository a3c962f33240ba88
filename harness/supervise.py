"""Supervise: the parent's side of a child process: start it, watch it, end it, read what it said."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import psutil

from harness.errors import HarnessError
from harness.job import JOB_FILE, JOURNAL_FILE, Job
from harness.journal import Entry, Journal, Phase, Reading
from harness.poison import PATTERNS
from harness.verdict import Symptom

START_LIMIT: Final = 120.0
"""Seconds that the nursery may take to import torch, and a candidate to be loaded."""
ENGINE_LIMIT: Final = 300.0
"""Seconds without progress after which the harness itself counts as stuck."""
TICK: Final = 0.02
KEPT_OUTPUT: Final = 32 * 1024
"""Bytes of a child's output kept from its start, and from its end."""
MESSAGE_LIMIT: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may use: seconds for one call of the candidate, bytes of memory for its process and its children."""

    case_seconds: float = 10.0
    memory_bytes: int = 4 << 30
    grace_seconds: float = 2.0
    """How long a child may go on after its job's time is over, to finish what it is doing."""


@dataclass(slots=True)
class Ending:
    """How a child ended, what it said, and what its journal held then."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    how: str = ""
    """``done``, ``hung``, ``memory``, ``time`` (the job's time is over), ``signal N``, ``exit N``, ``stuck`` (the
    harness), ``lost`` (nothing is known)."""
    reading: Reading | None = None
    output: str = ""
    left_behind: int = 0
    peak_bytes: int = 0

    def message(self, kind: str) -> dict[str, Any] | None:
        """The first message of a kind, or None."""
        return next((message for message in self.messages if message.get("kind") == kind), None)

    def symptom(self) -> Symptom | None:
        """The symptom of a child that did not finish; None if it did, or if the candidate had not been called."""
        if self.how in ("done", "stuck", "time") or self.reading is None or self.reading.entry is Entry.NONE:
            return None
        if any(self.message(kind) for kind in ("changed", "failed", "unloadable")):
            return Symptom.CHANGED_GLOBALS if self.message("changed") else None
        return {"hung": Symptom.HUNG, "memory": Symptom.OUT_OF_MEMORY}.get(self.how, Symptom.CRASHED)

    def describe(self) -> str:
        """How the child ended, for readers."""
        changed = self.message("changed")
        if changed is not None:
            return str(changed.get("message", ""))
        word, _, number = self.how.partition(" ")
        if word == "signal":
            try:
                return f"the process was ended by {signal.Signals(int(number)).name}"
            except ValueError:
                return f"the process was ended by signal {number}"
        return {
            "exit": f"the process exited with status {number} before the check had ended",
            "hung": "one call did not return within the limit",
            "memory": "the process grew past the memory limit",
            "time": "the time limit was reached",
            "stuck": "the harness made no progress",
            "lost": "the process and its guardian are gone",
        }.get(word, self.how)


@dataclass(slots=True)
class _Output:
    """The first and the last bytes of a stream that may be endless."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, data: bytes) -> None:
        room = KEPT_OUTPUT - len(self.head)
        self.head += data[: max(room, 0)]
        self.tail += data[max(room, 0) :]
        if len(self.tail) > 2 * KEPT_OUTPUT:
            self.dropped += len(self.tail) - KEPT_OUTPUT
            del self.tail[:-KEPT_OUTPUT]

    def text(self) -> str:
        between = f"\n[{self.dropped} bytes left out]\n".encode() if self.dropped else b""
        return (bytes(self.head) + between + bytes(self.tail)).decode(errors="replace")


class Nursery:
    """A running nursery process. ``run`` may be called from several threads; a nursery that was killed is restarted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False
        self._cuda_devices = 0
        self._start()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the nursery and everything below it."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def run(self, job: Job, limits: Limits, on_progress: Callable[[Reading], None] | None = None) -> Ending:
        """Run one job in a fresh child and return how it ended; never raises for what the child does.

        Raises:
            HarnessError: no child could be started.
        """
        with tempfile.TemporaryDirectory(prefix="bitgate-", ignore_cleanup_errors=True) as folder:
            scratch = Path(folder)
            token = secrets.token_hex(16)
            (scratch / JOB_FILE).write_text(replace(job, token=token).to_text(), encoding="utf-8")
            journal = Journal.create(scratch / JOURNAL_FILE)
            pipes = [os.pipe() for _ in range(3)]
            try:
                self._spawn(scratch, [write for _, write in pipes])
                for _, write in pipes:
                    os.close(write)
                watchdog = _Watchdog(journal, limits, time.monotonic() + job.seconds + limits.grace_seconds)
                reads = [read for read, _ in pipes]
                return _watch(reads, journal, token, watchdog, on_progress)
            finally:
                for read, _ in pipes:
                    os.close(read)
                journal.close()

    def _spawn(self, scratch: Path, descriptors: list[int]) -> None:
        message = json.dumps({"scratch": str(scratch)}).encode()
        with self._lock:
            for _ in range(2):
                try:
                    self._wait_ready()
                    assert self._control is not None
                    socket.send_fds(self._control, [message], descriptors)
                    return
                except OSError:
                    self.close()
                    self._start()
        raise HarnessError(
            "cannot start a child process: the nursery ended twice. Run `bitgate list` to see the machine."
        )

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
        message = _parsed(self._control.recv(4096))
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


def _watch(
    pipes: list[int],
    journal: Journal,
    token: str,
    watchdog: _Watchdog,
    on_progress: Callable[[Reading], None] | None,
) -> Ending:
    """Read everything until the guardian has reported the child's end; kill the child when it passes a limit."""
    messages, output, status = pipes
    ending, printed = Ending(), _Output()
    said, reported = bytearray(), bytearray()
    pid = 0
    with selectors.DefaultSelector() as selector:
        for descriptor in (messages, output, status):
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while status in selector.get_map():
            for key, _ in selector.select(TICK):
                data = _read(key.fd)
                if not data:
                    selector.unregister(key.fd)
                elif key.fd == messages:
                    said += data[: max(0, MESSAGE_LIMIT - len(said))]
                elif key.fd == output:
                    printed.add(data)
                else:
                    reported += data
            if not pid and b"\n" in reported:
                pid = int(_line(reported, 0).get("pid", 0))
            if pid and not ending.how:
                ending.how = watchdog.verdict(pid)
                if ending.how:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if on_progress is not None:
                on_progress(watchdog.reading)
        for descriptor, sink in ((messages, said.extend), (output, printed.add)):
            while descriptor in selector.get_map() and (data := _read(descriptor)):
                sink(data)
    end = _line(reported, 1)
    ending.reading, ending.peak_bytes = journal.read(), watchdog.peak
    ending.output, ending.left_behind = printed.text(), int(end.get("left_behind", 0))
    ending.messages = list(_messages(bytes(said), token))
    ending.how = ending.how or _how(end, ending)
    return ending


def _how(end: dict[str, Any], ending: Ending) -> str:
    if "signal" in end:
        return f"signal {int(end['signal'])}"
    if "status" not in end:
        return "lost"
    finished = end["status"] == 0 and ending.messages and ending.messages[-1].get("kind") == "done"
    return "done" if finished else f"exit {int(end['status'])}"


class _Watchdog:
    """Watches one child's journal and memory."""

    def __init__(self, journal: Journal, limits: Limits, deadline: float) -> None:
        self._journal = journal
        self._limits = limits
        self._deadline = deadline
        self._since = time.monotonic()
        self._process: psutil.Process | None = None
        self._family: list[psutil.Process] = []
        self._listed = 0.0
        self.reading = journal.read()
        self.peak = 0

    def verdict(self, pid: int) -> str:
        """Why the child must end now (``hung``, ``memory``, ``stuck``, ``time``), or an empty string."""
        now, reading = time.monotonic(), self._journal.read()
        if (reading.sequence, reading.phase) != (self.reading.sequence, self.reading.phase):
            self._since = now
        self.reading = reading
        limit = {Phase.CANDIDATE: self._limits.case_seconds, Phase.ENGINE: ENGINE_LIMIT}.get(reading.phase, START_LIMIT)
        if now - self._since > limit:
            return "stuck" if reading.phase in (Phase.ENGINE, Phase.STARTING) else "hung"
        if now > self._deadline:
            return "time"
        self.peak = max(self.peak, self._memory(pid))
        return "memory" if self.peak > self._limits.memory_bytes else ""

    def _memory(self, pid: int) -> int:
        """Resident bytes of the child and of the processes it has started (listed twice a second: that is costly)."""
        try:
            if self._process is None:
                self._process = psutil.Process(pid)
            if time.monotonic() - self._listed > 0.5:
                self._family, self._listed = self._process.children(recursive=True), time.monotonic()
        except psutil.Error:
            return 0
        total = 0
        for process in (self._process, *self._family):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _line(data: bytearray, number: int) -> dict[str, Any]:
    lines = bytes(data).split(b"\n")
    document = _parsed(lines[number]) if number < len(lines) else None
    return document if isinstance(document, dict) else {}


def _messages(data: bytes, token: str) -> Iterator[dict[str, Any]]:
    """The well-formed messages that carry the job's token; anything else in the stream is ignored."""
    for line in data.split(b"\n"):
        document = _parsed(line)
        if isinstance(document, dict) and document.get("token") == token:
            yield document


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
