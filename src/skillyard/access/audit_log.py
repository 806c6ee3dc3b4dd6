"""The audit log: one record for everything that was changed or refused, with who did it, from where, and how it ended.

Code that changes something calls `record_audit` inside the transaction of the change. The actor is set once, at the entry
point, by `acting_as`; changes below, also in other threads of the same request, are recorded in that name.
"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, get_args

from sqlalchemy import Connection, Select, delete, func, insert, or_, select

from skillyard.database import audit_events
from skillyard.errors import InvalidInput
from skillyard.text import shorten, single_line
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.database import Database


AuditOutcome = Literal["success", "failed", "refused"]
DEFAULT_ORGANISATION: Final = "default"
"""The organisation that is always there: the server's own home."""
_LONGEST: Final = 500  # characters of what came from outside
_MOST_WORDS: Final = 8  # of a search


@dataclass(slots=True)
class Actor:
    """Who acts: a name, and for a request where it came from; `written` counts what was recorded meanwhile.

    A `member` is somebody with a key, who claims the names under which they publish, and changes what is theirs; with
    `manages` what belongs to others too. `scopes` are those of the key.
    """

    name: str
    organisation: str = DEFAULT_ORGANISATION
    request_id: str | None = None
    address: str | None = None
    subject: str | None = None
    written: int = 0
    member: bool = False
    manages: bool = False
    scopes: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class AuditRecord(WireForm, times="seconds"):
    """One record of the audit log."""

    id: str
    at: datetime
    actor: str
    organisation: str
    action: str
    subject: str
    outcome: AuditOutcome
    details: Mapping[str, object] | None
    request_id: str | None
    address: str | None


_COLUMNS: Final = tuple(AuditRecord.__dataclass_fields__)
_ACTING: Final[ContextVar[Actor | None]] = ContextVar("skillyard_actor", default=None)


@contextmanager
def acting_as(actor: Actor) -> Iterator[Actor]:
    """Record everything inside the block, and in the threads it calls, as done by `actor`."""
    token = _ACTING.set(actor)
    try:
        yield actor
    finally:
        _ACTING.reset(token)


EVERYBODY: Final = "*"
"""The owner of what every member of the organisation may change."""


def claimant() -> str | None:
    """Whose a name is that is published first now: the name of the member who acts; None for the user of the machine."""
    actor = _ACTING.get()
    return actor.name if actor and actor.member else None


def may_change(owners: Collection[str]) -> bool:
    """Whether the current actor may change what belongs to `owners`; what is nobody's is everybody's."""
    actor = _ACTING.get()
    if not owners or actor is None or not actor.member or actor.manages:
        return True
    return actor.name in owners or EVERYBODY in owners


def may_approve(by: Collection[str]) -> bool:
    """Whether the current actor has one of these scopes, or one of these names; the machine's user may everything."""
    actor = _ACTING.get()
    if actor is None or not actor.member:
        return True
    return actor.name in by or any(scope in by for scope in actor.scopes)


def set_audit_subject(subject: str) -> None:
    """Set the subject of the current request, for the record that is written when it ends."""
    if (actor := _ACTING.get()) is not None:
        actor.subject = subject


def actor_name(fallback: str | None = None) -> str:
    """The current actor: that of `acting_as`, else `fallback`, else the user of this process."""
    actor = _ACTING.get()
    return actor.name if actor else fallback or _user()


def record_audit(
    connection: Connection,
    action: str,
    subject: str,
    outcome: AuditOutcome = "success",
    details: Mapping[str, object] | None = None,
    *,
    fallback: str | None = None,
) -> None:
    """Record an action, in the transaction of `connection`; `fallback` is the actor where `acting_as` set none."""
    actor = _ACTING.get() or Actor(fallback or _user())
    values = {
        "id": f"event_{time.time_ns() // 1000:014x}{os.urandom(7).hex()}",
        "at": datetime.now(UTC),
        "actor": actor.name,
        "organisation": actor.organisation,
        "action": action,
        "subject": shorten(single_line(subject), _LONGEST),
        "outcome": outcome,
        "details": details,
        "request_id": actor.request_id,
        "address": actor.address,
    }
    connection.execute(insert(audit_events).values(values))
    actor.written += 1


