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
from skillyard.packages import tree_digest
from skillyard.sandbox import Job, Policy, SandboxBackend, WarmPool, backends
from skillyard.sandbox.runtimes import runtime_for

SCRIPTS = {
    "skill.py": 'import json\nprint(json.dumps({"ok": True}))\n',
    "skill.sh": "echo '{\"ok\": true}'\n",
}
PLAIN = {"skill.py": ["-s", "-E", "-B"], "skill.sh": ["--noprofile", "--norc"]}
OURS = "bwrap"
THEIRS = "srt of npm"
Way = Callable[[], Awaitable[float]]


async def timed(run: Callable[[], Awaitable[None]]) -> float:
    """How many milliseconds it takes."""
    started = time.perf_counter()
    await run()
    return (time.perf_counter() - started) * 1000


async def unsandboxed(command: list[str]) -> None:
    """The bare interpreter with the same script."""
    subprocess.run(command, env={}, input=b"{}", capture_output=True, check=True)


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


async def throughput(backend: SandboxBackend, tree: Path, runs: int) -> float:
    """Runs a second when as many as allowed go on at once."""
    started = time.perf_counter()
    await asyncio.gather(*(sandboxed(backend, tree, "skill.py") for _ in range(runs)))
    return runs / (time.perf_counter() - started)


async def compare(
    entry: str, tree: Path, usable: list[SandboxBackend], other: SandboxRuntime | None, rounds: int
) -> dict[str, float]:
    """The table of one script, and the medians in it."""
    script = tree / entry
    script.write_text(SCRIPTS[entry], encoding="utf-8")
    command = [runtime_for(entry, as_other=os.geteuid() == 0).program, *PLAIN[entry], str(script)]
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


def goals(python: dict[str, float], per_second: float | None) -> list[Goal]:
    bare, cold = python["unsandboxed"], python.get(OURS)
    theirs, prewarmed = python.get(THEIRS), python.get("warm")
    return [
        Goal("sandboxed script, cold, against the same without", cold and cold / bare, 1.35, " x"),
        Goal("sandboxed script, standing ready", prewarmed and prewarmed / bare, 0.3, " x"),
        Goal("how much faster than srt of npm", theirs and cold and theirs / cold, 2, " x", at_least=True),
        Goal("sandboxed runs a second", per_second, 100, "/s", at_least=True),
    ]


async def main(rounds: int) -> None:
    usable = [backend for backend in backends() if backend.probe().ok]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        tree.chmod(0o755)
        other = await SandboxRuntime.start(tree)
        print(f"{'script':10} {'way':12} {'median ms':>10} {'ratio':>7} {'best ms':>10} {'ratio':>7}")
        found = {entry: await compare(entry, tree, usable, other, rounds) for entry in SCRIPTS}
        rates = {backend.name: await throughput(backend, tree, rounds * 4) for backend in usable}
        for name, rate in rates.items():
            print(f"{name}: {rate:.0f} runs of skill.py a second")
        if other:
            await other.close()
    print_goals(goals(found["skill.py"], rates.get(OURS)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 30))
