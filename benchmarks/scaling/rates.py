"""How many a second one PostgreSQL takes, measured with several threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from skillyard.database import Database
from skillyard.engine.journal import Journal
from skillyard.engine.liveness import HeartbeatMonitor
from skillyard.engine.run_queue import RunQueue, recover_abandoned
from skillyard.engine.run_record import RunRecord
from skillyard.engine.worker_roster import WorkerRoster
from skillyard.execution import Run
from skillyard.registry.record_queries import RecordReader

__all__ = ["rates"]

_SECONDS = 4.0
_THREADS = 4
_POOL = "scaling"


def rates(database: Database) -> dict[str, float]:
    """Whole runs, beats of workers and reads of one skill, each a second; queued runs go by way of the queue of a pool."""
    queue, roster, journal = RunQueue(database), WorkerRoster(database), Journal(database)
    queue.prepare()
    roster.join("scaling-worker", [_POOL], 4)
    numbers, silence = count(), HeartbeatMonitor()

    def run() -> None:
        name = f"run_{time.time_ns():016x}{next(numbers):010x}"
        record = RunRecord(
            name, "installed:skill-1", "skill 1", "distributed", "queued", datetime.now(UTC), parameters={}, context={}
        )
        queue.enqueue(record, pool=_POOL, request="{}", cache_key=None)
        journal.start(name)
        journal.finish(Run(name, record.skill_id, status="ok", output={"a": 1}))
        queue.release(name)

    def beat() -> None:
        roster.heartbeat("scaling-worker")
        recover_abandoned(database, queue, silence, silent=False)
        queue.wake([_POOL], 4)
        queue.forget_ended()

    return {
        "runs through the queue": _rate(run),
        "beats of workers": _rate(beat),
        "reads of one skill": _rate(lambda: RecordReader(database).find("skill-777")),
    }


def _rate(work: Callable[[], object]) -> float:
    """How often a second several threads do it together."""
    done, end = [0] * _THREADS, time.monotonic() + _SECONDS

    def go_on(mine: int) -> None:
        while time.monotonic() < end:
            work()
            done[mine] += 1

    threads = [threading.Thread(target=go_on, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / _SECONDS
