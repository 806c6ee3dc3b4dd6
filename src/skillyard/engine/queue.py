"""The queues of runs on PostgreSQL: one for each pool, kept by procrastinate.

A job is a word to a worker that something waits; which run it takes is chosen when it has a free turn (`picking`). What is to
be run lies in `handovers`, with its parameters in full, until everything about it is done. The row in `runs` decides
everything: a run that has been taken, or has ended, is not taken again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, text, update

from skillyard.database import ENDED, announce, handovers, runs
from skillyard.engine.attempts import AT_ONCE, hold_place, ready, set_back
from skillyard.engine.journal import Journal, beginning, explained_existence, write_beginning
from skillyard.engine.owner import SILENT_S
from skillyard.engine.record import QUEUE
from skillyard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from procrastinate import App
    from sqlalchemy import Connection

    from skillyard.database import Database
    from skillyard.engine.record import RunRecord
    from skillyard.execution import RunError

__all__ = ["Place", "RunQueue", "name_problem", "queue_problem"]

_TASK: Final = "skillyard.run"
_LONGEST_NAME: Final = 100
_LOCK: Final = 0x534B594451  # any number that is always the same: who makes the tables of the queue
_ADDRESS: Final = (
    "set SKILLYARD_DATABASE_URL=postgresql://user:password@host/skillyard, or url in [database] of your own skillyard.toml"
)


_FORGET: Final = """
    DELETE FROM procrastinate_jobs AS job
    WHERE job.task_name = :task AND (job.status = 'todo' OR job.worker_id IS NULL OR EXISTS (
        SELECT 1 FROM procrastinate_workers AS holder
        WHERE holder.id = job.worker_id
        AND holder.last_heartbeat < now() - CAST(:silent AS double precision) * interval '1 second'))
    AND NOT EXISTS (SELECT 1 FROM handovers WHERE handovers.run_id = job.args ->> 'run_id')
