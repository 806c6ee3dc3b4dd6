"""What is left when everything was asked to stop: there should be nothing."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.soak.site import Site
from skillyard.sandbox.cgroups import SWEEPER, make_cgroup

__all__ = ["adopt_orphans", "leavings", "stop_all"]

_PR_SET_CHILD_SUBREAPER = 36
_DYING_S = 30  # on a busy machine, until the kernel has ended the runs of processes that stopped or were killed


def adopt_orphans() -> None:
    """Let every process below this one become its child when its parent dies, so that none gets away."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def stop_all(site: Site) -> list[str]:
    """Ask servers, workers and the proxy to stop; what they did not do."""
    names = [name for name in site.parts if name not in ("postgresql", "store")]
    stopped = await asyncio.gather(*(site.parts[name].stop() for name in names))
    return [f"{name} did not stop in half a minute" for name, well in zip(names, stopped, strict=True) if not well]


async def leavings(site: Site) -> list[str]:
    """Processes, temporary files, control groups, locks, connections and unfinished work; everything has stopped."""
    end = time.monotonic() + _DYING_S
    while (any(_orphans(site)) or any(_groups(site))) and time.monotonic() < end:
        _start_as_the_next_process()
        await asyncio.sleep(0.1)
    found = [f"process {process}: {command}" for process, command in _orphans(site)]
    found += [f"temporary file {path.name}" for path in sorted(site.scratch.iterdir())]
    found += [f"unfinished work {path.relative_to(site.folder)}" for path in _unfinished(site)]
    found += [f"control group {path}" for path in _groups(site)]
    found += await asyncio.to_thread(_in_the_database, site)
    return found


def _start_as_the_next_process() -> None:
    """Remove the control groups of killed processes, as the next process does with its first run."""
    SWEEPER.forget()
    group = make_cgroup(memory_bytes=1 << 28, pids=16)
    if group is not None:
        group.remove()


def _orphans(site: Site) -> Iterator[tuple[int, str]]:
    known = {process for part in site.parts.values() for process in part.processes()}
    waiting = [os.getpid()]
    for process in waiting:  # grows while it runs
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            waiting += [int(child) for child in task.read_text().split() if int(child) not in known]
    for process in waiting[1:]:
        try:
            state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
            command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            yield process, f"{command[:200]}, {_doing(process)}"


def _doing(process: int) -> str:
    """In what the process waits, and what it has open: why it has not ended."""
    try:
        waits = Path(f"/proc/{process}/wchan").read_text() or "running"
        files = [f"{one.name}={one.readlink()}" for one in Path(f"/proc/{process}/fd").iterdir()]
    except OSError as error:
        return f"which cannot be looked at: {error.strerror}"
    return f"in {waits}, with {' '.join(sorted(files))}"


def _unfinished(site: Site) -> Iterator[Path]:
    """What installations and downloads make beside the finished, and hidden files that no lock explains."""
    for home in (site.data, *(site.folder / worker.name for worker in site.workers())):
        yield from (path for path in home.glob("skills/.work/*") if path.name != "gate")
        yield from home.glob("cache/skills/.new-*")
        yield from home.glob("cache/skills/.gone-*")
        yield from home.glob("cache/uploads/*")


def _groups(site: Site) -> Iterator[Path]:
    """Control groups of sandboxes whose process is gone."""
    for folder in Path("/sys/fs/cgroup").rglob("skillyard-*"):
        number = folder.name.split("-")[1]
        if number in site.numbers and not Path(f"/proc/{number}").exists():
            yield folder


def _in_the_database(site: Site) -> list[str]:
    import psycopg

    with psycopg.connect(site.database, autocommit=True) as connection:
        connections = connection.execute(
            "SELECT pid, state, left(query, 100) FROM pg_stat_activity"
            " WHERE datname = 'soak' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
        locks = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    found = [f"connection {process} of the database, {state}: {query}" for process, state, query in connections]
    return [*found, *([f"{locks[0]} locks in the database"] if locks and locks[0] else [])]
