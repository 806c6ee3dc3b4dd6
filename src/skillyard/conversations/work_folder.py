"""The files of a conversation: a folder of its own, where scripts and commands work and people put and take files."""

from __future__ import annotations

import hashlib
import logging
import mimetypes
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.conversations.conversation import Attachment
from skillyard.conversations.conversation_store import SqlSnapshotRecord
from skillyard.errors import (
    DatabaseUnavailable,
    FileMissing,
    FileProblem,
    FileTooLarge,
    InvalidInput,
    PathRefused,
    StoreFailed,
)
from skillyard.files import delete_tree
from skillyard.paths import open_inside, safe_relative
from skillyard.sandbox.work_files import MAXIMUM_DEPTH
from skillyard.text import single_line
from skillyard.workspace import FolderSnapshots, WorkspaceFolder, options_from_settings, snapshot_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillyard.conversations.conversation_store import ConversationStore
    from skillyard.workspace import SnapshotReport

_log = logging.getLogger(__name__)
MAX_FILE_BYTES: Final = 50 * 1024 * 1024
_MOST: Final = 500
_MOST_LOOKED_AT: Final = 5_000
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """What has changed in a folder: files that are new or others than before, names of those that are gone.

    `more` files have changed too and are not recorded.
    """

    written: tuple[Attachment, ...] = ()
    removed: tuple[str, ...] = ()
    more: int = 0


