"""What a sandbox costs: one script, unsandboxed, in each backend and in a sandbox that stood ready, interleaved in one run.

`python -m benchmarks.sandbox [rounds]`. Read the ratios; the milliseconds belong to the machine and the moment. With the npm
package `@anthropic-ai/sandbox-runtime` in the folder that SRT names, its library runs the same script in turns with the others.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from benchmarks.figures.goals import Goal, print_goals
from benchmarks.figures.others import SandboxRuntime
from skillyard import Catalog
from skillyard.engine import LocalEngine
from skillyard.execution import RunRequest
from skillyard.packages import tree_digest
from skillyard.sandbox import Job, Policy, SandboxBackend, WarmPool, backends
from skillyard.sandbox.policy import MAXIMUM_STANDING
from skillyard.sandbox.runtimes import runtime_for

SCRIPTS = {
    "skill.py": 'import json\nprint(json.dumps({"ok": True}))\n',
    "skill.sh": "echo '{\"ok\": true}'\n",
}
PLAIN = {"skill.py": ["-s", "-E", "-B"], "skill.sh": ["--noprofile", "--norc"]}
OURS = "bwrap"
THEIRS = "srt of npm"
BARE = "unsandboxed"
KEPT_READY = f"engine, {MAXIMUM_STANDING} sandboxes kept ready"
AT_ONCE = f"the first {MAXIMUM_STANDING} of these, all standing ready"
Way = Callable[[], Awaitable[float]]


async def timed(run: Callable[[], Awaitable[None]]) -> float:
    """How many milliseconds it takes."""
    started = time.perf_counter()
    await run()
    return (time.perf_counter() - started) * 1000


async def numbered(run: Callable[[], Awaitable[None]], _: int) -> None:
    """The run, whatever its number."""
    await run()


async def unsandboxed(command: list[str]) -> None:
    """The bare interpreter with the same script."""
    subprocess.run(command, env={}, input=b"{}", capture_output=True, check=True)


async def unsandboxed_rate(command: list[str], runs: int) -> float:
    """Runs a second of the bare interpreter, one after the other on each processor."""
    slots = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def one(_: int) -> None:
        async with slots:
            await asyncio.to_thread(subprocess.run, command, env={}, input=b"{}", capture_output=True, check=True)

    return await rate_of(one, runs)


async def sandboxed(backend: SandboxBackend, tree: Path, entry: str) -> None:
    """The whole way through a backend: copy, start, watch, read the answer."""
    result = await backend.run(Job(str(tree), entry, b"{}", Policy()))
    assert result.status == "ok", result


async def warm(backend: SandboxBackend, tree: Path, entry: str, pool: WarmPool) -> None:
    """From the job to the result where a sandbox stands ready; making the next one ready is not part of it."""
    result = await pool.run(backend, Job(str(tree), entry, b"{}", Policy()))
    assert result.status == "ok", result


async def ready(pool: WarmPool) -> None:
    """Wait until a sandbox stands ready and has come to rest."""
    while pool.standing == 0:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)


async def measure(ways: dict[str, Way], rounds: int, pool: WarmPool) -> dict[str, list[float]]:
    """The times of each way in milliseconds; every round takes them in another order."""
    if "warm" in ways:
        await ways["warm"]()  # a skill that has run once
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            if "warm" in ways:
                await ready(pool)
            times[name].append(await ways[name]())
    return times


async def rate_of(run: Callable[[int], Awaitable[object]], runs: int) -> float:
    """Runs a second of that many which are asked for at once; `run` is given a number."""
    started = time.perf_counter()
    await asyncio.gather(*(run(number) for number in range(runs)))
    return runs / (time.perf_counter() - started)


async def engine_rates(folder: Path, runs: int) -> dict[str, float]:
    """What the engine of a server does with a skill of one script: every run is written into records, in SQLite."""
    (folder / "skills/answers/scripts").mkdir(parents=True)
    (folder / "skills/answers/SKILL.md").write_text("---\nname: answers\ndescription: Answers at once.\n---\nRun it.\n")
    (folder / "skills/answers/scripts/execute.py").write_text("print('{\"output\": 1}')\n")
    os.environ["SKILLYARD_HOME"] = str(folder / "home")
    catalog = Catalog.discover(roots=[folder / "skills"], cache=False)
    skill, rates = catalog.get("answers"), {}
    for ready, name in ((0, "engine, cold"), (MAXIMUM_STANDING, KEPT_READY)):
        executor = catalog.executor(prewarm=ready)
        engine = LocalEngine(executor, catalog.records())

        async def one(_: int, engine: LocalEngine = engine) -> None:
            run = await engine.run(RunRequest(skill, {"n": time.perf_counter_ns()}))
            assert run.ok, run

        await rate_of(one, MAXIMUM_STANDING)
        rates[name] = await rate_of(one, runs)
        if ready:
            await asyncio.sleep(3)  # until as many stand ready as are kept
            rates[AT_ONCE] = await rate_of(one, ready)
        await executor.close()
    catalog.records().close()
    return rates


def bare_command(entry: str, tree: Path) -> list[str]:
    """The script without a sandbox, by the interpreter that sandboxes use."""
    return [runtime_for(entry, as_other=os.geteuid() == 0).program, *PLAIN[entry], str(tree / entry)]


async def compare(
    entry: str, tree: Path, usable: list[SandboxBackend], other: SandboxRuntime | None, rounds: int
) -> dict[str, float]:
    """The table of one script, and the medians in it."""
    script = tree / entry
    script.write_text(SCRIPTS[entry], encoding="utf-8")
    command = bare_command(entry, tree)
    pool = WarmPool(1, tree_digest)
    ways: dict[str, Way] = {"unsandboxed": partial(timed, partial(unsandboxed, command))}
    for backend in usable:
        ways[backend.name] = partial(timed, partial(sandboxed, backend, tree, entry))
        if backend.name == OURS and entry.endswith(".py"):
            ways["warm"] = partial(timed, partial(warm, backend, tree, entry, pool))
    if other:
        ways[THEIRS] = partial(other.run, " ".join(command))
    times = await measure(ways, rounds, pool)
    await pool.close()
    found = {way: statistics.median(taken) for way, taken in times.items()}
    for way, median in found.items():
        best, bare = min(times[way]), min(times["unsandboxed"])
        print(f"{entry:10} {way:12} {median:10.1f} {median / found['unsandboxed']:7.2f} {best:10.1f} {best / bare:7.2f}")
    return found


def goals(python: dict[str, float], rates: dict[str, float]) -> list[Goal]:
    """What was set as a goal, and what came of it."""
    ours, kept, first = (rates.get(name) for name in (OURS, KEPT_READY, AT_ONCE))
    bare, cold = python["unsandboxed"], python.get(OURS)
    theirs, prewarmed = python.get(THEIRS), python.get("warm")
    return [
        Goal("sandboxed script, cold, against the same without", cold and cold / bare, 1.35, " x"),
        Goal("sandboxed script, standing ready", prewarmed and prewarmed / bare, 0.3, " x"),
        Goal("how much faster than srt of npm", theirs and cold and theirs / cold, 2, " x", at_least=True),
        Goal("sandboxed runs a second, cold", ours, 100, "/s", at_least=True),
        Goal("the same through the engine, sandboxes kept ready", kept, 100, "/s", at_least=True),
        Goal("as many as stand ready, at once", first, 100, "/s", at_least=True),
    ]


async def main(rounds: int) -> None:
    usable = [backend for backend in backends() if backend.probe().ok]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        tree.chmod(0o755)
        other = await SandboxRuntime.start(tree)
        print(f"{'script':10} {'way':12} {'median ms':>10} {'ratio':>7} {'best ms':>10} {'ratio':>7}")
        found = {entry: await compare(entry, tree, usable, other, rounds) for entry in SCRIPTS}
        (tree / "skill.py").write_text(SCRIPTS["skill.py"], encoding="utf-8")
        rates = {BARE: await unsandboxed_rate(bare_command("skill.py", tree), rounds * 4)}
        rates |= {
            name: await rate_of(partial(numbered, partial(sandboxed, backend, tree, "skill.py")), rounds * 4)
            for name, backend in ((backend.name, backend) for backend in usable)
        }
        if OURS in rates:
            rates |= await engine_rates(tree, rounds * 4)
        for name, rate in rates.items():
            print(f"{name}: {rate:.0f} runs a second, {rate / rates[BARE]:.2f} of those unsandboxed")
        if other:
            await other.close()
    print_goals(goals(found["skill.py"], rates))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 30))
