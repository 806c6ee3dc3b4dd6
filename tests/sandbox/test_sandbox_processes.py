"""Attacks with processes and on the kernel: nothing gains power, nothing reaches out, nothing survives."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.sandbox import Job, Policy, cgroups, staging
from skillyard.sandbox.runtimes import runtime_for

Survivors = Callable[[str], list[int]]


async def gone(survivors: Survivors, marker: str) -> bool:
    """Whether every process with the marker is gone within a moment."""
    for _ in range(1000):
        if not survivors(marker):
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.mark.parametrize("kind", ["processes", "threads"])
@pytest.mark.abuse("B1", "B2", "B16")
async def test_a_fork_bomb_stops_at_its_limit(run_script, counting: str, kind: str) -> None:
    script = {
        "processes": """
        made = 0
        try:
            while made < 500:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                made += 1
        except OSError as error:
            answer(made)
            sys.exit(1)
        """,
        "threads": """
        made = 0
        try:
            while made < 500:
                threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
                made += 1
        except RuntimeError:
            answer(made)
            os._exit(1)
        """,
    }[kind]
    result = await run_script(script, policy=Policy(timeout_ms=5_000, pids=20))
    by_cgroup = any(limit.by.startswith("cgroup") for limit in result.limits)  # else a call fails, and the script with it
    assert result.status == ("pids" if by_cgroup else "error"), result
    assert not (by_cgroup and counting == "uncounted")
    # Without a user of its own a run is counted with whatever else its user runs, which may end while the run is counted.
    shared = os.geteuid() != 0 and result.isolation == "landlock"
    assert result.value <= (100 if shared else 20)


@pytest.mark.abuse("B1")
async def test_an_endless_fork_bomb_ends_with_the_run(run_script, counting: str, survivors: Survivors) -> None:
    marker = f"bomb-{uuid.uuid4().hex}"
    result = await run_script(
        "bomb() { bomb | bomb & }; bomb; sleep 30",
        entry="main.sh",
        policy=Policy(timeout_ms=700, pids=20),
        arguments=(marker,),
    )
    assert result.status == "timeout", result
    assert await gone(survivors, marker)


@pytest.mark.row("D-14")
@pytest.mark.abuse("B3", "B4")
async def test_a_daemon_does_not_survive_and_does_not_hold_the_call(run_script, counting: str, survivors: Survivors) -> None:
    marker = f"daemon-{uuid.uuid4().hex}"
    result = await run_script(
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)  # keeps every pipe open
            elif os.fork() == 0:
                os.closerange(0, 100)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
            os._exit(0)
        time.sleep(0.05)
        answer("started")
        """,
        arguments=(marker,),
    )
    assert (result.status, result.value, result.warnings) == ("ok", "started", ())
    assert await gone(survivors, marker)


