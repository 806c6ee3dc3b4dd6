"""Bring the tables to the shape this version knows: at the first use, safely to repeat, forward only.

Alembic does it, and is only imported when something is to be done: that the newest revision is in place is one small query.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text

from skillyard.database.dialects import one_at_a_time
from skillyard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["HEAD", "DatabaseStatus", "configuration", "revision_of", "upgrade"]

HEAD: Final = "r0012"
"""The newest revision in `migrations/versions`."""

_TABLE: Final = "alembic_version"


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Where the records are and which revision their tables have (`None`: no tables yet)."""

    url: str
    revision: str | None
    newest: str = HEAD

    @property
    def current(self) -> bool:
        """Whether nothing is to be upgraded."""
        return self.revision == self.newest

    def to_dict(self) -> dict[str, object]:
        """The status as plain data."""
        return {"url": self.url, "revision": self.revision, "newest": self.newest, "current": self.current}


def revision_of(connection: Connection) -> str | None:
    """The revision of the tables, `None` when there are none."""
    if not inspect(connection).has_table(_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar()  # noqa: S608 - a constant


def upgrade(connection: Connection) -> str | None:
    """Bring the tables to the newest revision inside the transaction of `connection`; gives the revision before.

    Raises:
        DatabaseUnavailable: they are of a newer Skillyard.
    """
    one_at_a_time(connection)
    before = revision_of(connection)
    if before == HEAD:
        return before
    from alembic import command
    from alembic.script import ScriptDirectory

    settings = configuration(connection)
    if before is not None and before not in {
        script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()
    }:
        raise DatabaseUnavailable(
            f"the records were made by a newer Skillyard (revision {before})",
            hint="upgrade skillyard, or name another database",
        )
    command.upgrade(settings, "head")
    return before


def configuration(connection: Connection) -> Config:
    """Alembic's settings for the migrations in this package, over `connection`."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["connection"] = connection
    return settings
