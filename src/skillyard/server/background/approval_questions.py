"""Approval questions: a run that needs an approval waits for an answer, at most five minutes.

They are rows of the database, so that they are listed and answered through any server process. The asking process
confirms every few seconds that it still waits; the question of a process that has ended is closed. Times are those of the
database, because the clocks of two servers may differ.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select, update

from skillyard.concurrency import completed, in_thread
from skillyard.database import UPDATES_CHANNEL, database_now, notify, questions, runs, wait_for_change
from skillyard.engine import FINAL_STATES, ProcessIdentity, is_gone
from skillyard.errors import ApprovalRejected, DatabaseUnavailable, RecordNotFound
from skillyard.permissions import ApprovalAnswer, ApprovalRequest, PolicyApprover, SqlApprovalStore, approving_command

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row

    from skillyard.database import Database
    from skillyard.permissions import ApprovalStore
    from skillyard.times import Timing


_PATIENCE_S: Final = 300.0
_PATIENCE_OF_CLIENTS_S: Final = 45.0  # clients of MCP wait a minute for the result of a call
_NOBODY: Final = "nobody answered"
_OLD: Final = timedelta(days=1)  # more than any clock is set by


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """One open question: the request, for which run, by whom, and when it expires as rejected."""

    id: str
    request: ApprovalRequest
    workspace: str
    asked_by: str
    run_id: str | None
    asked_at: datetime
    expires_at: datetime


class ApprovalQuestions:
    """The open questions of one database, those of the folder `workspace` among them.

    `open`, `for_run` and `answer` block: asynchronous code calls them in a thread.
    """

    def __init__(self, database: Callable[[], Database], workspace: str = "", *, patience_s: float = _PATIENCE_S) -> None:
        self._database = database
        self._workspace = workspace
        self._patience_s = patience_s
        self._refusing: ApprovalAnswer | None = None

    def open(self) -> tuple[ApprovalQuestion, ...]:
        """Every open question, the oldest first."""
        return self._find()

    def for_run(self, run_id: str) -> ApprovalQuestion | None:
        """What a run waits for."""
        return next(iter(self._find(questions.c.run_id == run_id)), None)

    def asker(self, name: str, run_id: str | None = None) -> _QuestionApprover:
        """An approver that stores its questions here, for a run of that caller."""
        return _QuestionApprover(self, name, run_id)

    def asker_for_sessions(self) -> _SessionApprover:
        """An approver for calls of tools that wait for their answer; sessions are `organisation/caller`, others are refused."""
        return _SessionApprover(self, SqlApprovalStore(self._database, self._workspace))

    def answer(self, question_id: str, answer: ApprovalAnswer) -> ApprovalQuestion:
        """Answer a question, and with it every other open one of its session about the same content.

        An approval for the workspace also answers the questions of other sessions there.

        Raises:
            RecordNotFound: it is not open: answered, given up or too late.
        """
        table = questions.c
        question = next(iter(self._find(table.id == question_id)), None)
        if question is None:
            raise _not_open()
        alike = (
            table.workspace == question.workspace
            if answer.decision == "workspace"
            else table.session == question.request.session_id
        )
        same = (table.skill_id == question.request.skill_id) & (table.digest == question.request.digest) & alike
        values = {"decision": answer.decision, "reason": answer.reason}
        with self._database().write() as connection:
            unanswered = update(questions).where(table.id == question_id, table.decision.is_(None)).values(values)
            if connection.execute(unanswered).rowcount != 1:
                raise _not_open()
            others = update(questions).where(same, table.decision.is_(None)).values(values).returning(table.id)
            _announce(connection, [question_id, *connection.execute(others).scalars()])
        return question

    def close(self) -> None:
        """Reject the questions of this process from now on: the server stops and could not use the answer."""
        self._refusing = ApprovalAnswer("reject", "the server is about to stop")

    async def put(
        self, request: ApprovalRequest, name: str, run_id: str | None, *, patience_s: float | None = None
    ) -> ApprovalAnswer:
        """Put a question and wait for the answer; none in time is no."""
        patience_s = self._patience_s if patience_s is None else min(patience_s, self._patience_s)
        database = await asyncio.to_thread(self._database)
        now = await asyncio.to_thread(_now, database)
        until, identity = now + timedelta(seconds=patience_s), f"question_{os.urandom(12).hex()}"
        question = ApprovalQuestion(identity, request, self._workspace, name, run_id, now, until)
        try:
            if not await in_thread(partial(_keep, database, question)):
                return ApprovalAnswer("reject", "the run has ended")
            async with database.notifier.subscribe(question.id) as changed:
                return await self._answered(database, question, changed, patience_s)
        finally:
            await completed(_closed_after(database, question))

    async def _answered(
        self, database: Database, question: ApprovalQuestion, changed: asyncio.Event, patience_s: float
    ) -> ApprovalAnswer:
        until, sign = time.monotonic() + patience_s, time.monotonic() + database.timing.confirm_s
        while (left := until - time.monotonic()) > 0:
            if self._refusing is not None:
                return self._refusing
            with suppress(DatabaseUnavailable):  # it comes back, or the time is up
                if (answer := await asyncio.to_thread(_answer_to, database, question.id)) is not None:
                    return answer
                if time.monotonic() > sign:
                    await asyncio.to_thread(_confirm_waiting, database, question.id, left)
                    sign = time.monotonic() + database.timing.confirm_s
            await wait_for_change(changed, min(left, database.timing.look_s))
        return ApprovalAnswer("reject", f"{_NOBODY} within {patience_s:g} seconds")

    def _find(self, *conditions: ColumnElement[bool]) -> tuple[ApprovalQuestion, ...]:
        """The open questions that fit; those whose process has ended are closed."""
        table = questions.c
        database = self._database()
        with database.read() as connection:
            now = database_now(connection)
            query = select(questions, now.label("now")).where(table.decision.is_(None), table.expires_at > now, *conditions)
            rows = connection.execute(query.order_by(table.asked_at, table.id)).all()
        ended = [row.id for row in rows if ProcessIdentity.is_process_alive(row.owner) is False]
        if ended:
            with database.write() as connection:
                _forget(connection, ended)
        return tuple(_question(row) for row in rows if row.id not in ended and _is_waiting(row, database.timing))


def rejecting_approver() -> PolicyApprover:
    """Who answers where a request does not wait for a person."""
    return PolicyApprover("reject", "approval cannot be asked for over HTTP")


@dataclass(frozen=True, slots=True)
class RequestApprover:
    """Refuses what no rule's approval exists for yet, and says how the sender of the request can approve it."""

    otherwise: str = ""
    """What else the sender can do."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Raises ApprovalRejected, with the `digest` to approve."""
        raise ApprovalRejected(
            f"the skill {request.skill_name!r} needs approval, and this content has none",
            hint='look at the skill, then send POST /api/v1/approvals with its "skill" and "digest", and this request again'
            + self.otherwise,
            skill=request.skill_id,
            digest=request.digest,
        )


