"""What a sandbox costs: one script, unsandboxed, in each backend and in a sandbox that stood ready, interleaved in one run.

`python benchmarks/sandbox.py [rounds]`. Read the ratios; the milliseconds belong to the machine and the moment.
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
from pathlib import Path

from skillyard.packages import tree_digest
from skillyard.sandbox import Job, Policy, WarmPool, backends
from skillyard.sandbox.runtimes import runtime_for

SCRIPTS = {
    "skill.py": 'import json\nprint(json.dumps({"ok": True}))\n',
    "skill.sh": "echo '{\"ok\": true}'\n",
}


def unsandboxed(program: str, script: Path) -> Callable[[], Awaitable[None]]:
    """The bare interpreter with the same script."""
    options = ["-s", "-E", "-B"] if script.suffix == ".py" else ["--noprofile", "--norc"]

    async def run() -> None:
        subprocess.run([program, *options, str(script)], env={}, input=b"{}", capture_output=True, check=True)

    return run


def warm(backend: object, tree: Path, entry: str, pool: WarmPool) -> Callable[[], Awaitable[None]]:
    """From the job to the result where a sandbox stands ready; making the next one ready is not part of it."""

    async def run() -> None:
        result = await pool.run(backend, Job(str(tree), entry, b"{}", Policy()))  # type: ignore[arg-type]
        assert result.status == "ok", result

    return run


async def ready(pool: WarmPool) -> None:
    """Wait until a sandbox stands ready and has come to rest."""
    while pool.standing == 0:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)


def sandboxed(backend: object, tree: Path, entry: str) -> Callable[[], Awaitable[None]]:
    """The whole way through a backend: copy, start, watch, clean."""

    async def run() -> None:
        result = await backend.run(Job(str(tree), entry, b"{}", Policy()))  # type: ignore[attr-defined]
        assert result.status == "ok", result

    return run


async def measure(ways: dict[str, Callable[[], Awaitable[None]]], rounds: int, pool: WarmPool) -> dict[str, float]:
    """The median time of each way in milliseconds; every round takes them in another order."""
    if "warm" in ways:
        await ways["warm"]()  # a skill that has run once
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            if "warm" in ways:
                await ready(pool)
            started = time.perf_counter()
            await ways[name]()
            times[name].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


async def throughput(backend: object, tree: Path, runs: int) -> float:
    """Runs a second when as many as allowed go on at once."""
    started = time.perf_counter()
    await asyncio.gather(*(sandboxed(backend, tree, "skill.py")() for _ in range(runs)))
    return runs / (time.perf_counter() - started)


async def main(rounds: int) -> None:
    usable = [backend for backend in backends() if backend.probe().ok]
    other = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        print(f"{'script':10} {'way':12} {'median ms':>10} {'ratio':>7}")
        for name, text in SCRIPTS.items():
            script = tree / name
            script.write_text(text, encoding="utf-8")
            ways = {"unsandboxed": unsandboxed(runtime_for(name, as_other=other).program, script)}
            ways |= {backend.name: sandboxed(backend, tree, name) for backend in usable}
            pool = WarmPool(1, tree_digest)
            first = next((backend for backend in usable if backend.name == "bwrap"), None)
            if first and name.endswith(".py"):
                ways["warm"] = warm(first, tree, name, pool)
            found = await measure(ways, rounds, pool)
            await pool.close()
            for way, median in found.items():
                print(f"{name:10} {way:12} {median:10.1f} {median / found['unsandboxed']:7.2f}")
        for backend in usable:
            print(f"{backend.name}: {await throughput(backend, tree, rounds * 4):.0f} runs of skill.py a second")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 30))
