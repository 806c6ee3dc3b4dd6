"""How fast a run that will not stop is stopped, and what a flood of output costs the one who watches.

`python -m benchmarks.stopping [rounds]`. Each script runs in each sandbox of this machine, in turns. Times are those of the
whole call, with copying the skill before and reading the answer after, less the limit that was set.
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
from typing import Final

from benchmarks.figures.goals import Goal, print_goals
from skillyard.sandbox import Job, Policy, SandboxBackend, backends

LIMIT_MS: Final = 300
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


async def over_the_limit(backend: SandboxBackend, tree: Path) -> float:
    """Milliseconds from the limit to the answer."""
    started = time.perf_counter()
    result = await backend.run(Job(str(tree), "skill.py", b"{}", Policy(timeout_ms=LIMIT_MS)))
    assert result.status == "timeout", result
    return (time.perf_counter() - started) * 1000 - LIMIT_MS


async def flooded(backend: SandboxBackend, tree: Path) -> float:
    """Milliseconds of a call whose script does nothing but print."""
    started = time.perf_counter()
    result = await backend.run(Job(str(tree), "skill.py", b"{}", Policy(output_bytes=CAP)))
    assert result.status == "output_limit", result
    return (time.perf_counter() - started) * 1000


def growth(name: str, tree: Path, cap: int) -> float:
    """How many times the cap the watching process grew at most."""
    (tree / "skill.py").write_text("print(1)\n", encoding="ascii")
    (tree / "flood.py").write_text(next(iter(FLOODS.values())), encoding="ascii")
    done = subprocess.run([sys.executable, "-c", GROWTH, name, str(tree), str(cap)], capture_output=True, text=True, check=True)
    return int(done.stdout) / cap


async def main(rounds: int) -> None:
    usable = [backend for backend in backends() if backend.probe().ok]
    late: dict[tuple[str, str], list[float]] = {}
    floods: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        tree.chmod(0o755)
        tasks = [(backend, what) for backend in usable for what in (*ENDLESS, *FLOODS)]
        for _ in range(rounds):
            for backend, what in random.sample(tasks, len(tasks)):
                (tree / "skill.py").write_text({**ENDLESS, **FLOODS}[what], encoding="ascii")
                if what in ENDLESS:
                    late.setdefault((backend.name, what), []).append(await over_the_limit(backend, tree))
                else:
                    floods.setdefault((backend.name, what), []).append(await flooded(backend, tree))
        grown = {(backend.name, cap): growth(backend.name, tree, cap) for backend in usable for cap in (CAP, 16 * CAP)}
    print(f"{'sandbox':10} {'script':32} {'median':>8} {'worst':>8}")
    for (name, what), times in sorted(late.items()):
        print(f"{name:10} {what:32} {median(times):8.1f} {max(times):8.1f}  ms after the limit of {LIMIT_MS} ms")
    for (name, what), times in sorted(floods.items()):
        print(f"{name:10} {what:32} {median(times):8.1f} {max(times):8.1f}  ms for the whole call")
    for (name, cap), times_grown in grown.items():
        what = f"flood of {cap // MEBIBYTE} MiB"
        print(f"{name:10} {what:32} {times_grown:8.2f} {'':8}  x the cap, at most in memory")
    print_goals(
        [
            Goal("killed after its limit, median of the slowest kind", max(map(median, late.values())), 50, " ms"),
            Goal("killed after its limit, worst of all", max(map(max, late.values())), 50, " ms"),
            Goal("a flood is over, median of the slowest kind", max(map(median, floods.values())), 100, " ms"),
            Goal("growth of the watching process by a flood", max(grown.values()), 2, " x cap"),
        ]
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 10))
