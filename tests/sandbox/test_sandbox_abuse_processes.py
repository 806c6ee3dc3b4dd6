"""More attacks with processes, memory and output: priority, zombies, control groups, core dumps, many bombs at once."""

from __future__ import annotations

import asyncio
import os
import uuid
from pathlib import Path

import pytest

from skillyard.sandbox import Job, Policy, SandboxBackend

MEBIBYTE = 1024 * 1024


@pytest.mark.abuse("B2", "B11")
async def test_a_run_is_never_root(run_script) -> None:
    result = await run_script(
        """
        host = os.stat("/proc/self").st_uid if os.path.exists("/proc/self") else os.getuid()
        answer([os.getuid(), os.geteuid(), host, os.getgroups(), attempt(os.setresuid, 0, 0, 0), attempt(os.setresgid, 0, 0, 0),
                attempt(read, "/etc/shadow"), [libc.prctl(23, capability, 0, 0, 0) for capability in range(41)]])
        """
    )
    assert result.status == "ok", result.stderr
    user, effective, host, groups, as_root, with_root, shadow, bounding = result.value
    assert 0 not in (user, effective, host)
    assert 0 not in groups
    assert "done" not in (as_root, with_root, shadow)
    assert os.geteuid() != 0 or host != os.geteuid()
    assert len(bounding) == 41


@pytest.mark.abuse("B14")
@pytest.mark.parametrize("entry", ["scripts/main.py", "scripts/main.sh", "scripts/main.cjs"])
async def test_a_crash_leaves_no_core_and_starts_no_handler(run_script, entry: str) -> None:
    # A limit of one byte is the kernel's word for «not even to a program that collects them»; zero only stops files.
    look = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE), flush=True)"
    source = {
        "scripts/main.py": f"{look}\nos.chdir(os.environ['TMPDIR'])\nos.kill(os.getpid(), signal.SIGSEGV)",
        "scripts/main.sh": f"cd $TMPDIR; /usr/bin/python3 -S -c '{look}'; kill -SEGV $$",
        "scripts/main.cjs": f"const {{ execFileSync }} = require('node:child_process');\n"
        f'process.stdout.write(execFileSync("/usr/bin/python3", ["-S", "-c", "{look}"]));\nprocess.abort();',
    }[entry]
    result = await run_script(source, entry=entry)
    assert result.status == "killed", result
    assert result.stdout == b"(1, 1)\n", result.stderr


@pytest.mark.abuse("B15")
async def test_nobody_gets_ahead_of_others(run_script) -> None:
    result = await run_script(
        """
        tried = [attempt(write, f"/proc/{pid}/{name}", "-1000") for pid in ("self", "1", str(os.getppid()))
                 for name in ("oom_score_adj", "autogroup")]
        tried += [attempt(os.setpriority, os.PRIO_PROCESS, 0, -20), attempt(os.nice, -1)]
        tried += [attempt(os.sched_setscheduler, 0, policy, os.sched_param(1)) for policy in (os.SCHED_FIFO, os.SCHED_RR)]
        ctypes.set_errno(0)
        held = libc.mlockall(3)
        size = 64 << 20
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.munlockall()
        place = libc.mmap(None, size, 3, 0x22, -1, 0)
        libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        answer([tried, libc.mlock(place, size), held])
        """
    )
    assert result.status == "ok", result.stderr
    tried, large, _ = result.value
    assert set(tried) <= {"EACCES", "EPERM", "ENOENT", "EROFS", "EINVAL"}, tried
    assert large == -1


@pytest.mark.abuse("B17")
async def test_children_that_nobody_waits_for_count_and_are_gone_with_the_run(run_script, counting: str) -> None:
    name = f"farm-{uuid.uuid4().hex[:8]}"
    result = await run_script(
        f"""
        libc.prctl(15, b"{name}", 0, 0, 0)
        made = 0
        try:
            while made < 300:
                if os.fork() == 0:
                    try:
                        made % 2 and os.fork()
                    finally:
                        os._exit(0)
                made += 1
        except OSError:
            pass
        answer(made)
        os._exit(0)
        """,
        policy=Policy(timeout_ms=5_000, pids=24),
    )
    # Landlock's limit is added to what the user already runs: a thread of his that ends meanwhile leaves its place to the run,
    # until the supervisor counts more processes than the policy allows.
    landlock = result.isolation == "landlock"
    assert result.status == "ok" or (landlock and result.status == "pids"), result
    room = 48 if landlock else 24
    assert result.value is None or 0 < result.value <= room
    for _ in range(1000):
        if not (left := _named(name)):
            break
        await asyncio.sleep(0.01)
    assert not left


