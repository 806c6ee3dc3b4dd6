"""Workspaces: a folder, a sandboxed session over it that stays, and the tools with which a model works in it.

`workspace = Workspace(folder)`, `answer = await workspace.bash("ls -la")`, and at the end `await workspace.close()`.
`Workspaces(home)` keeps one for each conversation. What a tool answers is a `WorkspaceAnswer` with a stable code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.workspace.answers import WorkspaceAnswer, WorkspaceImage
from skillyard.workspace.options import (
    WORKSPACE_POLICY,
    CommandListener,
    OutputStream,
    ToolAuthorizer,
    ToolRuling,
    WorkspaceOptions,
)

if TYPE_CHECKING:
    from skillyard.workspace.background import BackgroundProcess
    from skillyard.workspace.folder import WorkspaceFile, WorkspaceFolder
    from skillyard.workspace.settings import options_from_settings
    from skillyard.workspace.snapshot import FolderSnapshots, SnapshotRecord, SnapshotReport
    from skillyard.workspace.snapshot_tree import SnapshotLimits
    from skillyard.workspace.store import Workspaces
    from skillyard.workspace.workspace import TOOL_NAMES, Workspace

__all__ = [
    "TOOL_NAMES",
    "WORKSPACE_POLICY",
    "BackgroundProcess",
    "CommandListener",
    "FolderSnapshots",
    "OutputStream",
    "SnapshotLimits",
    "SnapshotRecord",
    "SnapshotReport",
    "ToolAuthorizer",
    "ToolRuling",
    "Workspace",
    "WorkspaceAnswer",
    "WorkspaceFile",
    "WorkspaceFolder",
    "WorkspaceImage",
    "WorkspaceOptions",
    "Workspaces",
    "options_from_settings",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "background": ("BackgroundProcess",),
        "folder": ("WorkspaceFile", "WorkspaceFolder"),
        "settings": ("options_from_settings",),
        "snapshot": ("FolderSnapshots", "SnapshotRecord", "SnapshotReport"),
        "snapshot_tree": ("SnapshotLimits",),
        "store": ("Workspaces",),
        "workspace": ("TOOL_NAMES", "Workspace"),
    },
)