@dataclass(frozen=True, slots=True)
class _QuestionApprover:
    questions: ApprovalQuestions
    name: str
    run_id: str | None

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """As `Approver.ask`."""
        return await self.questions.put(request, self.name, self.run_id)


@dataclass(frozen=True, slots=True)
class _SessionApprover:
    questions: ApprovalQuestions
    store: ApprovalStore

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """As `Approver.ask`; the caller learns how a person agrees later, before its own patience ends."""
        command = approving_command(request, self.store)
        later = f"when a person has run `{command}` on the server, call this again"
        _, named, caller = request.session_id.partition("/")
        if not named:  # a client reads an address, or gets a prompt
            return ApprovalAnswer("reject", f"nobody can be asked here; {later}")
        answer = await self.questions.put(request, caller, None, patience_s=_PATIENCE_OF_CLIENTS_S)
        late = answer.decision == "reject" and (answer.reason or "").startswith(_NOBODY)
        return ApprovalAnswer("reject", f"{answer.reason}; {later}") if late else answer


def _not_open() -> RecordNotFound:
    return RecordNotFound(
        "this question is not open", hint="it was answered, its run was cancelled, or nobody answered in time"
    )


def _keep(database: Database, question: ApprovalQuestion) -> bool:
    """Record a question; False when its run has ended, which closes its questions."""
    request = question.request
    row = {
        "id": question.id, "session": request.session_id, "workspace": question.workspace, "skill_id": request.skill_id,
        "skill_name": request.skill_name, "description": request.description, "digest": request.digest,
        "asked_by": question.asked_by, "run_id": question.run_id, "owner": str(ProcessIdentity.current()),
        "asked_at": question.asked_at,
        "seen_at": question.asked_at, "expires_at": question.expires_at,
    }  # fmt: skip
    with database.write() as connection:
        if question.run_id is not None and _has_ended(connection, question.run_id):
            return False
        connection.execute(delete(questions).where(questions.c.expires_at < question.asked_at - _OLD))  # of killed servers
        connection.execute(insert(questions).values(row))
        _announce(connection, [question.id, *([question.run_id] if question.run_id else [])])
    return True