def _named(name: str) -> list[str]:
    """The processes of this name, the dead ones too."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found += [folder.name] if (folder / "comm").read_text().strip() == name else []
            except OSError:
                continue
    return found


@pytest.mark.abuse("B18")
async def test_there_is_no_control_group_to_leave_or_to_call_home_with(run_script, counting: str) -> None:
    result = await run_script(
        """
        root, groups = "/sys/fs/cgroup", ["", "/memory", "/pids", "/unified", "/rdma"]
        try:
            groups += [line.split(":", 2)[2].strip() for line in read("/proc/self/cgroup").splitlines()]
        except OSError:
            pass
        names = ("release_agent", "notify_on_release", "cgroup.procs", "tasks", "memory.max", "pids.max")
        tried = [attempt(write, f"{root}{group}/{name}", "0") for group in groups for name in names]
        tried += [attempt(os.mkdir, f"{root}{group}/mine") for group in groups]
        place = os.environ["TMPDIR"] + "/cgroup"
        os.mkdir(place)
        mounted = [system_call(CALLS["mount"], b"x", place.encode(), kind, 0, options)
                   for kind, options in ((b"cgroup", b"rdma"), (b"cgroup2", None))]
        answer([tried, mounted, system_call(CALLS["unshare"], 0x02000000)])
        """
    )
    assert result.status == "ok", result.stderr
    tried, mounted, unshared = result.value
    assert set(tried) <= {"ENOENT", "EACCES", "EROFS", "EPERM"}, tried
    assert (mounted, unshared) == (["EPERM", "EPERM"], "EPERM")


@pytest.mark.abuse("C1")
async def test_a_hog_is_stopped_close_to_its_limit(run_script, counting: str) -> None:
    result = await run_script(
        """
        keep = []
        while True:
            keep.append(bytearray(b"x") * (2 << 20))
            os.write(1, b".")
        """,
        policy=Policy(timeout_ms=8_000, memory_mb=64),
    )
    assert result.status == "memory", result
    assert len(result.stdout) * 2 <= 64 * 1.2


@pytest.mark.abuse("C6")
@pytest.mark.parametrize("source", ["while True: os.write(1, b'x' * 65536)", "while True: os.write(2, b'y\\n' * 32768)"])
async def test_a_flood_does_not_make_the_watcher_grow(run_script, source: str) -> None:
    cap = 16 * MEBIBYTE
    await run_script("answer(1)")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins at what is in use now
    before = _peak()
    result = await run_script(source, policy=Policy(timeout_ms=8_000, output_bytes=cap))
    assert result.status == "output_limit"
    assert _peak() - before <= 2 * cap  # what is given back, and never the flood


def _peak() -> int:
    """The most memory this process has had in use, in bytes."""
    status = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


@pytest.mark.abuse("C10")
async def test_sixty_four_bombs_at_once_wait_for_their_turn_and_harm_nobody(backend: SandboxBackend, skill_tree: Path) -> None:
    bombs = {
        "flood.sh": "while :; do printf '%4096s'; done",
        "fork.sh": "bomb() { bomb | bomb & }; bomb; while :; do printf '%4096s'; done",
        "hog.py": "keep = []\nwhile True: keep.append(bytearray(b'x') * (8 << 20))",
        "spin.sh": "trap '' TERM; while :; do :; done",
    }
    for name, text in {**bombs, "calm.sh": "echo -n calm"}.items():
        (skill_tree / name).write_text(text + "\n", encoding="ascii")
    policy = Policy(timeout_ms=250, memory_mb=32, pids=8, output_bytes=50_000)
    jobs = [Job(str(skill_tree), name, policy=policy) for name in list(bombs) * 16]
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    results = await asyncio.gather(*(backend.run(job) for job in jobs))
    ticking.cancel()
    assert {result.status for result in results} <= {"output_limit", "memory", "timeout", "pids", "error", "killed"}
    assert ticks > 20
    calm = await backend.run(Job(str(skill_tree), "calm.sh"))
    assert (calm.status, calm.stdout) == ("ok", b"calm")
