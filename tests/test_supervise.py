"""The nursery, seen from its parent: it starts again, ends with everything below it, and says how a child ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from harness.case import TARGET_DEVICE, Case, CaseFile, TensorValue
from harness.errors import HarnessError
from harness.job import Job, Target
from harness.journal import Phase
from harness.supervise import Nursery
from harness.watch import Ending, Limits

WriteCandidate = Callable[..., str]


def case_of(*values: int) -> Case:
    lengths = TensorValue("int32", values)
    return Case("causal_conv1d_metadata", {"query_start_loc_p_cpu": lengths, "device": TARGET_DEVICE})


def job_of(spec: str, *cases: Case) -> Job:
    target = Target(candidate=spec, contract="causal_conv1d_metadata", root="/")
    return Job(mode="try", target=target, cases=tuple(map(CaseFile, cases or (case_of(0, 5, 5, 9),))))


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.01)


def below() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def pid_of(nursery: Nursery) -> int:
    assert nursery._process is not None
    return nursery._process.pid


@pytest.fixture
def own() -> Iterator[Nursery]:
    """A nursery that the test may kill or close."""
    with Nursery() as running:
        yield running


def test_a_child_that_finds_nothing_says_so(nursery: Nursery, write_candidate: WriteCandidate) -> None:
    ending = nursery.run(job_of(write_candidate()), Limits())
    assert ending.how == "done"
    assert [message["kind"] for message in ending.messages] == ["loaded", "done"]
    assert ending.symptom() is None
    assert ending.left_behind == 0
    assert ending.peak_bytes > 0


def test_jobs_run_side_by_side(nursery: Nursery, write_candidate: WriteCandidate, tmp_path: Path) -> None:
    # Each waits for the other: one after the other they would never end.
    body = """
    (FOLDER / str(os.getpid())).touch()
    while len(list(FOLDER.iterdir())) < 2: time.sleep(0.01)
    """
    (tmp_path / "met").mkdir()
    spec = write_candidate(body, above=f"from pathlib import Path\nFOLDER = Path({str(tmp_path / 'met')!r})")
    with ThreadPoolExecutor(2) as pool:
        endings = list(pool.map(lambda _: nursery.run(job_of(spec), Limits(case_seconds=60)), range(2)))
    assert [ending.how for ending in endings] == ["done", "done"]


def test_progress_is_reported_while_a_child_runs(nursery: Nursery, write_candidate: WriteCandidate) -> None:
    seen: set[Phase] = set()
    spec = write_candidate("time.sleep(0.3)")
    nursery.run(job_of(spec), Limits(), lambda reading: seen.add(reading.phase))
    assert Phase.CANDIDATE in seen


def test_a_killed_nursery_is_started_again(own: Nursery, write_candidate: WriteCandidate) -> None:
    spec = write_candidate()
    assert own.run(job_of(spec), Limits()).how == "done"
    killed = pid_of(own)
    os.kill(killed, signal.SIGKILL)
    assert own.run(job_of(spec), Limits()).how == "done"
    assert pid_of(own) != killed


def test_a_nursery_killed_during_a_job_says_nothing_about_the_candidate(
    own: Nursery, write_candidate: WriteCandidate, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    spec = write_candidate(f"if not os.path.exists({str(started)!r}): open({str(started)!r}, 'w'); time.sleep(1000)")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(own.run, job_of(spec), Limits(case_seconds=600))
        wait_until(started.exists)
        os.kill(pid_of(own), signal.SIGKILL)
        assert future.result().how == "done"


def test_a_nursery_that_is_stopped_is_replaced(
    own: Nursery, write_candidate: WriteCandidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_candidate()
    own.cuda_devices()
    stopped = pid_of(own)
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr("harness.watch.FORK_LIMIT", 1.0)
    monkeypatch.setattr("harness.supervise.END_LIMIT", 1.0)
    assert own.run(job_of(spec), Limits()).how == "done"
    assert pid_of(own) != stopped
    assert not psutil.pid_exists(stopped)


def test_a_nursery_that_never_answers_is_an_error(
    own: Nursery, write_candidate: WriteCandidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.supervise.watch", lambda *_: Ending(how="unstarted"))
    with pytest.raises(HarnessError, match="does not answer"):
        own.run(job_of(write_candidate()), Limits())


def test_a_nursery_outlives_the_thread_that_started_it_again(own: Nursery, write_candidate: WriteCandidate) -> None:
    os.kill(pid_of(own), signal.SIGKILL)
    thread = threading.Thread(target=own.run, args=(job_of(write_candidate()), Limits()))
    thread.start()
    thread.join()
    again = pid_of(own)
    assert own.run(job_of(write_candidate()), Limits()).how == "done"
    assert pid_of(own) == again


def test_a_closed_nursery_runs_nothing(own: Nursery, write_candidate: WriteCandidate) -> None:
    own.close()
    with pytest.raises(HarnessError, match="closed"):
        own.run(job_of(write_candidate()), Limits())
    own.close()


def test_closing_ends_what_runs_and_everything_below_it(
    own: Nursery, write_candidate: WriteCandidate, tmp_path: Path
) -> None:
    before = set(below())
    started = tmp_path / "started"
    body = f"""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open({str(started)!r}, "w")
            time.sleep(1000)
        os._exit(0)
    time.sleep(1000)
    """
    spec = write_candidate(body)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(own.run, job_of(spec), Limits(case_seconds=600))
        wait_until(started.exists)
        assert len(set(below()) - before) >= 3, "guardian, child and daemon"
        own.close()
        with pytest.raises(HarnessError, match="closed"):
            future.result()
    wait_until(lambda: not set(below()) - before)


def test_everything_ends_with_a_parent_that_is_killed(write_candidate: WriteCandidate, tmp_path: Path) -> None:
    started = tmp_path / "started"
    body = f"""
    if os.fork() == 0:
        os.setsid()
        open({str(started)!r}, "w").write(str(os.getpid()))
        time.sleep(1000)
    time.sleep(1000)
    """
    script = f"""
    from harness import check
    check({write_candidate(body)!r}, profile="commit", case_timeout=600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path) as parent:
        wait_until(lambda: started.exists() and started.read_text())
        family = psutil.Process(parent.pid).children(recursive=True)
        assert int(started.read_text()) in [process.pid for process in family]
        parent.kill()
    gone, alive = psutil.wait_procs(family, timeout=60)
    assert (len(gone), alive) == (len(family), [])


def test_the_jobs_time_ends_a_child_that_is_not_hung(nursery: Nursery, write_candidate: WriteCandidate) -> None:
    from dataclasses import replace

    job = replace(job_of(write_candidate("time.sleep(1000)")), seconds=0.2)
    ending = nursery.run(job, Limits(case_seconds=600, grace_seconds=0.2))
    assert ending.how == "time"
    assert ending.symptom() is None


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("signal 11", "SIGSEGV"),
        ("signal 63", "signal 63"),
        ("exit 3", "status 3"),
        ("hung", "did not return"),
        ("memory", "memory limit"),
        ("time", "time limit"),
        ("forged", "pipe"),
        ("stuck", "harness"),
        ("lost", "guards"),
        ("unstarted", "started"),
    ],
)
def test_every_ending_is_described(how: str, said: str) -> None:
    assert said in Ending(how=how).describe()
