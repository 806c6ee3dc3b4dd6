"""The homes that a backup or a copy is made of, and the contents of their workspaces in the store of packages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.engine.run_files import workspace_manifests
from skillyard.errors import DigestMismatch, MalformedArchive, PackageMissing
from skillyard.packages import shown_address
from skillyard.packages.digest import DIGEST_PATTERN
from skillyard.wire import WireForm
from skillyard.workspace import snapshot_blobs, snapshot_store

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.registry.backup_archive import BackupHome, StoredContents

_MAIN: Final = "default"
_BELOW: Final = "organisations/"
_CONVERSATION: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class ContentsReport(WireForm):
    """What a copy of workspaces' contents moved.

    `workspaces` and `blobs` are how many there are, `new` how many blobs the other store lacked, `missing` the conversations
    some of whose contents are not in the first store any more.
    """

    workspaces: int
    blobs: int
    new: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkspaceContents:
    """What is in the store at `address` of the workspaces of conversations (a `StoredContents`)."""

    address: str

    @property
    def stays(self) -> str:
        """The address of a bucket, whose contents a backup does not hold; empty for a folder."""
        return shown_address(self.address) if "://" in self.address else ""

    def of(self, records: Database) -> Iterator[tuple[str, str]]:
        """The workspaces by their conversations, each with the digests of its contents; an empty one cannot be known."""
        for conversation, manifest in workspace_manifests(records):
            blobs = snapshot_blobs(manifest) if _CONVERSATION.fullmatch(conversation) else None
            for digest in sorted({""} if blobs is None else blobs):
                yield conversation, digest

    def read(self, workspace: str, digest: str) -> bytes | None:
        """One content; None when the store does not have it any more, as it was.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if not DIGEST_PATTERN.fullmatch(digest):
            return None
        try:
            return snapshot_store(self.address, workspace).get(digest)
        except (PackageMissing, DigestMismatch):
            return None

    def write(self, workspace: str, digest: str, data: bytes) -> None:
        """Put one content there.

        Raises:
            MalformedArchive: there is no such workspace or digest.
            DigestMismatch: it is another content.
            StoreFailed: the store cannot be written.
        """
        if not _CONVERSATION.fullmatch(workspace) or not DIGEST_PATTERN.fullmatch(digest):
            raise MalformedArchive(f"{workspace[:100]!r} is no workspace of a conversation", hint="use another backup")
        snapshot_store(self.address, workspace).put(data, digest)


def copy_contents(
    homes: Iterable[BackupHome], source: WorkspaceContents, target: WorkspaceContents, *, check: bool = False
) -> ContentsReport:
    """Copy the contents that the records of `homes` name; with `check` only count what `target` lacks.

    Raises:
        StoreFailed: one of the two cannot be used; what was copied stays.
        DatabaseUnavailable: records cannot be read.
    """
    workspaces, missing, blobs, new = set(), set(), 0, 0
    for home in homes:
        with contextlib.closing(home.database()) as records:
            for workspace, digest in source.of(records):
                workspaces.add(workspace)
                blobs += 1
                if digest and snapshot_store(target.address, workspace).has(digest):
                    continue
                data = source.read(workspace, digest)
                if data is None:
                    missing.add(workspace)
                    continue
                new += 1
                if not check:
                    target.write(workspace, digest, data)
    return ContentsReport(len(workspaces), blobs, new, tuple(sorted(missing)))


def backup_homes(data: str, database_url: str | None, contents: StoredContents | None = None) -> list[BackupHome]:
    """Skillyard's own folder and records, then those of each organisation; the `contents` of workspaces are in one store."""
    from skillyard.access import Organisations

    main = backup_home(_MAIN, data, database_url, contents)
    assert main is not None  # noqa: S101 # that one there always is
    with contextlib.closing(main.database()) as database:
        names = [each.name for each in Organisations(lambda: database).all() if each.name != _MAIN]
    return [main, *(home for name in names if (home := backup_home(_BELOW + name, data, database_url, contents)))]


def backup_home(name: str, data: str, database_url: str | None, contents: StoredContents | None = None) -> BackupHome | None:
    """The home that a backup calls so, with room for its records; None when it can be none of ours."""
    from skillyard.access import Organisation
    from skillyard.document import is_name  # lower-case letters, digits and single dashes
    from skillyard.registry.backup_archive import BackupHome

    main = BackupHome(_MAIN, Path(data), database_url, contents)
    if name == _MAIN:
        return main
    if not name.startswith(_BELOW) or not is_name(name.removeprefix(_BELOW)):
        return None
    organisation = Organisation(name.removeprefix(_BELOW))
    with contextlib.closing(main.database()) as database, database.write() as connection:
        organisation.make_schema(connection)
    return BackupHome(name, Path(organisation.home(data)), organisation.database_url(data, database_url), contents)
