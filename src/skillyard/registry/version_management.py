"""Installed skills of one home: reading them, and changing which version serves, without fetching anything.

`RegistryReader` reads skills, versions and history; `VersionManager` also rolls back, uninstalls, yanks, deprecates and prunes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import SkillNotFound
from skillyard.packages import Store
from skillyard.registry.model import (
    AgreeReplacement,
    EditValue,
    InstalledSkill,
    InstallLog,
    Operation,
    OperationResult,
    Progress,
    SkillVersion,
    check_edits,
)
from skillyard.registry.operations import Operations
from skillyard.registry.recovery import recover, settling
from skillyard.registry.requirement_checks import installed_skill_problems
from skillyard.registry.upgrade_checks import named_version, refuse_replacements, rollback_replacements, rollback_target
from skillyard.registry.version_files import (
    discard_all_versions,
    discard_version,
    prune_versions,
    refuse_local_edits,
    restore_version,
)
from skillyard.registry.version_store import VersionStore

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.registry.community import Popularity, VersionTags
    from skillyard.registry.operations import OpenLog, RunningOperation
    from skillyard.registry.records import RegistryRecords


class RegistryReader:
    """The installed skills of one home as they are: files in `{data}/skills`, records in the database at `url`, else in `data`.

    `servers` are the names of registered MCP servers, which skills may require; `actor` is who is written down for changes.
    """

    def __init__(self, data: str, url: str | None = None, *, servers: Sequence[str] = (), actor: str | None = None) -> None:
        self.versions_folder = VersionStore(Path(data) / "skills")
        self.operations = Operations(self.versions_folder.root)
        self._data, self._url = data, url
        self._servers = frozenset(servers)
        self._actor = actor
        self._lock = threading.Lock()
        self._ledger: RegistryRecords | None = None

    @property
    def root(self) -> Path:
        """The folder of the installed skills, which catalogs read."""
        return self.versions_folder.root

    @property
    def ledger(self) -> RegistryRecords:
        """The records; at the first use they are opened, and what a killed process left is put in order.

        Raises:
            DatabaseUnavailable: they cannot be opened.
        """
        with self._lock:
            if self._ledger is None:
                from skillyard.database import Database  # half a second

                ledger = self._ledger_over(Database.open(self._data, self._url))
                recover(self.operations, self.versions_folder, ledger)
                self._ledger = ledger
            return self._ledger

    def _ledger_over(self, database: Database) -> RegistryRecords:
        from skillyard.registry.records import RegistryRecords

        return RegistryRecords(database, self._actor)

    @property
    def popularity(self) -> Popularity:
        """Stars and counts of downloads."""
        from skillyard.registry.community import Popularity

        return Popularity(self.ledger.database)

    @property
    def tags(self) -> VersionTags:
        """The names that were given to versions."""
        from skillyard.registry.community import VersionTags

        return VersionTags(self.ledger.database)

    def close(self) -> None:
        """Let go of the records; the next use opens them again."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.database.close()
            self._ledger = None

    def skills(self, *, uninstalled: bool = False) -> tuple[InstalledSkill, ...]:
        """The installed skills, by id."""
        return self.ledger.skills(all_=uninstalled)

    def page(
        self, *, text: str = "", active: bool | None = None, limit: int = 20, offset: int = 0
    ) -> tuple[tuple[InstalledSkill, ...], int]:
        """So many skills by id, without the text of their SKILL.md, and how many there are; uninstalled ones are not active."""
        from skillyard.registry.record_queries import page_of_skills

        return page_of_skills(self.ledger.database, text=text, active=active, limit=limit, offset=offset)

    def skill(self, name: str, *, installed: bool = True) -> InstalledSkill:
        """The skill with this id or name.

        Raises:
            SkillNotFound: none is installed; with `installed=False`, none ever was.
        """
        from skillyard.registry.record_queries import find_skill, similar_ids

        wanted = name.removeprefix("installed:")
        found = find_skill(self.ledger.database, wanted)
        if found is not None and (found.active or not installed):
            return found
        if found is not None:
            raise SkillNotFound(
                f"{found.skill_id} is no longer installed", hint=f"`skillyard rollback {found.skill_id}` brings it back"
            )
        from skillyard.text import nearest

        near = nearest(wanted, similar_ids(self.ledger.database, wanted), limit=3)
        raise SkillNotFound(
            f"{wanted!r} is not installed",
            hint=f"did you mean {', '.join(near)}?" if near else "`skillyard versions` shows what is installed",
            candidates=near,
        )

    def versions(self, name: str) -> tuple[SkillVersion, ...]:
        """The versions of a skill, the newest first.

        Raises:
            SkillNotFound: there never was one.
        """
        from dataclasses import replace

        skill_id = self.skill(name, installed=False).skill_id
        there = set(self.versions_folder.names(skill_id))
        return tuple(replace(version, removed=version.version not in there) for version in self.ledger.versions(skill_id))

    def version(self, name: str, version: str) -> SkillVersion:
        """The version with that install version, or the newest that declares it.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
        """
        return named_version(self.versions(name), version)

    def current(self, name: str) -> SkillVersion:
        """The version that serves.

        Raises:
            SkillNotFound: it is not installed.
        """
        skill = self.skill(name)
        return next(version for version in self.versions(skill.skill_id) if version.version == skill.current_version)

    def serving(self) -> dict[str, SkillVersion]:
        """The version that serves of every installed skill, by the skill's id: one look for all."""
        return {version.skill_id: version for version in self.ledger.serving()}

    def history(self, name: str | None = None, *, limit: int = 50) -> tuple[InstallLog, ...]:
        """What was done to a skill, or to all, the newest first."""
        skill_id = None if name is None else self.skill(name, installed=False).skill_id
        return self.ledger.history(skill_id, limit=limit)

    def operation(self, operation_id: str) -> tuple[InstallLog, ...]:
        """The logs of one operation, one for each skill it is about; none when there never was such an operation."""
        return self.ledger.history(operation_id=operation_id, limit=1000)

    def trouble(self) -> Iterator[tuple[str, str]]:
        """What is wrong with installed skills: withdrawn versions, requirements not met here, and those that go in a circle."""
        return installed_skill_problems(self.ledger, self._servers)

    def _version(self, name: str, version: str | None) -> SkillVersion:
        return self.current(name) if version is None else named_version(self.versions(name), version)


