"""The registry: install, update, roll back and uninstall skills.

::

    registry = Registry.open()
    report = registry.install("anthropics/skills", skills=["pdf"])
    registry.installed.versions("pdf")
    registry.rollback("pdf")

Its methods block: asynchronous code calls them in a thread. One object may be used by many threads, and many processes may
work on one home at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from skillyard.coding_agents import SkillLinks
from skillyard.errors import InvalidConfiguration, SkillyardError, VersionPinned
from skillyard.packages import Source, Store, open_store, resolve
from skillyard.registry.agent_folders import AgentFolders
from skillyard.registry.candidate import ApprovalPolicy, InstallRequest, SignerPolicy
from skillyard.registry.dependencies import DependencyFinder
from skillyard.registry.install_pipeline import InstallPipeline
from skillyard.registry.installed_skills import InstalledSkills, RegistryStorage, VersionManager
from skillyard.registry.registry_values import (
    PINNED,
    EditValue,
    Fetcher,
    InstalledSkill,
    InstallOptions,
    InstallReport,
    OperationResult,
    PendingUpdate,
    Progress,
    RollbackOptions,
    check_edits,
)
from skillyard.registry.requirements import SkillDependencies, unmet_skill_requirements
from skillyard.registry.source_fetcher import SourceFetcher, source_of_version
from skillyard.registry.source_host_policy import LinkFetcher
from skillyard.registry.source_replacements import edited_version, refuse_replacements, rollback_replacements
from skillyard.registry.upgrade_checks import FindingPolicy, rollback_target
from skillyard.registry.version_approvals import VersionApprovals
from skillyard.registry.version_files import discard_all_versions, refuse_local_edits, restore_version
from skillyard.registry.version_store import CURRENT

if TYPE_CHECKING:
    from skillyard.catalog import SkillCatalog
    from skillyard.registry.candidate import Scanner
    from skillyard.registry.mirror_locations import MirrorSource
    from skillyard.registry.registry_records import Popularity, RegistryRecords, SkillOwners, VersionTags
    from skillyard.registry.registry_values import SkillVersion
    from skillyard.registry.skill_inspection import SkillInspection
    from skillyard.registry.version_files import BackfillReport, KeptLinkState


class Registry:
    """The installed skills of one home: files in `{data}/skills`, records in the database at `url`, else in `data`.

    Its own methods install, switch and uninstall. Its parts: `installed` reads skills, versions and history;
    `versions` deprecates, yanks, discards and prunes single versions; `approvals` are of versions that wait for a person;
    `tags` and `popularity` are what people add to skills; `links` are the skills in the folders of coding agents, which
    `agent_folders` updates with every change; `storage` has the files, the running operations and the records.

    `servers` are the names of registered MCP servers, which skills may require. `scanner` checks every skill before it is
    installed. `keep` versions of a skill stay on the disk; with a `store` the package of each is kept there, and an older one
    can be restored from there. `actor` is recorded for changes where no other actor is known. With `links` what skills tell to
    fetch is fetched when they are installed, and kept. `others` gives the skills that the caller has beside the installed ones,
    by name with their versions: what is there need not be installed.
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
        links: LinkFetcher | None = None,
        others: Callable[[], Mapping[str, str | None]] = dict,
    ) -> None:
        self.others = others
        self.storage = RegistryStorage(data, url, actor=actor)
        self.installed = InstalledSkills(self.storage, servers)
        self.versions = VersionManager(self.storage, self.installed, keep=keep)
        self.links = SkillLinks(data)
        self.agent_folders = AgentFolders(data, self.storage.versions, self.links)
        self.approvals = VersionApprovals(self.storage, self.installed, ApprovalPolicy(), self._switched)
        self.store = store
        self._fetcher = fetcher or SourceFetcher()
        self._scanner = scanner
        self._links = links
        self._link_fetcher = LinkFetcher()
        self._signers = SignerPolicy()
        self._scan_settings: tuple[Mapping[str, object], str] = ({}, "")

    @classmethod
    def open(cls, home: str | None = None, url: str | None = None) -> Self:
        """The registry of the folder `home`, by default Skillyard's own (`$SKILLYARD_HOME`)."""
        from skillyard.catalog import home_directory

        return cls(home or home_directory(), url or os.environ.get("SKILLYARD_DATABASE_URL") or None)

    @classmethod
    def of(cls, catalog: SkillCatalog, *, scanner: Scanner | None = None) -> Self:
        """The registry that a catalog's configuration names; `scanner` as above."""
        from skillyard.registry.logins import Logins

        configuration = catalog.configuration
        made = cls(
            catalog.data_directory,
            configuration.database_url,
            fetcher=SourceFetcher(
                allow_private=configuration.private_hosts,
                logins=Logins(catalog.data_directory),
                extensions=configuration.extensions,
            ),
            scanner=scanner,
            servers=tuple(configuration.servers),
            store=open_store(configuration.package_store) if configuration.package_store else None,
            keep=configuration.kept_versions,
            links=LinkFetcher(allow_private=configuration.private_hosts) if configuration.fetch_links else None,
            others=lambda: {skill.slug: skill.version for skill in catalog.all() if skill.source != "installed"},
        )
        made._link_fetcher = LinkFetcher(allow_private=configuration.private_hosts)
        made._signers = SignerPolicy(configuration.pinned_signers, Path(configuration.user_file or "").parent)
        if configuration.approval:
            made.approvals.policy = ApprovalPolicy.read(configuration.approval, configuration.user_file or "")
        made._scan_settings = (configuration.user_scan, configuration.user_file or "")
        return made

    def for_catalog(self, catalog: SkillCatalog, *, public_only: bool = False) -> Self:
        """The registry of a catalog, with the scanner and the fetcher of this one.

        With `public_only` it contacts public addresses only, whatever the configuration: for callers other than its user.
        """
        made = self.of(catalog, scanner=self._scanner)
        made._fetcher = SourceFetcher(own_credentials=False) if public_only else self._fetcher
        if public_only and made._links is not None:
            made._links = LinkFetcher()
        return made

    def close(self) -> None:
        """Close the records; the next use opens them again."""
        self.storage.close()

    @property
    def root(self) -> Path:
        """The folder of the installed skills, which catalogs read."""
        return self.storage.versions.root

    @property
    def records(self) -> RegistryRecords:
        """As `RegistryStorage.records`."""
        return self.storage.records

    @property
    def dependencies(self) -> SkillDependencies:
        """What installed skills require of each other and of this machine, and why each is here."""
        return SkillDependencies(self.records.read, self.installed.skill, self.installed.servers, self.others)

    @property
    def popularity(self) -> Popularity:
        """Stars and counts of downloads."""
        from skillyard.registry.registry_records import Popularity

        return Popularity(self.records.database)

    @property
    def owners(self) -> SkillOwners:
        """Who owns the names of skills."""
        from skillyard.registry.registry_records import SkillOwners

        return SkillOwners(self.records.database)

    @property
    def tags(self) -> VersionTags:
        """The names that were given to versions."""
        from skillyard.registry.registry_records import VersionTags

        return VersionTags(self.records.database)

    def install(
        self,
        source: str | Source,
        *,
        skills: Sequence[str] = (),
        expected: Mapping[str, str] | None = None,
        signers: Mapping[str, str] | None = None,
        only: Sequence[str] = (),
        activate: bool = True,
        new: bool = False,
        installed_at: datetime | None = None,
        operation_id: str | None = None,
        skip_refused: bool = False,
        **options: Unpack[InstallOptions],
    ) -> InstallReport:
        """Install the skills of a source: all of them, or those named in `skills` by name, id or path.

        `only` are the ids that are taken, `expected` the digests by id that must be met, `signers` the keys that a lock names.
        Without `activate` a new version of an installed skill is only kept: `rollback` makes it current. `installed_at` is
        when such a version was installed elsewhere: it is ordered among the others by that. With `new` only skills that
        are not installed yet are: of two who install one at the same moment, the second is refused. `operation_id`, from
        `new_operation_id`, lets a caller follow it while it runs. With `skip_refused` a skill that cannot be installed (too
        large, no valid SKILL.md) does not stop the others: the report names it. The rest is in `InstallOptions`.

        Raises:
            InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: it cannot be fetched or is none.
            InvalidSkill: a SKILL.md has no name or description.
            SkillExists: with `new`, it is installed already.
            ConsentRequired: the added powers were not agreed to.
            GraveFindings: the scanner found what the operator's `[scan] stops` names, and it is not in `accept`.
            LocalEdits: the installed version was changed by hand.
            DigestMismatch: its digest is not that in `expected`.
            SignatureInvalid, SignerChanged: its signature does not hold, or is somebody else's than before.
            SourceChanged: it comes from another source than the current version.
        """
        request = InstallRequest(
            resolve(source, names=skills),
            tuple(skills),
            only=tuple(only),
            expected=expected or {},
            signers=signers or {},
            activate=activate,
            new=new,
            installed_at=installed_at and min(installed_at, datetime.now(UTC)),
            operation_id=operation_id,
            skip_refused=skip_refused,
            **options,
        )
        return self._followed(self._pipeline().install(request))

    def inspect(
        self,
        source: str | Source,
        *,
        skills: Sequence[str] = (),
        dependencies: bool = True,
        progress: Callable[[int, int], object] | None = None,
    ) -> tuple[SkillInspection, ...]:
        """What would be installed from a source, checked as an installation does, without installing.

        With `dependencies` the dependencies that would be installed are looked for. `progress(done, total)` counts skills.

        Raises:
            InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: as `install`.
        """
        from skillyard.registry.skill_inspection import inspect_source

        request = InstallRequest(resolve(source, names=skills), tuple(skills), dependencies=dependencies)
        return inspect_source(self._pipeline(), request, progress)

    def update(
        self,
        name: str,
        *,
        signers: Mapping[str, str] | None = None,
        operation_id: str | None = None,
        theirs: bool = False,
        **options: Unpack[InstallOptions],
    ) -> InstallReport:
        """Fetch a skill again from its source, and install it if it has changed.

        Content that was rolled back from, or deprecated, is not brought back without `force`. An adopted edit follows the
        source of the version that was edited: it is kept, with a warning where that has gone on, unless `theirs` is wanted.

        Raises:
            InvalidSource: it was uploaded, and comes from nowhere.
            VersionPinned: its version is pinned.
            SkillyardError: as `install`; it is not installed.
        """
        current = self.installed.current(name)
        followed = edited_version(current, self.installed.versions(current.skill_id))
        self._follow_publisher(followed)
        self._refuse_pinned(current.skill_id)
        request = InstallRequest(
            source_of_version(followed),
            edit_of="" if theirs or followed is current else followed.digest,
            only=(current.skill_id,),
            operation="update",
            signers=signers or {},
            operation_id=operation_id,
            **options,
        )
        return self._followed(self._pipeline().install(request))

    def pending_update(self, name: str) -> PendingUpdate:
        """Whether the source of a skill has an update, and what would change; nothing is installed.

        Raises:
            SkillNotFound: it is not installed.
        """
        from skillyard.registry.skill_inspection import with_notice

        current = self.installed.current(name)
        return with_notice(self._pending_update(current), current, self._mirror_of(current))

    def _pending_update(self, current: SkillVersion) -> PendingUpdate:
        skill_id, version, declared = current.skill_id, current.version, current.label or None
        try:
            self._refuse_pinned(skill_id)
            recorded = self.installed.versions(skill_id)
            inspected = self.inspect(source_of_version(edited_version(current, recorded)), dependencies=False)
        except VersionPinned as error:
            return PendingUpdate(skill_id, "pinned", version, declared, reason=error.message)
        except SkillyardError as error:
            return PendingUpdate(skill_id, "unknown", version, declared, reason=error.message)
        from skillyard.registry.skill_inspection import compared_update

        found = next((one for one in inspected if one.skill_id == skill_id), None)
        return compared_update(current, found, recorded)

    def kept_links(self, *, upstream: bool = False) -> tuple[KeptLinkState, ...]:
        """The state of the kept links of installed skills; with `upstream` their addresses are requested too."""
        from skillyard.registry.version_files import kept_link_states

        serving = {version.skill_id: version.version for version in self.installed.serving().values()}
        fetcher = (self._links or self._link_fetcher) if upstream else None
        return kept_link_states(self.storage.versions, serving, fetcher)

    def _mirror_of(self, version: SkillVersion) -> MirrorSource | None:
        """The mirror that a version came from, in so far as this registry reads mirrors."""
        if version.origin.get("kind") != "mirror" or not isinstance(self._fetcher, SourceFetcher):
            return None
        return self._fetcher.mirror(str(version.origin["address"]))

    def _follow_publisher(self, version: SkillVersion) -> None:
        """Copy the marks of versions from the source of a skill, so that other registries that fetch from here get them too."""
        if (mirror := self._mirror_of(version)) is not None:
            with contextlib.suppress(SkillyardError):
                self.versions.follow_publisher(version, mirror)

    def _pinned(self, skill_id: str) -> bool:
        version = self.tags.of(skill_id).get(PINNED)
        return version is not None and version == self.storage.versions.current(skill_id)

    def _refuse_pinned(self, skill_id: str) -> None:
        if self._pinned(skill_id):
            raise VersionPinned(
                f"{skill_id} is pinned at version {self.storage.versions.current(skill_id)}",
                hint=f"`skillyard pin {skill_id} --undo` allows updates again",
            )

    def pin(self, name: str) -> SkillVersion:
        """Keep the current version: no update replaces it until `unpin`.

        Raises:
            SkillNotFound: it is not installed.
        """
        current = self.installed.current(name)
        self.tags.put(current.skill_id, PINNED, current.version)
        return current

    def unpin(self, name: str) -> SkillVersion:
        """Let updates replace the current version again; does nothing if it is not pinned.

        Raises:
            SkillNotFound: it is not installed.
        """
        current = self.installed.current(name)
        self.tags.remove(current.skill_id, PINNED)
        return current

    def rollback(self, name: str, version: str | None = None, **options: Unpack[RollbackOptions]) -> OperationResult:
        """Make another version current: the one named, else the newest usable one before the current.

        The version that was current becomes deprecated. An uninstalled skill is restored this way too. Another signer or
        source is decided about as by `install`; `force` allows a deprecated version, and one that was changed by hand.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
            VersionUnusable: it is deprecated, yanked, or its files were deleted; `force` allows the first.
            VersionNotApproved: the operator's policy wants an approval that it has not got.
            LocalEdits: a version was changed by hand.
            SignerChanged, SourceChanged: it is of another signer or source than the current version.
            SkillRequired: another skill requires a version in which it is not.
        """
        skill = self.installed.skill(name, installed=False)
        skill_id, force, versions = skill.skill_id, options.get("force", False), self.storage.versions
        with self.storage.operation("rollback", skill_id, version=version, progress=options.get("progress")) as (running, log):
            before = versions.current(skill_id)
            recorded = self.installed.versions(skill_id)
            target = rollback_target(
                recorded, version, before, stored=self.store is not None, force=force, refused=self.approvals.problem
            )
            self.approvals.require(target)
            current = next((one for one in recorded if one.version == before), None)
            if current is not None:
                refuse_replacements(
                    tuple(rollback_replacements(skill.name, current, target, recorded)),
                    accept_signer=options.get("accept_signer", False),
                    accept_source=options.get("accept_source", False),
                    agree=options.get("replacing"),
                )
            if target.removed:
                with log.step("restore", 50):
                    restore_version(self.store, versions, self.records, target, running.folder)
            refuse_local_edits(versions, self.records, skill_id, target.version, force=force)
            if options.get("dependencies", True):
                self.dependencies.refuse_broken(skill_id, target.declared_version)
            self.records.logs.write(log.id, version=target.version)
            with log.step("activate", 90):
                versions.activate(skill_id, target.version, running.folder)
            left = before if before != target.version else None
            self.records.activate(skill_id, target.version, log, action="rollback", left=left)
        unmet = self.dependencies.unmet(self.installed.skill(skill_id))
        return self._with_links(
            OperationResult(
                skill_id, skill.name, "rolled back", target.version, before, target.digest, log_id=log.id, unmet=unmet
            )
        )

    def uninstall(
        self,
        name: str,
        *,
        prune: bool = False,
        force: bool = False,
        dependencies: bool = True,
        progress: Progress | None = None,
    ) -> OperationResult:
        """Uninstall a skill; its versions stay on the disk and can be restored with `rollback`, unless `prune`.

        Raises:
            SkillNotFound: it is not installed.
            SkillRequired: another skill requires it, and `dependencies` is not false.
            LocalEdits: with `prune`, when a version was changed by hand and no `force`.
        """
        skill = self.installed.skill(name)
        skill_id, versions = skill.skill_id, self.storage.versions
        with self.storage.operation("uninstall", skill_id, progress=progress) as (running, log):
            if dependencies:
                self.dependencies.refuse_broken(skill_id, None, gone=True)
            before = versions.current(skill_id)
            if prune and not force:
                for version in versions.names(skill_id):
                    refuse_local_edits(versions, self.records, skill_id, version, force=False)
            with log.step("deactivate", 50):
                versions.deactivate(skill_id)
            self.records.deactivate(skill_id, log)
            pruned = discard_all_versions(versions, self.records, skill_id, running.folder) if prune else ()
        result = OperationResult(skill_id, skill.name, "uninstalled", None, before, None, log_id=log.id, pruned=pruned)
        return self._with_links(result, forget=prune)

    def edit(self, name: str, **edits: EditValue) -> InstalledSkill:
        """Edit what the SKILL.md of a skill declares: `display_name`, `category`, `tags`, `author`, …; None undoes that.

        Raises:
            SkillNotFound: there never was one.
            InvalidInput: a field cannot be edited, or cannot be meant so.
        """
        skill_id = self.installed.skill(name, installed=False).skill_id
        self.records.edit(skill_id, check_edits(edits))
        return self.installed.skill(skill_id, installed=False)

    def backfill(self) -> BackfillReport:
        """Fill records and store from the disk: definitions, versions, contents, packages; safe to repeat."""
        from skillyard.registry.version_files import backfill

        return backfill(self.storage.versions, self.storage.operations, self.records, self.store)

    def _followed(self, report: InstallReport) -> InstallReport:
        return replace(report, results=tuple(self._with_withdrawal(self._with_links(result)) for result in report.results))

    def _with_withdrawal(self, result: OperationResult) -> OperationResult:
        """The result, with a warning where what came from a mirror was withdrawn by its publisher."""
        if result.origin.get("kind") != "mirror" or result.status not in ("installed", "updated", "unchanged"):
            return result
        self._follow_publisher(self.installed.current(result.skill_id))
        withdrawn = self.installed.current(result.skill_id).withdrawn
        return replace(result, warnings=(*result.warnings, withdrawn)) if withdrawn else result

    def _with_links(self, result: OperationResult, *, forget: bool = False) -> OperationResult:
        """The result, after folders of coding agents were brought to what is current now; what could not be is a warning."""
        problems = self._switched(result.skill_id, forget=forget)
        return replace(result, warnings=(*result.warnings, *problems)) if problems else result

    def _switched(self, skill_id: str, *, forget: bool = False) -> tuple[str, ...]:
        """Bring lists and the folders of coding agents to what is current now; a sentence for what could not be."""
        self.storage.note_withdrawn()
        try:
            reports = self.agent_folders.follow(skill_id, forget=forget)
        except (InvalidConfiguration, OSError) as error:
            return (f"folders of coding agents were not looked at: {error}",)
        return tuple(f"{report.path}: {report.reason}" for report in reports)

    def current_folder(self, name: str) -> tuple[str, Path]:
        """The id of an installed skill, and the folder that is its current version whichever that is.

        Raises:
            SkillNotFound: it is not installed.
        """
        skill_id = self.installed.current(name).skill_id
        return skill_id, self.storage.versions.home(skill_id) / CURRENT

    def adopt(
        self, name: str, *, agent: str | None = None, project: str | None = None, **options: Unpack[InstallOptions]
    ) -> InstallReport:
        """Make the copy of a skill that was edited in a coding agent's folder the next version; other copies follow.

        Edited copies below the folder `project` come first. The version counts as uploaded; `update` goes on to look where the
        version came from that was edited, and `rollback` to one of that source asks nothing.
        Of a signed skill the signature is left out.

        Raises:
            SkillNotFound: it is not installed, or no copy was edited.
            LocalEdits: more than one was, differently, and neither `agent` nor `project` says which is meant.
            SkillyardError: as `install`.
        """
        from skillyard.packages import SIGNATURE_FILE, copy_tree, pack
        from skillyard.packages.model_signature import OMS_FILE

        options["accept_source"] = True  # an edit by hand comes from nowhere else
        current = self.installed.current(name)
        skill_id, link = current.skill_id, self.links.edited(current.skill_id, agent, project=project)
        with self.storage.operations.begin() as scratch:
            scratch.settled = True  # it opens no log: what is left is only to be deleted
            tree = copy_tree(link.path, scratch.folder, without=lambda path, _entry: path in (SIGNATURE_FILE, OMS_FILE))
            archive = scratch.folder / f"{skill_id}.zip"
            pack(tree, archive)
            source = Source("upload", str(archive), edits=current.version)
            report = self._pipeline().install(InstallRequest(source, only=(skill_id,), **options))
        if not any(result.status == "waiting" for result in report.results):
            self.links.accept(link)
        return self._followed(report)

    def _pipeline(self) -> InstallPipeline:
        policy = FindingPolicy.read(*self._scan_settings) if self._scanner is not None else FindingPolicy()
        return InstallPipeline(
            self.storage.versions,
            self.storage.operations,
            self.records,
            self._fetcher,
            partial(unmet_skill_requirements, self.records.read, self.installed.servers, others=self.others),
            self._scanner,
            policy,  # of the operator's own file, no project's
            signers=self._signers,
            approval=self.approvals.policy,
            keep=self.versions.keep,
            store=self.store,
            links=self._links,
            dependencies=DependencyFinder(self.records.read, self._fetcher, self._pinned, self.others),
        )
