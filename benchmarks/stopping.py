"""How fast a run that will not stop is stopped, and what a flood of output costs the one who watches.

`python -m benchmarks.stopping [rounds]`. Each script runs in each sandbox of this machine, in turns. A call has two parts: the
start, which is copying the skill and starting the sandbox until the clock of its limit runs, and what comes after. How late a
run is ended is counted from the moment its limit is over to the answer, with ending all processes and reading what they wrote;
a flood is counted from the moment its clock runs. The start stands beside, in a column of its own: `sandbox.py` is about it.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.figures.goals import Goal, print_goals
from skillyard.sandbox import Job, Policy, SandboxBackend, backends

LIMIT_MS: Final = 301
FLOOD_LIMIT_MS: Final = 30_003  # no other timer has these lengths: so the moment is seen when the clock of a limit starts
CAP: Final = 1 << 20
MEBIBYTE: Final = 1 << 20
ENDLESS: Final = {
    "sleeps": "import time\ntime.sleep(60)\n",
    "computes and ignores signals": "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass\n",
    "has forked 20 times": "import os, time\nfor _ in range(20):\n    os.fork() or time.sleep(60)\ntime.sleep(60)\n",
}
FLOODS: Final = {
    "in pieces of 64 KiB": "import os\nwhile True: os.write(1, b'x' * 65536)\n",
    "in lines, on both streams": "import sys\nwhile True:\n    print('x' * 99)\n    print('y' * 99, file=sys.stderr)\n",
}
# A process of its own has a peak of its own; it is set back when everything is loaded.
GROWTH: Final = """
import asyncio, sys
from skillyard.sandbox import Job, Policy, backends
name, tree, cap = sys.argv[1], sys.argv[2], int(sys.argv[3])
backend = next(item for item in backends() if item.name == name)
def value(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) * 1024
async def main():
    policy = Policy(output_bytes=cap)
    await backend.run(Job(tree, "skill.py", b"", policy))
    open("/proc/self/clear_refs", "w").write("5")
    before = value("VmRSS")
    result = await backend.run(Job(tree, "flood.py", b"", policy))
    assert result.status == "output_limit", result.status
    print(value("VmHWM") - before)
asyncio.run(main())
"""


class Stopped(NamedTuple):
    """One call: milliseconds until the clock of its limit ran, and from there to the answer."""

    start: float
    then: float


class LimitClock:
    """Sees at the event loop when the clock of a limit starts."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._call_later = self._loop.call_later
        self._seconds, self._begun = 0.0, 0.0

    async def run(self, backend: SandboxBackend, tree: Path, policy: Policy, status: str) -> Stopped:
        """One run that ends with `status`."""
        self._seconds, self._begun = policy.timeout_ms / 1000, 0.0
        self._loop.call_later = self._seen  # type: ignore[method-assign,assignment]
        try:
            started = time.perf_counter()
            result = await backend.run(Job(str(tree), "skill.py", b"{}", policy))
            ended = time.perf_counter()
        finally:
            self._loop.call_later = self._call_later  # type: ignore[method-assign]
        assert result.status == status, result
        assert self._begun, "no clock of the limit was seen"
        return Stopped((self._begun - started) * 1000, (ended - self._begun) * 1000)

    def _seen(self, delay: float, *rest: Any, **named: Any) -> asyncio.TimerHandle:
        if delay == self._seconds:
            self._begun = time.perf_counter()
        return self._call_later(delay, *rest, **named)


async def over_the_limit(clock: LimitClock, backend: SandboxBackend, tree: Path) -> Stopped:
    """The start, and from the limit to the answer."""
    start, then = await clock.run(backend, tree, Policy(timeout_ms=LIMIT_MS), "timeout")
    return Stopped(start, then - LIMIT_MS)


async def flooded(clock: LimitClock, backend: SandboxBackend, tree: Path) -> Stopped:
    """The start, and from there to the answer, of a script that does nothing but print."""
    return await clock.run(backend, tree, Policy(output_bytes=CAP, timeout_ms=FLOOD_LIMIT_MS), "output_limit")


def growth(name: str, tree: Path, cap: int) -> float:
    """How many times the cap the watching process grew at most."""
    (tree / "skill.py").write_text("print(1)\n", encoding="ascii")
    (tree / "flood.py").write_text(next(iter(FLOODS.values())), encoding="ascii")
    done = subprocess.run([sys.executable, "-c", GROWTH, name, str(tree), str(cap)], capture_output=True, text=True, check=True)
    return int(done.stdout) / cap


Calls = dict[tuple[str, str], list[Stopped]]


async def main(rounds: int) -> None:
    usable = [backend for backend in backends() if backend.probe().ok]
    late: Calls = {}
    floods: Calls = {}
    clock = LimitClock()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        tree.chmod(0o755)
        tasks = [(backend, what) for backend in usable for what in (*ENDLESS, *FLOODS)]
        for _ in range(rounds):
            for backend, what in random.sample(tasks, len(tasks)):
                (tree / "skill.py").write_text({**ENDLESS, **FLOODS}[what], encoding="ascii")
                some, way = (late, over_the_limit) if what in ENDLESS else (floods, flooded)
                some.setdefault((backend.name, what), []).append(await way(clock, backend, tree))
        grown = {(backend.name, cap): growth(backend.name, tree, cap) for backend in usable for cap in (CAP, 16 * CAP)}
    print(f"{'sandbox':10} {'script':32} {'best':>8} {'median':>8} {'worst':>8} {'start':>8}")
    print_calls(late, f"ms after the limit of {LIMIT_MS} ms; median of the start")
    print_calls(floods, "ms from the start of its clock; median of the start")
    for (name, cap), times_grown in grown.items():
        what = f"flood of {cap // MEBIBYTE} MiB"
        print(f"{name:10} {what:32} {times_grown:8.2f} {'':26}  x the cap, at most in memory")
    print_goals(
        [
            Goal("killed after its limit, median of the slowest kind", slowest(late), 50, " ms"),
            Goal("killed after its limit, worst of all", max(one.then for some in late.values() for one in some), 50, " ms"),
            Goal("a flood is over, median of the slowest kind", slowest(floods), 100, " ms"),
            Goal("growth of the watching process by a flood", max(grown.values()), 2, " x cap"),
        ]
    )


def print_calls(calls: Calls, unit: str) -> None:
    """A line for each sandbox and script."""
    for (name, what), some in sorted(calls.items()):
        times = [one.then for one in some]
        start = median(one.start for one in some)
        print(f"{name:10} {what:32} {min(times):8.1f} {median(times):8.1f} {max(times):8.1f} {start:8.1f}  {unit}")


def slowest(calls: Calls) -> float:
    """The median of the sandbox and script that take longest."""
    return max(median(one.then for one in some) for some in calls.values())


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 10))
