"""Sessions of pages: who signed in with a key gets a cookie instead, so that no script of a page ever holds the key.

A session ends when its time is over, when somebody signs out, and when its key is revoked or expires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select

from skillyard.access.hashing import hash_of, new_secret, same
from skillyard.access.keys import ApiKey, key_of
from skillyard.database import api_keys, api_sessions

if TYPE_CHECKING:
    from skillyard.database import Database

__all__ = ["Sessions"]

_KEPT: Final = timedelta(days=1)  # the clock of the server that forgets may be ahead of the one that let somebody in


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one server; `database` gives its main database, opened. Its methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nobody is let in by that.
    """

    database: Callable[[], Database]

    def open(self, key: ApiKey, lifetime: timedelta) -> tuple[str, datetime]:
        """A new session of the key: the secret for a cookie, and when it ends; what ended a day ago is forgotten."""
        secret, now = new_secret(), datetime.now(UTC)
        ends = min(now + lifetime, key.expires_at or now + lifetime)
        with self.database().write() as connection:
            connection.execute(delete(api_sessions).where(api_sessions.c.expires_at <= now - _KEPT))
            row = {"hash": hash_of(secret), "key_id": key.id, "created_at": now, "expires_at": ends}
            connection.execute(insert(api_sessions).values(row))
        return secret, ends

    def find(self, secret: str) -> ApiKey | None:
        """The usable key whose session `secret` is; None for everything else."""
        hashed = hash_of(secret)
        query = (
            select(api_keys, api_sessions.c.hash.label("session"), api_sessions.c.expires_at.label("ends"))
            .join(api_sessions, api_sessions.c.key_id == api_keys.c.id)
            .where(api_sessions.c.hash == hashed)
        )
        with self.database().read() as connection:
            row = connection.execute(query).mappings().first()
        if row is None or not same(row["session"], hashed) or row["ends"] <= datetime.now(UTC):
            return None
        key = key_of(row)
        return key if key.state == "usable" else None

    def close(self, secret: str) -> None:
        """End a session; one that is not there is none."""
        with self.database().write() as connection:
            connection.execute(delete(api_sessions).where(api_sessions.c.hash == hash_of(secret)))
