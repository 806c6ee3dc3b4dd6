"""Making a backup while the server runs: the database at one moment, and the versions it refers to.

Versions never change, so they are copied after the database without stopping anybody; one that is deleted meanwhile is noted as
gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from skillyard._version import __version__
from skillyard.database import Database, replace_records, skill_definitions, skill_versions
from skillyard.errors import InvalidInput
from skillyard.packages import tree_digest
from skillyard.registry.backup.archive import RECORDS, SKILLS, ArchiveWriter, BackupHome

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What went into a backup; `gone` are versions that were deleted while it was made, or before, as `skill@version`."""

    file: str
    bytes: int
    homes: int
    skills: int
    versions: int
    records: int
    gone: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The report as plain data."""
        return {name: list(self.gone) if name == "gone" else getattr(self, name) for name in self.__dataclass_fields__}


def write_backup(
    places: Sequence[BackupHome],
    target: Path,
    *,
    beside: Sequence[Path] = (),
    force: bool = False,
    progress: Callable[[str], object] | None = None,
) -> BackupReport:
    """Write everything in `places`, and the files `beside` them such as a project's lock, into the file `target`.

    Raises:
        InvalidInput: there is a file already, and no `force`; or it cannot be written there.
        DatabaseUnavailable: records cannot be read.
    """
    if target.exists() and not force:
        raise InvalidInput(f"{target} is there already", hint="choose another name, or replace it with --force")
    try:
        return _write(places, target, beside, progress or (lambda name: None))
    except OSError as error:
        raise InvalidInput(
            f"{target} cannot be written: {error.strerror or error}",
            hint="look whether its folder is there and has room, or choose another place",
        ) from error


def _write(
    places: Sequence[BackupHome], target: Path, beside: Sequence[Path], progress: Callable[[str], object]
) -> BackupReport:
    now = datetime.now(UTC).isoformat()
    with ArchiveWriter(target) as archive:
        told = {place.name: _HomeBackup(place, archive, target.absolute().parent, progress).write() for place in places}
        for path in beside:
            archive.add_file(f"project/{path.name}", path)
        size = archive.finish({"made_at": now, "made_by": __version__, "homes": told})
    counts = list(told.values())
    gone = tuple(name for home in counts for name in home["gone"])
    skills = sum(len({name.partition("@")[0] for name in home["versions"]}) for home in counts)
    versions = sum(len(home["versions"]) for home in counts)
    return BackupReport(str(target), size, len(counts), skills, versions, sum(home["records"] for home in counts), gone)


class _HomeBackup:
    """One home on its way into the archive."""

    def __init__(self, place: BackupHome, archive: ArchiveWriter, scratch: Path, progress: Callable[[str], object]) -> None:
        self._place = place
        self._scratch = scratch
        self._archive = archive
        self._progress = progress
        self._versions = place.versions

    def write(self) -> dict[str, Any]:
        """Put it in; gives what a restore proves: the digest of each version, what serves, what is gone, how many records."""
        on_disk = {(skill, version) for skill in self._versions.skills() for version in self._versions.names(skill)}
        with tempfile.TemporaryDirectory(prefix=".skillyard-backup-", dir=self._scratch) as folder:
            rows, known, serving = self._records(Path(folder))
        digests: dict[str, str] = {}
        gone: list[str] = []
        for skill, version in sorted(on_disk | known):
            with self._held(skill, version) as there:
                if not there:
                    gone.append(f"{skill}@{version}")
                    continue
                digests[f"{skill}@{version}"] = self._version(skill, version)
        for skill, current in self._links(serving, digests):
            self._archive.add_link(f"{self._place.name}/{SKILLS}/{skill}/current", current)
        for name, path in self._place.files():
            with contextlib.suppress(FileNotFoundError):
                self._archive.add_file(f"{self._place.name}/files/{name}", path)
        return {"records": rows, "versions": digests, "gone": gone}

    def _records(self, scratch: Path) -> tuple[int, set[tuple[str, str]], dict[str, str | None]]:
        """Put a copy of the records in; gives how many, the versions that should be on the disk, and what serves."""
        self._progress("the records")
        opened = Database.open(str(scratch), f"sqlite:///{scratch}/{RECORDS}")
        with contextlib.closing(self._place.database()) as source, contextlib.closing(opened) as copy:
            rows = replace_records(source, copy)
            with copy.read() as connection:
                there = select(skill_versions.c.skill_id, skill_versions.c.version).where(
                    skill_versions.c.removed_at.is_(None), skill_versions.c.status.in_(("active", "deprecated"))
                )
                known = {(row.skill_id, row.version) for row in connection.execute(there)}
                current = select(skill_definitions.c.skill_id, skill_definitions.c.current_version)
                serving = {row.skill_id: row.current_version for row in connection.execute(current)}
        self._archive.add_file(f"{self._place.name}/{RECORDS}", scratch / RECORDS)
        return rows, known, serving

    @contextlib.contextmanager
    def _held(self, skill: str, version: str) -> Iterator[bool]:
        """Keep a version from being deleted while it is read; False when it is not there."""
        try:
            descriptor = os.open(self._versions.path(skill, version), _FOLDER)
        except OSError:
            yield False
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield self._versions.path(skill, version).is_dir()
        finally:
            os.close(descriptor)

    def _version(self, skill: str, version: str) -> str:
        self._progress(f"{skill} {version}")
        root = self._versions.path(skill, version)
        base = f"{self._place.name}/{SKILLS}/{skill}/{version}"
        for folder, names, files in os.walk(root):
            inside = Path(folder).relative_to(root).as_posix()
            prefix = f"{base}/" if inside == "." else f"{base}/{inside}/"
            names.sort()
            if not names and not files:
                self._archive.add_folder(prefix.rstrip("/"))
            for name in (*sorted(files), *(name for name in names if Path(folder, name).is_symlink())):
                path = Path(folder, name)
                if path.is_symlink():
                    self._archive.add_link(prefix + name, os.readlink(path))  # noqa: PTH115 # as it is written
                else:
                    self._archive.add_file(prefix + name, path)
        return tree_digest(root)

    def _links(self, serving: dict[str, str | None], digests: dict[str, str]) -> Iterator[tuple[str, str]]:
        """What serves by the records, and for a skill they do not know by the disk."""
        for skill in sorted({name.partition("@")[0] for name in digests}):
            current = serving[skill] if skill in serving else self._versions.current(skill)
            if current and f"{skill}@{current}" in digests:
                yield skill, current
