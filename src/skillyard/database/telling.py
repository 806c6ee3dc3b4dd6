"""What happens in something that goes on, written down as it happens: by one process, for every other that follows it.

A subject is a run, a turn of a conversation or an operation, by its id; its happenings are numbered from 1. They are forgotten
when the subject has ended and its own record says everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import delete, func, insert, select

from skillyard.database.bell import NEWS
from skillyard.database.dialects import announce
from skillyard.database.live_tables import happenings

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Happening", "forget_happenings", "forget_old_happenings", "happenings_of", "tell_happenings"]

_OLD: Final = timedelta(days=1)  # nothing goes on for longer; what is left then was left by a process that was killed


class Happening(NamedTuple):
    """One thing that happened: its number, and what it was as plain data."""

    number: int
    body: Any


def tell_happenings(connection: Connection, subject: str, bodies: Sequence[object], *, without: Sequence[int] = ()) -> int:
    """Write down what happened, wake who follows, and give the number of the last; those numbered `without` are forgotten."""
    last = connection.execute(select(func.max(happenings.c.number)).where(happenings.c.subject == subject)).scalar() or 0
    now = datetime.now(UTC)
    rows = [{"subject": subject, "number": last + at, "body": body, "at": now} for at, body in enumerate(bodies, 1)]
    if rows:
        connection.execute(insert(happenings), rows)
    if without:
        connection.execute(delete(happenings).where(happenings.c.subject == subject, happenings.c.number.in_(without)))
    announce(connection, NEWS, subject)
    return last + len(rows)


def happenings_of(connection: Connection, subject: str, *, after: int = 0) -> tuple[Happening, ...]:
    """What happened in the subject, in order, after the number `after`."""
    query = select(happenings.c.number, happenings.c.body).where(happenings.c.subject == subject, happenings.c.number > after)
    return tuple(Happening(row.number, row.body) for row in connection.execute(query.order_by(happenings.c.number)))


def forget_happenings(connection: Connection, subject: str) -> None:
    """Forget what happened in a subject that has ended, and wake who follows it."""
    connection.execute(delete(happenings).where(happenings.c.subject == subject))
    announce(connection, NEWS, subject)


def forget_old_happenings(connection: Connection) -> None:
    """Forget what nobody has forgotten for a day."""
    connection.execute(delete(happenings).where(happenings.c.at < datetime.now(UTC) - _OLD))
