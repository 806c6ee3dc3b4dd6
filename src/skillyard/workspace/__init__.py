"""Workspaces: a folder, a sandboxed session over it that stays, and the tools with which a model works in it.

`workspace = Workspace(folder)`, `answer = await workspace.bash("ls -la")`, and at the end `await workspace.close()`.
`Workspaces(home)` keeps one for each conversation. What a tool answers is a `WorkspaceAnswer` with a stable code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.workspace.answers import WorkspaceAnswer, WorkspaceImage
from skillyard.workspace.workspace_options import (
    WORKSPACE_POLICY,
    CommandListener,
    OutputStream,
    ToolAuthorizer,
    ToolRuling,
    WorkspaceOptions,
    catalog_options,
    checked_folder,
    options_from_settings,
    workspaces_in_conversations,
)

if TYPE_CHECKING:
    from skillyard.workspace.file_preview import FilePreview, PreviewImage, preview_file
    from skillyard.workspace.folder import WorkspaceEntry, WorkspaceFile, WorkspaceFolder, WorkspaceListing
    from skillyard.workspace.snapshot import FolderSnapshots, SnapshotRecord, SnapshotReport, snapshot_blobs, snapshot_store
    from skillyard.workspace.snapshot_tree import SnapshotLimits
    from skillyard.workspace.workspace import Workspace
    from skillyard.workspace.workspace_session import BackgroundProcess
    from skillyard.workspace.workspaces import WorkspaceRecord, Workspaces

__all__ = [
    "WORKSPACE_POLICY",
    "BackgroundProcess",
    "CommandListener",
    "FilePreview",
    "FolderSnapshots",
    "OutputStream",
    "PreviewImage",
    "SnapshotLimits",
    "SnapshotRecord",
    "SnapshotReport",
    "ToolAuthorizer",
    "ToolRuling",
    "Workspace",
    "WorkspaceAnswer",
    "WorkspaceEntry",
    "WorkspaceFile",
    "WorkspaceFolder",
    "WorkspaceImage",
    "WorkspaceListing",
    "WorkspaceOptions",
    "WorkspaceRecord",
    "Workspaces",
    "catalog_options",
    "checked_folder",
    "options_from_settings",
    "preview_file",
    "snapshot_blobs",
    "snapshot_store",
    "workspaces_in_conversations",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "folder": ("WorkspaceEntry", "WorkspaceFile", "WorkspaceFolder", "WorkspaceListing"),
        "file_preview": ("FilePreview", "PreviewImage", "preview_file"),
        "workspace_session": ("BackgroundProcess",),
        "snapshot": ("FolderSnapshots", "SnapshotRecord", "SnapshotReport", "snapshot_blobs", "snapshot_store"),
        "snapshot_tree": ("SnapshotLimits",),
        "workspaces": ("WorkspaceRecord", "Workspaces"),
        "workspace": ("Workspace",),
    },
)
