"""Sandboxes that stand ready: the same results as cold ones, one job each, and nothing left of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest

from skillyard.errors import InvalidInput, PermissionDenied
from skillyard.packages import tree_digest
from skillyard.sandbox import (
    NOTHING_GRANTED,
    GrantedEnvironment,
    Job,
    Policy,
    SandboxBackend,
    SandboxResult,
    WarmPool,
    backends,
    standby_sandboxes,
)
from skillyard.sandbox.bubblewrap import BubblewrapBackend

PRELUDE = """
import errno, json, os, signal, socket, sys, time

def attempt(call, *values):
    try:
        call(*values)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done"

def write(path):
    with open(path, "w") as file:
        file.write("x")

def answer(value):
    with os.fdopen(3, "w") as pipe:
        json.dump(value, pipe)
"""
FIRST = b'{"input": "first"}'
POLICY = Policy(timeout_ms=8_000, memory_mb=64)


class Counted(BubblewrapBackend):
    """The real backend; it notes its cold runs."""

    cold: ClassVar[list[Job]] = []

    async def run(self, job: Job) -> SandboxResult:
        self.cold.append(job)
        return await super().run(job)


@dataclass
class Bench:
    """One skill, one pool, and what came of it."""

    pool: WarmPool
    tree: Path
    backend: Counted = field(default_factory=Counted)
    entry: str = "main.py"

    def write(self, source: str) -> Bench:
        """A script that does nothing with its first input, and then what `source` says."""
        quiet = f"import sys\nDATA = sys.stdin.buffer.read()\nif DATA == {FIRST!r}:\n    sys.exit()\n"
        (self.tree / self.entry).write_text(quiet + PRELUDE + textwrap.dedent(source), encoding="utf-8")
        return self

    def job(self, policy: Policy = POLICY, stdin: bytes = b"{}") -> Job:
        return Job(str(self.tree), self.entry, stdin, policy)

    async def run(self, policy: Policy = POLICY, stdin: bytes = b"{}") -> SandboxResult:
        return await self.pool.run(self.backend, self.job(policy, stdin))

    async def warm(self, policy: Policy = POLICY, count: int = 1) -> None:
        """Let the skill run once, and wait for the sandboxes that this brings about."""
        await self.run(policy, FIRST)
        await until(lambda: self.pool.standing == count)
        self.backend.cold.clear()


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


def folders() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"skillyard-run-{os.getpid()}-")]


@pytest.fixture
async def bench(skill_tree: Path) -> AsyncIterator[Bench]:
    Counted.cold.clear()
    assert Counted().probe().ok
    made = Bench(WarmPool(1, tree_digest), skill_tree)
    yield made
    await made.pool.close()


SCRIPTS = {
    "a result": "answer({'data': DATA.decode()})",
    "output": "print('to the log')\nsys.stderr.write('to the other')",
    "an exit code": "sys.exit(3)",
    "an error": "raise ValueError('no')",
    "no program": "this is no Python",
    "a signal": "os.kill(os.getpid(), signal.SIGSEGV)",
    "no result": "os.write(3, b'{')",
    "a flood": "while True: os.write(1, b'x' * 65536)",
    "its limits": "import resource\nanswer([resource.getrlimit(number) for number in range(16)])",
    "its place": "answer([os.getcwd(), sys.argv, sys.path, dict(os.environ), sorted(os.listdir('/proc/self/fd'))])",
    "its files": "answer([attempt(write, '/skill/x'), attempt(write, '/tmp/x'), os.listdir('/'), os.listdir('/skill')])",
    "a network": "answer(attempt(socket.socket))",
}


@pytest.mark.row("000-20")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_a_warm_run_comes_to_what_a_cold_one_comes_to(bench: Bench, script: str) -> None:
    bench.write(script)
    await bench.warm()
    warm = await bench.run()
    assert not bench.backend.cold
    cold = await bench.backend.run(bench.job())
    for name in (item.name for item in fields(SandboxResult) if item.name not in ("duration_ms", "memory_bytes")):
        assert getattr(warm, name) == getattr(cold, name), name


@pytest.mark.row("000-20", "D-14")
@pytest.mark.parametrize(
    ("status", "script"),
    [
        ("memory", "keep = []\nwhile True:\n    keep.append(bytearray(4 << 20))"),
        ("memory", "import mmap\nkeep = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): keep[at] = 1"),
        ("timeout", "while True: pass"),
        ("output_limit", "while True: os.write(1, b'x' * 65536)"),
        ("result_invalid", "while True: os.write(3, b' ' * 65536)"),
    ],
)
async def test_every_limit_holds_and_is_reported_the_same(bench: Bench, counting: str, status: str, script: str) -> None:
    policy = replace(POLICY, timeout_ms=600 if status == "timeout" else 8_000)
    await bench.write(script).warm(policy)
    result = await bench.run(policy)
    assert (result.status, bench.backend.cold) == (status, [])
    limits = {limit.name: limit for limit in result.limits}
    assert limits["memory_mb"].value == 64
    assert ("watchdog" in limits["memory_mb"].by) == (counting == "uncounted")


async def test_a_fork_bomb_stops_at_its_limit(bench: Bench, counting: str) -> None:
    bench.write(
        """
        made = 0
        try:
            while made < 500:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                made += 1
        except OSError:
            answer(made)
            sys.exit(1)
        """
    )
    await bench.warm()
    result = await bench.run()
    by_cgroup = any(limit.by.startswith("cgroup") for limit in result.limits)
    assert result.status == ("pids" if by_cgroup else "error"), result
    assert result.value <= POLICY.pids


async def test_the_time_counts_from_the_job(bench: Bench) -> None:
    policy = replace(POLICY, timeout_ms=400)
    await bench.write("answer(1)").warm(policy)
    await asyncio.sleep(0.5)
    result = await bench.run(policy)
    assert (result.status, result.value, bench.backend.cold) == ("ok", 1, [])
    assert result.duration_ms < 400


async def test_execute_is_called_with_the_request(bench: Bench) -> None:
    (bench.tree / "main.py").write_text("def execute(parameters, context):\n    return [parameters, context]\n", "utf-8")
    await bench.warm()
    result = await bench.run(stdin=b'{"input": {"a": 1}, "context": {"userId": "ada"}}')
    assert (result.value, bench.backend.cold) == ([{"a": 1}, {"userId": "ada"}], [])


async def test_a_module_of_the_skill_hides_one_that_was_loaded_early(bench: Bench) -> None:
    (bench.tree / "json.py").write_text("dumps = loads = None\nMINE = True\n", "utf-8")
    (bench.tree / "main.py").write_text("import json, sys\nsys.stdout.write(str(json.MINE))\n", "utf-8")
    await bench.warm()
    assert ((await bench.run()).stdout, bench.backend.cold) == (b"True", [])


@pytest.mark.row("000-20")
@pytest.mark.abuse("E7", on="bwrap")
async def test_a_sandbox_serves_one_job_and_is_thrown_away(bench: Bench) -> None:
    bench.write(
        """
        before = os.listdir("/tmp")
        write("/tmp/left behind")
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        answer([before, [name for name in os.listdir("/proc") if name.isdigit()]])
        os._exit(0)
        """
    )
    await bench.warm()
    seen = []
    for _ in range(3):
        result = await bench.run()
        seen.append((result.status, result.value[0], len(result.value[1])))
        await until(lambda: bench.pool.standing == 1)
    assert seen == [("ok", [], 3)] * 3
    assert not bench.backend.cold


@pytest.mark.row("000-20")
@pytest.mark.abuse("E7", on="bwrap")
async def test_runs_at_once_never_share_a_sandbox(bench: Bench) -> None:
    bench.pool = WarmPool(3, tree_digest)
    bench.write("before = os.listdir('/tmp')\nwrite('/tmp/x')\nanswer([before, DATA.decode()])")
    await bench.warm(count=3)
    results = await asyncio.gather(*(bench.run(stdin=str(number).encode()) for number in range(8)))
    assert [result.value for result in results] == [[[], str(number)] for number in range(8)]
    await bench.pool.close()


@pytest.mark.row("000-20")
@pytest.mark.abuse("E7", on="bwrap")
async def test_a_changed_skill_gets_no_old_sandbox(bench: Bench) -> None:
    await bench.write("answer('old')").warm()
    bench.write("answer('new')")
    assert (await bench.run()).value == "new"
    assert len(bench.backend.cold) == 1
    await until(lambda: (bench.pool.standing, len(folders())) == (1, 1))
    assert [(await bench.run()).value, len(bench.backend.cold)] == ["new", 1]


@pytest.mark.parametrize(
    "other",
    [
        {"policy": replace(POLICY, memory_mb=65)},
        {"policy": replace(POLICY, environment={"UNIT": "celsius"})},
        {"arguments": ("more",)},
        {"mode": "script"},
        {"library": {"mine/__init__.py": b""}},
        {"verify": lambda copy: None},
    ],
    ids=["memory", "environment", "arguments", "call", "library", "verify"],
)
async def test_a_job_of_another_kind_gets_a_sandbox_of_its_own(bench: Bench, other: dict[str, object]) -> None:
    await bench.write("answer(1)").warm()
    result = await bench.pool.run(bench.backend, replace(bench.job(), **other))
    assert (result.value, len(bench.backend.cold)) == (1, 1)


async def test_what_was_approved_is_verified_for_each_run(bench: Bench) -> None:
    seen: list[str] = []

    def verify(copy: str) -> None:
        seen.append(tree_digest(copy))
        if len(seen) > 2:
            raise PermissionDenied("no longer")

    job = replace(bench.write("answer(1)").job(), verify=verify)
    await bench.pool.run(bench.backend, job)
    await until(lambda: bench.pool.standing == 1)
    with pytest.raises(PermissionDenied):
        await bench.pool.run(bench.backend, job)
    assert seen == [tree_digest(str(bench.tree))] * 3  # the run, the sandbox made ready, the run that is refused
    assert bench.pool.standing == 0


async def test_a_dead_sandbox_is_replaced_by_a_cold_run(bench: Bench) -> None:
    await bench.write("answer(1)").warm()
    for pid in waiting(bench):
        os.kill(pid, 9)
    result = await bench.run()
    assert (result.status, result.value, len(bench.backend.cold)) == ("ok", 1, 1)
    await until(lambda: bench.pool.standing == 1)


async def test_a_sandbox_whose_script_process_died_is_replaced_too(bench: Bench) -> None:
    await bench.write("answer(1)").warm()
    os.kill(waiting(bench)[-1], 9)
    result = await bench.run()
    assert (result.status, result.value, len(bench.backend.cold)) == ("ok", 1, 1)


def waiting(bench: Bench) -> list[int]:
    """The processes of the sandbox that stands ready, parents first."""
    from skillyard.sandbox.processes import descendants

    watch = bench.pool._stock._ready_sandboxes[0].watch
    return [watch._process.pid, *descendants(watch._process.pid)]


@pytest.mark.row("D-13")
@pytest.mark.abuse("E7", on="bwrap")
async def test_a_waiting_process_knows_nothing_of_any_job(bench: Bench) -> None:
    bench.write("answer(1)")
    await bench.run(stdin=b"canary-of-another-user")
    await until(lambda: bench.pool.standing == 1)
    for pid in waiting(bench):
        for file in ("environ", "cmdline"):
            assert b"canary" not in Path(f"/proc/{pid}/{file}").read_bytes()
    assert b"canary" not in repr(bench.pool._stock._ready_sandboxes[0]).encode()


@pytest.mark.row("D-13")
@pytest.mark.abuse("E7", on="bwrap")
async def test_runs_with_secrets_stay_cold(bench: Bench) -> None:
    policy = replace(POLICY, environment={"API_TOKEN": "tok-4f9c2a7b1d"})
    bench.write("answer(len(os.environ['API_TOKEN']))")
    for _ in range(2):
        assert (await bench.run(policy)).value == 14
    await asyncio.sleep(0.1)
    assert bench.pool.standing == 0
    await until(lambda: folders() == [])


@pytest.mark.parametrize(
    ("entry", "policy"),
    [
        ("main.sh", POLICY),
        ("main.py", replace(POLICY, filesystem="none")),
        ("main.py", replace(POLICY, network="allowlist", network_allowlist=("api.example.com",))),
    ],
)
async def test_other_kinds_of_runs_stay_cold(bench: Bench, entry: str, policy: Policy) -> None:
    (bench.tree / entry).write_text("exit(0)\n" if entry.endswith("py") else "exit 0\n", "utf-8")
    bench.entry = entry
    for _ in range(2):
        assert (await bench.run(policy)).status == "ok"
    assert (len(bench.backend.cold), bench.pool.standing) == (2, 0)
    await until(lambda: folders() == [])


async def test_other_sandboxes_run_as_ever(bench: Bench) -> None:
    landlock: SandboxBackend = next(item for item in backends() if item.name == "landlock")
    bench.write("answer(1)")
    result = await bench.pool.run(landlock, bench.job())
    assert (result.value, result.isolation, bench.pool.standing) == (1, "landlock", 0)


async def test_a_skill_with_files_that_are_not_copied_stays_cold(bench: Bench) -> None:
    (bench.tree / "link").symlink_to("/etc/passwd")
    bench.write("answer(1)")
    result = await bench.run()
    assert result.value == 1 and "link" in result.warnings[0]
    await until(lambda: not bench.pool._stock._keepers and not folders())
    assert bench.pool.standing == 0


async def test_closing_leaves_no_process_and_no_folder(bench: Bench, survivors: Callable[[str], list[int]]) -> None:
    bench.entry = "closing-4711.py"
    before = len(os.listdir("/proc/self/fd"))
    await bench.write("answer(1)").warm()
    await until(lambda: bool(survivors("/skill/closing-4711.py") and folders()))
    await bench.pool.close()
    await until(lambda: not survivors("/skill/closing-4711.py"))
    assert (bench.pool.standing, folders(), len(os.listdir("/proc/self/fd"))) == (0, [], before)
    assert (await bench.run()).value == 1  # cold from now on
    assert (len(bench.backend.cold), bench.pool.standing) == (1, 0)


async def test_a_sandbox_with_another_environment_or_start_is_not_used(bench: Bench) -> None:
    def nothing(_copy: str) -> GrantedEnvironment:
        return NOTHING_GRANTED

    await bench.write("answer(__name__)").warm()
    for job in (replace(bench.job(), environment=nothing), replace(bench.job(), as_module=True)):
        assert (await bench.pool.run(bench.backend, job)).status == "ok"
        assert bench.backend.cold.pop() == job


async def test_an_idle_sandbox_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_sandboxes, "_IDLE_SECONDS", 0.2)
    await bench.write("answer(1)").warm()
    await until(lambda: bench.pool.standing == 0 and not folders())


async def test_sandboxes_that_stand_ready_are_bounded_in_all(bench: Bench) -> None:
    bench.pool = WarmPool(8, tree_digest)
    await bench.write("answer(1)").warm(count=8)
    (bench.tree / "other.py").write_text("print(1)\n", "utf-8")
    bench.entry = "other.py"
    await bench.run()
    await until(lambda: sum(item.key.entry == "other.py" for item in bench.pool._stock._ready_sandboxes) == 8)
    assert (bench.pool.standing, len(folders())) == (8, 8)
    await bench.pool.close()


@pytest.mark.parametrize("count", [0, 9, -1, True])
def test_a_pool_has_from_one_to_eight(count: int) -> None:
    with pytest.raises(InvalidInput, match="sandboxes ready"):
        WarmPool(count, tree_digest)


PROGRAM = """
import asyncio, os, sys
from skillyard.packages import tree_digest
from skillyard.sandbox import Job, WarmPool, choose_backend, Policy
async def main():
    pool = WarmPool(2, tree_digest)
    backend = await asyncio.to_thread(choose_backend, Policy())
    await pool.run(backend, Job(sys.argv[1], sys.argv[2]))
    while pool.standing < 2:
        await asyncio.sleep(0.01)
    if sys.argv[3] == "killed":
        os.kill(os.getpid(), 9)
asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["killed", "done"])
async def test_no_sandbox_outlives_its_supervisor(end: str, skill_tree: Path, survivors: Callable[[str], list[int]]) -> None:
    name = f"supervised-{end}.py"
    (skill_tree / name).write_text("print(1)\n", "utf-8")
    command = [sys.executable, "-c", PROGRAM, str(skill_tree), name, end]
    process = await asyncio.to_thread(subprocess.Popen, command)
    code = await asyncio.to_thread(process.wait, 30)
    assert code == (-9 if end == "killed" else 0)
    await until(lambda: not survivors(f"/skill/{name}"))
    left = [item for item in os.listdir(tempfile.gettempdir()) if item.startswith(f"skillyard-run-{process.pid}-")]
    assert not left or end == "killed"  # which the next process of this user clears away
