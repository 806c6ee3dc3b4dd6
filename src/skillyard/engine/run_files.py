"""The files that travel with runs, in the records: given to one that a worker executes, made by one, uploaded for one to come.

They are rows, so that every process and every machine of one database has them. What a run made is kept for seven days, an
upload for a day, the files of a schedule as long as the schedule, the manifest of a conversation's workspace as long as that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, or_, select

from skillyard.database import run_files
from skillyard.errors import FileMissing, InvalidInput
from skillyard.execution import WorkFile
from skillyard.text import shorten, single_line
from skillyard.times import utc_now
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from skillyard.database import Database

KEPT: Final = timedelta(days=7)
_UPLOADS_KEPT: Final = timedelta(days=1)
_MOST_UPLOADS: Final = 400
_ALL_UPLOADS: Final = 256 * 1024 * 1024
_SCHEDULE: Final = "schedule "
_UPLOAD: Final = "upload "
_WORKSPACE: Final = "workspace "
_MANIFESTS: Final = 20  # at a time: one may have megabytes


@dataclass(frozen=True, slots=True)
class RunFile(WireForm):
    """One file that a run made: its path in the work folder, and its size in bytes."""

    name: str
    size: int


def write_files(connection: Connection, subject: str, origin: str, files: Sequence[WorkFile]) -> None:
    """Write files of a subject; those it had of that origin are replaced."""
    delete_files(connection, subject, origin)
    now = utc_now()
    for file in files:
        row = {"subject": subject, "origin": origin, "name": file.name, "size": len(file.data), "content": file.data, "at": now}
        connection.execute(insert(run_files).values(row))


def delete_files(connection: Connection, subject: str, origin: str | None = None) -> None:
    """Delete the files of a subject, all or those of one origin."""
    of = [run_files.c.subject == subject, *([run_files.c.origin == origin] if origin is not None else [])]
    connection.execute(delete(run_files).where(*of))


def delete_old_files(connection: Connection) -> None:
    """Delete what runs made long ago, and uploads that nobody used."""
    now, uploaded = utc_now(), run_files.c.subject.startswith(_UPLOAD, autoescape=True)
    lasting = or_(*(run_files.c.subject.startswith(kind, autoescape=True) for kind in (_SCHEDULE, _WORKSPACE)))
    old = or_(
        ~uploaded & ~lasting & (run_files.c.at < now - KEPT),
        uploaded & (run_files.c.at < now - _UPLOADS_KEPT),
    )
    connection.execute(delete(run_files).where(old))


def schedule_subject(name: str) -> str:
    """Under what the files of a schedule are."""
    return f"{_SCHEDULE}{name}"


def workspace_subject(conversation_id: str) -> str:
    """Under what the manifest of a conversation's workspace is."""
    return f"{_WORKSPACE}{conversation_id}"


def workspace_manifests(database: Database) -> Iterator[tuple[str, bytes]]:
    """The conversations whose workspaces were saved for every machine, by id, each with its manifest.

    Raises:
        DatabaseUnavailable: the database cannot be used.
    """
    query = select(run_files.c.subject, run_files.c.content).where(run_files.c.subject.startswith(_WORKSPACE, autoescape=True))
    with database.read() as connection:
        rows = connection.execute(query.order_by(run_files.c.subject).execution_options(yield_per=_MANIFESTS))
        for row in rows:
            yield row.subject.removeprefix(_WORKSPACE), row.content


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files in one database, which `database` gives, opened; the methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used.
    """

    database: Callable[[], Database]

    def made(self, run_id: str) -> tuple[RunFile, ...]:
        """What a run made and is still kept, by name."""
        query = select(run_files.c.name, run_files.c.size).where(run_files.c.subject == run_id, run_files.c.origin == "made")
        with self.database().read() as connection:
            return tuple(RunFile(row.name, row.size) for row in connection.execute(query.order_by(run_files.c.name)))

    def read(self, run_id: str, name: str) -> bytes:
        """The bytes of a file that a run made.

        Raises:
            FileMissing: the run made no such file, or it is no longer kept.
        """
        query = select(run_files.c.content)
        query = query.where(run_files.c.subject == run_id, run_files.c.origin == "made", run_files.c.name == name)
        with self.database().read() as connection:
            content: bytes | None = connection.execute(query).scalar()
        if content is None:
            hint = f"what a run made is kept for {KEPT.days} days; what it wrote into a folder of yours is only there"
            raise FileMissing(f"there is no file {shorten(single_line(name), 80)!r} of this run", hint=hint)
        return content

    def of(self, subject: str, origin: str) -> tuple[WorkFile, ...]:
        """The files of a subject with their bytes, by name."""
        query = select(run_files.c.name, run_files.c.content)
        query = query.where(run_files.c.subject == subject, run_files.c.origin == origin).order_by(run_files.c.name)
        with self.database().read() as connection:
            return tuple(WorkFile(row.name, row.content) for row in connection.execute(query))

    def upload(self, owner: str, file: WorkFile) -> str:
        """Keep a file of `owner` for a run to come, and give the id by which the request names it.

        Raises:
            InvalidInput: too many of theirs wait already.
        """
        subject, upload = f"{_UPLOAD}{owner}", f"upload_{os.urandom(12).hex()}"
        waiting = select(func.count(), func.coalesce(func.sum(run_files.c.size), 0)).where(run_files.c.subject == subject)
        with self.database().write() as connection:
            delete_old_files(connection)
            count, size = connection.execute(waiting).one()
            if count >= _MOST_UPLOADS or size + len(file.data) > _ALL_UPLOADS:
                hint = f"at most {_MOST_UPLOADS} and {_ALL_UPLOADS} bytes wait for a run; start it, or give them a day to go"
                raise InvalidInput(f"{count} uploaded files with {size} bytes wait already", hint=hint)
            write_files(connection, subject, upload, (file,))
        return upload

    def uploaded(self, owner: str, uploads: Collection[str]) -> dict[str, WorkFile]:
        """The files that `owner` has uploaded under these ids.

        Raises:
            FileMissing: one is not there, or is somebody else's.
        """
        query = select(run_files.c.origin, run_files.c.name, run_files.c.content)
        query = query.where(run_files.c.subject == f"{_UPLOAD}{owner}", run_files.c.origin.in_(uploads))
        with self.database().read() as connection:
            found = {row.origin: WorkFile(row.name, row.content) for row in connection.execute(query)}
        if missing := next((upload for upload in uploads if upload not in found), None):
            shown = shorten(single_line(missing), 80)
            raise FileMissing(
                f"there is no uploaded file {shown!r} of yours", hint="uploads are kept for a day: upload the file again"
            )
        return found

    def discard(self, owner: str, uploads: Collection[str]) -> None:
        """Delete uploads of `owner` that a run has taken."""
        with self.database().write() as connection:
            mine = run_files.c.subject == f"{_UPLOAD}{owner}"
            connection.execute(delete(run_files).where(mine, run_files.c.origin.in_(uploads)))
