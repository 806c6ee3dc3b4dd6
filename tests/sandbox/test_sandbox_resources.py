"""Attacks on memory, time and output: every limit holds, is reported, and the caller stays well."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillyard.errors import InvalidInput
from skillyard.sandbox import Job, Policy, SandboxBackend

SMALL = Policy(timeout_ms=8_000, memory_mb=64)


@pytest.mark.row("000-20", "D-14")
@pytest.mark.parametrize(
    "attack",
    [
        "keep = []\nwhile True:\n    keep.append(bytearray(4 << 20))",
        "import mmap\nkeep = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): keep[at] = 1",
    ],
    ids=["objects", "shared mapping"],
)
@pytest.mark.abuse("C1", "C4")
async def test_memory_ends_at_its_limit(run_script, counting: str, attack: str) -> None:
    result = await run_script(attack, policy=SMALL)
    assert result.status == "memory", result
    assert "64 MiB" in result.detail


@pytest.mark.abuse("C3")
async def test_memory_is_counted_over_all_processes_of_a_run(run_script, counting: str) -> None:
    result = await run_script(
        """
        for _ in range(6):
            if os.fork() == 0:
                keep = bytearray(os.urandom(1) * (24 << 20))
                time.sleep(30)
                os._exit(0)
        codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(6)]
        sys.exit(1 if any(codes) else 0)
        """,
        policy=SMALL,
    )
    assert result.status == "memory", result


@pytest.mark.abuse("C4")
async def test_memory_outside_of_processes_is_bounded_too(run_script, counting: str) -> None:
    result = await run_script(
        """
        def fill_memory_file():
            file = os.memfd_create("x")
            for _ in range(300):
                os.write(file, b"x" * 1048576)
        answer([attempt(fill_memory_file), system_call(CALLS["shmget"], 0, 300 << 20, 0o600)])
        """,
        policy=SMALL,
    )
    if result.status == "ok":
        assert result.value[0] in ("ENOSYS", "EFBIG", "ENOMEM"), result.value
    else:
        assert result.status == "memory", result


@pytest.mark.row("000-20")
@pytest.mark.parametrize("device", ["", "/dev/zero"])
@pytest.mark.abuse("C4")
async def test_shared_memory_that_no_process_shows_is_bounded(run_script, counting: str, device: str) -> None:
    result = await run_script(
        f"""
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        held, size, file = 0, 32 << 20, os.open("{device}", os.O_RDWR) if "{device}" else -1
        for _ in range(16):
            place = libc.mmap(None, size, 3, 1 if file >= 0 else 0x21, file, 0)
            if place in (None, 2**64 - 1):
                break
            ctypes.memset(place, 1, size)
            libc.munmap(place, size - 4096)  # the page that stays keeps all of it alive
            held += size
        answer(held)
        """,
        policy=SMALL,
    )
    assert result.status == "memory" or not result.value, result


@pytest.mark.abuse("A14")
async def test_empty_files_are_bounded_where_nobody_counts_the_memory_they_take(run_script, counting: str) -> None:
    result = await run_script(
        """
        for number in range(150_000):
            os.close(os.open(os.environ["TMPDIR"] + f"/{number}", os.O_CREAT | os.O_WRONLY))
        """,
        policy=Policy(timeout_ms=20_000, tmp_mb=16, memory_mb=64),
    )
    by_cgroup = any(limit.name == "memory_mb" and limit.by.startswith("cgroup") for limit in result.limits)
    assert result.status == ("memory" if by_cgroup and result.isolation != "landlock" else "output_limit"), result


@pytest.mark.parametrize("way", ["deleted", "mapped", "unreadable", "deep"])
@pytest.mark.abuse("A14")
async def test_a_run_cannot_hide_what_it_has_written(run_script, folders_of_runs, way: str) -> None:
    result = await run_script(
        f"""
        import mmap
        os.chdir(os.environ["TMPDIR"])
        if "{way}" == "unreadable":
            os.mkdir("a", 0o300)
            os.chdir("a")
        for _ in range(3000 if "{way}" == "deep" else 0):
            os.mkdir("a")
            os.chdir("a")
        keep = []
        for number in range(8):
            file = os.open(str(number), os.O_CREAT | os.O_RDWR)
            if "{way}" in ("deleted", "mapped"):
                os.unlink(str(number))
            for _ in range(8):
                os.write(file, b"x" * 1048576)
            keep.append(mmap.mmap(file, 8 << 20) if "{way}" == "mapped" else file)
            if "{way}" == "mapped":
                os.close(file)
        time.sleep(15)  # until it is ended
        answer("all written")
        """,
        policy=Policy(timeout_ms=20_000, tmp_mb=16),
    )
    assert result.value is None, result
    assert result.status == ("output_limit" if result.isolation == "landlock" else "error"), result  # a count, or a full disk
    assert await folders_of_runs() == []


@pytest.mark.row("000-20")
@pytest.mark.parametrize(
    "script",
    [
        "while True: pass",
        "time.sleep(60)",
        "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
        "os.close(1); os.close(2); os.close(3); time.sleep(60)",
        "time.time = lambda: 0; os.environ['TZ'] = 'X'; time.tzset(); time.sleep(60)",
    ],
    ids=["busy", "asleep", "regular expression", "closed streams", "other clock"],
)
@pytest.mark.abuse("C5", "C7", "C11")
async def test_time_ends_at_its_limit(run_script, script: str) -> None:
    result = await run_script(script, policy=Policy(timeout_ms=300))
    assert result.status == "timeout"
    assert result.duration_ms >= 300


@pytest.mark.parametrize(
    "script",
    [
        "while True: os.write(1, b'x' * 65536)",
        "while True: os.write(2, b'line\\n' * 1000)",
        "while True: os.write(1, b'x' * 4096); os.write(2, b'y' * 4096)",
        "sys.stdout.write('x' * (64 << 20)); sys.stdout.flush()",
    ],
    ids=["output", "errors", "both", "one line"],
)
@pytest.mark.abuse("C6")
async def test_a_flood_of_output_is_cut_and_ended(run_script, script: str) -> None:
    result = await run_script(script, policy=Policy(timeout_ms=8_000, output_bytes=100_000))
    assert result.status == "output_limit"
    assert max(len(result.stdout), len(result.stderr)) == 100_000


@pytest.mark.abuse("G18")
async def test_a_result_over_its_limit_is_refused(run_script) -> None:
    result = await run_script("os.write(3, b'1' * 5000)", policy=Policy(result_bytes=1000))
    assert result.status == "result_invalid"
    endless = await run_script("while True: os.write(3, b' ' * 65536)", policy=Policy(timeout_ms=5_000))
    assert endless.status == "result_invalid"


@pytest.mark.abuse("C8")
async def test_input_that_is_never_read_blocks_nobody(run_script) -> None:
    result = await run_script("answer(1)", stdin=b"x" * (10 << 20))
    assert (result.status, result.value) == ("ok", 1)
    read = await run_script("answer(len(sys.stdin.buffer.read()))", stdin=b"x" * (10 << 20))
    assert read.value == 10 << 20


async def test_input_over_its_limit_is_refused_before_anything_starts(backend: SandboxBackend) -> None:
    with pytest.raises(InvalidInput, match="input"):
        await backend.run(Job("/nowhere", "main.py", b"x" * 20, Policy(input_bytes=10)))


async def test_the_loop_stays_free_while_runs_go_on(run_script) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    result = await run_script("time.sleep(0.3)\nos.write(1, b'x' * 900_000)\nanswer(1)")
    ticking.cancel()
    assert result.status == "ok"
    assert ticks > 20  # the others went on while it slept


@pytest.mark.abuse("C10")
async def test_many_runs_at_once_wait_for_their_turn(backend: SandboxBackend, skill_tree) -> None:
    (skill_tree / "main.sh").write_text("echo -n done\n", encoding="ascii")
    results = await asyncio.gather(*(backend.run(Job(str(skill_tree), "main.sh")) for _ in range(24)))
    assert {(result.status, result.stdout) for result in results} == {("ok", b"done")}


@pytest.mark.row("000-20")
async def test_every_limit_says_what_enforces_it(run_script, counting: str) -> None:
    result = await run_script("answer(1)", policy=Policy(timeout_ms=5_000, memory_mb=128))
    limits = {limit.name: limit for limit in result.limits}
    assert (limits["timeout_ms"].value, limits["timeout_ms"].by) == (5_000, "supervisor")
    assert limits["memory_mb"].value == 128
    assert all(limit.enforced and limit.by for limit in result.limits if limit.name not in ("file_metadata", "kernel_memory"))
    if counting == "uncounted":
        assert "watchdog" in limits["memory_mb"].by
    assert {"pids", "nofile", "file_size_mb", "tmp_mb", "output_bytes", "network", "filesystem"} <= set(limits)


async def test_small_process_limits_are_set(run_script) -> None:
    result = await run_script(
        """
        import resource
        names = ("NOFILE", "FSIZE", "CORE", "STACK", "CPU")
        answer({name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1] for name in names})
        """,
        policy=Policy(timeout_ms=5_000, nofile=64, file_size_mb=2),
    )
    assert result.value == {"NOFILE": 64, "FSIZE": 2 << 20, "CORE": 1, "STACK": 8 << 20, "CPU": 6}


_LIMITED = """
import asyncio, json, resource, sys
for name, most in {"NOFILE": 100, "CORE": 0, "FSIZE": 1 << 20}.items():
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
from skillyard.sandbox import Job, Policy, backends
backend = next(backend for backend in backends() if backend.name == sys.argv[1])
result = asyncio.run(backend.run(Job(sys.argv[2], sys.argv[3], b"", Policy(timeout_ms=8_000))))
print(json.dumps([result.status, result.value or result.stdout.decode(), result.stderr.decode()]))
"""


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            "main.py",
            "import json, os, resource\nos.write(3, json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)[1]).encode())",
        ),
        ("main.sh", "ulimit -H -n"),
        (
            "main.js",
            "console.log(process.report.getReport().userLimits.open_files.hard)",
        ),
    ],
)
def test_a_process_with_lower_limits_runs_skills_within_them(
    backend: SandboxBackend, skill_tree: Path, entry: str, text: str
) -> None:
    (skill_tree / entry).write_text(text, "ascii")
    command = [sys.executable, "-c", _LIMITED, backend.name, str(skill_tree), entry]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    status, value, errors = json.loads(ran.stdout)
    assert (status, int(value), errors) == ("ok", 100, "")


async def test_no_descriptor_of_this_process_is_lost(run_script, folders_of_runs) -> None:
    await run_script("answer(1)")
    assert await folders_of_runs() == []
    before = len(os.listdir("/proc/self/fd"))
    for script in ("answer(1)", "os._exit(3)", "while True: os.write(1, b'x' * 65536)", "os.close(0)"):
        await run_script(script, policy=Policy(timeout_ms=2_000, output_bytes=10_000), stdin=b"x" * 500_000)
    assert await folders_of_runs() == []
    assert len(os.listdir("/proc/self/fd")) == before
