"""The queues of runs on PostgreSQL, one for each pool, and which run a worker with a free slot claims.

A job of procrastinate only wakes a worker. What is to be run lies in `queued_runs`, with its parameters in full, until
everything about it is done. One statement claims the run with the highest priority that may start; the row in `runs`
decides everything: a run that has been claimed, or has ended, is not claimed again. A limit for a skill or for the
organisation holds for all workers together, so with limits one worker chooses at a time.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, text, update

from skillyard.database import RUN_ENDED_CHANNEL, live_events_of, notify, queued_runs, runs, workers
from skillyard.engine.journal import INTERRUPTED, Journal, duplicate_run_explained, insert_queued_run, queued_row
from skillyard.engine.live_output import collect_output
from skillyard.engine.liveness import is_gone
from skillyard.engine.run_files import delete_files, write_files
from skillyard.engine.run_record import IMMEDIATELY, QUEUE_OWNER, is_due, is_reusable, lock_queue_row, requeue, steps_of
from skillyard.errors import DatabaseUnavailable
from skillyard.execution import StepTrace
from skillyard.execution.run import read_steps

if TYPE_CHECKING:
    from procrastinate import App
    from sqlalchemy import Connection, Row

    from skillyard.database import Database
    from skillyard.engine.liveness import HeartbeatMonitor
    from skillyard.engine.run_record import RunRecord
    from skillyard.execution import RunError, WorkFile


_TASK: Final = "skillyard.run"
_LONGEST_NAME: Final = 100
_LOCK: Final = 0x534B594451  # any number that is always the same: who makes the tables of the queue
_ADDRESS: Final = (
    "set SKILLYARD_DATABASE_URL=postgresql://user:password@host/skillyard, or url in [database] of your own skillyard.toml"
)
_DELETE_STALE_JOBS: Final = """
    DELETE FROM procrastinate_jobs AS job
    WHERE job.task_name = :task AND (job.status = 'todo' OR job.worker_id IS NULL OR EXISTS (
        SELECT 1 FROM procrastinate_workers AS holder
        WHERE holder.id = job.worker_id
        AND holder.last_heartbeat < now() - CAST(:silent AS double precision) * interval '1 second'))
    AND NOT EXISTS (SELECT 1 FROM queued_runs WHERE queued_runs.run_id = job.args ->> 'run_id')
"""  # what a worker left that was killed
_WITHOUT_JOB: Final = """NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs AS job WHERE job.queue_name = queued_runs.pool AND job.status = 'todo'
    AND (job.scheduled_at IS NULL OR job.scheduled_at <= now())
)"""  # a job of hours to come calls nobody now
_DELETE_ENDED: Final = """
    DELETE FROM queued_runs USING runs
    WHERE runs.id = queued_runs.run_id AND runs.finished_at < now() - interval '20 seconds'
