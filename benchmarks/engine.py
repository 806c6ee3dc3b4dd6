"""How soon a run starts that is put into the queue, and how much more four workers do than one server's own engine.

`python -m benchmarks.engine [runs]`. Starts a PostgreSQL server of its own in a temporary folder, which waits for the disk as a
real one does, and workers as processes of their own. The runs need next to no processor time: they wait, as a run does that
calls somebody else. Ratios are within one run of this script.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from benchmarks.figures.goals import Goal, print_goals
from skillyard import Catalog
from skillyard.engine import LocalEngine, PoolEngine, WorkerRoster
from skillyard.execution import RunRequest

WAITS: Final = "import time\ntime.sleep({seconds})\nprint('{{\"output\": 1}}')\n"
WAIT_S: Final = 1.0
TURNS: Final = 4  # of the server's own engine, and of each worker


def _postgresql() -> Any:
    """The module of the tests that starts a server."""
    path = Path(__file__).parents[1] / "tests/postgresql.py"
    specification = importlib.util.spec_from_file_location("postgresql", path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module._FAST = ()  # it waits for the disk
    return module


def write_skills(root: Path) -> None:
    """A skill that waits, and one that is told at once."""
    for name, script in (("waits", WAITS.format(seconds=WAIT_S)), ("quick", WAITS.format(seconds=0))):
        (root / name / "scripts").mkdir(parents=True)
        (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Waits. Use in a benchmark.\n---\nWait.\n")
        (root / name / "scripts/execute.py").write_text(script)


@contextmanager
def worker(root: Path, turns: int) -> Iterator[str]:
    """`skillyard worker` as a process of its own, ready; gives its id."""
    command = [sys.executable, "-m", "skillyard", "worker", "--concurrency", str(turns), "--root", str(root), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    try:
        yield json.loads(child.stdout.readline())["worker"]
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def until_ready(catalog: Catalog, ids: list[str]) -> None:
    """Wait until the workers are known and listen."""
    roster = WorkerRoster(catalog.records().database)
    while not set(ids) <= {known.id for known in roster.workers()}:
        time.sleep(0.05)
    time.sleep(1)


async def latency(catalog: Catalog, engine: PoolEngine, runs: int) -> list[float]:
    """Milliseconds from the moment a run is asked for to its start, one after the other."""
    skill, found = catalog.get("quick"), []
    for number in range(runs + 3):
        run = await engine.run(RunRequest(skill, {"n": number}))
        assert run.ok, run
        record = catalog.records().journal.get(run.run_id)
        assert record.started_at is not None
        found.append((record.started_at - record.created_at).total_seconds() * 1000)
    return found[3:]


async def throughput(catalog: Catalog, engine: LocalEngine | PoolEngine, runs: int) -> float:
    """Runs a second, all asked for at once."""
    skill = catalog.get("waits")
    began = time.perf_counter()
    done = await asyncio.gather(*(engine.run(RunRequest(skill, {"n": number})) for number in range(runs)))
    assert all(run.ok for run in done)
    return runs / (time.perf_counter() - began)


def main(runs: int) -> None:
    postgresql = _postgresql()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(postgresql.database_of(stack.enter_context(postgresql.server())))
        os.environ |= {"SKILLYARD_DATABASE_URL": url, "SKILLYARD_HOME": str(folder / "home")}
        write_skills(folder / "skills")
        catalog = Catalog.discover(roots=[folder / "skills"], cache=False)
        local = LocalEngine(catalog.executor(), catalog.records(), concurrency=TURNS)
        queue = PoolEngine(local, catalog.records(), everything="default")
        here = asyncio.run(throughput(catalog, local, runs))
        with worker(folder / "skills", TURNS) as first:
            until_ready(catalog, [first])
            soon = asyncio.run(latency(catalog, queue, runs))
        with ExitStack() as crew:
            ids = [crew.enter_context(worker(folder / "skills", TURNS)) for _ in range(4)]
            until_ready(catalog, ids)
            there = asyncio.run(throughput(catalog, queue, 4 * runs))
        catalog.records().close()
    slowest = quantiles(soon, n=20)[-1]
    print(f"asked for to started          median {median(soon):.1f} ms, 95 of 100 under {slowest:.1f} ms")
    print(f"runs that wait {WAIT_S} s, a second   own engine {here:.2f}, four workers {there:.2f}: {there / here:.2f} times")
    print_goals(
        [
            Goal("from asked for to started, median", median(soon), 30, " ms"),
            Goal("four workers against one server's own engine", there / here, 1.7, " times", at_least=True),
        ]
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
