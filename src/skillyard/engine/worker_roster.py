"""Which workers serve which pool, and the runs that wait for them: what the database knows of workers.

Times are the database's own: servers and workers need not agree about the hour. That one may be set too, by an hour or by
a failover, and until the next heartbeat every sign of life is old then: whoever asks again and again counts for itself
how long a worker has been silent. The methods block.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import delete, func, insert, select, update

from skillyard.database import queued_runs, runs, worker_pools, workers
from skillyard.engine.liveness import HeartbeatMonitor, ProcessIdentity
from skillyard.engine.run_queue import queue_problem
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Row

    from skillyard.database import Database


_DOUBTED_HEARTBEATS: Final = 1.5  # within which one whose last sign is of another hour must give another
_SHOWN: Final = timedelta(hours=1)
_DOUBTED: Final = timedelta(days=1)  # nobody sets a clock further
_FORGOTTEN: Final = timedelta(days=7)  # none is taken out that only seems to be silent because the clock was set


WorkerState = Literal["working", "idle", "draining", "gone"]


@dataclass(frozen=True, slots=True)
class WorkerInfo(WireForm, also=("state",)):
    """One worker: its pools, how many runs it executes at once, and the ids of its current ones.

    Where it is, `host` and `process`, other organisations of a server do not learn: None.
    """

    id: str
    host: str | None
    process: int | None
    pools: tuple[str, ...]
    concurrency: int
    alive: bool = field(metadata=wire(hidden=True))
    draining: bool = field(metadata=wire(hidden=True))
    started_at: datetime
    seen_at: datetime
    running: tuple[str, ...] = field(default=())

    @property
    def state(self) -> WorkerState:
        """`working`, `idle`, `draining` (it takes nothing new) or `gone`."""
        if not self.alive:
            return "gone"
        if self.draining:
            return "draining"
        return "working" if self.running else "idle"


@dataclass(frozen=True, slots=True)
class PoolInfo(WireForm):
    """One pool: how many workers serve it, and how many runs wait for one or work."""

    name: str
    workers: int
    waiting: int
    running: int


class WorkerRoster:
    """The workers in one PostgreSQL database.

    Raises:
        DatabaseUnavailable: it is another one, or procrastinate is not installed.
    """

    def __init__(self, database: Database, *, heartbeats: HeartbeatMonitor | None = None) -> None:
        if (problem := queue_problem(database)) is not None:
            raise problem
        self._database = database
        self._heartbeats = heartbeats or HeartbeatMonitor()
        self._timing = database.timing
        self._recent = timedelta(seconds=database.timing.recent_s)

    def join(self, worker_id: str, pools: Sequence[str], concurrency: int) -> None:
        """Note that this process works for those pools; forgets workers that were not seen for a week."""
        row = {
            "id": worker_id,
            "owner": str(ProcessIdentity.current()),
            "host": socket.gethostname(),
            "concurrency": concurrency,
            "draining": False,
            "started_at": func.now(),
            "seen_at": func.now(),
        }
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.seen_at < func.now() - _FORGOTTEN))
            connection.execute(insert(workers).values(row))
            connection.execute(insert(worker_pools), [{"pool": pool, "worker_id": worker_id} for pool in pools])

    def heartbeat(self, worker_id: str) -> bool:
        """Record a heartbeat; False when the worker was deleted meanwhile."""
        with self._database.write() as connection:
            changed = update(workers).where(workers.c.id == worker_id).values(seen_at=func.now())
            return connection.execute(changed).rowcount == 1

    def drain(self, worker_id: str) -> None:
        """Record that the worker claims no more runs."""
        with self._database.write() as connection:
            connection.execute(update(workers).where(workers.c.id == worker_id).values(draining=True, seen_at=func.now()))

    def leave(self, worker_id: str) -> None:
        """Delete the worker, which has ended."""
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))

    def is_served(self, pool: str) -> bool:
        """Whether a living worker takes runs of that pool."""
        query = (
            select(workers.c.owner, workers.c.seen_at, _fresh(self._recent).label("live"), _fresh(_DOUBTED).label("doubted"))
            .join(worker_pools, worker_pools.c.worker_id == workers.c.id)
            .where(worker_pools.c.pool == pool, workers.c.draining.is_(False))
        )
        with self._database.read() as connection:
            rows = [row for row in connection.execute(query) if _lives(row.owner)]
        silent = [self._heartbeats.of(row.owner, row.seen_at) for row in rows]  # each is noted
        most = _DOUBTED_HEARTBEATS * self._timing.heartbeat_s
        return any(row.live or (row.doubted and quiet < most) for row, quiet in zip(rows, silent, strict=True))

    def owner_lives(self, owner: str) -> bool:
        """Whether the worker in the process `owner` still lives."""
        if (alive := ProcessIdentity.is_process_alive(owner)) is not None:
            return alive
        query = select(workers.c.seen_at, _fresh(self._recent).label("live")).where(workers.c.owner == owner)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return any(self._heartbeats.of(owner, row.seen_at) < self._timing.silence_s or row.live for row in rows)

    def workers(self) -> tuple[WorkerInfo, ...]:
        """Every recorded worker, the living ones first; one that ended properly has no row any more."""
        shown = _fresh(_SHOWN)
        with self._database.read() as connection:
            served: dict[str, list[str]] = {}
            for row in connection.execute(select(worker_pools).order_by(worker_pools.c.pool)):
                served.setdefault(row.worker_id, []).append(row.pool)
            busy: dict[str, list[str]] = {}
            for row in connection.execute(select(runs.c.id, runs.c.owner).where(runs.c.state == "running").order_by(runs.c.id)):
                busy.setdefault(row.owner, []).append(row.id)
            query = select(workers, _fresh(self._recent).label("live")).where(shown).order_by(workers.c.started_at)
            rows = connection.execute(query).all()
        listed = [_worker(row, tuple(served.get(row.id, ())), tuple(busy.get(row.owner, ()))) for row in rows]
        return tuple(sorted(listed, key=lambda worker: not worker.alive))

    def pools(self) -> tuple[PoolInfo, ...]:
        """Every pool that has workers, or runs that wait for one."""
        waiting = func.count().filter(queued_runs.c.waiting)
        query = select(queued_runs.c.pool, waiting.label("waiting"), func.count().label("all")).group_by(queued_runs.c.pool)
        with self._database.read() as connection:
            counts = {row.pool: (row.waiting, row.all - row.waiting) for row in connection.execute(query)}
        serving: dict[str, int] = {}
        for worker in self.workers():
            for pool in worker.pools:
                serving[pool] = serving.get(pool, 0) + (worker.alive and not worker.draining)
        return tuple(
            PoolInfo(name, serving.get(name, 0), *counts.get(name, (0, 0))) for name in sorted(serving.keys() | counts.keys())
        )


def _fresh(age: timedelta) -> ColumnElement[bool]:
    """Whether a worker was seen so long ago at the most; a sign of hours to come was given before the clock was set back."""
    return workers.c.seen_at.between(func.now() - age, func.now() + age)


def _lives(owner: str) -> bool:
    """Whether the process may still live, as far as can be seen from here."""
    process = ProcessIdentity.read(owner)
    return process is not None and process.alive() is not False


def _worker(row: Row[Any], pools: tuple[str, ...], running: tuple[str, ...]) -> WorkerInfo:
    process = ProcessIdentity.read(row.owner)
    return WorkerInfo(
        id=row.id,
        host=row.host,
        process=process.pid if process else 0,
        pools=pools,
        concurrency=row.concurrency,
        alive=bool(row.live) and _lives(row.owner),
        draining=row.draining,
        started_at=row.started_at,
        seen_at=row.seen_at,
        running=running,
    )


def new_worker_id() -> str:
    """A name for a worker of this process, unique and short enough to be read."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(3).hex()}"
