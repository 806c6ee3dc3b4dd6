"""Helper processes: what they answer, how they are killed and replaced, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import functools
import operator
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import FileMissing, HelperFailed, HelpersBusy, WorkMemoryExceeded, WorkProblem, WorkTimedOut
from skillyard.offload import HelperPool, WorkLimits, observe_helpers, report_progress, run_in_helper, run_in_helper_async
from skillyard.paths import read_inside

SHORT = WorkLimits(seconds=0.3)
LONG = WorkLimits(seconds=120)


@pytest.fixture
def pool() -> Iterator[HelperPool]:
    """Two helpers."""
    made = HelperPool(2, waiting=4)
    yield made
    made.close()


def call(pool: HelperPool, function: Callable[..., Any], *arguments: object, limits: WorkLimits = LONG) -> Any:
    return pool.run(function, *arguments, subject="the text", limits=limits)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def soon(condition: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 60
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True


def test_a_function_works_in_another_process_which_is_used_again(pool: HelperPool) -> None:
    pids = {call(pool, os.getpid) for _ in range(5)}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert pool.pids == tuple(pids)


def test_what_a_function_raises_is_raised_here_and_the_process_lives_on(pool: HelperPool) -> None:
    before = call(pool, os.getpid)
    with pytest.raises(ValueError, match="invalid literal"):
        call(pool, int, "x")
    with pytest.raises(re.error):
        call(pool, re.compile, "(")
    assert call(pool, os.getpid) == before


def test_an_error_of_ours_comes_back_with_its_hint_and_details(pool: HelperPool, tmp_path: Path) -> None:
    with pytest.raises(FileMissing) as here:
        read_inside(str(tmp_path), "no.txt", limit=9)
    with pytest.raises(FileMissing) as there:
        call(pool, functools.partial(read_inside, limit=9), str(tmp_path), "no.txt")
    assert there.value.to_dict() == here.value.to_dict()


def test_an_answer_that_cannot_be_sent_is_an_error_and_not_silence(pool: HelperPool) -> None:
    with pytest.raises((HelperFailed, TypeError), match="pickle"):
        call(pool, threading.Lock)
    assert call(pool, operator.add, 1, 2) == 3


def test_an_argument_that_cannot_be_sent_is_an_error(pool: HelperPool) -> None:
    with pytest.raises(Exception, match="pickle"):
        call(pool, id, threading.Lock())
    assert call(pool, operator.add, 1, 2) == 3


def test_work_beyond_its_deadline_is_killed_and_another_process_takes_its_place(pool: HelperPool) -> None:
    before = call(pool, os.getpid)
    with pytest.raises(WorkTimedOut) as refused:
        call(pool, re.match, "(a+)+$", "a" * 60 + "!", limits=SHORT)  # holds the lock of its interpreter all the time
    assert refused.value.code == "work_timeout"
    assert refused.value.status == 422
    assert "the text" in refused.value.message
    assert "0.3 s" in refused.value.message
    assert refused.value.hint
    assert gone(before)
    assert call(pool, os.getpid) != before


def test_work_beyond_its_memory_is_ended(pool: HelperPool) -> None:
    before = call(pool, os.getpid)
    with pytest.raises(WorkMemoryExceeded) as refused:
        call(pool, bytearray, 1 << 30, limits=WorkLimits(seconds=120, memory_mb=64))
    assert (refused.value.code, refused.value.details["limit_mb"]) == ("work_memory_exceeded", 64)
    assert call(pool, os.getpid) != before
    assert len(call(pool, bytearray, 1 << 20, limits=WorkLimits(seconds=120, memory_mb=64))) == 1 << 20


def test_a_library_that_aborts_without_memory_is_told_from_a_process_that_breaks(pool: HelperPool) -> None:
    with pytest.raises(WorkMemoryExceeded):
        call(pool, os.abort)
    with pytest.raises(HelperFailed, match="ended with 3"):
        call(pool, os._exit, 3)
    with pytest.raises(HelperFailed, match="ended with -9"):
        call(pool, signal.raise_signal, signal.SIGKILL)
    assert call(pool, operator.add, 1, 2) == 3


def test_what_is_printed_does_not_come_between_the_answers(pool: HelperPool) -> None:
    assert call(pool, os.write, 1, b"x" * 100) == 100
    assert call(pool, print, "hello") is None
    assert call(pool, operator.add, 1, 2) == 3


def test_a_helper_has_none_of_the_secrets_of_the_environment(pool: HelperPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLYARD_SECRET", "hush")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    assert call(pool, os.getenv, "AWS_SECRET_ACCESS_KEY") is None
    assert call(pool, os.getenv, "SKILLYARD_SECRET") is None
    assert call(pool, os.getenv, "PATH") == os.environ["PATH"]
    assert call(pool, os.listdir, "/proc/self/fd") is not None


def test_a_helper_inherits_no_open_files(pool: HelperPool, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        opened = [call(pool, os.path.realpath, f"/proc/self/fd/{number}") for number in call(pool, os.listdir, "/proc/self/fd")]
    assert opened
    assert str(tmp_path / "secret") not in opened


def test_calls_wait_for_a_free_helper_and_too_many_are_refused(pool: HelperPool) -> None:
    with ThreadPoolExecutor(6) as threads:
        going = [threads.submit(call, pool, time.sleep, 1) for _ in range(6)]
        assert soon(lambda: pool._open == 6)
        with pytest.raises(HelpersBusy) as refused:
            call(pool, os.getpid)
        assert (refused.value.code, refused.value.status) == ("busy", 503)
        assert refused.value.details["retry_after"] > 0
        assert [one.result() for one in going] == [None] * 6
    assert len(pool.pids) == 2
    assert call(pool, operator.add, 1, 2) == 3


def test_nobody_waits_longer_than_the_longest_wait() -> None:
    pool = HelperPool(1, longest_wait_s=0.2)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(call, pool, time.sleep, 1)
        assert soon(lambda: pool._open == 1)
        second = threads.submit(call, pool, os.getpid)
        with pytest.raises(HelpersBusy):
            second.result()
        first.result()
    assert call(pool, operator.add, 1, 2) == 3
    pool.close()


async def test_a_loop_goes_on_while_a_helper_works(pool: HelperPool) -> None:
    working = asyncio.ensure_future(pool.run_async(time.sleep, 1, subject="the text", limits=LONG))
    beats = 0
    while not working.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert beats > 10
    assert await pool.run_async(operator.add, 1, 2, subject="the text", limits=LONG) == 3


def _ticks(pid: int) -> int:
    """The processor time of a process in hundredths of a second."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