"""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """The queued run: its `state`, its owner, whether something remains to be done about it, and which attempt it is."""

    state: str
    owner: str
    open: bool
    attempt: int = 1


def queue_problem(database: Database) -> DatabaseUnavailable | None:
    """Why this database has no queues, or None."""
    if database.conninfo is None:
        return DatabaseUnavailable(f"a worker pool needs PostgreSQL, and the records are in {database.name}", hint=_ADDRESS)
    try:
        import procrastinate  # noqa: F401 # only whether it is there
    except ImportError:
        hint = "pip install 'psycopg[binary]>=3.2' 'procrastinate>=3'"
        return DatabaseUnavailable("the package procrastinate, which worker pools need, is not installed", hint=hint)
    return None


def name_problem(pool: str) -> str | None:
    """Why that is no name for a pool, or None."""
    if 0 < len(pool) <= _LONGEST_NAME and pool.isprintable() and pool.strip() == pool:
        return None
    return f"{pool[:40]!r} is not a valid name for a worker pool: at most {_LONGEST_NAME} printable characters"


class RunQueue:
    """The queues in one database; its methods block.

    Raises:
        DatabaseUnavailable: it is not PostgreSQL, or procrastinate is not installed.
    """

    def __init__(self, database: Database) -> None:
        if (problem := queue_problem(database)) is not None:
            raise problem
        self._database = database
        self._sender: App | None = None
        self._stale_jobs = {"task": _TASK, "silent": database.timing.silence_s}

    def prepare(self) -> None:
        """Make procrastinate's tables where there are none, however many processes try at once; forget jobs without a run."""
        from procrastinate.schema import SchemaManager

        with self._database.write() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            if connection.execute(select(func.to_regclass("procrastinate_jobs"))).scalar() is None:
                connection.exec_driver_sql(SchemaManager.get_schema().replace("%", "%%"))
            connection.execute(text(_DELETE_STALE_JOBS), self._stale_jobs)

    def receiver(self, work: Callable[[], Awaitable[None]]) -> App:
        """What a worker runs: procrastinate's application, with `work` called for each notification that a run waits."""
        from procrastinate import App, PsycopgConnector

        app = App(connector=PsycopgConnector(conninfo=self._database.conninfo, min_size=1, max_size=4))

        @app.task(name=_TASK)
        async def work_next(run_id: str) -> None:
            await work()

        return app

    def enqueue(
        self,
        record: RunRecord,
        *,
        pool: str,
        request: str,
        cache_key: str | None,
        recorded: bool = False,
        attempts: int = 1,
        lasting: bool = False,
        files: tuple[WorkFile, ...] = (),
    ) -> None:
        """Record a run, unless it is `recorded` already, and put it into the queue of a pool: both, or nothing.

        The `files` that it is given go along. At most so many `attempts` are made at it. One that is `lasting` waits for a
        worker even if this process ends.

        Raises:
            RecordExists: there is a run with its id.
            ExecutionProblem: it is recorded already, and has been ended meanwhile.
            DatabaseUnavailable: that is not possible.
        """
        row = queued_row(record) | {"cache_key": cache_key} | ({"owner": QUEUE_OWNER} if lasting else {})
        handed = {"run_id": record.id, "pool": pool, "request": request, "priority": record.priority, "attempts": attempts}
        with duplicate_run_explained(record.id), self._database.write() as connection:
            insert_queued_run(connection, row, recorded=recorded)
            connection.execute(insert(queued_runs).values(**handed, waiting=True, ready_at=IMMEDIATELY))
            write_files(connection, record.id, "given", files)
            self._defer(connection, record.id, pool, priority=record.priority)

    def reclaim(self, run_id: str) -> bool:
        """Start the run in this process, when no worker has; False when one has, or when it has ended."""
        begun = update(runs).where(runs.c.id == run_id, runs.c.state == "queued")
        with self._database.write() as connection:
            lock_queue_row(connection, run_id)
            taken = connection.execute(begun.values(state="running", started_at=func.now())).rowcount == 1
            if taken:
                connection.execute(delete(queued_runs).where(queued_runs.c.run_id == run_id))
                delete_files(connection, run_id, "given")
        return taken

    def give_up(self, run_id: str, attempt: int, reason: RunError) -> bool:
        """Recover a run from a dead worker: another attempt where that is safe, else it ends as `interrupted`.

        False when that attempt is no longer the running one.
        """
        with self._database.write() as connection:
            most = connection.execute(select(queued_runs.c.attempts).where(queued_runs.c.run_id == run_id)).scalar()
            if most is not None and attempt < most:
                again = requeue(connection, run_id, attempt, reason)
                if again:
                    pool = connection.execute(select(queued_runs.c.pool).where(queued_runs.c.run_id == run_id)).scalar_one()
                    self._defer(connection, run_id, pool)
                return again
        ended = Journal(self._database).stop(run_id, "interrupted", reason, attempt=attempt)
        self.release(run_id)
        return ended

    def release(self, run_id: str) -> None:
        """Delete the queue row of a run that is finished with."""
        with self._database.write() as connection:
            if connection.execute(delete(queued_runs).where(queued_runs.c.run_id == run_id)).rowcount:
                notify(connection, RUN_ENDED_CHANNEL, run_id)

    def forget_ended(self) -> None:
        """Delete the queue rows of runs that ended a while ago: the process that should have done it was killed."""
        with self._database.write() as connection:
            connection.execute(text(_DELETE_ENDED))
            connection.execute(text(_DELETE_STALE_JOBS), self._stale_jobs)

    def lookup(self, run_id: str) -> QueuedRun:
        """The current state of the run.

        Raises:
            DatabaseUnavailable: the database cannot be read, or the run is not in it.
        """
        query = select(runs.c.state, runs.c.owner, runs.c.attempt, queued_runs.c.run_id)
        query = query.outerjoin_from(runs, queued_runs, queued_runs.c.run_id == runs.c.id).where(runs.c.id == run_id)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise DatabaseUnavailable(
                f"the run {run_id} is no longer in the records", hint="find out who deletes runs, then run again"
            )
        return QueuedRun(row.state, row.owner, row.run_id is not None, row.attempt)

    def enqueue_again(self, run_id: str, wait_s: float) -> None:
        """Put a job into the queue for a run that was set back, not before `wait_s` seconds."""
        with self._database.write() as connection:
            pool = connection.execute(select(queued_runs.c.pool).where(queued_runs.c.run_id == run_id)).scalar()
            if pool is not None:
                self._defer(connection, run_id, pool, wait_s=wait_s)

    def wake(self, pools: Sequence[str], most: int) -> None:
        """Put jobs into the queues where runs wait and no job does: its holder was killed, or a limit held them back."""
        with self._database.write() as connection:
            waits = select(queued_runs.c.run_id, queued_runs.c.pool, queued_runs.c.priority)
            waits = waits.where(queued_runs.c.waiting, is_due(), queued_runs.c.pool.in_(pools), text(_WITHOUT_JOB))
            asleep = waits.order_by(queued_runs.c.priority.desc(), queued_runs.c.run_id).limit(most)
            for row in connection.execute(asleep).all():
                self._defer(connection, row.run_id, row.pool, priority=row.priority)

    def _defer(self, connection: Connection, run_id: str, pool: str, *, priority: int = 0, wait_s: float = 0) -> None:
        """Put the job into the queue inside the transaction of `connection`."""
        from procrastinate import App, SyncPsycopgConnector
        from procrastinate.exceptions import ConnectorException

        if self._sender is None:
            self._sender = App(connector=SyncPsycopgConnector())
        raw = connection.connection.driver_connection
        later: Any = {"schedule_in": {"seconds": math.ceil(wait_s)}} if wait_s else {}
        try:
            self._sender.configure_task(_TASK, queue=pool, priority=priority, connection=raw, **later).defer(run_id=run_id)
        except ConnectorException as error:
            reason = " ".join(str(error.__cause__ or error).split())[:300]
            raise DatabaseUnavailable(
                f"the queue of {pool} cannot be used: {reason}", hint="make the database reachable"
            ) from error


