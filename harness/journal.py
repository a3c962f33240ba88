"""Journal: the case that is about to run, written to memory that outlives the process that runs it."""

from __future__ import annotations

import json
import mmap
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from harness.case import Case, case_from_json
from harness.errors import HarnessError, UsageError

SIZE: Final = 4 << 20
_HEADER: Final = struct.Struct("<QBBxxxxxxQQ")
"""Sequence number, phase, kind of entry, entry (an index, or a length), cases done."""
_PHASE_OFFSET: Final = 8
_TEXT_OFFSET: Final = 64


class Phase(IntEnum):
    """What the process is doing."""

    STARTING = 0
    LOADING = 1
    ENGINE = 2
    CANDIDATE = 3


class Entry(IntEnum):
    """How the case is written down: as its number in a list that the parent has too, or as JSON."""

    NONE = 0
    SPACE = 1
    SCALE = 2
    REPLAY = 3
    TEXT = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """The journal's content at one moment. ``index`` is the case's number in its list; ``text`` its JSON."""

    sequence: int
    phase: Phase
    entry: Entry
    index: int
    done: int
    text: bytes = b""

    def case(self) -> Case | None:
        """The case of a TEXT entry; None if there is none or it was not written completely."""
        if self.entry is not Entry.TEXT:
            return None
        try:
            return case_from_json(json.loads(self.text))
        except (ValueError, RecursionError, UsageError):
            return None


class Journal:
    """A memory-mapped file, written by the child before every call and read by the parent at any time.

    Small enough to write twice per case: entries that the parent can look up by number are one packed header.
    """

    __slots__ = ("_map", "_sequence")

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._sequence = 0

    @staticmethod
    def create(path: Path) -> Journal:
        """A new, empty journal (a sparse file of 4 MiB)."""
        with path.open("wb") as file:
            file.truncate(SIZE)
        return Journal(path)

    def begin(self, entry: int, index: int, done: int) -> None:
        """The candidate is about to run on case ``index`` of the list that ``entry`` names."""
        self._sequence += 1
        _HEADER.pack_into(self._map, 0, self._sequence, _CANDIDATE, entry, index, done)

    def begin_text(self, case: Case, done: int) -> None:
        """The candidate is about to run on a case that no list holds.

        Raises:
            HarnessError: the case is larger than the journal.
        """
        text = json.dumps(case.to_json()).encode()
        if len(text) > SIZE - _TEXT_OFFSET:
            raise HarnessError(f"a case of {len(text)} bytes does not fit the journal: generate smaller batches.")
        self.phase(Phase.ENGINE)
        self._map[_TEXT_OFFSET : _TEXT_OFFSET + len(text)] = text
        self.begin(Entry.TEXT, len(text), done)

    def again(self) -> None:
        """The candidate is about to run on the same case once more."""
        self._sequence += 1
        struct.pack_into("<QB", self._map, 0, self._sequence, _CANDIDATE)

    def end(self) -> None:
        """The candidate has returned."""
        self._map[_PHASE_OFFSET] = _ENGINE

    def phase(self, phase: Phase) -> None:
        """The process enters a phase in which no case runs."""
        self._sequence += 1
        struct.pack_into("<QB", self._map, 0, self._sequence, phase)

    def read(self) -> Reading:
        """What is written now."""
        sequence, phase, entry, index, done = _HEADER.unpack_from(self._map, 0)
        try:
            kind, stage = Entry(entry), Phase(phase)
        except ValueError:
            return Reading(sequence, Phase.ENGINE, Entry.NONE, 0, 0)
        text = b""
        if kind is Entry.TEXT:
            text = self._map[_TEXT_OFFSET : _TEXT_OFFSET + min(index, SIZE - _TEXT_OFFSET)]
        return Reading(sequence, stage, kind, index, done, text)

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()


_CANDIDATE: Final = int(Phase.CANDIDATE)
_ENGINE: Final = int(Phase.ENGINE)
