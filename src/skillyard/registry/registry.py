"""The registry: install, update, roll back and uninstall skills, and know all there is to know about them.

::

    registry = Registry.open()
    report = registry.install("anthropics/skills", skills=["pdf"])
    registry.rollback("pdf")

Its methods block: asynchronous code calls them in a thread. One object may be used by many threads, and many processes may
work on one home at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Self

from skillyard.errors import InvalidSource
from skillyard.packages import Origin, Source, Store, open_store, resolve
from skillyard.registry.candidate import InstallRequest
from skillyard.registry.fetcher import Fetcher
from skillyard.registry.install_pipeline import InstallPipeline
from skillyard.registry.model import AgreeReplacement, Consent, InstallReport, Progress
from skillyard.registry.requirement_checks import unmet_skill_requirements
from skillyard.registry.source_fetcher import SourceFetcher, source_from_origin
from skillyard.registry.version_management import VersionManager

if TYPE_CHECKING:
    from skillyard.catalog import SkillCatalog
    from skillyard.registry.candidate import Scanner
    from skillyard.registry.install_pipeline import SkillInspection
    from skillyard.registry.recovery import BackfillReport


class Registry(VersionManager):
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
        super().__init__(data, url, servers=servers, store=store, keep=keep, actor=actor)
        self._fetcher = fetcher or SourceFetcher()
        self._scanner = scanner

    @classmethod
    def open(cls, home: str | None = None, url: str | None = None) -> Self:
        """The registry of the folder `home`, by default Skillyard's own (`$SKILLYARD_HOME`)."""
        import os

        from skillyard.catalog import home_directory

        return cls(home or home_directory(), url or os.environ.get("SKILLYARD_DATABASE_URL") or None)

    @classmethod
    def of(cls, catalog: SkillCatalog, *, scanner: Scanner | None = None) -> Self:
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

    def beside(self, catalog: SkillCatalog, *, public_only: bool = False) -> Self:
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
        signers: Mapping[str, str] | None = None,
        only: Sequence[str] = (),
        accept_signer: bool = False,
        accept_source: bool = False,
        replacing: AgreeReplacement | None = None,
        activate: bool = True,
        new: bool = False,
        installed_at: datetime | None = None,
        progress: Progress | None = None,
        operation_id: str | None = None,
    ) -> InstallReport:
        """Install the skills of a source: all of them, or those named in `skills` by name, id or path.

        `consent` is asked when an installed skill would be allowed more than before; without it that is refused. `only` are
        the ids that are taken, `expected` the digests by id that must be met, `signers` the keys that a lock names. Content
        that is installed already is left alone, unless `force`. The next version of a skill comes from the same source, unless
        `accept_source`, and is signed by whoever signed the one before, unless `accept_signer`; `replacing` is asked about
        what these two do not accept. Without
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
            SourceChanged: it comes from another source than the version that serves.
        """
        found = resolve(source, names=tuple(skills)) if isinstance(source, str) else source
        return self._pipeline().install(
            InstallRequest(
                found,
                tuple(skills),
                only=tuple(only),
                expected=expected or {},
                signers=signers or {},
                consent=consent,
                force=force,
                accept_signer=accept_signer,
                accept_source=accept_source,
                replacing=replacing,
                activate=activate,
                new=new,
                installed_at=installed_at and min(installed_at, datetime.now(UTC)),
                progress=progress,
                operation_id=operation_id,
            )
        )

    def inspect(self, source: str | Source, *, skills: Sequence[str] = ()) -> tuple[SkillInspection, ...]:
        """What would be installed from a source, looked at as closely as an installation does, and installed not at all.

        Raises:
            InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: as `install`.
        """
        from skillyard.registry.install_pipeline import inspect_source

        found = resolve(source, names=tuple(skills)) if isinstance(source, str) else source
        return inspect_source(self._pipeline(), InstallRequest(found, tuple(skills)))

    def update(
        self,
        name: str,
        *,
        consent: Consent | None = None,
        force: bool = False,
        signers: Mapping[str, str] | None = None,
        accept_signer: bool = False,
        accept_source: bool = False,
        replacing: AgreeReplacement | None = None,
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
        source = source_from_origin(Origin(**{key: str(value) for key, value in origin.items()}))  # type: ignore[arg-type] # kind is text
        return self._pipeline().install(
            InstallRequest(
                source,
                only=(skill.skill_id,),
                operation="update",
                signers=signers or {},
                consent=consent,
                force=force,
                accept_signer=accept_signer,
                accept_source=accept_source,
                replacing=replacing,
                progress=progress,
                operation_id=operation_id,
            )
        )

    def backfill(self) -> BackfillReport:
        """Fill records and store from the disk: definitions, versions, contents, packages; safe to repeat."""
        from skillyard.registry.recovery import backfill

        return backfill(self.versions_folder, self.operations, self.ledger, self.store)

    # -- pieces ----------------------------------------------------------------------------------------------------------

    def _pipeline(self) -> InstallPipeline:
        return InstallPipeline(
            self.versions_folder,
            self.operations,
            self.ledger,
            self._fetcher,
            partial(unmet_skill_requirements, self.ledger, self._servers),
            self._scanner,
            keep=self.keep,
            store=self.store,
        )
