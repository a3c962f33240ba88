"""Watch: a child process as its parent sees it: what it says and prints, how much it uses, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import psutil

from harness.journal import Entry, Journal, Phase, Reading
from harness.verdict import Symptom

START_LIMIT: Final = 120.0
"""Seconds that a candidate may take to be loaded."""
ENGINE_LIMIT: Final = 300.0
"""Seconds without progress after which the harness itself counts as stuck."""
FORK_LIMIT: Final = 30.0
"""Seconds that a nursery that is ready may take to fork."""
END_LIMIT: Final = 15.0
"""Seconds that a guardian may take to end what is below it."""
TICK: Final = 0.02
GLANCE: Final = 0.5
"""Seconds between two looks at the list of processes, which are costly."""
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


_SYMPTOMS: Final = MappingProxyType(
    {"hung": Symptom.HUNG, "memory": Symptom.OUT_OF_MEMORY, "forged": Symptom.CHANGED_GLOBALS}
)


@dataclass(slots=True)
class Ending:
    """How a child ended, what it said, and what its journal held then."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    how: str = ""
    """``done``; ``hung``, ``memory``, ``time`` (the job's time is over); ``signal N``, ``exit N``; ``forged`` (what
    came where messages come was none); ``stuck`` (the harness); ``lost`` (nothing is known); ``unstarted``."""
    reading: Reading | None = None
    output: str = ""
    left_behind: int = 0
    peak_bytes: int = 0

    def message(self, kind: str) -> dict[str, Any] | None:
        """The first message of a kind, or None."""
        return next((message for message in self.messages if message.get("kind") == kind), None)

    def symptom(self) -> Symptom | None:
        """The symptom of a child that did not finish; None if it did, or if the candidate had not been called."""
        if self.reading is None or self.reading.entry is Entry.NONE:
            return None
        if self.how in ("done", "stuck", "time", "unstarted"):
            return None
        if any(self.message(kind) for kind in ("changed", "failed", "unloadable")):
            return Symptom.CHANGED_GLOBALS if self.message("changed") else None
        if self.how == "memory" and self.reading.phase is not Phase.CANDIDATE:
            return None  # the reference may have taken it
        return _SYMPTOMS.get(self.how, Symptom.CRASHED)

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
            "forged": "the process wrote into the pipe that the harness speaks through",
            "time": "the time limit was reached",
            "stuck": "the harness made no progress",
            "lost": "the process and the one that guards it were ended or stopped together",
            "unstarted": "no process could be started",
        }.get(word, self.how)


def watch(
    pipes: list[int],
    journal: Journal,
    token: str,
    watchdog: Watchdog,
    on_progress: Callable[[Reading], None] | None,
) -> Ending:
    """Read everything until the guardian has reported the child's end; kill the child when it passes a limit."""
    messages, output, status = pipes
    ending, printed, said, reported = Ending(), _Output(), _Messages(token), bytearray()
    started, told = time.monotonic(), 0.0
    family: list[int] = []
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
                    said.add(data)
                elif key.fd == output:
                    printed.add(data)
                else:
                    reported += data
            now = time.monotonic()
            if not family and b"\n" in reported:
                first = _line(reported, 0)
                family = [int(first["pid"]), int(first["guardian"])]
            if not family:
                if now - started > FORK_LIMIT:
                    ending.how = "unstarted"
                    break
            elif not ending.how:
                ending.how = watchdog.verdict(*family) or ("forged" if said.forged else "")
                if ending.how:
                    told = now
                    _kill(family[0])
            elif now - told > END_LIMIT:
                _kill(family[1])
                break
            if on_progress is not None:
                on_progress(watchdog.reading)
        for descriptor, sink in ((messages, said.add), (output, printed.add)):
            while descriptor in selector.get_map() and (data := _read(descriptor)):
                sink(data)
    said.end()
    end = _line(reported, 1)
    ending.reading, ending.peak_bytes = journal.read(), watchdog.peak
    ending.output, ending.left_behind = printed.text(), int(end.get("left_behind", 0))
    ending.messages = said.messages
    ending.how = ending.how or ("forged" if said.forged else _how(end, ending))
    return ending


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _how(end: dict[str, Any], ending: Ending) -> str:
    if "signal" in end:
        return f"signal {int(end['signal'])}"
    if "status" not in end:
        return "lost"
    finished = end["status"] == 0 and ending.messages and ending.messages[-1].get("kind") == "done"
    return "done" if finished else f"exit {int(end['status'])}"


class Watchdog:
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

    def verdict(self, pid: int, guardian: int) -> str:
        """Why the child must end now (``hung``, ``memory``, ``stuck``, ``time``, ``lost``), or an empty string."""
        now, reading = time.monotonic(), self._journal.read()
        if (reading.sequence, reading.phase) != (self.reading.sequence, self.reading.phase):
            self._since = now
        self.reading = reading
        limit = {Phase.CANDIDATE: self._limits.case_seconds, Phase.ENGINE: ENGINE_LIMIT}.get(reading.phase, START_LIMIT)
        if now - self._since > limit:
            return "stuck" if reading.phase in (Phase.ENGINE, Phase.STARTING) else "hung"
        if now > self._deadline:
            return "time"
        if now - self._listed > GLANCE:
            self._listed = now
            if self._glance(pid, guardian) == psutil.STATUS_STOPPED:
                _kill(guardian)
                return "lost"
        used = self._memory()
        self.peak = max(self.peak, used)
        return "memory" if used > self._limits.memory_bytes else ""

    def _glance(self, pid: int, guardian: int) -> str:
        """List the child and the processes it has started; how its guardian is."""
        try:
            if self._process is None:
                self._process = psutil.Process(pid)
            self._family = [self._process, *self._process.children(recursive=True)]
            return str(psutil.Process(guardian).status())
        except psutil.Error:
            return ""

    def _memory(self) -> int:
        """Bytes that the child and the processes it has started hold in memory, shared ones counted once."""
        total = sum(_bytes(process, "rss") for process in self._family)
        if len(self._family) == 1 or total <= self._limits.memory_bytes:
            return total
        # Forked processes share most of their pages; telling which takes the system longer.
        return sum(_bytes(process, "pss") for process in self._family)


def _bytes(process: psutil.Process, kind: str) -> int:
    with contextlib.suppress(psutil.Error):
        memory = process.memory_info() if kind == "rss" else process.memory_full_info()
        return int(getattr(memory, kind))
    return 0


class _Messages:
    """The messages in a stream: well-formed lines that carry the job's token. Anything else in it is forged."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._rest = bytearray()
        self._room = MESSAGE_LIMIT
        self.messages: list[dict[str, Any]] = []
        self.forged = False

    def add(self, data: bytes) -> None:
        self._rest += data[: self._room]
        self._room -= min(self._room, len(data))
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._take(bytes(line))

    def end(self) -> None:
        """Take what is left: a line without an end."""
        self._take(bytes(self._rest))

    def _take(self, line: bytes) -> None:
        document = parsed(line)
        if isinstance(document, dict) and document.get("token") == self._token:
            self.messages.append(document)
        elif line:
            self.forged = True


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _line(data: bytearray, number: int) -> dict[str, Any]:
    lines = bytes(data).split(b"\n")
    document = parsed(lines[number]) if number < len(lines) else None
    return document if isinstance(document, dict) else {}


def parsed(line: bytes) -> object:
    """The value of a line of JSON; None if it is none, however it is malformed."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


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
