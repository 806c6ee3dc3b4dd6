"""Backups: everything a server keeps, in one file, made while it runs, and restored into either kind of database.

`write_backup` makes the file: the database at one moment, then the versions and the contents of workspaces that it refers to.
They never change, so they are copied while the server works; a version that is deleted meanwhile is listed in `gone`.
`check_backup` verifies the file. `restore_backup` writes all to a staging folder and verifies it before it replaces the
existing data: contents in the store, the database in one transaction, skills by two renames. A restore that was killed in
between is run again: earlier data are deleted only at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import and_, select, update

from skillyard._version import __version__
from skillyard.catalog.skill_files import LINKS, kept_links, read_kept_link
from skillyard.database import Database, has_records, replace_records, skill_definitions, skill_versions
from skillyard.errors import DigestMismatch, FileMissing, InstallProblem, InvalidInput, MalformedArchive
from skillyard.files import delete_tree, locked, wait_for_disk
from skillyard.packages import tree_digest, tree_entries
from skillyard.paths import CLOEXEC, DIRECTORY, NOFOLLOW, is_reserved
from skillyard.registry.backup_archive import (
    CONTENTS,
    RECORDS,
    SKILLS,
    STAGING,
    ArchiveWriter,
    BackupHome,
    BackupManifest,
    check_backup,
    members,
)
from skillyard.registry.version_store import VersionStore
from skillyard.wire import WireForm

_LARGEST_CONTENT = 64 * 1024 * 1024
_FOLDER = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC


@dataclass(frozen=True, slots=True)
class BackupReport(WireForm):
    """What went into a backup; `gone` are versions that were deleted while it was made, or before, as `skill@version`.

    `contents` counts what it holds of the store for conversations' workspaces, `missing` are those some of whose contents the
    store did not have any more, and `contents_in` is the bucket where all of them stay.
    """

    file: str
    bytes: int
    homes: int
    skills: int
    versions: int
    records: int
    gone: tuple[str, ...]
    contents: int = 0
    missing: tuple[str, ...] = ()
    contents_in: str = ""


def write_backup(
    homes: Sequence[BackupHome],
    target: Path,
    *,
    beside: Sequence[Path] = (),
    force: bool = False,
    progress: Callable[[str], object] | None = None,
) -> BackupReport:
    """Write everything in `homes`, and the files `beside` them such as a project's lock, into the file `target`.

    Raises:
        InvalidInput: there is a file already, and no `force`, or something else; or it cannot be written there.
        DatabaseUnavailable: records cannot be read.
    """
    if target.exists() and not target.is_file():
        raise InvalidInput(f"{target} is not a file", hint="name a file, in a folder that exists")
    if target.exists() and not force:
        raise InvalidInput(f"{target} already exists", hint="choose another name, or replace it with --force")
    try:
        return _write(homes, target, beside, progress or (lambda name: None))
    except OSError as error:
        raise InvalidInput(
            f"{target} cannot be written: {error.strerror or error}",
            hint="check that its folder exists and has room, or choose another place",
        ) from error


def _write(
    homes: Sequence[BackupHome], target: Path, beside: Sequence[Path], progress: Callable[[str], object]
) -> BackupReport:
    now = datetime.now(UTC).isoformat()
    with ArchiveWriter(target) as archive:
        recorded = {home.name: _HomeBackup(home, archive, target.absolute().parent, progress).write() for home in homes}
        for path in beside:
            archive.add_file(f"project/{path.name}", path)
        size = archive.finish({"made_at": now, "made_by": __version__, "homes": recorded})
    counts = list(recorded.values())
    gone = tuple(name for home in counts for name in home["gone"])
    skills = sum(len({name.partition("@")[0] for name in home["versions"]}) for home in counts)
    versions = sum(len(home["versions"]) for home in counts)
    return BackupReport(
        str(target), size, len(counts), skills, versions, sum(home["records"] for home in counts), gone,
        sum(home["contents"] for home in counts), tuple(name for home in counts for name in home["missing"]),
        next((home["contents_in"] for home in counts if home["contents_in"]), ""),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _HomeBackup:
    """Writes one home into the archive."""

    home: BackupHome
    archive: ArchiveWriter
    scratch: Path
    progress: Callable[[str], object]

    def write(self) -> dict[str, Any]:
        """Write it; gives what a restore verifies: the number of records, the digest of each version, and what is missing."""
        on_disk = {(skill, version) for skill in self.home.versions.skills() for version in self.home.versions.names(skill)}
        with tempfile.TemporaryDirectory(prefix=".skillyard-backup-", dir=self.scratch) as folder:
            rows, recorded, current = self._records(Path(folder))
            contents = self._contents(Path(folder))
        digests: dict[str, str] = {}
        gone: list[str] = []
        for skill, version in sorted(on_disk | recorded):
            with self._lock_against_deletion(skill, version) as there:
                if not there:
                    gone.append(f"{skill}@{version}")
                    continue
                digests[f"{skill}@{version}"] = self._write_version(skill, version)
        kept = [name for skill, version in self._versions_of(digests) for name in self._write_kept_links(skill, version)]
        for skill, version in self._links(current, digests):
            self.archive.add_link(f"{self.home.name}/{SKILLS}/{skill}/current", version)
        for name, path in self.home.files():
            with contextlib.suppress(FileNotFoundError):
                self.archive.add_file(f"{self.home.name}/files/{name}", path)
        return {"records": rows, "versions": digests, "gone": gone, "kept_links": sorted(set(kept)), **contents}

    @staticmethod
    def _versions_of(digests: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for name in digests:
            skill, _, version = name.partition("@")
            yield skill, version

    def _write_kept_links(self, skill: str, version: str) -> Iterator[str]:
        """Write the kept links of a version, but for damaged copies; gives `skill/sha256` of each."""
        path = self.home.versions.path(skill, version)
        listed = kept_links(path)
        if not listed:
            return
        base = f"{self.home.name}/{SKILLS}/{LINKS}/{skill}"
        for one in {one.sha256: one for one in listed if one.sha256}.values():
            with contextlib.suppress(FileMissing):
                data = read_kept_link(path, one.address, limit=one.size).data
                if f"{base}/{one.sha256}" not in self.archive:
                    self.archive.add_data(f"{base}/{one.sha256}", data)
                yield f"{skill}/{one.sha256}"
        self.archive.add_data(f"{base}/{version}.json", json.dumps([one.to_dict() for one in listed]).encode() + b"\n")

    def _contents(self, scratch: Path) -> dict[str, Any]:
        """Write the contents of workspaces that the copy of the records names; gives how many, and what is missing or stays."""
        store, count, named, missing = self.home.contents, 0, 0, set()
        if store is not None:
            self.progress("the contents of workspaces")
            with contextlib.closing(Database.open(str(scratch), f"sqlite:///{scratch}/{RECORDS}")) as copy:
                for workspace, digest in store.of(copy):
                    named += 1
                    if store.stays:
                        break
                    data = store.read(workspace, digest)
                    if data is None:
                        missing.add(workspace)
                        continue
                    self.archive.add_data(f"{self.home.name}/{CONTENTS}/{workspace}/{digest.removeprefix('sha256:')}", data)
                    count += 1
        return {"contents": count, "missing": sorted(missing), "contents_in": store.stays if store and named else ""}

    def _records(self, scratch: Path) -> tuple[int, set[tuple[str, str]], dict[str, str | None]]:
        """Write a copy of the records; gives their number, the versions that should be on the disk, and the current ones."""
        self.progress("the records")
        opened = Database.open(str(scratch), f"sqlite:///{scratch}/{RECORDS}")
        with contextlib.closing(self.home.database()) as source, contextlib.closing(opened) as copy:
            rows = replace_records(source, copy)
            with copy.read() as connection:
                there = select(skill_versions.c.skill_id, skill_versions.c.version).where(
                    skill_versions.c.removed_at.is_(None), skill_versions.c.status.in_(("active", "deprecated"))
                )
                recorded = {(row.skill_id, row.version) for row in connection.execute(there)}
                selected = select(skill_definitions.c.skill_id, skill_definitions.c.current_version)
                current = {row.skill_id: row.current_version for row in connection.execute(selected)}
        self.archive.add_file(f"{self.home.name}/{RECORDS}", scratch / RECORDS)
        return rows, recorded, current

    @contextlib.contextmanager
    def _lock_against_deletion(self, skill: str, version: str) -> Iterator[bool]:
        """Keep a version from being deleted while it is read; False when it is not there."""
        import fcntl  # not on every platform

        try:
            descriptor = os.open(self.home.versions.path(skill, version), _FOLDER)
        except OSError:
            yield False
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield self.home.versions.path(skill, version).is_dir()
        finally:
            os.close(descriptor)

    def _write_version(self, skill: str, version: str) -> str:
        self.progress(f"{skill} {version}")
        root = self.home.versions.path(skill, version)
        base = f"{self.home.name}/{SKILLS}/{skill}/{version}"
        for path, kind, _ in sorted(tree_entries(root)):
            if kind == "d":
                self.archive.add_folder(f"{base}/{path}")
            elif kind == "l":
                self.archive.add_link(f"{base}/{path}", os.readlink(root / path))  # noqa: PTH115 # as it is written
            else:
                self.archive.add_file(f"{base}/{path}", root / path)
        return tree_digest(root)

    def _links(self, current: dict[str, str | None], digests: dict[str, str]) -> Iterator[tuple[str, str]]:
        """The current version of each skill by the records, and for a skill that has none by the disk."""
        for skill in sorted({name.partition("@")[0] for name in digests}):
            version = current[skill] if skill in current else self.home.versions.current(skill)
            if version and f"{skill}@{version}" in digests:
                yield skill, version


@dataclass(frozen=True, slots=True)
class RestoreReport(WireForm):
    """What was restored.

    `contents` counts what was put into the store for conversations' workspaces; `unplaced` what the backup has of it and no
    store is configured for. `contents_in` is the bucket where the contents were when the backup was made.
    """

    homes: tuple[str, ...]
    versions: int
    records: int
    contents: int = 0
    unplaced: int = 0
    contents_in: str = ""


def restore_backup(
    backup: Path,
    home_of: Callable[[str], BackupHome],
    *,
    project: Path | None = None,
    force: bool = False,
    progress: Callable[[str], object] | None = None,
) -> RestoreReport:
    """Restore every home of a backup to the home that `home_of` gives, and a project's lock into the folder `project`.

    With `force` existing data is replaced. The records may be of the other kind of database.

    Raises:
        MalformedArchive, DigestMismatch: it is not a complete backup; nothing was changed.
        InstallProblem: something is there already, and no `force`.
        DatabaseUnavailable: the records cannot be written; run it again when they can.
        InvalidInput: files cannot be written.
        StoreFailed: the contents of workspaces cannot be put into the store; the records were not changed.
    """
    report = progress or (lambda name: None)
    report("verifying the backup")
    manifest = check_backup(backup)
    restores = [_HomeRestore(home_of(name), recorded, force) for name, recorded in manifest.facts["homes"].items()]
    try:
        with contextlib.ExitStack() as stack:
            for restore in restores:
                restore.begin(stack)
            report("writing the files")
            _extract(backup, manifest, {restore.home.name: restore.staging for restore in restores}, project, force=force)
            for restore in restores:
                report(f"restoring {restore.home.name}")
                restore.verify()
            placed = [(restore, restore.put_contents()) for restore in restores]
            rows = sum(restore.put_in_place() for restore in restores)
    except OSError as error:
        raise InvalidInput(
            f"the backup cannot be written: {error}", hint="make room, then run it again with --force"
        ) from error
    return RestoreReport(
        tuple(restore.home.name for restore in restores),
        sum(len(restore.recorded["versions"]) for restore in restores),
        rows,
        sum(count for restore, count in placed if restore.home.contents is not None),
        sum(count for restore, count in placed if restore.home.contents is None),
        next((found for restore in restores if (found := restore.recorded.get("contents_in", ""))), ""),
    )


@dataclass(frozen=True, slots=True)
class _HomeRestore:
    """Restores one home."""

    home: BackupHome
    recorded: Mapping[str, Any]
    force: bool

    @property
    def staging(self) -> Path:
        return self.home.home / STAGING

    def begin(self, stack: contextlib.ExitStack) -> None:
        """Lock out other restores, refuse a home that is not empty, and make the staging folder."""
        self.home.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        stack.enter_context(locked(self.home.home / "restore"))
        self._finish_earlier()
        if not self.force:
            with contextlib.closing(self.home.database()) as database:
                if self.home.versions.skills() or has_records(database):
                    raise InstallProblem(
                        f"{self.home.home} or {database.name} is not empty", hint="--force replaces everything"
                    )
        self.staging.mkdir(mode=0o700)

    def _finish_earlier(self) -> None:
        """Delete what a killed restore left; skills that it had moved aside are moved back first."""
        aside, there = self.staging / "before", self.home.home / SKILLS
        if aside.is_dir() and not there.exists():
            aside.rename(there)
        if self.staging.exists():
            delete_tree(self.staging)

    def verify(self) -> None:
        """Check that the versions are those that were backed up. Raises DigestMismatch: one is another."""
        versions = VersionStore(self.staging / SKILLS)
        for name, digest in self.recorded["versions"].items():
            skill, _, version = name.partition("@")
            if tree_digest(versions.path(skill, version)) != digest:
                raise DigestMismatch(f"{name} is not what was backed up", hint="use another backup", expected=digest)
        for name in self.recorded.get("kept_links", ()):
            skill, _, sha256 = str(name).partition("/")
            path = self.staging / SKILLS / LINKS / skill / sha256
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                raise DigestMismatch(
                    f"the kept links of {skill} are not those that were backed up", hint="use another backup", expected=sha256
                )

    def put_contents(self) -> int:
        """Put the contents of workspaces into the store, where there is one; gives how many the backup has."""
        found = sorted((self.staging / CONTENTS).glob("*/*"))
        if self.home.contents is not None:
            for path in found:
                if path.stat().st_size > _LARGEST_CONTENT:
                    raise MalformedArchive(f"{path.name} is too large for a content of a workspace", hint="use another backup")
                self.home.contents.write(path.parent.name, f"sha256:{path.name}", path.read_bytes())
        return len(found)

    def put_in_place(self) -> int:
        """Replace the records, then the skills and the other files; gives the number of records."""
        rows = self._records()
        skills, aside = self.home.home / SKILLS, self.staging / "before"
        if skills.exists():
            skills.rename(aside)
        if (self.staging / SKILLS).exists():
            (self.staging / SKILLS).rename(skills)
        files = self.staging / "files"
        for path in sorted(files.rglob("*")) if files.exists() else ():
            target = self.home.home / path.relative_to(files)
            if path.is_file() and not is_reserved(target):  # the records were restored already
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.replace(target)
        delete_tree(self.staging)
        shutil.rmtree(self.home.home / "cache", ignore_errors=True)  # it describes the replaced skills
        return rows

    def _records(self) -> int:
        copy = f"sqlite:///{self.staging}/{RECORDS}"
        with contextlib.closing(Database.open(str(self.staging), copy)) as source:  # an older one is migrated
            self._update_paths(source)
            with contextlib.closing(self.home.database()) as target:
                return replace_records(source, target)

    def _update_paths(self, records: Database) -> None:
        """Set the paths of the versions on this machine, and mark those that are missing as removed."""
        table, now = skill_versions, datetime.now(UTC)
        with records.write() as connection:
            for row in connection.execute(select(table.c.skill_id, table.c.version)).all():
                here = and_(table.c.skill_id == row.skill_id, table.c.version == row.version)
                path = self.home.versions.path(row.skill_id, row.version)
                connection.execute(update(table).where(here).values(package_path=str(path)))
                if f"{row.skill_id}@{row.version}" in self.recorded["gone"]:
                    connection.execute(update(table).where(here, table.c.removed_at.is_(None)).values(removed_at=now))


def _extract(backup: Path, manifest: BackupManifest, homes: Mapping[str, Path], project: Path | None, *, force: bool) -> None:
    """Write every file, link and empty folder into the staging folders."""
    written = []
    for name, file, _ in members(backup):
        if name in manifest.entries and (target := _target(name, homes, project, force=force)) is not None:
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600), "wb") as writing:  # noqa: PTH123
                shutil.copyfileobj(file, writing)
                os.fchmod(writing.fileno(), manifest.entries[name].mode & 0o777)
            written.append(target)
    for name, entry in manifest.entries.items():
        if entry.kind != "f" and (target := _target(name, homes, project, force=force)) is not None:
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            target.symlink_to(entry.target) if entry.kind == "l" else target.mkdir()
    _make_versions_read_only(manifest, homes)
    folders = {folder for staging in homes.values() for folder, _, _ in os.walk(staging)}
    wait_for_disk([*map(str, written), *folders, *({str(project)} if project is not None else ())])


def _target(name: str, homes: Mapping[str, Path], project: Path | None, *, force: bool) -> Path | None:
    top, _, rest = name.partition("/")
    if top == "project":
        if project is None:
            return None
        target = project / rest
        if target.exists() and force:
            target.unlink()
        return None if target.exists() else target
    home = next((home for home in homes if name.startswith(f"{home}/")), None)
    return homes[home] / name.removeprefix(f"{home}/") if home is not None else None


def _make_versions_read_only(manifest: BackupManifest, homes: Mapping[str, Path]) -> None:
    for home, recorded in manifest.facts["homes"].items():
        for name in recorded["versions"]:
            skill, _, version = name.partition("@")
            for folder, _, _ in os.walk(homes[home] / SKILLS / skill / version):
                Path(folder).chmod(0o555)
