"""Approvals that outlive a session: one file, a list for each workspace folder.

The file is JSON, readable and writable by its owner only, replaced in one step, and changed under a lock so that two programs
never lose each other's entries. A file that someone else could have written, or that cannot be read, approves nothing.

::

    {"version": 1, "workspaces": {"/home/ada/shop": [{"skill": "user:deploy", "digest": "sha256:…", "approved_at": "…Z"}]}}
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from skillyard.errors import InvalidConfiguration
from skillyard.files import locked, replace_file

__all__ = ["ApprovalStore"]

_FILE_LIMIT: Final = 4 * 1024 * 1024  # bytes
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class _Entry(TypedDict):
    skill: str
    digest: str
    approved_at: str


@dataclass(frozen=True, slots=True)
class ApprovalStore:
    """The approvals of one workspace folder in the file `path`."""

    path: Path
    workspace: str

    def has(self, skill_id: str, digest: str) -> bool:
        """Whether the skill with exactly this content is approved here."""
        entries = self._read().get(self.workspace, [])
        return any(entry["skill"] == skill_id and entry["digest"] == digest for entry in entries)

    def approved(self) -> tuple[str, ...]:
        """The ids of the skills approved here."""
        return tuple(entry["skill"] for entry in self._read().get(self.workspace, []))

    def add(self, skill_id: str, digest: str) -> None:
        """Approve the skill with this content, in place of any earlier content of it.

        Raises:
            InvalidConfiguration: the file cannot be written.
        """
        from datetime import UTC, datetime  # only needed by who writes

        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with self._changing() as entries:
            entries[:] = [entry for entry in entries if entry["skill"] != skill_id]
            entries.append({"skill": skill_id, "digest": digest, "approved_at": now})

    def remove(self, skill_id: str) -> bool:
        """Take the skill's approval back; False when there was none.

        Raises:
            InvalidConfiguration: the file cannot be written.
        """
        with self._changing() as entries:
            before = len(entries)
            entries[:] = [entry for entry in entries if entry["skill"] != skill_id]
            return len(entries) < before

    @contextmanager
    def _changing(self) -> Iterator[list[_Entry]]:
        """The entries of this workspace to change; written back at the end, under a lock."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.path):
                workspaces = self._read()
                yield workspaces.setdefault(self.workspace, [])
                self._write({folder: entries for folder, entries in workspaces.items() if entries})
        except OSError as error:
            raise InvalidConfiguration(
                f"approvals cannot be kept in {self.path}: {error.strerror}",
                hint="make its folder writable, or point SKILLYARD_HOME somewhere else",
            ) from None

    def _write(self, workspaces: dict[str, list[_Entry]]) -> None:
        data = json.dumps({"version": 1, "workspaces": workspaces}, ensure_ascii=False, indent=1)
        replace_file(self.path, data.encode("utf-8", "surrogateescape"))

    def _read(self) -> dict[str, list[_Entry]]:
        try:
            shape = json.loads(_own_bytes(self.path))
        except (OSError, ValueError, RecursionError):
            return {}
        workspaces = shape.get("workspaces") if isinstance(shape, dict) else None
        if not isinstance(workspaces, dict):
            return {}
        return {str(folder): _entries(listed) for folder, listed in workspaces.items()}


def _own_bytes(path: Path) -> bytes:
    """The content of a regular file that only this user could have written."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
            raise PermissionError(path)
        return stream.read(_FILE_LIMIT)


def _entries(listed: object) -> list[_Entry]:
    if not isinstance(listed, list):
        return []
    return [
        {"skill": item["skill"], "digest": item["digest"], "approved_at": str(item.get("approved_at", ""))}
        for item in listed
        if isinstance(item, dict) and isinstance(item.get("skill"), str) and isinstance(item.get("digest"), str)
    ]
