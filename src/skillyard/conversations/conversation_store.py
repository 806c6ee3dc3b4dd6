"""Where conversations, their turns and files are stored. The methods block: asynchronous code calls them in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, exists, func, insert, or_, select, update

from skillyard.conversations.conversation import (
    OPEN_TURN_STATES,
    Attachment,
    ChatSettings,
    Conversation,
    Turn,
    WaitingQuestion,
    condense_events,
    parse_event,
)
from skillyard.conversations.tool_calling import RequestedCall
from skillyard.database import (
    attachments,
    conversations,
    database_now,
    delete_live_events,
    insert_or_update,
    live_events_of,
    publish_live_events,
    run_files,
    session_approvals,
    turns,
)
from skillyard.engine import HeartbeatMonitor, ProcessIdentity, workspace_subject
from skillyard.errors import ConversationBusy, RecordNotFound
from skillyard.insights import count_usage
from skillyard.packages import digest_of
from skillyard.times import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import ColumnElement, Connection, Row, Table

    from skillyard.conversations.conversation import TurnState
    from skillyard.database import Database, LiveEvent


_ABANDONED: Final = timedelta(hours=6)  # a turn of another machine whose release sends no heartbeats
_CONFIRMED_HEARTBEATS: Final = 1.5  # for which a turn that seems silent is watched: the clock of the database may have been set
_MANIFEST: Final = "manifest"
_HIDDEN: Final = ("stop_asked", "process", "seen_at", "counted")


class ConversationStore:
    """Conversations, turns and files in one database; each person sees only their own.

    `heartbeats` counts how long turns of other machines have been silent.
    """

    def __init__(self, database: Callable[[], Database], *, heartbeats: HeartbeatMonitor | None = None) -> None:
        self._database = database
        self._heartbeats = heartbeats or HeartbeatMonitor()

    @property
    def database(self) -> Callable[[], Database]:
        """What gives the database, opened."""
        return self._database

    def begin(self, conversation: Conversation) -> None:
        """Keep a new conversation."""
        row = {name: getattr(conversation, name) for name in _names(conversations) if name != "settings"}
        with self._database().write() as connection:
            connection.execute(insert(conversations).values(row | {"settings": conversation.settings.to_dict()}))

    def get(self, conversation_id: str, owner: str) -> Conversation:
        """The conversation with that id, or the only one whose id ends so (6 characters at least).

        Raises:
            RecordNotFound: there is none of this person.
        """
        query = select(conversations).where(conversations.c.owner == owner)
        with self._database().read() as connection:
            row = connection.execute(query.where(conversations.c.id == conversation_id)).first()
            if row is None and len(conversation_id) >= 6:
                near = query.where(conversations.c.id.endswith(conversation_id, autoescape=True)).limit(2)
                rows = connection.execute(near).all()
                row = rows[0] if len(rows) == 1 else None
        if row is None:
            raise RecordNotFound(f"there is no conversation {conversation_id!r}", hint="`skillyard chat --list` lists yours")
        return _conversation(row)

    def of_turn(self, turn: Turn) -> Conversation:
        """The conversation that a turn belongs to.

        Raises:
            RecordNotFound: it was deleted.
        """
        with self._database().read() as connection:
            row = connection.execute(select(conversations).where(conversations.c.id == turn.conversation_id)).first()
        if row is None:
            raise RecordNotFound("the conversation was deleted", hint="begin another one")
        return _conversation(row)

    def list(self, owner: str, *, limit: int = 50, text: str = "") -> tuple[Conversation, ...]:
        """The person's conversations, the last used first; with `text` those whose title or turns contain it."""
        query = select(conversations).where(conversations.c.owner == owner)
        if text.strip():
            query = query.where(_mentions(text.strip()))
        query = query.order_by(conversations.c.updated_at.desc(), conversations.c.id.desc()).limit(limit)
        with self._database().read() as connection:
            return tuple(_conversation(row) for row in connection.execute(query))

    def waiting(self, owner: str) -> tuple[WaitingQuestion, ...]:
        """The person's questions that nobody has answered, the oldest first; those about the same content are one."""
        own = (conversations.c.owner == owner) & turns.c.replaced.is_(False) & (turns.c.state == "waiting")
        columns = [turns.c[name] for name in ("id", "request", "pending", "created_at", "conversation_id")]
        query = (
            select(*columns, *(conversations.c[name] for name in ("title", "agent"))).join_from(turns, conversations).where(own)
        )
        with self._database().read() as connection:
            rows = connection.execute(query.order_by(turns.c.created_at, turns.c.id)).all()
        return tuple(question for row in rows for question in _unanswered(row))

    def change(self, conversation_id: str, *, used: bool = True, **values: Any) -> None:
        """Change values of a conversation, and with `used` the time of its last use."""
        changed = update(conversations).where(conversations.c.id == conversation_id)
        now = {"updated_at": datetime.now(UTC)} if used else {}
        with self._database().write() as connection:
            connection.execute(changed.values(values | now))

    def delete(self, conversation_id: str) -> None:
        """Delete a conversation with all that belongs to it; what was used in it stays in the insights."""
        count_usage(self._database(), conversation=conversation_id)
        with self._database().write() as connection:
            connection.execute(delete(conversations).where(conversations.c.id == conversation_id))
            connection.execute(delete(session_approvals).where(session_approvals.c.session == conversation_id))
            connection.execute(delete(run_files).where(run_files.c.subject == workspace_subject(conversation_id)))

    def start(self, turn: Turn, *, replacing: int | None = None) -> Turn:
        """Keep a new turn at the end, in place of those from the number `replacing` on.

        Raises:
            ConversationBusy: a turn is still open.
        """
        with self._database().write() as connection:
            same = conversations.c.id == turn.conversation_id
            connection.execute(select(conversations.c.id).where(same).with_for_update())  # one at a time begins a turn
            self._recover(connection, turn.conversation_id)
            same = turns.c.conversation_id == turn.conversation_id
            open_turn = select(turns.c.state).where(same, turns.c.state.in_(OPEN_TURN_STATES), turns.c.replaced.is_(False))
            if (state := connection.execute(open_turn).scalar()) is not None:
                hint = "it waits for an approval: answer it, or stop it" if state == "waiting" else "wait for it, or stop it"
                raise ConversationBusy("the conversation is in the middle of a turn", hint=hint)
            if replacing is not None:
                connection.execute(update(turns).where(same, turns.c.number >= replacing).values(replaced=True))
            number = (connection.execute(select(func.max(turns.c.number)).where(same)).scalar() or 0) + 1
            row = {name: getattr(turn, name) for name in _names(turns) if name not in _HIDDEN}
            row |= {"number": number, "stop_asked": False, "process": str(ProcessIdentity.current())}
            row["seen_at"] = connection.execute(select(database_now(connection))).scalar_one()
            connection.execute(insert(turns).values(row))
        return replace(turn, number=number)

    def note(self, turn_id: str, **values: Any) -> bool:
        """Record the progress of an open turn; gives whether its stop was requested."""
        with self._database().write() as connection:
            connection.execute(update(turns).where(turns.c.id == turn_id, turns.c.state.in_(OPEN_TURN_STATES)).values(values))
            if values.get("state", "running") != "running":
                delete_live_events(connection, turn_id)
            return bool(connection.execute(select(turns.c.stop_asked).where(turns.c.id == turn_id)).scalar())

    def resume(self, turn_id: str) -> bool:
        """Let this process continue a turn that waits; False when another one was first."""
        values = {"state": "running", "process": str(ProcessIdentity.current()), "pending": None}
        with self._database().write() as connection:
            waiting = update(turns).where(turns.c.id == turn_id, turns.c.state == "waiting")
            changed = waiting.values(values | {"seen_at": database_now(connection)})
            return connection.execute(changed).rowcount == 1

    def heartbeat(self, turn_id: str) -> None:
        """Record that this process still executes a turn."""
        own = (turns.c.id == turn_id) & (turns.c.state == "running") & (turns.c.process == str(ProcessIdentity.current()))
        with self._database().write() as connection:
            connection.execute(update(turns).where(own).values(seen_at=database_now(connection)))

    def decide(self, turn_id: str, call_id: str, decision: Mapping[str, Any]) -> dict[str, Any] | None:
        """Record the answer to a question of a turn that waits, and to its others about the same content.

        Gives what it waits for and has been answered now; None when it does not wait for this.
        """
        waiting = turns.c.id == turn_id, turns.c.state == "waiting"
        with self._database().write() as connection:
            pending = connection.execute(select(turns.c.pending).where(*waiting).with_for_update()).scalar() or {}
            questions: Mapping[str, Any] = pending.get("questions", {})
            if call_id not in questions:
                return None
            digest = questions[call_id]["digest"]
            same = [call for call, other in questions.items() if other["digest"] == digest]
            decided = {call: {**decision, "digest": digest} for call in same}
            pending = {**pending, "decided": {**pending["decided"], **decided}}
            connection.execute(update(turns).where(*waiting).values(pending=pending))
        return pending

    def publish_events(self, turn_id: str, events: Sequence[Mapping[str, Any]]) -> None:
        """Publish events to followers in other processes while the turn runs."""
        with self._database().write() as connection:
            if connection.execute(select(turns.c.state).where(turns.c.id == turn_id)).scalar() == "running":
                publish_live_events(connection, turn_id, [list(events)])

    def events_since(self, turn_id: str, after: int) -> tuple[TurnState | None, tuple[LiveEvent, ...]]:
        """The state of a turn, and its live events after that number."""
        with self._database().read() as connection:
            events = live_events_of(connection, turn_id, after=after)
            return connection.execute(select(turns.c.state).where(turns.c.id == turn_id)).scalar(), events

    def ask_to_stop(self, turn_id: str) -> bool:
        """Request the stop of a turn in any process; one that waits stops at once. False when it is not open."""
        with self._database().write() as connection:
            stopped = update(turns).where(turns.c.id == turn_id, turns.c.state == "waiting")
            ended = {"state": "stopped", "finished_at": datetime.now(UTC), "pending": None}
            if connection.execute(stopped.values(ended)).rowcount == 1:
                return True
            running = update(turns).where(turns.c.id == turn_id, turns.c.state == "running")
            return connection.execute(running.values(stop_asked=True)).rowcount == 1

    def stop_asked(self, turn_id: str) -> bool:
        """Whether the stop of the turn was requested."""
        with self._database().read() as connection:
            return bool(connection.execute(select(turns.c.stop_asked).where(turns.c.id == turn_id)).scalar())

    def turn(self, turn_id: str) -> Turn:
        """One turn.

        Raises:
            RecordNotFound: there is none.
        """
        with self._database().read() as connection:
            row = connection.execute(select(turns).where(turns.c.id == turn_id)).first()
        if row is None:
            raise RecordNotFound(f"there is no turn {turn_id!r}", hint="the conversation lists its turns")
        return _turn(row)

    def turns(self, conversation_id: str, *, replaced: bool = False) -> tuple[Turn, ...]:
        """The turns of a conversation in their order; those whose process has ended are marked first."""
        query = select(turns).where(turns.c.conversation_id == conversation_id).order_by(turns.c.number)
        with self._database().write() as connection:
            self._recover(connection, conversation_id)
            listed = tuple(_turn(row) for row in connection.execute(query))
        return listed if replaced else tuple(turn for turn in listed if not turn.replaced)

    def page_of_turns(
        self,
        owner: str,
        agent: str | None,
        *,
        conversation: str | None = None,
        states: Sequence[str] = (),
        since: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[tuple[Turn, ...], int]:
        """So many turns of the person's conversations with an agent, the last changed first, and how many there are.

        With `states` only those in one of them, with `since` only those that ended, or began when they are open, not before.
        Those whose process has ended are marked when their conversation is read (`turns`).
        """
        changed = func.coalesce(turns.c.finished_at, turns.c.created_at)
        wanted = [conversations.c.owner == owner, conversations.c.agent == agent, turns.c.replaced.is_(False)]
        wanted += [turns.c.state.in_(states)] if states else []
        wanted += [conversations.c.id == conversation] if conversation is not None else []
        wanted += [changed >= since] if since is not None else []
        listed = select(turns).join_from(turns, conversations).where(*wanted)
        page = listed.order_by(changed.desc(), turns.c.id).limit(limit).offset(offset)
        counted = select(func.count()).select_from(turns).join(conversations).where(*wanted)
        with self._database().read() as connection:
            found = tuple(_turn(row) for row in connection.execute(page))
            return found, connection.execute(counted).scalar_one()

    def keep_file(self, conversation_id: str, file: Attachment) -> None:
        """Record a file, in place of the one of that name."""
        row = {name: getattr(file, name) for name in _names(attachments) if name != "conversation_id"}
        with self._database().write() as connection:
            connection.execute(insert_or_update(connection, attachments, row | {"conversation_id": conversation_id}))

    def drop_file(self, conversation_id: str, name: str) -> None:
        """Delete the record of a file."""
        named = (attachments.c.conversation_id == conversation_id) & (attachments.c.name == name)
        with self._database().write() as connection:
            connection.execute(delete(attachments).where(named))

    def files(self, conversation_id: str) -> tuple[Attachment, ...]:
        """The files of a conversation, by name."""
        columns = [column for column in attachments.c if column.name != "conversation_id"]
        query = select(*columns).where(attachments.c.conversation_id == conversation_id).order_by(attachments.c.name)
        with self._database().read() as connection:
            return tuple(Attachment(**row._mapping) for row in connection.execute(query))

    def _recover(self, connection: Connection, conversation_id: str) -> None:
        """Mark the running turns whose process has ended: nothing of them is repeated."""
        running = (turns.c.conversation_id == conversation_id) & (turns.c.state == "running")
        columns = (turns.c.id, turns.c.process, turns.c.created_at, turns.c.seen_at, database_now(connection).label("now"))
        rows = connection.execute(select(*columns).where(running)).all()
        if not rows:
            self._heartbeats.forget(conversation_id)
        for row in rows:
            alive = ProcessIdentity.is_process_alive(row.process)
            if alive is False or (alive is None and self._is_silent(conversation_id, row)):
                self._interrupt(connection, row.id)

    def _is_silent(self, conversation_id: str, row: Row[Any]) -> bool:
        """Whether the process of a turn, which cannot be seen from here, has sent no heartbeat for too long.

        By the clock of the database at first, and once it is by that, also by the own clock for another one and a half.
        """
        if row.seen_at is None:
            return bool(row.created_at < row.now - _ABANDONED)
        timing = self._database().timing
        watched = self._heartbeats.of(conversation_id, (row.id, row.seen_at))
        if abs(row.now - row.seen_at) <= timedelta(seconds=timing.silence_s):
            return watched > timing.silence_s
        return watched > _CONFIRMED_HEARTBEATS * timing.heartbeat_s

    def give_up(self, turn_id: str) -> bool:
        """Mark a turn that is executed where nobody here can look as interrupted: it was asked to stop, and nothing came.

        Should its process go on after all, its next note ends it, and it saves no file. False when it has ended meanwhile.
        """
        asked = (turns.c.id == turn_id) & (turns.c.state == "running") & turns.c.stop_asked
        with self._database().write() as connection:
            process = connection.execute(select(turns.c.process).where(asked)).scalar()
            if process is None or ProcessIdentity.is_process_alive(process):
                return False
            self._interrupt(connection, turn_id)
        return True

    @staticmethod
    def _interrupt(connection: Connection, turn_id: str) -> None:
        """Mark a turn without a process, with the events that others have seen of it."""
        error = {"error_code": "interrupted", "error_message": "the process that worked on it has ended"}
        ended: dict[str, Any] = {"state": "interrupted", "finished_at": datetime.now(UTC), "stop_asked": True, **error}
        if events := [parse_event(shape) for item in live_events_of(connection, turn_id) for shape in item.body]:
            ended["events"] = condense_events(events)
        delete_live_events(connection, turn_id)
        connection.execute(update(turns).where(turns.c.id == turn_id).values(ended))


@dataclass(frozen=True, slots=True)
class SqlSnapshotRecord:
    """The manifest of a conversation's files, for every machine (a `SnapshotRecord`).

    With `turn_id` it is replaced only for as long as this process executes that turn.
    """

    database: Callable[[], Database]
    conversation_id: str
    turn_id: str | None = None

    def current(self) -> str | None:
        """As `SnapshotRecord.current`."""
        with self.database().read() as connection:
            return self._current(connection)

    def read(self) -> bytes | None:
        """As `SnapshotRecord.read`."""
        query = select(run_files.c.content).where(self._own)
        with self.database().read() as connection:
            content: bytes | None = connection.execute(query).scalar()
        return content

    def replace(self, expected: str | None, manifest: bytes) -> bool:
        """As `SnapshotRecord.replace`.

        Raises:
            ConversationBusy: this process does not execute the turn any more.
            RecordNotFound: there is no such conversation any more.
        """
        same = conversations.c.id == self.conversation_id
        with self.database().write() as connection:
            if connection.execute(select(conversations.c.id).where(same).with_for_update()).scalar() is None:
                raise RecordNotFound(f"there is no conversation {self.conversation_id!r}", hint="it was deleted")
            self._check_turn(connection)
            if self._current(connection) != expected:
                return False
            connection.execute(delete(run_files).where(self._own))
            row = {"subject": workspace_subject(self.conversation_id), "origin": _MANIFEST, "name": digest_of(manifest)}
            connection.execute(insert(run_files).values(row | {"size": len(manifest), "content": manifest, "at": utc_now()}))
        return True

    def _check_turn(self, connection: Connection) -> None:
        if self.turn_id is None:
            return
        found = connection.execute(select(turns.c.state, turns.c.process).where(turns.c.id == self.turn_id)).one_or_none()
        if found is None or tuple(found) != ("running", str(ProcessIdentity.current())):
            raise ConversationBusy(
                "another process has continued the conversation", hint="what was saved before is still there"
            )

    def _current(self, connection: Connection) -> str | None:
        found: str | None = connection.execute(select(run_files.c.name).where(self._own)).scalar()
        return found

    @property
    def _own(self) -> ColumnElement[bool]:
        return (run_files.c.subject == workspace_subject(self.conversation_id)) & (run_files.c.origin == _MANIFEST)


def _mentions(text: str) -> ColumnElement[bool]:
    """The condition that a conversation's title, or a request or answer in it, contains the text in any case."""
    matches = [column.icontains(text, autoescape=True) for column in (turns.c.request, turns.c.answer)]
    in_turns = exists().where(turns.c.conversation_id == conversations.c.id, turns.c.replaced.is_(False), or_(*matches))
    return or_(conversations.c.title.icontains(text, autoescape=True), in_turns)


def _names(table: Table) -> list[str]:
    return [column.name for column in table.c]


def _unanswered(row: Row[Any]) -> Iterator[WaitingQuestion]:
    """The open questions of one turn that waits."""
    pending = row.pending or {}
    calls = {call["id"]: RequestedCall.read(call) for call in pending.get("wanted", ())}
    by_digest: dict[str, list[str]] = {}
    for call_id, question in pending.get("questions", {}).items():
        if call_id not in pending.get("decided", {}):
            by_digest.setdefault(question["digest"], []).append(call_id)
    for ids in by_digest.values():
        asked = [{"id": one, "tool": calls[one].tool, "arguments": calls[one].shown} for one in ids if one in calls]
        question = {**pending["questions"][ids[0]], "call": ids[0]}
        yield WaitingQuestion(
            row.conversation_id, row.title, row.agent, row.id, row.request, question, tuple(asked), row.created_at
        )


def _conversation(row: Row[Any]) -> Conversation:
    values = dict(row._mapping)
    return Conversation(**values | {"settings": ChatSettings.read(values["settings"])})


def _turn(row: Row[Any]) -> Turn:
    return Turn(**{name: value for name, value in row._mapping.items() if name not in _HIDDEN})