async def test_cancelling_who_waits_kills_the_work() -> None:
    pool = HelperPool(1)  # of several another one may take the second call
    pid = await pool.run_async(os.getpid, subject="the text", limits=LONG)
    before = _ticks(pid)
    working = asyncio.ensure_future(pool.run_async(re.match, "(a+)+$", "a" * 60 + "!", subject="the text", limits=LONG))
    while _ticks(pid) < before + 2:  # it has begun
        await asyncio.sleep(0.01)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await asyncio.to_thread(soon, lambda: gone(pid))
    assert await pool.run_async(operator.add, 1, 2, subject="the text", limits=LONG) == 3
    await asyncio.to_thread(pool.close)


async def test_cancelling_who_waits_in_the_line_takes_the_call_out() -> None:
    pool = HelperPool(1)
    first = asyncio.ensure_future(pool.run_async(time.sleep, 0.5, subject="the text", limits=LONG))
    second = asyncio.ensure_future(pool.run_async(time.sleep, 100, subject="the text", limits=LONG))
    await asyncio.sleep(0.05)
    second.cancel()
    await first
    assert await pool.run_async(operator.add, 1, 2, subject="the text", limits=LONG) == 3
    await asyncio.to_thread(pool.close)


def test_an_error_says_what_was_worked_on_last_and_steps_have_a_deadline(tmp_path: Path) -> None:
    module = tmp_path / "stepping.py"
    module.write_text(
        "import time\nfrom skillyard.offload import report_progress\n"
        "def work(steps, last):\n"
        "    for step in steps:\n        report_progress(step)\n        time.sleep(0.05)\n"
        "    report_progress('the last one')\n    time.sleep(last)\n    return len(steps)\n"
    )
    sys.path.insert(0, str(tmp_path))
    pool = HelperPool(1)
    try:
        import stepping  # type: ignore[import-not-found]

        limits = WorkLimits(seconds=120, step_seconds=20)
        assert call(pool, stepping.work, ["a", "b"], 0, limits=limits) == 2
        with pytest.raises(WorkTimedOut) as refused:
            call(pool, stepping.work, ["a", "b"], 100, limits=WorkLimits(seconds=120, step_seconds=0.5))
        assert refused.value.details["at"] == "the last one"
        assert "the last one" in refused.value.message
    finally:
        pool.close()
        sys.path.remove(str(tmp_path))


