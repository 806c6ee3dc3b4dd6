"""Real skills, the real sandbox, and records in every database."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from skillyard import Catalog, Executor, Skill
from skillyard.catalog import Configuration
from skillyard.engine import LocalEngine, PoolEngine, Records, Worker, WorkerRoster
from skillyard.times import Timing

Write = Callable[..., Skill]
HERE = [(base, kind) for kind in ("local", "pools") for base in ("sqlite", "postgresql")]
EVERYWHERE = [*HERE, ("postgresql", "queue")]
TWINS = {("sqlite", "pools"), ("postgresql", "local")}
"""Where both the database and the engine are tried with another one: only the port's own suite is there in `make test` too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Whatever takes an engine runs on every one and in every database; tests about the process that asks are marked `here`."""
    if "engine" in metafunc.fixturenames:
        here = metafunc.definition.get_closest_marker("here") is not None
        twins = set() if metafunc.module.__name__.endswith("test_engine_port") else TWINS
        pairs = [
            pytest.param(*pair, marks=[pytest.mark.long] if pair in twins else []) for pair in (HERE if here else EVERYWHERE)
        ]
        metafunc.parametrize(("database_address", "engine"), pairs, indirect=True)
    elif "database_address" in metafunc.fixturenames:
        metafunc.parametrize("database_address", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def _timing(timing: Timing) -> None:
    """Nothing here waits for seconds."""


@pytest.fixture
def write(skills_root: Path, make_skill: Any) -> Write:
    """Give a function that writes a skill with that script and returns it as the catalog sees it."""

    def skill(script: str, name: str = "example", header: str = "") -> Skill:
        front_matter = f"name: {name}\ndescription: Does one thing. Use when a test runs.\n{header}"
        make_skill(skills_root, name, front_matter=front_matter, files={"scripts/execute.py": script})
        return Catalog.discover(roots=[skills_root], cache=False).get(name)

    return skill


@pytest.fixture
def configured() -> Callable[..., Configuration]:
    """Give a function that makes a configuration with that table `[engine]`."""
    return lambda table: Configuration(engine=table)


@pytest.fixture
def records(database_address: str, tmp_path: Path, timing: Timing) -> Iterator[Records]:
    """Empty records, once in each database."""
    opened = Records(str(tmp_path), database_address, timing=timing)
    yield opened
    opened.close()


@pytest.fixture
def database_address(request: pytest.FixtureRequest, address_of: Callable[..., str]) -> str:
    """The URL of a database without records; for an engine with queues, one that had them before."""
    return address_of(request.param, bare=False, queues=request.node.callspec.params.get("engine") == "queue")


@pytest.fixture
def seen(skills_root: Path) -> Catalog:
    """What a worker of the test sees."""
    return Catalog.discover(roots=[skills_root], cache=False)


@pytest.fixture
def engine(
    request: pytest.FixtureRequest,
    records: Records,
    database_address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LocalEngine | PoolEngine]:
    """Each engine over the records, with two turns: what it promises is the same in all of them."""
    local = LocalEngine(Executor(), records, concurrency=2)
    if request.param != "queue":
        yield local if request.param == "local" else PoolEngine(local, records)
        return
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
    seen: Catalog = request.getfixturevalue("seen")
    with working(seen.worker(concurrency=2), records):
        yield PoolEngine(local, records, everything="default")


@contextmanager
def working(worker: Worker, records: Records) -> Iterator[None]:
    """A worker in a thread, as it would be on another machine."""
    loops: Queue[asyncio.AbstractEventLoop] = Queue()
    stop = asyncio.Event()

    def serve() -> None:
        with asyncio.Runner() as runner:
            loops.put(runner.get_loop())
            runner.run(worker.serve(stop, grace_s=1))

    thread = threading.Thread(target=serve)
    thread.start()
    loop = loops.get(timeout=30)
    try:
        roster = WorkerRoster(records.database)
        while not any(known.id == worker.id for known in roster.workers()):
            assert thread.is_alive()
            time.sleep(0.02)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