@pytest.mark.abuse("B5")
async def test_a_run_that_ignores_signals_or_stops_itself_is_ended_at_its_time(
    run_script,
    counting: str,
    survivors: Survivors,
) -> None:
    marker = f"stubborn-{uuid.uuid4().hex}"
    result = await run_script(
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 32)) - {9, 19})
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            pass
        """,
        policy=Policy(timeout_ms=400),
        arguments=(marker,),
    )
    assert result.status == "timeout"
    assert "400 ms" in result.detail
    assert result.exit_code is None
    assert await gone(survivors, marker)


@pytest.mark.abuse("B6")
async def test_signals_stay_inside(run_script) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        result = await run_script(
            f"""
            targets = [{bystander.pid}, {os.getpid()}, os.getppid(), -1]
            outcome = [attempt(os.kill, pid, 9) for pid in targets[:3]]
            os.write(2, repr(outcome).encode())
            if os.fork() == 0:
                attempt(os.kill, -1, 9)
                os._exit(0)
            time.sleep(0.2)
            """,
            policy=Policy(timeout_ms=3_000),
        )
        assert bystander.poll() is None
        assert result.status == "killed", result  # by itself: its last signal is to all that it may reach
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.row("D-14")
@pytest.mark.abuse("B7", "B9", "B10", "B12", "C11")
async def test_dangerous_system_calls_fail(run_script) -> None:
    names = (
        "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp unshare setns mount umount2 pivot_root chroot "
        "io_uring_setup bpf perf_event_open userfaultfd keyctl add_key kexec_load init_module finit_module reboot "
        "swapon acct quotactl syslog personality move_mount fsopen open_tree settimeofday clock_settime "
        "fanotify_init iopl mknodat setdomainname process_madvise"
    )
    result = await run_script(
        f"""
        names = [name for name in {names!r}.split() if name in CALLS]
        found = {{name: system_call(CALLS[name], 0, 0, 0, 0, 0) for name in names}}
        found["clone3"] = system_call(CALLS["clone3"], 0, 0)
        found["clone newuser"] = system_call(CALLS["clone"], 0x10000000 | 17, 0, 0, 0, 0)
        answer(found)
        """
    )
    assert result.status == "ok", result.stderr
    assert result.value.pop("clone3") == "ENOSYS"
    assert set(result.value.values()) == {"EPERM"}, result.value


@pytest.mark.abuse("B13")
async def test_a_call_of_another_table_kills_the_run(run_script) -> None:
    if platform.machine() != "x86_64":
        return  # only x86 has a second table that a program can reach
    result = await run_script("system_call(0x40000000 + 39)\nprint('alive')", policy=Policy(timeout_ms=3_000))
    assert result.status == "killed"
    assert "SIGSYS" in result.detail
    assert b"alive" not in result.stdout


@pytest.mark.abuse("B11", "B15")
async def test_no_right_can_be_gained(run_script) -> None:
    result = await run_script(
        """
        try:
            status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
        except OSError:
            status = None
        answer({
            "no new privileges": libc.prctl(39, 0, 0, 0, 0), "status": status and status["CapEff"].strip(),
            "setuid": attempt(os.setuid, 0), "groups": attempt(os.setgroups, [0]),
            "su": subprocess.run(["/usr/bin/su", "-c", "id"], stdin=-3, capture_output=True).stdout.decode(),
            "nice": attempt(os.nice, -20), "core": __import__("resource").getrlimit(4)[1],
            "realtime": attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50)),
        })
        """
    )
    assert result.status == "ok", result.stderr
    value = result.value
    assert value["no new privileges"] == 1
    assert value["status"] in (None, "0000000000000000")
    assert "uid=0" not in value["su"]
    assert value["core"] <= 1
    assert {value["setuid"], value["groups"], value["nice"], value["realtime"]} <= {"EPERM", "EACCES", "EINVAL"}


@pytest.mark.abuse("B8")
async def test_there_is_no_terminal_to_type_into(run_script) -> None:
    result = await run_script(
        """
        import fcntl
        answer([attempt(os.open, "/dev/tty", os.O_RDWR), *(attempt(fcntl.ioctl, fd, 0x5412, b"x") for fd in (0, 1, 2))])
        """
    )
    assert "done" not in result.value, result.value
    assert result.value[1:] == ["EPERM"] * 3


@pytest.mark.abuse("B19")
async def test_code_in_memory_gets_no_further(run_script, counting: str) -> None:
    result = await run_script(
        """
        try:
            file = os.memfd_create("payload")
            os.write(file, open("/bin/true", "rb").read())
            code = subprocess.run([f"/proc/self/fd/{file}"], pass_fds=[file]).returncode
        except OSError as error:
            code = errno.errorcode[error.errno]
        answer([code, attempt(read, "/etc/shadow")])
        """
    )
    assert result.status == "ok", result.stderr
    assert result.value[1] in ("ENOENT", "EACCES")
    if counting == "uncounted":
        assert result.value[0] == "ENOSYS"


@pytest.mark.row("003-11")
@pytest.mark.abuse("B20")
async def test_a_run_dies_with_its_supervisor(backend, skill_tree: Path, survivors: Survivors) -> None:
    marker = f"orphan-{uuid.uuid4().hex}"
    (skill_tree / "main.py").write_text(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\nprint('up', flush=True)\ntime.sleep(60)\n", encoding="utf-8"
    )
    program = f"""
