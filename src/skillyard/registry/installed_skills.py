"""What a registry is made of (`RegistryStorage`), what it reads (`InstalledSkills`), and marks of single versions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import SkillNotFound
from skillyard.registry.registry_values import PUBLISHER, InstalledSkill, InstallLog, Operation, Progress, SkillVersion
from skillyard.registry.requirements import installed_skill_problems
from skillyard.registry.upgrade_checks import named_version
from skillyard.registry.version_files import discard_version, prune_versions, recover, settling
from skillyard.registry.version_store import Operations, VersionStore
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.registry.mirror_locations import MirroredSkill, MirroredVersion, MirrorSource
    from skillyard.registry.registry_records import RegistryRecords
    from skillyard.registry.version_store import OpenLog, RunningOperation


class RegistryStorage:
    """Where a registry keeps things: files in `{data}/skills`, records in the database at `url`, else in `data`.

    `versions` are the files, `operations` those that run, `records` the database; `actor` is recorded for changes.
    """

    def __init__(self, data: str, url: str | None = None, *, actor: str | None = None) -> None:
        self.versions = VersionStore(Path(data) / "skills")
        self.operations = Operations(self.versions.root)
        self._data, self._url, self._actor = data, url, actor
        self._lock = threading.Lock()
        self._records: RegistryRecords | None = None

    @property
    def records(self) -> RegistryRecords:
        """The records; at the first use they are opened, and what a killed process left is recovered.

        Raises:
            DatabaseUnavailable: they cannot be opened.
        """
        with self._lock:
            if self._records is None:
                records = self._open_records()
                recover(self.operations, self.versions, records)
                self._records = records
            return self._records

    def _open_records(self) -> RegistryRecords:
        from skillyard.database import Database  # half a second
        from skillyard.registry.registry_records import RegistryRecords

        return RegistryRecords(Database.open(self._data, self._url), self._actor)

    def close(self) -> None:
        """Close the records; the next use opens them again."""
        with self._lock:
            if self._records is not None:
                self._records.database.close()
            self._records = None

    def note_withdrawn(self) -> None:
        """Keep beside the records which current versions are withdrawn, for lists that open no database."""
        from skillyard.catalog.user_changes import save_withdrawn

        sentences = {version.skill_id: version.withdrawn or "" for version in self.records.read.withdrawn()}
        with contextlib.suppress(OSError):
            save_withdrawn(self._data, sentences)

    @contextlib.contextmanager
    def operation(
        self,
        kind: Operation,
        skill_id: str,
        *,
        version: str | None = None,
        progress: Progress | None = None,
        owned: bool = True,
    ) -> Iterator[tuple[RunningOperation, OpenLog]]:
        """An operation on one skill, which no other operation changes meanwhile, and its log.

        Raises:
            NotYours: the skill belongs to others, and it must be `owned`.
        """
        if owned:
            self.records.require_owner(skill_id)
        with self.operations.begin() as operation:
            log = self.records.logs.begin(operation.id, kind, skill_id=skill_id, version=version, progress=progress)
            with settling(operation, self.versions, self.records), self.versions.locked(skill_id):
                yield operation, log

    @contextlib.contextmanager
    def scratch(self, skill_id: str) -> Iterator[Path]:
        """A scratch folder for a change of one skill without a log; no other operation changes the skill meanwhile.

        Raises:
            NotYours: the skill belongs to others.
        """
        self.records.require_owner(skill_id)
        with self.operations.begin() as operation:
            operation.settled = True  # what is left is only to be deleted
            with self.versions.locked(skill_id):
                yield operation.folder


class InstalledSkills:
    """The skills of a registry as they are; `servers` are the names of registered MCP servers, which skills may require."""

    def __init__(self, storage: RegistryStorage, servers: Sequence[str] = ()) -> None:
        self._storage = storage
        self.servers = frozenset(servers)

    def skills(self, *, uninstalled: bool = False) -> tuple[InstalledSkill, ...]:
        """The installed skills, by id."""
        return self._storage.records.read.skills(all_=uninstalled)

    def page(
        self, *, text: str = "", active: bool | None = None, limit: int = 20, offset: int = 0
    ) -> tuple[tuple[InstalledSkill, ...], int]:
        """So many skills by id, without the text of their SKILL.md, and how many there are; uninstalled ones are not active."""
        from skillyard.registry.record_queries import page_of_skills

        return page_of_skills(self._storage.records.database, text=text, active=active, limit=limit, offset=offset)

    def skill(self, name: str, *, installed: bool = True) -> InstalledSkill:
        """The skill with this id or name. Raises SkillNotFound: none is installed; with `installed=False`, none ever was."""
        from skillyard.registry.record_queries import similar_ids

        name = name.removeprefix("installed:")
        skill = self._storage.records.read.find(name)
        if skill is not None and (skill.active or not installed):
            return skill
        waiting = self._storage.records.read.versions(skill.skill_id) if skill is not None else ()
        if skill is not None and waiting and all(one.approval == "waiting" for one in waiting):
            raise SkillNotFound(
                f"{skill.skill_id} waits for approval", hint=f"somebody who may: `skillyard approve {skill.skill_id}`"
            )
        if skill is not None:
            raise SkillNotFound(
                f"{skill.skill_id} is no longer installed", hint=f"`skillyard rollback {skill.skill_id}` restores it"
            )
        from skillyard.text import nearest

        near = nearest(name, similar_ids(self._storage.records.database, name), limit=3)
        raise SkillNotFound(
            f"{name!r} is not installed",
            hint=f"did you mean {', '.join(near)}?" if near else "`skillyard versions` shows what is installed",
            candidates=near,
        )

    def versions(self, name: str) -> tuple[SkillVersion, ...]:
        """The versions of a skill, the newest first. Raises SkillNotFound: there never was one."""
        skill_id = self.skill(name, installed=False).skill_id
        on_disk = set(self._storage.versions.names(skill_id))
        recorded = self._storage.records.read.versions(skill_id)
        return tuple(replace(version, removed=version.version not in on_disk) for version in recorded)

    def version(self, name: str, version: str | None = None) -> SkillVersion:
        """The version with that install version, or the newest that declares it; without one the current version.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
        """
        return self.current(name) if version is None else named_version(self.versions(name), version)

    def current(self, name: str) -> SkillVersion:
        """The current version. Raises SkillNotFound: it is not installed."""
        skill = self.skill(name)
        return next(version for version in self.versions(skill.skill_id) if version.version == skill.current_version)

    def serving(self) -> dict[str, SkillVersion]:
        """The current version of every installed skill, by the skill's id: one query for all."""
        return {version.skill_id: version for version in self._storage.records.read.serving()}

    def history(self, name: str | None = None, *, limit: int = 50) -> tuple[InstallLog, ...]:
        """What was done to a skill, or to all, the newest first."""
        skill_id = None if name is None else self.skill(name, installed=False).skill_id
        return self._storage.records.read.history(skill_id, limit=limit)

    def operation(self, operation_id: str) -> tuple[InstallLog, ...]:
        """The logs of one operation, one for each skill it is about; none when there never was such an operation."""
        return self._storage.records.read.history(operation_id=operation_id, limit=1000)

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with installed skills, by id: withdrawn versions, requirements not met here, and cycles of them."""
        return installed_skill_problems(self._storage.records.read, self.servers)


class VersionManager:
    """Marks and deletes single versions of installed skills; `keep` of each skill stay on the disk."""

    def __init__(self, storage: RegistryStorage, installed: InstalledSkills, *, keep: int = 5) -> None:
        self._storage = storage
        self._installed = installed
        self.keep = keep

    def discard(self, name: str, version: str) -> SkillVersion:
        """Delete the files of one version that is not current, for good; its record stays.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
            VersionUnusable: it is current, an agent is locked to it, or it is being read.
            LocalEdits: it was changed by hand.
        """
        chosen = self._installed.version(name, version)
        with self._storage.scratch(chosen.skill_id) as scratch:
            discard_version(self._storage.versions, self._storage.records, chosen, scratch)
        return self._installed.version(chosen.skill_id, chosen.version)

    def deprecate(self, name: str, version: str | None = None, *, reason: str = "", undo: bool = False) -> SkillVersion:
        """Mark a version, by default the current one, as one to move away from; it stays current."""
        if undo:
            return self._mark(name, version, "undeprecate", status="active", deprecated_at=None, deprecated_reason=None)
        now, why = datetime.now(UTC), reason or None
        return self._mark(name, version, "deprecate", status="deprecated", deprecated_at=now, deprecated_reason=why)

    def yank(self, name: str, version: str | None = None, *, reason: str = "", undo: bool = False) -> SkillVersion:
        """Mark a version as one that nobody may install or roll back to; the current one stays current until then."""
        if undo:
            return self._mark(name, version, "unyank", yanked_at=None, yanked_reason=None)
        return self._mark(name, version, "yank", yanked_at=datetime.now(UTC), yanked_reason=reason or None)

    def follow_publisher(self, current: SkillVersion, mirror: MirrorSource) -> None:
        """Mark the versions of an installed skill as in the mirror that it came from, and take marks back that went there.

        Marks that were made here stay. The current version goes on serving.

        Raises:
            SkillyardError: as `MirrorSource.index`.
        """
        listed = _versions_listed(current, mirror)
        for here in self._installed.versions(current.skill_id):
            there = listed.get(here.digest)
            if there is None:
                continue
            for mark, reason, marked, why in (
                (self.yank, there.yanked, here.yanked, here.yanked_reason),
                (self.deprecate, there.deprecated, here.status == "deprecated", here.deprecated_reason),
            ):
                if reason is not None and not marked:
                    mark(here.skill_id, here.version, reason=PUBLISHER + single_line(reason))
                elif reason is None and marked and (why or "").startswith(PUBLISHER):
                    mark(here.skill_id, here.version, undo=True)

    def prune(self, name: str, *, keep: int | None = None) -> tuple[str, ...]:
        """Delete the files of all but the newest `keep` versions; never of the current one or one that is read."""
        skill_id, keep = self._installed.skill(name, installed=False).skill_id, self.keep if keep is None else keep
        with self._storage.scratch(skill_id) as scratch:
            return prune_versions(self._storage.versions, self._storage.records, skill_id, scratch, keep=keep)

    def _mark(self, name: str, version: str | None, action: str, **values: object) -> SkillVersion:
        chosen = self._installed.version(name, version)
        self._storage.records.mark(chosen.skill_id, chosen.version, action, **values)
        self._storage.note_withdrawn()
        return self._installed.version(chosen.skill_id, chosen.version)


def listed_skill(current: SkillVersion, mirror: MirrorSource) -> MirroredSkill | None:
    """The entry of an installed skill in the mirror that it came from."""
    path = str(current.origin.get("path") or current.skill_id)
    return next((one for one in mirror.index().skills if one.skill_id == path), None)


def _versions_listed(current: SkillVersion, mirror: MirrorSource) -> dict[str, MirroredVersion]:
    """The versions of an installed skill in a mirror, by the digests of their contents."""
    skill = listed_skill(current, mirror)
    return {version.digest: version for version in skill.versions} if skill else {}