_LIMITS_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('skillyard.turns'), hashtext(current_schema()))"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many runs of this organisation, and of skills by name or id, execute at once; None and empty: no limit."""

    per_organisation: int | None
    per_skill: Mapping[str, int]

    def __bool__(self) -> bool:
        return self.per_organisation is not None or bool(self.per_skill)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that a worker has claimed: the request, which attempt of how many this is, and its finished steps."""

    run_id: str
    request: str
    attempt: int
    attempts: int
    finished: tuple[StepTrace, ...] = ()


def claim_next(database: Database, pools: Collection[str], owner: str, limits: QueueLimits) -> ClaimedRun | None:
    """Start the next run of those pools as `owner`; None when none may start now."""
    while True:
        with database.write() as connection:
            held = _held_back(connection, limits)
            row = None if held is None else connection.execute(_next(pools, owner, held)).first()
            if row is None:
                return None
            if row.attempt is not None:
                return ClaimedRun(row.run_id, row.request or "", row.attempt, row.attempts, _finished(connection, row))
            connection.execute(delete(queued_runs).where(queued_runs.c.run_id == row.run_id))  # it ended while it waited


def release_claim(database: Database, taken: ClaimedRun, owner: str) -> None:
    """Requeue a run that `owner` claimed and has not begun, as the same attempt."""
    claimed = (runs.c.id == taken.run_id, runs.c.state == "running", runs.c.owner == owner, runs.c.attempt == taken.attempt)
    with database.write() as connection:
        lock_queue_row(connection, taken.run_id)
        requeued = update(runs).where(*claimed).values(state="queued", owner=QUEUE_OWNER, started_at=None)
        if connection.execute(requeued).rowcount == 1:
            connection.execute(update(queued_runs).where(queued_runs.c.run_id == taken.run_id).values(waiting=True))


def _next(pools: Collection[str], owner: str, held: Collection[str]) -> Any:
    """The statement that claims the first waiting run, except those of skills at their limit."""
    first = select(queued_runs.c.run_id).where(queued_runs.c.pool.in_(pools), queued_runs.c.waiting, is_due())
    first = first.join(runs, runs.c.id == queued_runs.c.run_id)
    if held:
        first = first.where(runs.c.skill_name.not_in(held), runs.c.skill_id.not_in(held))
    order = (queued_runs.c.priority.desc(), runs.c.created_at, queued_runs.c.run_id)
    chosen = first.order_by(*order).limit(1).with_for_update(skip_locked=True, of=queued_runs).cte("chosen")
    taken = update(queued_runs).where(queued_runs.c.run_id == chosen.c.run_id).values(waiting=False)
    marked = taken.returning(queued_runs.c.run_id, queued_runs.c.request, queued_runs.c.attempts).cte("marked")
    started = {"state": "running", "owner": owner, "started_at": func.now()}
    begun = update(runs).where(runs.c.id == chosen.c.run_id, runs.c.state == "queued").values(started)
    begun_row = begun.returning(runs.c.id, runs.c.attempt).cte("begun")
    return select(marked, begun_row.c.attempt).outerjoin_from(marked, begun_row, begun_row.c.id == marked.c.run_id)


def _held_back(connection: Connection, limits: QueueLimits) -> list[str] | None:
    """The skills at their limit; None when the organisation is at its own."""
    if not limits:
        return []
    connection.execute(text(_LIMITS_LOCK))
    query = select(runs.c.skill_id, runs.c.skill_name, func.count().label("many")).where(runs.c.state == "running")
    working = connection.execute(query.group_by(runs.c.skill_id, runs.c.skill_name)).all()
    if limits.per_organisation is not None and sum(row.many for row in working) >= limits.per_organisation:
        return None
    return [name for name, most in limits.per_skill.items() if sum(row.many for row in working if name in row[:2]) >= most]


def _finished(connection: Connection, row: Row[Any]) -> tuple[StepTrace, ...]:
    """The steps that an earlier attempt left in the record, or reported before it was cut off: whole and without an error."""
    if row.attempt == 1:
        return ()
    kept = steps_of(connection, row.run_id)
    output = collect_output((item.body for item in live_events_of(connection, row.run_id)), row.attempt)
    kept_keys = {(step.step_id, step.step_name) for step in kept}
    traced = (*kept, *(step for step in read_steps(output.steps)[0] if (step.step_id, step.step_name) not in kept_keys))
    return tuple(step for step in traced if is_reusable(step))


def recover_abandoned(database: Database, queue: RunQueue, silence: HeartbeatMonitor, *, silent: bool) -> tuple[str, ...]:
    """Recover the runs of dead workers: another attempt where that is safe, else `interrupted`.

    With `silent` also those of workers that have been silent for too long, although their process may be there.
    """
    query = select(runs.c.id, runs.c.owner, runs.c.attempt, workers.c.seen_at).where(runs.c.state == "running")
    query = query.join_from(runs, queued_runs, queued_runs.c.run_id == runs.c.id)
    query = query.outerjoin(workers, workers.c.owner == runs.c.owner)
    with database.read() as connection:
        working = connection.execute(query).all()
    silence.keep({row.owner for row in working})
    silences = {row.id: silence.of(row.owner, row.seen_at) for row in working if row.seen_at is not None}
    most = database.timing.silence_s if silent else math.inf
    abandoned = [row for row in working if is_gone(row.owner, silent=silences.get(row.id, 0.0) > most, seen=True)]
    return tuple(row.id for row in abandoned if queue.give_up(row.id, row.attempt, INTERRUPTED))
