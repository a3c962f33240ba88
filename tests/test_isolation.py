"""What a candidate does to its process, its files or its relatives neither fools a check nor stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.api import check
from harness.case import TensorValue, read_case_file
from harness.config import load_config
from harness.options import Options
from harness.session import check as check_all
from harness.supervise import Nursery
from harness.verdict import Result, Symptom, Verdict

ON_EMPTY_ROW = "if 0 in lengths(query_start_loc_p_cpu):\n"
ON_TWO_ZEROS = "if query_start_loc_p_cpu.tolist() == [0, 0]:\n"

ENDS = {
    "reads address 0": ("ctypes.string_at(0)", Symptom.CRASHED),
    "aborts": ("os.abort()", Symptom.CRASHED),
    "exits with status 0": ("os._exit(0)", Symptom.CRASHED),
    "exits with the status of a failed harness": ("os._exit(97)", Symptom.CRASHED),
    "kills its process": ("os.kill(os.getpid(), signal.SIGKILL)", Symptom.CRASHED),
    "kills its process group": ("os.killpg(0, signal.SIGKILL)", Symptom.CRASHED),
    "kills its guardian": ("os.kill(os.getppid(), signal.SIGKILL)", Symptom.CRASHED),
    "ends its guardian politely": ("os.kill(os.getppid(), signal.SIGTERM); time.sleep(1)", Symptom.CRASHED),
    "outlives its guardian": (
        "ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); os.kill(os.getppid(), signal.SIGKILL); time.sleep(1000)",
        Symptom.CRASHED,
    ),
    "forks and lets the copy go on": ("if os.fork(): os._exit(0)", Symptom.CRASHED),
    "closes every file": ("os.closerange(0, 4096)", Symptom.CRASHED),
    "loops for ever": ("while True: pass", Symptom.HUNG),
    "sleeps": ("time.sleep(1000)", Symptom.HUNG),
    "waits for a lock that it holds": ("lock = threading.Lock(); lock.acquire(); lock.acquire()", Symptom.HUNG),
    "stops its process": ("os.kill(os.getpid(), signal.SIGSTOP); time.sleep(1000)", Symptom.HUNG),
    "allocates without end": ("held = [b'1']\nwhile True: held.append(b'1' * (32 << 20))", Symptom.OUT_OF_MEMORY),
    "lets its children allocate": (
        "if not os.fork():\n    held = b'1' * (1200 << 20)\n    time.sleep(1000)\ntime.sleep(9)",
        Symptom.OUT_OF_MEMORY,
    ),
    "raises SystemExit": ("raise SystemExit(0)", Symptom.RAISED),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", Symptom.RAISED),
    "raises GeneratorExit": ("raise GeneratorExit", Symptom.RAISED),
    "interrupts itself": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(1)", Symptom.RAISED),
    "raises something endless": ("raise ValueError('x' * 100_000_000)", Symptom.RAISED),
    "recurses without end": ("(lambda again: again(again))(lambda again: again(again))", Symptom.RAISED),
    "exits in a destructor": (
        "class Last:\n    def __del__(self): os._exit(0)\nlast = Last()\ndel last",
        Symptom.CRASHED,
    ),
    "returns what exits in its destructor": (
        "class Last(tuple):\n    def __del__(self): os._exit(0)\nreturn Last(right(query_start_loc_p_cpu, device))",
        Symptom.CRASHED,
    ),
    "raises what exits in its destructor": (
        "class Last(ValueError):\n    def __del__(self): os._exit(0)\nraise Last",
        Symptom.CRASHED,
    ),
}
"""What a candidate does on a batch with an empty row, and how that must be reported."""

CHANGES = {
    "the working directory": ("os.chdir('/')", "the working directory"),
    "its scratch folder": ("import shutil; shutil.rmtree('..', ignore_errors=True)", "the working directory"),
    "a variable of the environment": ("os.environ['PATH'] = ''", "environment variable PATH was changed"),
    "the environment, by one more": ("os.environ['ONE_MORE'] = ''", "environment variable ONE_MORE was added"),
    "the environment, by one less": ("os.environ.pop('PATH', None)", "environment variable PATH was removed"),
    "torch.equal": ("torch.equal = lambda *_: True", "torch.equal was replaced"),
    "len": ("builtins.len = lambda _: 0", "builtins.len was replaced"),
    "json.dumps": ("json.dumps = lambda *_, **__: '{}'", "json.dumps was replaced"),
    "os.write": ("os.write = lambda _, data: 7", "os.write was replaced"),
    "time.monotonic, which stands still": ("time.monotonic = lambda: 0.0", "time.monotonic was replaced"),
    "time.monotonic, which runs away": ("time.monotonic = lambda: 1e30", "time.monotonic was replaced"),
    "harness.compare": (
        "import harness.compare; harness.compare.compare = lambda *_, **__: None",
        "harness.compare.compare was replaced",
    ),
    "the code of harness.compare": (
        "import harness.compare as c; c.compare.__code__ = (lambda expected, got, *, check_pinned=0: None).__code__",
        "the code of harness.compare.compare was replaced",
    ),
    "a method of ours": (
        "import harness.journal as j; j.Journal.end = lambda self: None",
        "harness.journal.Journal.end was replaced",
    ),
    "a signal handler": ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "a signal handler"),
    "a timer": ("signal.setitimer(signal.ITIMER_REAL, 1000)", "a timer"),
    "the trace function": ("sys.settrace(lambda *_: None)", "the trace function"),
    "sys.stdout": ("sys.stdout = sys.stderr", "sys.stdout"),
    "the file of standard output": ("os.dup2(0, 1)", "file descriptor 1"),
    "Python's random state": ("random.seed(1)", "Python's random state"),
    "torch's random state": ("torch.manual_seed(1)", "torch's random state"),
    "a limit": ("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))", "a resource limit"),
    "the collector's callbacks": ("gc.callbacks.append(lambda *_: None)", "the garbage collector's callbacks"),
    "what runs at exit": ("atexit.register(os._exit, 0)", "what runs at exit"),
    "the file mode mask": ("os.umask(0)", "the file mode mask"),
    "the harness's pipe, by garbage": (
        "for number in range(3, 256):\n    with contextlib.suppress(OSError):\n        os.write(number, b'garbage')",
        "the pipe that the harness speaks through",
    ),
    "the harness's pipe, by a forged end": (
        "for number in range(3, 256):\n    with contextlib.suppress(OSError):\n"
        '        os.write(number, b\'\\n{"kind":"stage"}\\n{"kind":"done","token":""}\\n\')\nos._exit(0)',
        "the pipe that the harness speaks through",
    ),
}
"""What a candidate changes in its process on a batch with an empty row, and what must be said about it."""

WRONG_TOO = {
    "torch.full": "torch.full = lambda *_, **__: torch.zeros(2048, dtype=torch.int32)",
    "torch.tensor": "torch.tensor = lambda *_, **__: torch.zeros(0, dtype=torch.int64)",
    "isinstance": "builtins.isinstance = lambda *_: True",
    "torch.Tensor.data_ptr": "torch.Tensor.data_ptr = lambda self: 0",
    "the code of the reference": (
        "import references.causal_conv1d_metadata as r\n"
        "r.compute_causal_conv1d_metadata.__code__ = (lambda query_start_loc_p_cpu, *, device: None).__code__"
    ),
    "the harness's watch over all this": (
        "import harness.surroundings as s; s.Surroundings.change = lambda *_, **__: None"
    ),
}
"""Changes that make the reference or the comparison wrong at once, so that several symptoms are right."""


@pytest.fixture(autouse=True)
def nothing_is_left_behind(nursery: Nursery) -> Iterator[None]:
    yield
    deadline = time.monotonic() + 5
    # A guardian that has just said its last word is still there for an instant.
    while len(below := psutil.Process().children(recursive=True)) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [child.status() for child in below] == [psutil.STATUS_SLEEPING], "nothing but the nursery, which waits"


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.split("\n"))


def elements_of(result: Result) -> tuple[Any, ...]:
    assert result.finding is not None, result.reason
    value = result.finding.case.arguments["query_start_loc_p_cpu"]
    assert isinstance(value, TensorValue)
    return value.data


@pytest.mark.parametrize("what", ENDS)
def test_a_candidate_that_does_not_return_is_different_and_its_smallest_case_is_saved(
    what: str, quick_check: Callable[..., Result], write_candidate: Callable[..., str], tmp_path: Path
) -> None:
    body, symptom = ENDS[what]
    # Memory that is slow to fill must be a matter of memory all the same.
    seconds = 10.0 if symptom is Symptom.OUT_OF_MEMORY else 1.0
    result = quick_check(write_candidate(ON_EMPTY_ROW + indented(body)), case_timeout=seconds)
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, symptom), result
    assert elements_of(result) == (0, 0)
    assert result.case_file is not None
    assert result.case_file.is_relative_to(tmp_path / "cases")
    assert [path.name for path in (tmp_path / "cases").iterdir()] == [result.case_file.name]
    assert result.finding is not None
    assert read_case_file(result.case_file).case == result.finding.case


@pytest.mark.parametrize("what", CHANGES)
def test_a_candidate_that_changes_its_process_is_different_and_the_change_is_named(
    what: str,
    quick_check: Callable[..., Result],
    write_candidate: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.shrink.BUDGET", 1.0)
    body, said = CHANGES[what]
    result = quick_check(write_candidate(ON_EMPTY_ROW + indented(body)))
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.CHANGED_GLOBALS), result
    assert result.finding is not None
    assert said in result.finding.message


@pytest.mark.parametrize("what", WRONG_TOO)
def test_a_candidate_that_breaks_what_it_is_compared_with_is_different(
    what: str, quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    result = quick_check(write_candidate(ON_EMPTY_ROW + indented(WRONG_TOO[what])))
    assert result.verdict is Verdict.DIFFERENT, result


def test_a_change_made_in_a_single_case_out_of_a_thousand_is_traced_to_it(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    body = "if query_start_loc_p_cpu.tolist() == [0, 17, 17, 34]: os.environ['ONE_MORE'] = ''\n"
    result = quick_check(write_candidate(body))
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.CHANGED_GLOBALS), result
    assert elements_of(result) == (0, 17, 17, 34)


def test_the_run_goes_on_with_the_next_candidate(
    write_candidate: Callable[..., str], tmp_path: Path, nursery: Nursery
) -> None:
    bodies = {
        "crashes": "ctypes.string_at(0)",
        "kills_its_guardian": "os.kill(os.getppid(), signal.SIGKILL)",
        "hangs": "time.sleep(1000)",
        "right": "pass",
    }
    specs = [write_candidate(ON_EMPTY_ROW + indented(body), name=name) for name, body in bodies.items()]
    options = Options(profile="commit", case_timeout=1.0, workers=2, saved=tmp_path / "cases")
    results = check_all(specs, options, load_config(tmp_path), nursery=nursery)
    assert [result.candidate for result in results] == specs
    assert [result.symptom for result in results] == [Symptom.CRASHED, Symptom.CRASHED, Symptom.HUNG, None]
    assert results[-1].verdict is Verdict.EQUAL


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(1000)
    os._exit(0)
"""


