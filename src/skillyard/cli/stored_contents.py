"""The contents of conversations' workspaces that lie in the store of packages: for backups, and copies to another store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.engine.run_files import workspace_manifests
from skillyard.errors import DigestMismatch, MalformedArchive, PackageMissing
from skillyard.packages import shown_address
from skillyard.packages.digest import DIGEST_PATTERN
from skillyard.wire import WireForm
from skillyard.workspace import snapshot_blobs, snapshot_store

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.registry.backup_archive import BackupHome

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
        with closing(home.database()) as records:
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
