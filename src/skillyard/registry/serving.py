"""What becomes of versions that are installed: which one serves, what is said of them, and which are deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skillyard.packages import Store
from skillyard.registry.archive import restore
from skillyard.registry.discarding import discard, discard_all, prune
from skillyard.registry.editing import Edited, checked_edits
from skillyard.registry.holdings import Holdings
from skillyard.registry.local_edits import refuse_edits
from skillyard.registry.model import AgreeReplacement, InstalledSkill, Operation, Progress, Result, SkillVersion
from skillyard.registry.recovery import settling
from skillyard.registry.returning import returning
from skillyard.registry.succession import refuse_replacements, return_replacements

if TYPE_CHECKING:
    from skillyard.registry.open_log import OpenLog
    from skillyard.registry.operations import Workplace

__all__ = ["Serving"]


class Serving(Holdings):
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

    def uninstall(self, name: str, *, prune: bool = False, force: bool = False, progress: Progress | None = None) -> Result:
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
                    refuse_edits(self.versions_folder, self.ledger, skill_id, version, force=False)
            with log.step("deactivate", 50):
                self.versions_folder.deactivate(skill_id)
            self.ledger.deactivate(skill_id, log)
            pruned = discard_all(self.versions_folder, self.ledger, skill_id, operation.folder) if prune else ()
        return Result(skill_id, skill.name, "uninstalled", None, before, None, log_id=log.id, pruned=pruned)

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
    ) -> Result:
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
            target = returning(known, version, before, stored=self.store is not None, force=force)
            serving = next((one for one in known if one.version == before), None)
            if serving is not None:
                changes = tuple(return_replacements(skill.name, serving, target))
                refuse_replacements(changes, accept_signer=accept_signer, accept_source=accept_source, agree=replacing)
            if target.removed:
                with log.step("restore", 50):
                    restore(self.store, self.versions_folder, self.ledger, target, operation.folder)
            refuse_edits(self.versions_folder, self.ledger, skill_id, target.version, force=force)
            self.ledger.write_log(log.id, version=target.version)
            with log.step("activate", 90):
                self.versions_folder.activate(skill_id, target.version, operation.folder)
            left = before if before != target.version else None
            self.ledger.activate(skill_id, target.version, log, action="rollback", left=left)
        return Result(skill_id, skill.name, "rolled back", target.version, before, target.digest, log_id=log.id)

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
                discard(self.versions_folder, self.ledger, found, operation.folder)
        return self._version(found.skill_id, found.version)

    def edit(self, name: str, **edits: Edited) -> InstalledSkill:
        """Say something else of a skill than its SKILL.md: `category`, `tags`, `author`, `homepage_url`, …; None takes it back.

        Raises:
            SkillNotFound: there never was one.
            InvalidInput: a field cannot be edited, or cannot be meant so.
        """
        skill_id = self.skill(name, installed=False).skill_id
        self.ledger.edit(skill_id, checked_edits(edits))
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
                return prune(
                    self.versions_folder, self.ledger, skill_id, operation.folder, keep=self.keep if keep is None else keep
                )

    @contextlib.contextmanager
    def _operation(
        self, kind: Operation, skill_id: str, *, version: str | None = None, progress: Progress | None = None
    ) -> Iterator[tuple[Workplace, OpenLog]]:
        with self.operations.begin() as operation:
            log = self.ledger.begin(operation.id, kind, skill_id=skill_id, version=version, progress=progress)
            with settling(operation, self.versions_folder, self.ledger):
                yield operation, log

    def _locked(self, skill_id: str) -> contextlib.AbstractContextManager[None]:
        return self.versions_folder.locked(skill_id)