async def test_it_is_reported_how_each_call_ended() -> None:
    outcomes: list[str] = []
    stop, pool = observe_helpers(outcomes.append), HelperPool(1, waiting=1)
    try:
        call(pool, os.getpid)
        for function, argument, limits in (
            (int, "x", LONG),
            (time.sleep, 60, WorkLimits(seconds=0.2)),
            (bytearray, 1 << 30, WorkLimits(seconds=120, memory_mb=64)),
            (os._exit, 3, LONG),
        ):
            with pytest.raises((ValueError, WorkProblem)):
                call(pool, function, argument, limits=limits)
        waiting = [asyncio.ensure_future(pool.run_async(time.sleep, 60, subject="x", limits=LONG)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HelpersBusy):
            call(pool, os.getpid)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        expected = ["done", "done", "timed_out", "out_of_memory", "failed", "busy", "cancelled", "cancelled"]
        assert await asyncio.to_thread(soon, lambda: outcomes == expected), outcomes
        stop()
        call(pool, os.getpid)
        assert outcomes == expected
    finally:
        pool.close()


def test_progress_outside_of_a_helper_says_nothing() -> None:
    report_progress("a file")


def test_an_idle_helper_ends_and_comes_back_when_it_is_needed() -> None:
    pool = HelperPool(1, idle_s=0.1)
    pid = call(pool, os.getpid)
    assert soon(lambda: not pool.pids)
    assert gone(pid)
    assert call(pool, os.getpid) != pid
    pool.close()


def test_a_closed_pool_leaves_no_process_and_takes_no_calls() -> None:
    pool = HelperPool(2)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(call, pool, time.sleep, 100)
        assert soon(lambda: bool(pool.pids))
        pids = pool.pids
        pool.close()
        with pytest.raises(WorkProblem):
            working.result()
    assert pids
    assert all(gone(pid) for pid in pids)
    with pytest.raises(WorkProblem):
        call(pool, os.getpid)


async def test_the_functions_of_the_room_share_one_pool() -> None:
    pid = await asyncio.to_thread(run_in_helper, os.getpid, subject="the text", limits=LONG)
    assert await run_in_helper_async(os.getpid, subject="the text", limits=LONG) == pid
    with pytest.raises(ZeroDivisionError):
        await run_in_helper_async(operator.truediv, 1, 0, subject="the text", limits=LONG)


_PROGRAM = """
import os, sys, time
from skillyard.offload import WorkLimits, run_in_helper
print("started", flush=True)
limits = WorkLimits(seconds=60)
print(run_in_helper(os.getpid, subject="x", limits=limits), flush=True)
"""


def _program(tmp_path: Path, end: str) -> subprocess.Popen[str]:
    file = tmp_path / "program.py"
    file.write_text(_PROGRAM + end)  # without `if __name__ == "__main__"`, as people write scripts
    return subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_script_is_not_run_again_by_its_helper_and_leaves_none_behind(tmp_path: Path) -> None:
    program = _program(tmp_path, "")
    reported, errors = program.communicate(timeout=120)
    assert (program.returncode, errors) == (0, "")
    started, pid = reported.split()
    assert started == "started"
    assert gone(int(pid))


@pytest.mark.parametrize("work", ["time.sleep(100)", "run_in_helper(time.sleep, 100, subject='x', limits=WorkLimits(200))"])
def test_a_helper_dies_with_its_parent_at_work_or_not(tmp_path: Path, work: str) -> None:
    program = _program(tmp_path, f"print('now', flush=True)\n{work}\n")
    assert program.stdout is not None
    reported = [program.stdout.readline().strip() for _ in range(3)]
    assert reported[2] == "now"
    program.kill()
    program.communicate()
    assert soon(lambda: gone(int(reported[1])))


def test_a_forked_child_has_helpers_of_its_own(tmp_path: Path) -> None:
    program = _program(
        tmp_path,
        "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"  # of 3.12: it has threads
        "child = os.fork()\n"
        "print(run_in_helper(os.getppid, subject='x', limits=limits) == os.getpid(), flush=True)\n"
        "if child:\n    os.waitpid(child, 0)\n",
    )
    reported, errors = program.communicate(timeout=120)
    assert (program.returncode, errors) == (0, "")
    assert reported.split()[2:] == ["True", "True"]


def test_a_helper_that_cannot_be_started_is_an_error_with_a_way_out(
    pool: HelperPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with pytest.raises(HelperFailed, match="could not be started") as refused:
        call(pool, os.getpid)
    assert refused.value.hint
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(HelperFailed, match="did not start"):
        call(pool, os.getpid)
    monkeypatch.undo()
    assert call(pool, operator.add, 1, 2) == 3