"""  # what a worker left that was killed
_UNCALLED: Final = """NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs AS job WHERE job.queue_name = handovers.pool AND job.status = 'todo'
    AND (job.scheduled_at IS NULL OR job.scheduled_at <= now())
)"""  # a job of hours to come calls nobody now
_FORGETTING: Final = {"task": _TASK, "silent": SILENT_S}

_ENDED: Final = """
    DELETE FROM handovers USING runs
    WHERE runs.id = handovers.run_id AND runs.finished_at < now() - interval '20 seconds'
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is: its `state`, who carries it, whether there is still something to do about it, and which attempt it is."""

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
    return f"{pool[:40]!r} is no name for a worker pool: at most {_LONGEST_NAME} characters that can be seen"


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

    def prepare(self) -> None:
        """Make procrastinate's tables where there are none, however many processes try at once; forget jobs without a run."""
        from procrastinate.schema import SchemaManager

        with self._database.write() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            if connection.execute(select(func.to_regclass("procrastinate_jobs"))).scalar() is None:
                connection.exec_driver_sql(SchemaManager.get_schema().replace("%", "%%"))
            connection.execute(text(_FORGET), _FORGETTING)

    def receiver(self, work: Callable[[], Awaitable[None]]) -> App:
        """What a worker runs: procrastinate's application, with `work` called for each word that something waits."""
        from procrastinate import App, PsycopgConnector

        app = App(connector=PsycopgConnector(conninfo=self._database.conninfo, min_size=1, max_size=4))

        @app.task(name=_TASK)
        async def carry(run_id: str) -> None:
            await work()

        return app

    def hand_over(
        self,
        record: RunRecord,
        *,
        pool: str,
        request: str,
        cache_key: str | None,
        known: bool = False,
        attempts: int = 1,
        lasting: bool = False,
    ) -> None:
        """Write a run down, unless it is `known`, and put it into the queue of a pool: both, or nothing.

        At most so many `attempts` are made at it. One that is `lasting` waits for a worker whatever becomes of this process.

        Raises:
            RecordExists: there is a run with its id.
            ExecutionProblem: it is known, and has been ended meanwhile.
            DatabaseUnavailable: that is not possible.
        """
        row = beginning(record) | {"cache_key": cache_key} | ({"owner": QUEUE} if lasting else {})
        handed = {"run_id": record.id, "pool": pool, "request": request, "priority": record.priority, "attempts": attempts}
        with explained_existence(record.id), self._database.write() as connection:
            write_beginning(connection, row, known=known)
            connection.execute(insert(handovers).values(**handed, waiting=True, ready_at=AT_ONCE))
            self._defer(connection, record.id, pool, priority=record.priority)

    def take_back(self, run_id: str) -> bool:
        """Start the run here after all, when no worker has; False when one has, or when it has ended."""
        begun = update(runs).where(runs.c.id == run_id, runs.c.state == "queued")
        with self._database.write() as connection:
            hold_place(connection, run_id)
            taken = connection.execute(begun.values(state="running", started_at=func.now())).rowcount == 1
            if taken:
                connection.execute(delete(handovers).where(handovers.c.run_id == run_id))
        return taken

    def give_up(self, run_id: str, attempt: int, reason: RunError) -> bool:
        """Take a run from a worker that is gone: another attempt where that is safe, else it has ended as `interrupted`.

        False when that attempt does not go on any more.
        """
        with self._database.write() as connection:
            most = connection.execute(select(handovers.c.attempts).where(handovers.c.run_id == run_id)).scalar()
            if most is not None and attempt < most:
                again = set_back(connection, run_id, attempt, reason)
                if again:
                    pool = connection.execute(select(handovers.c.pool).where(handovers.c.run_id == run_id)).scalar_one()
                    self._defer(connection, run_id, pool)
                return again
        ended = Journal(self._database).stop(run_id, "interrupted", reason, attempt=attempt)
        self.let_go(run_id)
        return ended

    def let_go(self, run_id: str) -> None:
        """Note that everything about the run is done."""
        with self._database.write() as connection:
            if connection.execute(delete(handovers).where(handovers.c.run_id == run_id)).rowcount:
                announce(connection, ENDED, run_id)

    def forget_ended(self) -> None:
        """Let go of runs that ended a while ago and that nobody let go of: who had to was killed."""
        with self._database.write() as connection:
            connection.execute(text(_ENDED))
            connection.execute(text(_FORGET), _FORGETTING)

    def place(self, run_id: str) -> Place:
        """Where the run is now.

        Raises:
            DatabaseUnavailable: the database cannot be read, or the run is not in it.
        """
        query = select(runs.c.state, runs.c.owner, runs.c.attempt, handovers.c.run_id)
        query = query.outerjoin_from(runs, handovers, handovers.c.run_id == runs.c.id).where(runs.c.id == run_id)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise DatabaseUnavailable(
                f"the run {run_id} is no longer in the records", hint="look who deletes runs, then run again"
            )
        return Place(row.state, row.owner, row.run_id is not None, row.attempt)

    def call_again(self, run_id: str, wait_s: float) -> None:
        """Put a job into the queue for a run that was set back, not before `wait_s` seconds."""
        with self._database.write() as connection:
            pool = connection.execute(select(handovers.c.pool).where(handovers.c.run_id == run_id)).scalar()
            if pool is not None:
                self._defer(connection, run_id, pool, wait_s=wait_s)

    def wake(self, pools: Sequence[str], most: int) -> None:
        """Put jobs into the queues where runs wait and no job does: its holder was killed, or a limit held them back."""
        with self._database.write() as connection:
            waits = select(handovers.c.run_id, handovers.c.pool, handovers.c.priority)
            waits = waits.where(handovers.c.waiting, ready(), handovers.c.pool.in_(pools), text(_UNCALLED))
            asleep = waits.order_by(handovers.c.priority.desc(), handovers.c.run_id).limit(most)
            for row in connection.execute(asleep).all():
                self._defer(connection, row.run_id, row.pool, priority=row.priority)

    def _defer(self, connection: Connection, run_id: str, pool: str, *, priority: int = 0, wait_s: float = 0) -> None:
        """Put the job into the queue inside the transaction of `connection`."""
        from procrastinate import App, SyncPsycopgConnector
        from procrastinate.exceptions import ConnectorException

        if self._sender is None:
            self._sender = App(connector=SyncPsycopgConnector())
        raw = connection.connection.driver_connection
        later: Any = {"schedule_in": {"seconds": ceil(wait_s)}} if wait_s else {}
        try:
            self._sender.configure_task(_TASK, queue=pool, priority=priority, connection=raw, **later).defer(run_id=run_id)
        except ConnectorException as error:
            words = " ".join(str(error.__cause__ or error).split())[:300]
            raise DatabaseUnavailable(
                f"the queue of {pool} cannot be used: {words}", hint="make the database reachable"
            ) from error
