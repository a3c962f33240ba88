"""The journal says which case was running, whatever is written into it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import Case, TensorValue
from harness.errors import HarnessError
from harness.journal import SIZE, Entry, Journal, Phase, Reading

CASE = Case("toy", {"x": TensorValue("int32", (1, 2, 3)), "text": "é\ud800"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    created = Journal.create(path)
    yield created
    created.close()


def test_a_new_journal_says_that_the_process_starts(journal: Journal) -> None:
    assert journal.read() == Reading(0, Phase.STARTING, Entry.NONE, 0, 0)
    assert journal.read().case() is None


def test_a_second_reader_sees_what_is_written(journal: Journal, path: Path) -> None:
    reader = Journal(path)
    journal.begin(Entry.SPACE, 7, 5)
    reading = reader.read()
    assert (reading.phase, reading.entry, reading.index, reading.done) == (Phase.CANDIDATE, Entry.SPACE, 7, 5)
    journal.end()
    assert reader.read().phase is Phase.ENGINE
    assert reader.read().index == 7
    reader.close()


def test_every_call_and_every_phase_has_a_new_sequence_number(journal: Journal) -> None:
    numbers = []
    steps: list[Callable[[], None]] = [
        lambda: journal.begin(Entry.SCALE, 0, 0),
        journal.again,
        journal.again,
        lambda: journal.phase(Phase.LOADING),
        lambda: journal.begin_text(CASE, 1),
        lambda: journal.phase(Phase.ENGINE),
    ]
    for step in steps:
        step()
        numbers.append(journal.read().sequence)
    assert numbers == sorted(set(numbers))


def test_another_call_on_the_same_case_keeps_the_case(journal: Journal) -> None:
    journal.begin_text(CASE, 3)
    journal.end()
    journal.again()
    reading = journal.read()
    assert (reading.phase, reading.done) == (Phase.CANDIDATE, 3)
    assert reading.case() == CASE


def test_a_case_is_read_as_it_was_written(journal: Journal) -> None:
    journal.begin_text(CASE, 0)
    assert journal.read().case() == CASE
    small = Case("toy", {})
    journal.begin_text(small, 1)
    assert journal.read().case() == small


def test_a_case_larger_than_the_journal_is_an_error_and_leaves_the_journal_alone(journal: Journal) -> None:
    journal.begin_text(CASE, 0)
    with pytest.raises(HarnessError, match="smaller batches"):
        journal.begin_text(Case("toy", {"text": "x" * SIZE}), 1)
    assert journal.read().case() == CASE
    most = SIZE - 64 - len(json.dumps(Case("toy", {"text": ""}).to_json()))
    journal.begin_text(Case("toy", {"text": "x" * most}), 1)
    assert journal.read().case() is not None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 5_000,
        b'{"bitgate_case": 1, "contract": "toy", "arguments": {"x": {"tensor": "int32", "data": [4e9]}}}',
        b'{"bitgate_case": 1, "contract": "toy", "arguments": {"x": {"tensor": "float32", "bits": ["3ff"]}}}',
        b'{"bitgate_case": 1, "contract": "toy", "arguments": {"x": {"list": ' + b"[" * 900 + b"]" * 900 + b"}}}",
    ],
)
def test_a_text_that_is_no_case_reads_as_no_case(text: bytes) -> None:
    assert Reading(1, Phase.CANDIDATE, Entry.TEXT, len(text), 0, text).case() is None


def test_only_a_text_entry_has_a_case() -> None:
    text = json.dumps(CASE.to_json()).encode()
    assert Reading(1, Phase.CANDIDATE, Entry.TEXT, 0, 0, text).case() == CASE
    assert Reading(1, Phase.CANDIDATE, Entry.SPACE, 0, 0, text).case() is None


def test_garbage_of_any_kind_can_be_read(path: Path) -> None:
    Journal.create(path).close()

    @settings(derandomize=True, deadline=None, max_examples=200)
    @given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.sampled_from([None, *Entry]))
    def reads(header: bytes, text: bytes, entry: Entry | None) -> None:
        given_header = bytearray(header)
        if entry is not None:
            given_header[8:10] = bytes([Phase.CANDIDATE, entry])
        with path.open("r+b") as file:
            file.write(given_header)
            file.seek(64)
            file.write(text)
        journal = Journal(path)
        reading = journal.read()
        assert isinstance(reading.phase, Phase)
        assert entry is None or reading.entry is entry
        assert len(reading.text) <= SIZE
        assert reading.case() is None
        journal.close()

    reads()


def test_a_torn_text_reads_as_no_case(journal: Journal, path: Path) -> None:
    journal.begin_text(CASE, 0)
    length = len(journal.read().text)
    source = random.Random(1)
    for _ in range(50):
        with path.open("r+b") as file:
            file.seek(64 + source.randrange(length))
            file.write(b"\x00")
        assert journal.read().case() != CASE


def test_a_process_that_ends_at_once_leaves_its_last_case(journal: Journal, path: Path) -> None:
    source = "import os, sys; from harness.journal import *; Journal(Path(sys.argv[1])).begin(1, 41, 41); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", source, str(path)], check=False).returncode == 9
    reading = journal.read()
    assert (reading.phase, reading.entry, reading.index) == (Phase.CANDIDATE, Entry.SPACE, 41)