def _has_ended(connection: Connection, run_id: str) -> bool:
    """Whether a run has ended; one that has not does not end before this transaction does."""
    state = connection.execute(select(runs.c.state).where(runs.c.id == run_id).with_for_update(read=True)).scalar()
    return state in FINAL_STATES


async def _closed_after(database: Database, question: ApprovalQuestion) -> None:
    """Close a question whose run continues, or is cancelled."""
    with suppress(DatabaseUnavailable):  # it then closes when its time is up
        await asyncio.to_thread(_close, database, question.id)


def _close(database: Database, question_id: str) -> None:
    with database.write() as connection:
        _forget(connection, [question_id])


def _forget(connection: Connection, ids: Collection[str]) -> None:
    connection.execute(delete(questions).where(questions.c.id.in_(ids)))


def _answer_to(database: Database, question_id: str) -> ApprovalAnswer | None:
    """The answer when there is one; a rejection when the question was closed."""
    with database.read() as connection:
        query = select(questions.c.decision, questions.c.reason).where(questions.c.id == question_id)
        row = connection.execute(query).first()
    if row is None:
        return ApprovalAnswer("reject", "the question was closed")
    return None if row.decision is None else ApprovalAnswer.parse(row.decision, row.reason)


def _now(database: Database) -> datetime:
    with database.read() as connection:
        return connection.execute(select(database_now(connection))).scalar_one()


def _confirm_waiting(database: Database, question_id: str, left_s: float) -> None:
    """Record that the process still waits, and until when."""
    now = _now(database)
    values = {"seen_at": now, "expires_at": now + timedelta(seconds=left_s)}
    with database.write() as connection:
        connection.execute(update(questions).where(questions.c.id == question_id).values(values))


def _announce(connection: Connection, ids: Collection[str]) -> None:
    for one in ids:
        notify(connection, UPDATES_CHANNEL, one)


def _is_waiting(row: Row[Any], timing: Timing) -> bool:
    """Whether the asking process still exists; one of another machine sends heartbeats."""
    return not is_gone(row.owner, silent=abs(row.now - row.seen_at).total_seconds() > timing.silence_s)


def _question(row: Row[Any]) -> ApprovalQuestion:
    request = ApprovalRequest(row.skill_id, row.skill_name, row.digest, row.session, description=row.description)
    return ApprovalQuestion(row.id, request, row.workspace, row.asked_by, row.run_id, row.asked_at, row.expires_at)