import asyncio, sys
from skillyard.sandbox import Job, choose_backend, Policy
job = Job({str(skill_tree)!r}, "main.py", arguments=(sys.argv[1],), policy=Policy(timeout_ms=60_000))
asyncio.run(choose_backend(Policy(), {backend.name!r}).run(job))
"""
    supervisor = subprocess.Popen([sys.executable, "-c", program, marker])
    try:
        least = 2 if backend.name == "container" else 3  # with programs of the sandbox that have the arguments too
        for _ in range(1500):
            if len(survivors(marker)) >= least:
                break
            await asyncio.sleep(0.01)
        assert len(survivors(marker)) >= least
    finally:
        supervisor.kill()
        supervisor.wait()
    assert await gone(survivors, marker)
    for _ in range(400):  # the kernel keeps the group of a process for a moment after its death
        if not (left := _left_after_the_next_run(supervisor.pid)):
            break
        await asyncio.sleep(0.05)
    assert not left


def _left_after_the_next_run(supervisor: int) -> list[str]:
    """The folders and groups of a dead supervisor that another one, which lives on, could not clean."""
    staging.SWEEPER.forget()
    cgroups.SWEEPER.forget()
    staging.SWEEPER.sweep(tempfile.gettempdir(), staging._delete_own)
    if group := cgroups.make_cgroup(memory_bytes=1 << 26, pids=4):
        group.remove()
    parents = cgroups.find_parents()
    groups = [name for folder in (parents.memory, parents.pids) for name in os.listdir(folder)] if parents else []
    return [name for name in groups + os.listdir(tempfile.gettempdir()) if f"-{supervisor}-" in name]


async def test_a_cancelled_call_ends_its_run(run_script, survivors: Survivors) -> None:
    marker = f"cancelled-{uuid.uuid4().hex}"
    call = asyncio.create_task(run_script("time.sleep(60)", policy=Policy(timeout_ms=60_000), arguments=(marker,)))
    while not survivors(marker):
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await gone(survivors, marker)


@pytest.mark.parametrize("steps", range(8))
async def test_a_call_that_is_cancelled_at_any_step_of_its_start_leaves_no_copy(
    run_script, folders_of_runs, steps: int
) -> None:
    call = asyncio.create_task(run_script("time.sleep(60)"))
    for _ in range(steps):
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await folders_of_runs() == []


@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize(
    ("entry", "script"),
    [
        ("main.py", "open('ran', 'w').close()\n"),
        ("main.sh", "touch ran\n"),
        ("main.mjs", "import { writeFileSync } from 'node:fs'\nwriteFileSync('ran', '')\n"),
    ],
)
def test_a_run_whose_supervisor_was_killed_while_it_started_does_nothing(
    tmp_path: Path, entry: str, script: str, alive: bool
) -> None:
    (tmp_path / entry).write_text(script)
    runtime = runtime_for(entry, as_other=False)
    runner = Path(staging.__file__).with_name("node_runner.cjs" if entry.endswith("mjs") else "python_runner.py")
    (result_read, result), (gate, opening) = os.pipe(), os.pipe()
    os.write(opening, b"1")
    if not alive:
        os.close(opening)
    job = Job(str(tmp_path), entry, mode="script")
    command = runtime.command(str(tmp_path / entry), job, runner=str(runner), result=result, gate=gate, limits={})
    done = subprocess.run(command, cwd=tmp_path, pass_fds=(result, gate))
    for descriptor in (result_read, result, gate, *([opening] if alive else [])):
        os.close(descriptor)
    assert (done.returncode, (tmp_path / "ran").exists()) == (0 if alive else 1, alive)
