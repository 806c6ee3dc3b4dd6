"""The files of a conversation: a folder of its own, where scripts work and people put and take files."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.conversations.conversation import Attachment
from skillyard.conversations.conversation_store import SqlSnapshotRecord
from skillyard.errors import FileMissing, FileProblem, FileTooLarge, InvalidInput
from skillyard.files import replace_file
from skillyard.packages import open_store
from skillyard.paths import open_inside, safe_relative
from skillyard.sandbox.work_files import MAXIMUM_DEPTH
from skillyard.text import single_line
from skillyard.workspace import FolderSnapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.conversations.conversation_store import ConversationStore
    from skillyard.workspace import SnapshotReport


MAX_FILE_BYTES: Final = 50 * 1024 * 1024
_MOST: Final = 500
_PREVIEW: Final = 20_000
_LONGEST_NAME: Final = 200


class WorkFolder:
    """The work folder of one conversation below `data`, and the records of its files.

    With a `store` for packages the folder is the same at every machine: `bring` what was saved elsewhere before anything is
    read, and `keep` what was changed; what people put and delete is kept at once. `turn_id` names the turn that works in it
    here. While it is `busy` here, nothing is brought in between.
    """

    def __init__(
        self,
        data: str,
        conversation_id: str,
        records: ConversationStore,
        *,
        store: str | None = None,
        turn_id: str | None = None,
        busy: bool = False,
    ) -> None:
        self.path: Final = f"{data}/conversations/{conversation_id}/files"
        self._conversation = conversation_id
        self._records = records
        self._busy = busy
        self._store = store
        self._turn = turn_id

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

    def _snapshots(self) -> FolderSnapshots | None:
        if not self._store:
            return None
        own = open_store(f"{self._store.rstrip('/')}/workspaces/{self._conversation}")
        return FolderSnapshots(self.path, own, SqlSnapshotRecord(self._records.database, self._conversation, self._turn))

    def make(self) -> str:
        """The path of the folder, made when it is missing."""
        Path(self.path).mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.path

    def put(self, name: str, data: bytes, *, origin: str = "user") -> Attachment:
        """Store a file under a path inside the folder, replacing an existing one.

        Raises:
            PathRefused: the name leaves the folder.
            InvalidInput: it is hidden, too long or too deep, or there are too many files.
            FileTooLarge: it has over 50 MiB.
        """
        relative = _sound(name)
        if relative.count("/") > MAXIMUM_DEPTH:
            raise InvalidInput(f"{relative} is too deep", hint=f"at most {MAXIMUM_DEPTH} folders, one in another")
        if len(data) > MAX_FILE_BYTES:
            raise FileTooLarge(f"{relative} has {len(data)} bytes", hint=f"at most {MAX_FILE_BYTES} bytes")
        if len(self._records.files(self._conversation)) >= _MOST:
            raise InvalidInput("the conversation has too many files", hint=f"at most {_MOST}")
        self.make()
        self.bring()
        target = Path(self.path, relative)
        self._no_links(target.parent)
        if target.is_dir():
            raise InvalidInput(f"{relative} is a folder", hint="choose another name")
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(target, data, durable=False)
        self.keep()
        return self._note(relative, data, origin)

    def note(self, name: str, *, origin: str) -> Attachment | None:
        """Record a file that a script has written; None when it is no longer there, or its name is invalid."""
        try:
            return self._note(name, self._read(name), origin)
        except (FileProblem, OSError):
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
        """Delete a file.

        Raises:
            PathRefused: the name leaves the folder.
            FileMissing: there is no such file.
        """
        (file,) = self.named([_sound(name)])
        self.bring()
        self._no_links(Path(self.path, file.name).parent)
        Path(self.path, file.name).unlink(missing_ok=True)
        self.keep()
        self._records.drop_file(self._conversation, file.name)

    def preview(self, name: str) -> str | None:
        """The beginning of a file as text; None when it is no text."""
        data = self.read(name)[: 4 * _PREVIEW]
        if b"\0" in data:
            return None
        text = data.decode("utf-8", "replace")
        return None if text.count("\ufffd") > len(text) // 10 else text[:_PREVIEW]

    def remove(self) -> None:
        """Delete the folder, and what was saved of it.

        Raises:
            StoreFailed: what was saved cannot be deleted.
        """
        snapshots = self._snapshots()
        if snapshots is not None:
            snapshots.remove()
        shutil.rmtree(Path(self.path).parent, ignore_errors=True)

    def _note(self, name: str, data: bytes, origin: str) -> Attachment:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = Attachment(name, origin, kind, len(data), hashlib.sha256(data).hexdigest())
        self._records.keep_file(self._conversation, file)
        return file

    def _no_links(self, folder: Path) -> None:
        for part in (folder, *folder.parents):
            if part == Path(self.path):
                return
            if part.is_symlink() or (part.exists() and not part.is_dir()):
                raise InvalidInput(f"{part.name} is no folder", hint="choose another name")


def _sound(name: str) -> str:
    relative = safe_relative(name)
    longest = max(len(os.fsencode(part)) for part in relative.split("/"))  # what a file system counts
    if single_line(relative) != relative or max(len(relative), longest) > _LONGEST_NAME:
        raise InvalidInput(f"a file cannot be called {single_line(name)[:80]!r}", hint="use a short name of visible characters")
    if any(part.startswith(".") for part in relative.split("/")):
        raise InvalidInput(f"{relative} is hidden", hint="choose a name without a dot at its beginning")
    return relative
