"""The workspaces of one home: a folder for each id, and the sessions of those that are in use in this process."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Final, Self

from skillyard.errors import PathRefused, RecordNotFound
from skillyard.text import single_line
from skillyard.workspace.options import ToolAuthorizer, WorkspaceOptions
from skillyard.workspace.workspace import Workspace

_FILES: Final = "files"
_MARK: Final = "used"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


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

    def get(
        self,
        workspace_id: str,
        *,
        folder: str | os.PathLike[str] | None = None,
        options: WorkspaceOptions | None = None,
        authorizer: ToolAuthorizer | None = None,
    ) -> Workspace:
        """The workspace of that id; made when it is new, over `folder` when given. `options` and `authorizer` count then.

        Raises:
            PathRefused: the id or the folder cannot be one.
        """
        if workspace_id in self._open:
            return self._open[workspace_id]
        own = self._own(workspace_id)
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = Path(folder) if folder is not None else own / _FILES
        files.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = own / _MARK
        resumed = mark.exists()
        mark.touch(mode=0o600)
        made = Workspace(files, options=options or self._options, authorizer=authorizer or self._authorizer, resumed=resumed)
        self._open[workspace_id] = made
        return made

    def find(self, workspace_id: str) -> Workspace | None:
        """The workspace of that id if it is in use in this process."""
        return self._open.get(workspace_id)

    def list(self) -> tuple[str, ...]:
        """The ids of all that there are, by name."""
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self._root) if entry.is_dir(follow_symlinks=False)))
        except FileNotFoundError:
            return ()

    async def remove(self, workspace_id: str) -> None:
        """End the session and delete the workspace with its files; a folder that was given stays.

        Raises:
            RecordNotFound: there is none of that id.
        """
        own = self._own(workspace_id)
        await self.end(workspace_id)
        if not own.is_dir():
            raise RecordNotFound(f"there is no workspace {workspace_id!r}", hint="list them first")
        await asyncio.to_thread(shutil.rmtree, own, ignore_errors=True)

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