class AuditFilter(TypedDict, total=False):
    """Which records to list; a `subject` is one exactly, or a skill for all its versions.

    Each word of `text` is somewhere in who, what, on what or where from, in any case. `until` is the first moment after.
    """

    actor: str | None
    action: str | None
    subject: str | None
    outcome: str | None
    since: datetime | None
    until: datetime | None
    text: str | None


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The audit log of one organisation; `database` gives its database, opened. Its methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used.
    """

    database: Callable[[], Database]

    def record(
        self, action: str, subject: str, outcome: AuditOutcome = "success", details: Mapping[str, object] | None = None
    ) -> None:
        """Record an action whose change is in no transaction."""
        with self.database().write() as connection:
            record_audit(connection, action, subject, outcome, details)

    def prune(self, *, older_than: datetime | None = None, keep: int | None = None) -> int:
        """Delete the records from before that time, and all but the newest `keep`; gives how many, and leaves a record of it.

        Raises:
            InvalidInput: neither is given.
        """
        columns, which = audit_events.c, []
        if older_than is not None:
            which.append(columns.at < older_than)
        if keep is not None:
            newest = select(columns.id).order_by(columns.at.desc(), columns.id.desc()).limit(keep)
            which.append(columns.id.not_in(newest))
        if not which:
            raise InvalidInput("it is not clear which records to delete", hint="name an age, or how many to keep")
        with self.database().write() as connection:
            pruned = connection.execute(delete(audit_events).where(or_(*which))).rowcount
            if pruned:
                record_audit(connection, "audit.prune", "audit log", details={"records": pruned})
        return pruned

    def events(self, *, limit: int = 50, offset: int = 0, **which: Unpack[AuditFilter]) -> tuple[AuditRecord, ...]:
        """The records that fit, the newest first.

        Raises:
            InvalidInput: an outcome that is none.
        """
        query = _narrow(select(audit_events), which)
        query = query.order_by(audit_events.c.at.desc(), audit_events.c.id.desc()).limit(limit).offset(offset)
        with self.database().read() as connection:
            return tuple(
                AuditRecord(**{name: row[name] for name in _COLUMNS}) for row in connection.execute(query).mappings().all()
            )

    def count(self, **which: Unpack[AuditFilter]) -> int:
        """How many records fit. Raises as `events`."""
        query = _narrow(select(func.count()).select_from(audit_events), which)
        with self.database().read() as connection:
            return int(connection.execute(query).scalar_one())


def _narrow(query: Select[Any], which: AuditFilter) -> Select[Any]:
    columns, outcome, subject, since = audit_events.c, which.get("outcome"), which.get("subject"), which.get("since")
    if outcome is not None and outcome not in get_args(AuditOutcome):
        raise InvalidInput(f"{outcome!r} is not an outcome", hint=f"one of {', '.join(get_args(AuditOutcome))}")
    for column, value in (
        (columns.actor, which.get("actor")),
        (columns.action, which.get("action")),
        (columns.outcome, outcome),
    ):
        if value is not None:
            query = query.where(column == value)
    if subject is not None:
        query = query.where((columns.subject == subject) | columns.subject.startswith(f"{subject}@", autoescape=True))
    for word in (which.get("text") or "").split()[:_MOST_WORDS]:
        searched = (columns.actor, columns.action, columns.subject, columns.address, columns.request_id)
        query = query.where(or_(*(column.icontains(word, autoescape=True) for column in searched)))
    if (until := which.get("until")) is not None:
        query = query.where(columns.at < until)
    return query if since is None else query.where(columns.at >= since)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
