"""The registry: install, update, roll back and uninstall skills, and know all there is to know about them.

::

    registry = Registry.open()
    report = registry.install("anthropics/skills", skills=["pdf"])
    registry.rollback("pdf")

Its methods block: asynchronous code calls them in a thread. One object may be used by many threads, and many processes may
work on one home at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Self

from skillyard.errors import InvalidSource
from skillyard.packages import Origin, Source, Store, open_store, resolve
from skillyard.registry.archive import restore
from skillyard.registry.discarding import discard, discard_all
from skillyard.registry.editing import Edited, checked_edits
from skillyard.registry.fetched import Fetcher
from skillyard.registry.fetching import SourceFetcher, source_of
from skillyard.registry.holdings import Holdings
from skillyard.registry.local_edits import refuse_edits
from skillyard.registry.model import (
    Consent,
    InstalledSkill,
    InstallReport,
    Operation,
    Progress,
    Result,
    SkillVersion,
)
from skillyard.registry.needs import unmet_needs
from skillyard.registry.pipeline import Order, Pipeline
from skillyard.registry.recovery import settling
from skillyard.registry.returning import returning

if TYPE_CHECKING:
    from skillyard.catalog import Catalog
    from skillyard.registry.backfill import Backfilled
    from skillyard.registry.candidate import Scanner
    from skillyard.registry.inspection import Inspected
    from skillyard.registry.open_log import OpenLog
    from skillyard.registry.operations import Workplace

__all__ = ["Registry"]


class Registry(Holdings):
    """The installed skills of one home: files in `{data}/skills`, records in the database at `url`, else in `data`.

    `servers` are the names of registered MCP servers, which skills may require. `scanner` looks into every skill before it is
    installed. `keep` versions of a skill stay on the disk; with a `store` the package of each is kept there, and an older one
    comes back.
    """

    def __init__(
        self,
        data: str,
        url: str | None = None,
        *,
        fetcher: Fetcher | None = None,
        scanner: Scanner | None = None,
        servers: Sequence[str] = (),
        store: Store | None = None,
        keep: int = 5,
        actor: str | None = None,
    ) -> None:
        super().__init__(data, url, servers=servers, actor=actor)
        self._fetcher = fetcher or SourceFetcher()
        self._scanner = scanner
        self.store = store
        self.keep = keep

    @classmethod
    def open(cls, home: str | None = None, url: str | None = None) -> Self:
        """The registry of the folder `home`, by default Skillyard's own (`$SKILLYARD_HOME`)."""
        import os

        from skillyard.catalog import home_directory

        return cls(home or home_directory(), url or os.environ.get("SKILLYARD_DATABASE_URL") or None)

    @classmethod
    def of(cls, catalog: Catalog, *, scanner: Scanner | None = None) -> Self:
        """The registry that a catalog's configuration names; `scanner` as above."""
        configuration = catalog.configuration
        store = open_store(configuration.package_store) if configuration.package_store else None
        servers = tuple(configuration.servers)
        fetcher = SourceFetcher(allow_private=configuration.private_hosts)
        return cls(
            catalog.data_directory,
            configuration.database_url,
            fetcher=fetcher,
            scanner=scanner,
            servers=servers,
            store=store,
            keep=configuration.kept_versions,
        )

    def beside(self, catalog: Catalog, *, public_only: bool = False) -> Self:
        """The registry of a catalog, which looks into what it installs as this one does, and fetches from where this one does.

        With `public_only` it asks no address that is not public, whatever the configuration says: for who is not its user.
        """
        made = self.of(catalog, scanner=self._scanner)
        made._fetcher = SourceFetcher() if public_only else self._fetcher
        return made

    # -- changing --------------------------------------------------------------------------------------------------------

    def install(
        self,
        source: str | Source,
        *,
        skills: Sequence[str] = (),
        consent: Consent | None = None,
        force: bool = False,
        expected: Mapping[str, str] | None = None,
        only: Sequence[str] = (),
        accept_signer: bool = False,
        activate: bool = True,
        new: bool = False,
        installed_at: datetime | None = None,
        progress: Progress | None = None,
        operation_id: str | None = None,
    ) -> InstallReport:
        """Install the skills of a source: all of them, or those named in `skills` by name, id or path.

        `consent` is asked when an installed skill would be allowed more than before; without it that is refused. `only` are
        the ids that are taken, `expected` the digests by id that must be met. Content that is installed already is left
        alone, unless `force`. Whoever signed the first version must sign the next ones, unless `accept_signer`. Without
        `activate` a new version of an installed skill is only kept: `rollback` to it lets it serve. `installed_at` is when
        such a version was installed elsewhere: it takes its place among the others by that. With `new` only skills that are
        not installed yet are: of two who install one at the same moment, the second is refused. `operation_id`, from
        `new_operation_id`, is for who wants to follow it while it goes on.

        Raises:
            InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: it cannot be fetched or is none.
            InvalidSkill: a SKILL.md has no name or description.
            SkillExists: with `new`, it is installed already.
            ConsentRequired: nobody agreed to more power.
            LocalEdits: the installed version was changed by hand.
            DigestMismatch: it is not what `expected` says.
            SignatureInvalid, SignerChanged: its signature does not hold, or is somebody else's than before.
        """
        found = resolve(source, names=tuple(skills)) if isinstance(source, str) else source
        return self._pipeline().install(
            Order(
                found,
                tuple(skills),
                only=tuple(only),
                expected=expected or {},
                consent=consent,
                force=force,
                accept_signer=accept_signer,
                activate=activate,
                new=new,
                installed_at=installed_at and min(installed_at, datetime.now(UTC)),
                progress=progress,
                operation_id=operation_id,
            )
        )

    def inspect(self, source: str | Source, *, skills: Sequence[str] = ()) -> tuple[Inspected, ...]:
        """What would be installed from a source, looked at as closely as an installation does, and installed not at all.

        Raises:
            InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: as `install`.
        """
        from skillyard.registry.inspection import inspect

        found = resolve(source, names=tuple(skills)) if isinstance(source, str) else source
        return inspect(self._pipeline(), Order(found, tuple(skills)))

    def update(
        self,
        name: str,
        *,
        consent: Consent | None = None,
        force: bool = False,
        accept_signer: bool = False,
        progress: Progress | None = None,
        operation_id: str | None = None,
    ) -> InstallReport:
        """Fetch a skill again from where it came from, and install what is there when it is something else.

        Raises:
            InvalidSource: it was uploaded, and comes from nowhere.
            SkillyardError: as `install`; it is not installed.
        """
        skill = self.skill(name)
        origin = self.current(skill.skill_id).origin
        if origin.get("kind") == "upload":
            raise InvalidSource(
                f"{skill.skill_id} was uploaded as {origin['address']}: there is nowhere to look for a newer version",
                hint="upload the new version, or `skillyard install` its archive: it becomes the next version of this skill",
            )
        source = source_of(Origin(**{key: str(value) for key, value in origin.items()}))  # type: ignore[arg-type] # kind is text
        return self._pipeline().install(
            Order(
                source,
                only=(skill.skill_id,),
                operation="update",
                consent=consent,
                force=force,
                accept_signer=accept_signer,
                progress=progress,
                operation_id=operation_id,
            )
        )

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
        self, name: str, version: str | None = None, *, force: bool = False, progress: Progress | None = None
    ) -> Result:
        """Let another version serve: the one named, else the newest usable one before the current.

        The version that served becomes deprecated. An uninstalled skill comes back this way too.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
            VersionUnusable: it is deprecated, yanked, or its files are gone; `force` allows the first.
            LocalEdits: a version was changed by hand.
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
                return self._pipeline().prune(skill_id, operation, keep=keep)

    def backfill(self) -> Backfilled:
        """Fill records and store from the disk: definitions, versions, contents, packages; safe to repeat."""
        from skillyard.registry.backfill import backfill

        return backfill(self.versions_folder, self.operations, self.ledger, self.store)

    # -- pieces ----------------------------------------------------------------------------------------------------------

    def _pipeline(self) -> Pipeline:
        return Pipeline(
            self.versions_folder,
            self.operations,
            self.ledger,
            self._fetcher,
            partial(unmet_needs, self.ledger, self._servers),
            self._scanner,
            keep=self.keep,
            store=self.store,
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