class WorkFolder:
    """The work folder of one conversation below `data`, and the records of its files.

    With `folder` it is that one, which belongs to the user: what lies in it is not recorded before it changes, and it stays
    when the conversation is deleted. Every other is with a `store` for packages the same at every machine: `bring` what was
    saved elsewhere before anything is read, and `keep` what was changed; what people put and delete is kept at once, or with
    the next step when that fails. `settings` are the operator's table `[workspace]`, which says how much people may put there.
    `turn_id` names the turn that works in it here. While it is `busy` here, nothing is brought in between.
    """

    def __init__(
        self,
        data: str,
        conversation_id: str,
        records: ConversationStore,
        folder: str | None = None,
        *,
        store: str | None = None,
        settings: Mapping[str, object],
        turn_id: str | None = None,
        busy: bool = False,
    ) -> None:
        self._own: Final = f"{data}/conversations/{conversation_id}"
        self.path: Final = folder or f"{self._own}/files"
        self.mark: Final = Path(self._own, "used")
        """A file that is there once a session has worked in the folder."""
        self._users: Final = folder is not None
        self._conversation = conversation_id
        self._records = records
        self._store = None if self._users else store
        self._settings = settings
        self._turn = turn_id
        self._busy = busy
        self._seen: dict[str, tuple[int, datetime]] = {}
        self._looked = False

    @property
    def disk(self) -> WorkspaceFolder:
        """All that lies in the folder, recorded or not."""
        return WorkspaceFolder(self.make())

    def brought(self) -> WorkspaceFolder:
        """The same, after what was saved at another machine was brought; errors as of `bring`."""
        self.bring()
        return self.disk

    def bring(self) -> SnapshotReport | None:
        """Bring what was saved at another machine since; None where there is nothing to bring it from.

        Raises:
            StoreFailed, DatabaseUnavailable: it cannot be reached.
        """
        snapshots = None if self._busy else self._snapshots()
        return snapshots.restore() if snapshots is not None else None

    def keep(self) -> SnapshotReport | None:
        """Save what was changed here, for every machine; None where there is nothing to save it in.

        Raises:
            FileTooLarge: there is too much in the folder.
            StoreFailed, DatabaseUnavailable: it cannot be saved.
            ConversationBusy: the turn is executed elsewhere by now.
        """
        snapshots = self._snapshots()
        return snapshots.save() if snapshots is not None else None

    def _try_to_keep(self) -> None:
        """Save what a person has changed and what is recorded already; the next step tries again what could not be saved."""
        try:
            self.keep()
        except (FileTooLarge, StoreFailed, DatabaseUnavailable) as error:
            _log.warning("the files of %s could not be saved: %s", self._conversation, error)

    def _snapshots(self) -> FolderSnapshots | None:
        if not self._store:
            return None
        own = snapshot_store(self._store, self._conversation)
        return FolderSnapshots(self.path, own, SqlSnapshotRecord(self._records.database, self._conversation, self._turn))

    def make(self) -> str:
        """The path of the folder, made when it is missing.

        Raises:
            FileMissing: it is the user's, and is gone.
        """
        if not self._users:
            Path(self.path).mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not Path(self.path).is_dir():
            raise FileMissing(f"the folder {self.path} is gone", hint="make it again, or begin another conversation")
        return self.path

    def put(self, name: str, data: bytes, *, origin: str = "user") -> Attachment:
        """Store a file under a path inside the folder, replacing an existing one.

        Raises:
            PathRefused: the name leaves the folder.
            InvalidInput: it is hidden, too long or too deep, or there are too many files.
            FileTooLarge: it has over 50 MiB.
            DiskFull: there is no space, or the folder would be over its quota.
            InvalidConfiguration, InvalidPolicy: the operator's table cannot be understood.
            StoreFailed, DatabaseUnavailable: what was saved elsewhere cannot be brought.
        """
        relative = _sound(name)
        if relative.count("/") > MAXIMUM_DEPTH:
            raise InvalidInput(f"{relative} is too deep", hint=f"at most {MAXIMUM_DEPTH} folders, one in another")
        if len(data) > MAX_FILE_BYTES:
            raise FileTooLarge(f"{relative} has {len(data)} bytes", hint=f"at most {MAX_FILE_BYTES} bytes")
        if len(self._records.files(self._conversation)) >= _MOST:
            raise InvalidInput("the conversation has too many files", hint=f"at most {_MOST}")
        quota = options_from_settings(self._settings).quota_mb
        self.bring()
        disk = self.disk
        if Path(self.path, relative).is_dir():
            raise InvalidInput(f"{relative} is a folder", hint="choose another name")
        try:
            disk.put(relative, data, quota_mb=quota)
        except PathRefused as error:
            raise InvalidInput(error.message, hint="choose another name") from None
        file = self._note(relative, data, origin)
        self._try_to_keep()
        return file

    def note(self, name: str, *, origin: str, known: Attachment | None = None) -> Attachment | None:
        """Record a file that a script or command has written; None when it is gone, over 50 MiB, or its name is invalid.

        When it is what is `known` of it, that stays.
        """
        try:
            data = self._read(_visible(name))
            if len(data) > MAX_FILE_BYTES:
                return None
            same = known is not None and known.sha256 == hashlib.sha256(data).hexdigest()
            return known if same else self._note(name, data, origin)
        except (FileProblem, InvalidInput, OSError):
            return None

    def read(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            PathRefused: the name leaves the folder.
            FileMissing: there is no such file.
            StoreFailed, DatabaseUnavailable: what was saved elsewhere cannot be brought.
        """
        self.bring()
        return self._read(name)

    def _read(self, name: str) -> bytes:
        with os.fdopen(open_inside(self.make(), safe_relative(name)), "rb") as file:
            return file.read(MAX_FILE_BYTES + 1)

    def list(self) -> tuple[Attachment, ...]:
        """The files, by name."""
        return self._records.files(self._conversation)

    def named(self, names: Sequence[str]) -> tuple[Attachment, ...]:
        """The files of those names, each once.

        Raises:
            FileMissing: there is none of that name.
        """
        files_by_name = {file.name: file for file in self.list()} if names else {}
        if missing := [name for name in names if name not in files_by_name]:
            raise FileMissing(f"there is no file {single_line(missing[0])[:80]!r}", hint="give it to the conversation first")
        return tuple(files_by_name[name] for name in dict.fromkeys(names))

    def drop(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, and their records.

        Raises:
            PathRefused: the name leaves the folder.
            FileMissing: there is no such file.
            StoreFailed, DatabaseUnavailable: what was saved elsewhere cannot be brought.
        """
        relative = safe_relative(name)
        self.bring()
        recorded = [file.name for file in self.list() if file.name == relative or file.name.startswith(f"{relative}/")]
        try:
            self.disk.remove(relative)
        except FileMissing:
            if not recorded:
                raise
        for each in recorded:
            self._records.drop_file(self._conversation, each)
        self._try_to_keep()

    def look(self, *, origin: str) -> FolderChanges:
        """Record what commands have written and removed since the last look; hidden files are not looked at."""
        listing = self.disk.listing(limit=_MOST_LOOKED_AT)
        there = {entry.path: (entry.size, entry.modified) for entry in listing.entries if entry.kind == "file"}
        recorded = {file.name: file for file in self.list()}
        first, self._looked = not self._looked, True
        if first:
            self._seen = (
                there if self._users else {name: there[name] for name in there if _same(recorded.get(name), there[name])}
            )
        changed = [name for name, state in there.items() if self._seen.get(name) != state]
        gone = [name for name in recorded if name not in there and not self._is_there(name)]
        for name in gone:
            self._records.drop_file(self._conversation, name)
        self._seen = there
        room = _MOST - len(recorded) + len(gone)
        fresh = [name for name in changed if name not in recorded]
        left_out = set(fresh[max(room, 0) :])
        notes = [(name, self.note(name, origin=origin, known=recorded.get(name))) for name in changed if name not in left_out]
        written = tuple(file for name, file in notes if file is not None and file is not recorded.get(name))
        return FolderChanges(written, tuple(gone), len(left_out) + sum(file is None for _, file in notes))

    def _is_there(self, name: str) -> bool:
        try:
            os.close(self.disk.open(name))
        except (FileProblem, OSError):
            return False
        return True

    def remove(self) -> None:
        """Delete the folder, unless it is the user's, and what was saved of it. It can be repeated.

        Raises:
            StoreFailed: what was saved cannot be deleted.
        """
        if not delete_tree(self._own):
            _log.warning("files of %s could not be deleted: %s is still there", self._conversation, self._own)
        snapshots = self._snapshots()
        if snapshots is not None:
            snapshots.remove()

    def _note(self, name: str, data: bytes, origin: str) -> Attachment:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = Attachment(name, origin, kind, len(data), hashlib.sha256(data).hexdigest())
        self._records.keep_file(self._conversation, file)
        return file


def _same(recorded: Attachment | None, state: tuple[int, datetime]) -> bool:
    """Whether a file on the disk is the one that was recorded, as far as that can be seen without reading it."""
    return recorded is not None and recorded.size_bytes == state[0] and state[1] <= recorded.created_at


def _visible(name: str) -> str:
    if single_line(name) != name or len(name) > _LONGEST_NAME:
        raise InvalidInput(f"a file cannot be called {single_line(name)[:80]!r}", hint="use a short name of visible characters")
    return name


def _sound(name: str) -> str:
    relative = safe_relative(name)
    longest = max(len(os.fsencode(part)) for part in relative.split("/"))  # what a file system counts
    if single_line(relative) != relative or max(len(relative), longest) > _LONGEST_NAME:
        raise InvalidInput(f"a file cannot be called {single_line(name)[:80]!r}", hint="use a short name of visible characters")
    if any(part.startswith(".") for part in relative.split("/")):
        raise InvalidInput(f"{relative} is hidden", hint="choose a name without a dot at its beginning")
    return relative
