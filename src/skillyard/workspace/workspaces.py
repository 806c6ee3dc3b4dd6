"""The workspaces of one home: a folder for each id, and the sessions of those that are in use in this process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from skillyard.errors import PathRefused, RecordExists, RecordNotFound
from skillyard.files import delete_tree
from skillyard.plain_json import read_json
from skillyard.text import single_line
from skillyard.times import utc_now
from skillyard.wire import WireForm
from skillyard.workspace.folder import WorkspaceFolder
from skillyard.workspace.workspace import Workspace
from skillyard.workspace.workspace_options import ToolAuthorizer, WorkspaceOptions

_FILES: Final = "files"
_MARK: Final = "used"
_RECORD: Final = "owner.json"
_LONGEST_RECORD: Final = 4096
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkspaceRecord(WireForm, times="seconds"):
    """A workspace that was created for somebody: its id, whose it is, and when that was."""

    id: str
    owner: str
    created_at: datetime


class Workspaces:
    """The workspaces below `home` (`{home}/workspaces/{id}/files`), one object for each that is in use.

    Belongs to the event loop that first uses it; `close` it at the end.
    """

    def __init__(
        self,
        home: str | os.PathLike[str],
        *,
        options: WorkspaceOptions | None = None,
        authorizer: ToolAuthorizer | None = None,
    ) -> None:
        self._root: Final = Path(home, "workspaces")
        self._options = options
        self._authorizer = authorizer
        self._open: dict[str, Workspace] = {}
        self._making: Final = threading.Lock()

    def get(
        self,
        workspace_id: str,
        *,
        folder: str | os.PathLike[str] | None = None,
        options: WorkspaceOptions | None = None,
        authorizer: ToolAuthorizer | None = None,
    ) -> Workspace:
        """The workspace of that id; made when it is new, over `folder` when given. `options` and `authorizer` count then.

        Any thread may call it: all get the same object. Blocks for as long as it takes to make folders.

        Raises:
            PathRefused: the id or the folder cannot be one.
        """
        with self._making:
            if (found := self._open.get(workspace_id)) is not None:
                return found
            own = self._own(workspace_id)
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = Path(folder) if folder is not None else own / _FILES
            files.mkdir(mode=0o700, parents=True, exist_ok=True)
            mark = own / _MARK
            resumed = mark.exists()
            mark.touch(mode=0o600)
            chosen = options or self._options or WorkspaceOptions()
            made = Workspace(
                files,
                options=replace(chosen, held_back=folder is not None, home=chosen.home or str(self._root.parent)),
                authorizer=authorizer or self._authorizer,
                resumed=resumed,
            )
            self._open[workspace_id] = made
            return made

    def find(self, workspace_id: str) -> Workspace | None:
        """The workspace of that id if it is in use in this process."""
        return self._open.get(workspace_id)

    def list(self) -> tuple[str, ...]:
        """The ids of all that there are, by name."""
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self._root) if _is_workspace(entry)))
        except FileNotFoundError:
            return ()

    def create(self, workspace_id: str, owner: str) -> WorkspaceRecord:
        """Create an empty workspace that belongs to `owner`. Blocks.

        Raises:
            PathRefused: the id cannot be one.
            RecordExists: there is a workspace of that id.
        """
        own = self._own(workspace_id)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = WorkspaceRecord(workspace_id, owner, utc_now().replace(microsecond=0))
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._root))  # else somebody could see it before it has an owner
        try:
            (made / _FILES).mkdir(mode=0o700)
            (made / _RECORD).write_text(json.dumps(record.to_dict()), "utf-8")
            made.rename(own)
        except OSError as error:
            shutil.rmtree(made, ignore_errors=True)
            if not own.exists():
                raise
            hint = "choose another id, or delete that one"
            raise RecordExists(f"there is a workspace {workspace_id!r} already", hint=hint) from error
        return record

    def record(self, workspace_id: str) -> WorkspaceRecord:
        """What is known of a workspace that was created for somebody. Blocks.

        Raises:
            RecordNotFound: there is none of that id, or it belongs to nobody.
        """
        try:
            values: Any = read_json((self._own(workspace_id) / _RECORD).read_bytes()[:_LONGEST_RECORD].decode("utf-8"))
            return WorkspaceRecord(str(values["id"]), str(values["owner"]), datetime.fromisoformat(str(values["created_at"])))
        except (OSError, ValueError, TypeError, KeyError, PathRefused):
            shown = single_line(workspace_id)[:200]
            raise RecordNotFound(
                f"there is no workspace {shown!r}", hint="`skillyard workspace list` shows those there are"
            ) from None

    def records(self, owner: str) -> tuple[WorkspaceRecord, ...]:
        """The workspaces that belong to `owner`, by id. Blocks."""
        found = []
        for workspace_id in self.list():
            with suppress(RecordNotFound):
                found.append(self.record(workspace_id))
        return tuple(record for record in found if record.owner == owner)

    def folder(self, workspace_id: str) -> WorkspaceFolder:
        """The files of a workspace of this home, without a session; `record` says whether there is one."""
        return WorkspaceFolder(self._own(workspace_id) / _FILES)

    async def remove(self, workspace_id: str) -> None:
        """End the session and delete the workspace with its files; a folder that was given stays.

        Raises:
            RecordNotFound: there is none of that id.
        """
        own = self._own(workspace_id)
        await self.end(workspace_id)
        if not own.is_dir():
            raise RecordNotFound(
                f"there is no workspace {workspace_id!r}", hint="`skillyard workspace list` shows those there are"
            )
        gone = Path(tempfile.mkdtemp(prefix=".gone-", dir=self._root)) / workspace_id
        with suppress(FileNotFoundError):  # somebody else was first
            own.rename(gone)  # gone at once, whatever lies in it
        await asyncio.to_thread(delete_tree, gone.parent)

    async def end(self, workspace_id: str) -> None:
        """End the session of one, if there is any; its files stay."""
        workspace = self._open.pop(workspace_id, None)
        if workspace is not None:
            await workspace.close()

    async def close(self) -> None:
        """End every session."""
        for workspace_id in tuple(self._open):
            await self.end(workspace_id)

    async def __aenter__(self) -> Self:
        """These workspaces, closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _own(self, workspace_id: str) -> Path:
        """The folder of one; its id is one name, so that none lies in the files of another."""
        if not _ID.fullmatch(workspace_id):
            hint = "use at most 128 letters, digits, '-', '_' and '.', beginning with a letter or digit"
            raise PathRefused(f"{single_line(workspace_id)[:200]!r} cannot be the id of a workspace", hint=hint)
        return self._root / workspace_id


def _is_workspace(entry: os.DirEntry[str]) -> bool:
    return _ID.fullmatch(entry.name) is not None and entry.is_dir(follow_symlinks=False)