@pytest.mark.parametrize(
    "body", ["if os.fork() == 0:\n    time.sleep(1000)", DAEMON], ids=["a child with its pipes open", "a daemon"]
)
def test_a_process_left_behind_is_ended_and_noted(
    body: str, quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    result = quick_check(write_candidate(ON_TWO_ZEROS + indented(body.strip())))
    assert result.verdict is Verdict.EQUAL, result
    note, *_ = result.notes
    assert "left" in note
    assert "which were ended" in note


def test_a_forked_copy_that_returns_into_the_engine_ends_there(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    well, forking = quick_check(write_candidate()), quick_check(write_candidate(ON_TWO_ZEROS + "    os.fork()\n"))
    assert forking.verdict is Verdict.EQUAL, forking
    assert forking.cases == well.cases


def test_a_thread_left_behind_does_not_keep_the_process_alive(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    body = ON_TWO_ZEROS + "    threading.Thread(target=time.sleep, args=(1000,)).start()\n"
    assert quick_check(write_candidate(body)).verdict is Verdict.EQUAL


def test_megabytes_of_output_are_kept_in_part(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    body = """
    print("first of all")
    print("a" * 3_000_000, "b" * 3_000_000, file=sys.stderr)
    os.write(1, b"c" * 3_000_000)
    ctypes.CDLL(None).puts(b"d" * 3_000_000)
    ctypes.CDLL(None).fflush(None)
    print('{"kind": "done"}\\nverdict: equal\\nlast of all')
    """
    result = quick_check(write_candidate(ON_TWO_ZEROS + body.rstrip()))
    assert result.verdict is Verdict.EQUAL, result
    assert "first of all" in result.output
    assert "last of all" in result.output
    assert "bytes left out" in result.output
    assert len(result.output) < 200_000


def test_what_is_printed_before_a_crash_is_kept(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    result = quick_check(write_candidate(ON_EMPTY_ROW + "    print('so long'); ctypes.string_at(0)\n"))
    assert "so long" in result.output
    assert "Segmentation fault" in result.output


SCRIBBLE = """
for folder in ("..", "/proc/self/fd"):
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            descriptor = int(name) if folder != ".." else os.open(f"../{name}", os.O_RDWR)
            if descriptor > 2:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"\\xff" * 64, 0)
"""


def test_files_cut_short_and_scribbled_over_hide_nothing(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    body = f"{ON_TWO_ZEROS}{indented(SCRIBBLE.strip())}if lengths(query_start_loc_p_cpu) == [0, 1]: os._exit(0)\n"
    result = quick_check(write_candidate(body))
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.CRASHED), result
    assert elements_of(result) == (0, 0, 1)


@pytest.mark.parametrize("what", ["kill", "suspend"])
def test_a_candidate_that_ends_or_stops_the_nursery_is_not_equal_and_the_next_one_is_checked(
    what: str, write_candidate: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Starting a nursery takes seconds: this one is started again no more often than the test needs.
    monkeypatch.setattr("harness.supervise.ATTEMPTS", 1)
    monkeypatch.setattr("harness.shrink.BUDGET", 0.0)
    body = f"import psutil; psutil.Process(os.getppid()).parent().{what}(); time.sleep(0.2)"
    guilty = write_candidate(ON_TWO_ZEROS + indented(body), name="guilty")
    right = write_candidate(name="right")
    options: dict[str, Any] = {"profile": "commit", "cases_dir": tmp_path / "cases", "start": tmp_path}
    with Nursery() as own:
        results = [check(guilty, nursery=own, **options), check(right, nursery=own, **options)]
    assert results[0].verdict is Verdict.DIFFERENT, results[0]
    assert results[1].verdict is Verdict.EQUAL, results[1]


LOADING = {
    "exits": "os._exit(0)",
    "raises SystemExit": "sys.exit(0)",
    "crashes": "ctypes.string_at(0)",
    "kills its guardian": "(os.kill(os.getppid(), signal.SIGKILL), time.sleep(1))",
    "kills its process group": "os.killpg(0, signal.SIGKILL)",
    "hangs": "time.sleep(1000)",
    "lets only a copy go on": "(os._exit(0) if os.fork() else None)",
    "raises": "1 / 0",
}


@pytest.mark.parametrize("what", LOADING)
def test_a_candidate_that_does_not_survive_its_loading_is_not_loaded(
    what: str,
    quick_check: Callable[..., Result],
    write_candidate: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.watch.START_LIMIT", 2.0)
    result = quick_check(write_candidate("HARM", above=f"HARM = {LOADING[what]}"))
    assert result.verdict is Verdict.INCONCLUSIVE, result
    assert not result.loaded
    assert result.reason


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("os.chdir('/')", "the working directory"),
        ("setattr(torch, 'equal', lambda *_: True)", "torch.equal was replaced"),
        ("random.seed(3)", "Python's random state"),
        ("gc.callbacks.append(lambda *_: None)", "the garbage collector's callbacks"),
    ],
)
def test_a_change_made_while_loading_is_found(
    harm: str, said: str, quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    result = quick_check(write_candidate("HARM", above=f"HARM = {harm}"))
    assert (result.verdict, result.symptom) == (Verdict.DIFFERENT, Symptom.CHANGED_GLOBALS), result
    assert result.finding is not None
    assert f"while it was loaded, {said}" in result.finding.message or said in result.finding.message


@pytest.mark.parametrize("harm", ["gc.callbacks.append(lambda *_: os._exit(0))", "atexit.register(os._exit, 0)"])
def test_what_would_exit_later_makes_nothing_equal(
    harm: str, quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    result = quick_check(write_candidate(ON_TWO_ZEROS + indented(harm)))
    assert result.verdict is Verdict.DIFFERENT, result


def test_a_copy_forked_while_loading_does_not_search_as_well(
    quick_check: Callable[..., Result], write_candidate: Callable[..., str]
) -> None:
    well, forking = quick_check(write_candidate()), quick_check(write_candidate("COPY", above="COPY = os.fork()"))
    assert forking.verdict is Verdict.EQUAL, forking
    assert forking.cases == well.cases