class VersionManager(RegistryReader):
    """The installed skills of one home, and what may be done with their versions without fetching anything.

    `keep` versions of a skill stay on the disk; with a `store` the package of each is kept there, and an older one comes back.
    """

    def __init__(
        self,
        data: str,
        url: str | None = None,
        *,
        servers: Sequence[str] = (),
        store: Store | None = None,
        keep: int = 5,
        actor: str | None = None,
    ) -> None:
        super().__init__(data, url, servers=servers, actor=actor)
        self.store = store
        self.keep = keep

    def uninstall(
        self, name: str, *, prune: bool = False, force: bool = False, progress: Progress | None = None
    ) -> OperationResult:
        """Let a skill serve no more; its versions stay on the disk and come back with `rollback`, unless `prune`.

        Raises:
            SkillNotFound: it is not installed.
            LocalEdits: with `prune`, when a version was changed by hand and `force` does not say to delete it.
        """
        skill = self.skill(name)
        skill_id = skill.skill_id
        with self._operation("uninstall", skill_id, progress=progress) as (operation, log), self._locked(skill_id):
            before = self.versions_folder.current(skill_id)
            if prune and not force:
                for version in self.versions_folder.names(skill_id):
                    refuse_local_edits(self.versions_folder, self.ledger, skill_id, version, force=False)
            with log.step("deactivate", 50):
                self.versions_folder.deactivate(skill_id)
            self.ledger.deactivate(skill_id, log)
            pruned = discard_all_versions(self.versions_folder, self.ledger, skill_id, operation.folder) if prune else ()
        return OperationResult(skill_id, skill.name, "uninstalled", None, before, None, log_id=log.id, pruned=pruned)

    def rollback(
        self,
        name: str,
        version: str | None = None,
        *,
        force: bool = False,
        accept_signer: bool = False,
        accept_source: bool = False,
        replacing: AgreeReplacement | None = None,
        progress: Progress | None = None,
    ) -> OperationResult:
        """Let another version serve: the one named, else the newest usable one before the current.

        The version that served becomes deprecated. An uninstalled skill comes back this way too. That another signer or source
        serves again is asked as by `Registry.install`.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
            VersionUnusable: it is deprecated, yanked, or its files are gone; `force` allows the first.
            LocalEdits: a version was changed by hand.
            SignerChanged, SourceChanged: it is of another signer or source than the version that serves.
        """
        skill = self.skill(name, installed=False)
        skill_id = skill.skill_id
        with (
            self._operation("rollback", skill_id, version=version, progress=progress) as (operation, log),
            self._locked(skill_id),
        ):
            before = self.versions_folder.current(skill_id)
            known = self.versions(skill_id)
            target = rollback_target(known, version, before, stored=self.store is not None, force=force)
            serving = next((one for one in known if one.version == before), None)
            if serving is not None:
                changes = tuple(rollback_replacements(skill.name, serving, target))
                refuse_replacements(changes, accept_signer=accept_signer, accept_source=accept_source, agree=replacing)
            if target.removed:
                with log.step("restore", 50):
                    restore_version(self.store, self.versions_folder, self.ledger, target, operation.folder)
            refuse_local_edits(self.versions_folder, self.ledger, skill_id, target.version, force=force)
            self.ledger.write_log(log.id, version=target.version)
            with log.step("activate", 90):
                self.versions_folder.activate(skill_id, target.version, operation.folder)
            left = before if before != target.version else None
            self.ledger.activate(skill_id, target.version, log, action="rollback", left=left)
        return OperationResult(skill_id, skill.name, "rolled back", target.version, before, target.digest, log_id=log.id)

    def discard(self, name: str, version: str) -> SkillVersion:
        """Delete the files of one version that does not serve, for good; that it was there stays written down.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
            VersionUnusable: it serves, an agent is locked to it, or somebody reads it now.
            LocalEdits: it was changed by hand.
        """
        found = self._version(name, version)
        with self.operations.begin() as operation:
            operation.settled = True  # it opens no log
            with self._locked(found.skill_id):
                discard_version(self.versions_folder, self.ledger, found, operation.folder)
        return self._version(found.skill_id, found.version)

    def edit(self, name: str, **edits: EditValue) -> InstalledSkill:
        """Say something else of a skill than its SKILL.md: `category`, `tags`, `author`, `homepage_url`, …; None takes it back.

        Raises:
            SkillNotFound: there never was one.
            InvalidInput: a field cannot be edited, or cannot be meant so.
        """
        skill_id = self.skill(name, installed=False).skill_id
        self.ledger.edit(skill_id, check_edits(edits))
        return self.skill(skill_id, installed=False)

    def deprecate(self, name: str, version: str | None = None, *, reason: str = "", undo: bool = False) -> SkillVersion:
        """Mark a version, by default the current one, as one to move away from; it goes on serving."""
        found = self._version(name, version)
        values: dict[str, object] = {
            "status": "deprecated",
            "deprecated_at": datetime.now(UTC),
            "deprecated_reason": reason or None,
        }
        if undo:
            values = {"status": "active", "deprecated_at": None, "deprecated_reason": None}
        self.ledger.mark(found.skill_id, found.version, "undeprecate" if undo else "deprecate", **values)
        return self._version(found.skill_id, found.version)

    def yank(self, name: str, version: str | None = None, *, reason: str = "", undo: bool = False) -> SkillVersion:
        """Mark a version as one that nobody may install or roll back to; when it is the current one it serves on until then."""
        found = self._version(name, version)
        values: dict[str, object] = {
            "yanked_at": None if undo else datetime.now(UTC),
            "yanked_reason": None if undo else reason or None,
        }
        self.ledger.mark(found.skill_id, found.version, "unyank" if undo else "yank", **values)
        return self._version(found.skill_id, found.version)

    def prune(self, name: str, *, keep: int | None = None) -> tuple[str, ...]:
        """Delete the files of all but the newest `keep` versions; never of the current one or one that is read."""
        skill_id = self.skill(name, installed=False).skill_id
        with self.operations.begin() as operation:
            operation.settled = True  # it opens no log: what is left is only to be deleted
            with self._locked(skill_id):
                return prune_versions(
                    self.versions_folder, self.ledger, skill_id, operation.folder, keep=self.keep if keep is None else keep
                )

    @contextlib.contextmanager
    def _operation(
        self, kind: Operation, skill_id: str, *, version: str | None = None, progress: Progress | None = None
    ) -> Iterator[tuple[RunningOperation, OpenLog]]:
        with self.operations.begin() as operation:
            log = self.ledger.begin(operation.id, kind, skill_id=skill_id, version=version, progress=progress)
            with settling(operation, self.versions_folder, self.ledger):
                yield operation, log

    def _locked(self, skill_id: str) -> contextlib.AbstractContextManager[None]:
        return self.versions_folder.locked(skill_id)
