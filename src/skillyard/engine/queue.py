"""The queues of runs on PostgreSQL: one for each pool, kept by procrastinate.

A job only carries the id of its run. What is to be run lies in `handovers`, with its parameters in full, until a worker has
taken it. The row in `runs` decides everything: a job whose run has been taken, or has ended, does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, text, update

from skillyard.database import handovers, runs
from skillyard.engine.journal import beginning, write_beginning
from skillyard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from procrastinate import App
    from sqlalchemy import Connection

    from skillyard.database import Database
    from skillyard.engine.record import RunRecord

__all__ = ["Place", "RunQueue", "name_problem", "queue_problem"]

_TASK: Final = "skillyard.run"
_LONGEST_NAME: Final = 100
_LOCK: Final = 0x534B594451  # any number that is always the same: who makes the tables of the queue
_ADDRESS: Final = (
    "set SKILLYARD_DATABASE_URL=postgresql://user:password@host/skillyard, or url in [database] of your own skillyard.toml"
)


_FORGET: Final = """
    DELETE FROM procrastinate_jobs AS job
    WHERE job.task_name = :task AND NOT EXISTS (SELECT 1 FROM handovers WHERE handovers.run_id = job.args ->> 'run_id')
"""  # what a worker left that was killed

_ENDED: Final = """
    DELETE FROM handovers USING runs
    WHERE runs.id = handovers.run_id AND runs.finished_at < now() - interval '20 seconds'
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is: its `state`, who carries it, and whether someone still has something to do about it."""

    state: str
    owner: str
    open: bool


def queue_problem(database: Database) -> DatabaseUnavailable | None:
    """Why this database has no queues, or None."""
    if database.conninfo is None:
        return DatabaseUnavailable(f"a worker pool needs PostgreSQL, and the records are in {database.name}", hint=_ADDRESS)
    try:
        import procrastinate  # noqa: F401 # only whether it is there
    except ImportError:
        hint = "pip install 'skillyard[postgres]'"
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
            connection.execute(text(_FORGET), {"task": _TASK})

    def receiver(self, work: Callable[[str], Awaitable[None]]) -> App:
        """What a worker runs: procrastinate's application, with `work` called for the id of each run."""
        from procrastinate import App, PsycopgConnector

        app = App(connector=PsycopgConnector(conninfo=self._database.conninfo, min_size=1, max_size=4))

        @app.task(name=_TASK)
        async def carry(run_id: str) -> None:
            await work(run_id)

        return app

    def hand_over(self, record: RunRecord, *, pool: str, request: str, cache_key: str | None, known: bool = False) -> None:
        """Write a run down, unless it is `known`, and put it into the queue of a pool: both, or nothing.

        Raises:
            ExecutionProblem: it is known, and has been ended meanwhile.
            DatabaseUnavailable: that is not possible.
        """
        with self._database.write() as connection:
            write_beginning(connection, beginning(record) | {"cache_key": cache_key}, known=known)
            connection.execute(insert(handovers).values(run_id=record.id, pool=pool, request=request))
            self._defer(connection, record.id, pool)

    def take(self, run_id: str, owner: str) -> str | None:
        """Start the run as `owner`: the request, given once and to one only; None when it is not there to be taken."""
        begun = update(runs).where(runs.c.id == run_id, runs.c.state == "queued")
        with self._database.write() as connection:
            if connection.execute(begun.values(state="running", owner=owner, started_at=func.now())).rowcount != 1:
                return None
            mine = handovers.c.run_id == run_id
            request = connection.execute(select(handovers.c.request).where(mine)).scalar()
            connection.execute(update(handovers).where(mine).values(request=None))
        return None if request is None else str(request)

    def take_back(self, run_id: str) -> bool:
        """Start the run here after all, when no worker has; False when one has, or when it has ended."""
        begun = update(runs).where(runs.c.id == run_id, runs.c.state == "queued")
        with self._database.write() as connection:
            taken = connection.execute(begun.values(state="running", started_at=func.now())).rowcount == 1
            if taken:
                connection.execute(delete(handovers).where(handovers.c.run_id == run_id))
        return taken

    def let_go(self, run_id: str) -> None:
        """Note that everything about the run is done."""
        with self._database.write() as connection:
            connection.execute(delete(handovers).where(handovers.c.run_id == run_id))

    def forget_ended(self) -> None:
        """Let go of runs that ended a while ago and that nobody let go of: who had to was killed."""
        with self._database.write() as connection:
            connection.execute(text(_ENDED))

    def place(self, run_id: str) -> Place:
        """Where the run is now.

        Raises:
            DatabaseUnavailable: the database cannot be read, or the run is not in it.
        """
        query = select(runs.c.state, runs.c.owner, handovers.c.run_id)
        query = query.outerjoin_from(runs, handovers, handovers.c.run_id == runs.c.id).where(runs.c.id == run_id)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise DatabaseUnavailable(
                f"the run {run_id} is no longer in the records", hint="look who deletes runs, then run again"
            )
        return Place(row.state, row.owner, row.run_id is not None)

    def _defer(self, connection: Connection, run_id: str, pool: str) -> None:
        """Put the job into the queue inside the transaction of `connection`."""
        from procrastinate import App, SyncPsycopgConnector
        from procrastinate.exceptions import ConnectorException

        if self._sender is None:
            self._sender = App(connector=SyncPsycopgConnector())
        raw = connection.connection.driver_connection
        try:
            self._sender.configure_task(_TASK, queue=pool, connection=raw).defer(run_id=run_id)
        except ConnectorException as error:
            words = " ".join(str(error.__cause__ or error).split())[:300]
            raise DatabaseUnavailable(f"the queue of {pool} cannot be used: {words}", hint="make the database reachable") from error
