"""Installing step by step (fetch, measure, check, scan, consent, record, activate).

Until the link `current` is switched, the current version is not touched. Whatever fails before leaves the old version as it
was, and what was begun is cleaned up at once, or by the next operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from skillyard.catalog.skill_files import kept_links
from skillyard.environments import Requirements
from skillyard.errors import ArchiveRefused, FileProblem, InvalidSkill, SkillyardError
from skillyard.interop.agent_plugins import skills_of_package
from skillyard.packages import (
    FoundSkill,
    PackageLimits,
    Source,
    Store,
    choose_skills,
    find_skills,
    tree_digest,
    without_secrets,
)
from skillyard.registry.candidate import (
    ApprovalPolicy,
    Candidate,
    InstallRequest,
    Scanner,
    SignerPolicy,
    check_candidate,
    require_valid,
    select_candidates,
    staged_candidate,
)
from skillyard.registry.dependencies import DependencyFinder, DependencyRequest
from skillyard.registry.registry_values import (
    Fetcher,
    InstallRefusal,
    InstallReport,
    OperationResult,
    ResultStatus,
    deprecated_version,
)
from skillyard.registry.source_host_policy import KEPT_KINDS
from skillyard.registry.source_replacements import accept_replacements, find_replacements, refuse_replacements, shown_source
from skillyard.registry.upgrade_checks import (
    FindingPolicy,
    beside_edit,
    consent_required,
    judged_by_publisher,
    power_change,
    refuse_existing,
    refuse_grave_findings,
    refuse_taken_version,
    refuse_yanked,
    require_consent,
)
from skillyard.registry.version_files import (
    prune_versions,
    recover,
    refuse_local_edits,
    settling,
    store_package,
    write_kept_links,
)
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.registry.registry_records import RegistryRecords
    from skillyard.registry.registry_values import FetchedTree
    from skillyard.registry.source_host_policy import LinkFetcher
    from skillyard.registry.version_store import OpenLog, Operations, RunningOperation, VersionStore


@dataclass(frozen=True, slots=True)
class InstallPipeline:
    """Everything an installation needs; `keep` versions of a skill stay on the disk, their packages go to the `store`."""

    versions: VersionStore
    operations: Operations
    records: RegistryRecords
    fetcher: Fetcher
    unmet: Callable[[str, Requirements], tuple[str, ...]]
    scanner: Scanner | None = None
    finding_policy: FindingPolicy = field(default_factory=FindingPolicy)
    limits: PackageLimits = field(default_factory=PackageLimits)
    signers: SignerPolicy = field(default_factory=SignerPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    keep: int = 5
    store: Store | None = None
    links: LinkFetcher | None = None
    """Fetches what skills tell to fetch, where the user wants that."""
    dependencies: DependencyFinder | None = None
    """Finds the dependencies of what is installed; None: no dependencies are installed."""

    def install(self, request: InstallRequest) -> InstallReport:
        """Carry out a request; all skills are fetched, checked and agreed to before the first is installed.

        Raises:
            SkillyardError: what was refused; no version has changed, and the log gives the reason.
        """
        recover(self.operations, self.versions, self.records)
        with self.operations.begin(request.operation_id) as operation:
            log = self.records.logs.begin(
                operation.id, request.operation, source=shown_source(request.source), progress=request.progress
            )
            with settling(operation, self.versions, self.records):
                refused: list[InstallRefusal] = []
                results = self._install(operation, log, request, refused)
        return InstallReport(operation.id, results, tuple(refused))

    def _install(
        self, operation: RunningOperation, log: OpenLog, request: InstallRequest, refused: list[InstallRefusal]
    ) -> tuple[OperationResult, ...]:
        with log.step("download", 30):
            fetched = self.fetcher.fetch(request.source, operation.folder)
            offered, passed_over = skills_of_package(Path(fetched.tree), find_skills(fetched.tree))
            skills = choose_skills(offered, () if fetched.chosen else request.names)
        with log.step("checksum", 50):
            pairs = select_candidates(self._staged(operation, skills, fetched, request, refused), request, refused)
        if request.dependencies and self.dependencies is not None:
            had = ([candidate for candidate, _ in pairs], request.source, fetched, offered, operation.folder, self.limits)
            pairs = self._with_dependencies(self.dependencies, log, pairs, DependencyRequest(*had))
        logs = self._logs(operation, log, [candidate for candidate, _ in pairs], request)
        if request.edit_of:
            return (self._keep(*beside_edit(self.versions, pairs[0][0], request), log),)
        with log.step("validate_structure", 60):
            candidates = [check_candidate(candidate, folder, self.signers) for candidate, folder in pairs]
            for candidate in candidates:
                self.records.require_owner(candidate.skill_id)
                if self.versions.current(candidate.skill_id) is not None:
                    refuse_existing(candidate.skill_id, request)
                refuse_yanked(self.records, candidate, request)
                refuse_taken_version(self.records, candidate, request)
            candidates, replaced = accept_replacements(self.versions, self.records, candidates, request)
            candidates = [_with_address_warning(candidate, request.source) for candidate in candidates]
            candidates[:1] = [replace(one, warnings=(*one.warnings, *passed_over)) for one in candidates[:1]]
        if self.scanner is not None:
            with log.step("scan", 65):
                candidates = [replace(one, findings=candidate_findings(self, self.scanner, one)) for one in candidates]
                candidates = refuse_grave_findings(self.records.read, candidates, self.finding_policy, request.accept)
        if self.links is None:
            candidates = [self.with_links(candidate) for candidate in candidates]
        else:
            with log.step("fetch_links", 68):
                candidates = [self.with_links(candidate) for candidate in candidates]
        with log.step("consent", 70):
            accepted = require_consent(self.versions, candidates, request)
        results = {
            candidate.skill_id: self._commit(
                operation, candidate, own, accepted[candidate.skill_id] | replaced[candidate.skill_id], request
            )
            for candidate, own in sorted(zip(candidates, logs, strict=True), key=lambda pair: not pair[0].required_by)
        }
        needs = {candidate.skill_id: candidate.requirements for candidate in candidates}
        return tuple(  # what one lacked may have come with another
            replace(one, unmet=self.unmet(name, needs[name])) if (one := results[name]).unmet else one for name in needs
        )

    def _staged(
        self,
        operation: RunningOperation,
        skills: Sequence[FoundSkill],
        fetched: FetchedTree,
        request: InstallRequest,
        refused: list[InstallRefusal],
    ) -> list[tuple[Candidate, str]]:
        """The candidates; what is left out goes to `refused`.

        Raises:
            ArchiveRefused, FileProblem: as `staged_candidate`.
            InvalidSkill: of every skill, where those that cannot be installed are left out.
        """
        pairs: list[tuple[Candidate, str]] = []
        for skill in skills:
            try:
                candidate, folder = staged_candidate(skill, fetched, operation.folder, self.limits, request.source)
                if request.skip_refused:
                    require_valid(candidate, folder)
            except (ArchiveRefused, FileProblem, InvalidSkill) as error:
                if not request.skip_refused or len(refused) + 1 == len(skills):
                    raise named_refusal(error, skill, skills) from None
                refused.append(InstallRefusal.of(named_refusal(error, skill, ())))
            else:
                pairs.append((candidate, folder))
        return pairs

    def _with_dependencies(
        self,
        finder: DependencyFinder,
        log: OpenLog,
        pairs: list[tuple[Candidate, str]],
        asked: DependencyRequest,
    ) -> list[tuple[Candidate, str]]:
        """The candidates, and behind them the dependencies that they require.

        Raises:
            DependencyConflict, DependencyCycle: as `DependencyFinder.bring`.
        """
        needing = any(one.requirements.skills or one.requirements.any_skills for one in asked.candidates)
        if not needing and all(self.versions.current(one.skill_id) is None for one in asked.candidates):
            return pairs
        with log.step("dependencies", 55) if needing else contextlib.nullcontext():
            added, problems = finder.bring(asked)
        (first, folder), *others = pairs
        return [(replace(first, warnings=(*first.warnings, *problems)), folder), *others, *added]

    def with_links(self, candidate: Candidate) -> Candidate:
        """The candidate with what it tells to fetch; where nothing is fetched, the same content keeps what it had."""
        current = self.versions.current(candidate.skill_id)
        before = kept_links(self.versions.path(candidate.skill_id, current)) if current else ()
        contents: Mapping[str, bytes] = {}
        if candidate.links:  # a mirror has them
            kept, contents = candidate.links, candidate.link_contents
        elif self.links is not None:
            from skillyard.scanner.late_links import find_late_links

            kept, contents = self.links.fetch(find_late_links(candidate.tree), {one.address: one for one in before})
        else:
            same = before and tree_digest(self.versions.path(candidate.skill_id, current or "")) == candidate.digest
            kept = before if same else ()
        failed = tuple(f"{one.address} is not kept: {one.problem}" for one in kept if one.problem and one.kind in KEPT_KINDS)
        return replace(
            candidate,
            links=kept,
            link_contents=contents,
            powers=candidate.powers.with_links(kept),
            warnings=(*candidate.warnings, *(failed if self.links else ())),
        )

    def _logs(
        self, operation: RunningOperation, log: OpenLog, candidates: Sequence[Candidate], request: InstallRequest
    ) -> list[OpenLog]:
        """One log for each skill: the first continues the existing one."""
        logs = []
        for index, candidate in enumerate(candidates):
            kind = _kind(self.versions.current(candidate.skill_id), request)
            own = log
            if index:
                own = self.records.logs.begin(
                    operation.id, kind, source=log.source, skill_id=candidate.skill_id, progress=request.progress, like=log
                )
            own.operation, own.skill_id = kind, candidate.skill_id
            self.records.logs.write(own.id, operation=kind, skill_id=candidate.skill_id)
            because = candidate.required_by or request.required_by.get(candidate.skill_id, ())
            if because or (request.operation == "install" and self.records.read.required_by(candidate.skill_id)):
                self.records.logs.write(own.id, details={"required_by": list(because)})
            logs.append(own)
        return logs

    def _commit(
        self, operation: RunningOperation, candidate: Candidate, log: OpenLog, accepted: frozenset[str], request: InstallRequest
    ) -> OperationResult:
        skill_id = candidate.skill_id
        with self.versions.locked(skill_id):
            current = self.versions.current(skill_id)
            self._note_kind(log, current, request)
            self.records.require_owner(skill_id)  # again: somebody may have claimed the name meanwhile
            refuse_taken_version(self.records, candidate, request)
            if current is not None:
                refuse_existing(skill_id, request)
                actual = refuse_local_edits(self.versions, self.records, skill_id, current, force=request.force)
                if actual == candidate.digest and not request.force and not self.changed_links(candidate):
                    self.records.logs.end(log, skill_id, current, "unchanged")
                    pruned = self._prune(skill_id, operation)  # what an installation that was killed did not come to
                    return replace(self._result(candidate, log, "unchanged", current, current), pruned=pruned)
                deprecated = deprecated_version(self.records.read.versions(skill_id), candidate.digest)
                if deprecated is not None and request.operation == "update" and not request.force:
                    warning = f"version {deprecated.version} is deprecated: `--force` brings it back"
                    return self._keep(replace(candidate, warnings=(*candidate.warnings, warning)), "kept", current, log)
                self._refuse_what_came_between(candidate, accepted, request)
            waits, waiting = self._wait(candidate)
            if waiting is not None:
                self.records.logs.end(log, skill_id, waiting, WAITS)
                return self._result(_with_waiting(candidate, waiting, waits), log, "waiting", waiting, current)
            version = self.versions.free_name(skill_id, self.records.read.version_names(skill_id), request.installed_at)
            if self.store is not None:
                with log.step("store", 75):
                    package = store_package(self.store, candidate.tree, operation.folder)
                    candidate = replace(candidate, package_digest=package.archive_sha256)
            with log.step("save_db", 80):
                path = self.versions.path(skill_id, version)
                self.records.save(candidate, version, path, operation.id, waits=waits)
                write_kept_links(path, candidate.links, candidate.link_contents)
                self.versions.place(candidate.tree, skill_id, version)
            if waits:
                self.records.record_inactive_version(skill_id, version, log, request.installed_at, why=WAITS)
                pruned = self._prune(skill_id, operation)
                result = self._result(_with_waiting(candidate, version, waits), log, "waiting", version, current)
                return replace(result, pruned=pruned)
            if not request.activate and current is not None:
                self.records.record_inactive_version(
                    skill_id, version, log, request.installed_at, why="kept; another version is current"
                )
                return self._result(candidate, log, "kept", version, current)
            with log.step("activate", 90):
                self.versions.activate(skill_id, version, operation.folder)
            self.records.activate(skill_id, version, log, action=log.operation)
            pruned = self._prune(skill_id, operation)
        status: Literal["installed", "updated"] = "updated" if current else "installed"
        return replace(self._result(candidate, log, status, version, current), pruned=pruned)

    def waits(self, candidate: Candidate) -> tuple[str, ...]:
        """Why a candidate waits for approval once it is installed; none when it need not, or its content has it."""
        reasons = self.approval.reasons(candidate.origin.to_dict(), candidate.powers)
        known = self.records.read.approvals(candidate.skill_id)
        same = next((one for one in known if one.digest == candidate.digest), None)
        if same is None:
            return reasons
        return () if same.state == "approved" else same.reasons or reasons

    def _wait(self, candidate: Candidate) -> tuple[tuple[str, ...], str | None]:
        """Why it waits, and the version with its content that waits already."""
        reasons, versions = self.waits(candidate), self.records.read.versions(candidate.skill_id)
        same = (one.version for one in versions if one.digest == candidate.digest and one.approval == "waiting")
        there = next((name for name in same if self.versions.path(candidate.skill_id, name).is_dir()), None)
        return reasons, there if reasons else None

    def changed_links(self, candidate: Candidate) -> tuple[str, ...]:
        """The addresses at which something else stands than what the current version keeps, or that it does not keep yet."""
        current = self.versions.current(candidate.skill_id)
        kept = kept_links(self.versions.path(candidate.skill_id, current)) if current else ()
        before = {one.address: one.sha256 for one in kept}
        return tuple(address for address, sha256 in candidate.link_digests.items() if before.get(address) != sha256)

    def _note_kind(self, log: OpenLog, current: str | None, request: InstallRequest) -> None:
        """Log it as what it is under the lock of the skill: who lost a race for the first version updates the winner's."""
        if (kind := _kind(current, request)) != log.operation:
            log.operation = kind
            self.records.logs.write(log.id, operation=kind)

    def _refuse_what_came_between(self, candidate: Candidate, accepted: frozenset[str], request: InstallRequest) -> None:
        """Check again under the lock of the skill: another version may have been installed since the first check."""
        replacements = find_replacements(self.versions, self.records, candidate, request)
        refuse_replacements(
            [change for change in replacements if change.sentence not in accepted],
            accept_signer=request.accept_signer,
            accept_source=request.accept_source,
        )
        change = power_change(self.versions, candidate)
        if change and not accepted.issuperset(change.widened):
            raise consent_required([change], asked=False)

    def _prune(self, skill_id: str, operation: RunningOperation) -> tuple[str, ...]:
        return prune_versions(self.versions, self.records, skill_id, operation.folder, keep=self.keep)

    def _keep(self, candidate: Candidate, status: ResultStatus, current: str, log: OpenLog) -> OperationResult:
        self.records.logs.end(log, candidate.skill_id, current, "unchanged")
        return self._result(candidate, log, status, current, current)

    def _result(
        self, candidate: Candidate, log: OpenLog, status: ResultStatus, version: str, previous: str | None
    ) -> OperationResult:
        return OperationResult(
            skill_id=candidate.skill_id,
            name=candidate.name,
            status=status,
            version=version,
            previous=previous,
            digest=candidate.digest,
            powers=candidate.powers,
            declared_version=candidate.document.metadata.version,
            signer=candidate.signer,
            warnings=candidate.warnings,
            findings=candidate.findings,
            unmet=self.unmet(candidate.skill_id, candidate.requirements),
            log_id=log.id,
            origin=candidate.origin.to_dict(),
            required_by=candidate.required_by,
        )


WAITS: Final = "it waits for approval"


def _with_waiting(candidate: Candidate, version: str, reasons: Sequence[str]) -> Candidate:
    """The candidate, with a warning that it waits, why, and how it is approved."""
    warning = f"{WAITS} ({'; '.join(reasons)}): `skillyard approve {candidate.skill_id} {version}`"
    return replace(candidate, warnings=(*candidate.warnings, warning))


def _kind(current: str | None, request: InstallRequest) -> Literal["install", "update"]:
    """An update where a version serves, else what was asked for."""
    return "update" if current else request.operation


def _with_address_warning(candidate: Candidate, source: Source) -> Candidate:
    """The candidate, with a warning where its address is not kept as it was given."""
    if without_secrets(source.address) == source.address:
        return candidate
    warning = "what may be a secret in its address is not kept: to update it, `skillyard install` it by its whole address"
    return replace(candidate, warnings=(*candidate.warnings, warning))


_NAMED: Final = 3


def named_refusal(error: SkillyardError, refused: FoundSkill, skills: Sequence[FoundSkill]) -> SkillyardError:
    """The refusal of one skill, which says of several which one it is, and how the others are installed without it."""
    if refused.path == ".":
        return error
    entry = error.details.get("entry")
    details = error.details | ({"entry": f"{refused.path}/{entry}"} if isinstance(entry, str) else {})
    others = [f"--skill {single_line(skill.path)}" for skill in skills if skill is not refused]
    names = " ".join(others[:_NAMED]) + (" ..." if len(others) > _NAMED else "")
    hint = "; or install the others by name: ".join(part for part in (error.hint, names) if part)
    message = f"{single_line(refused.path)}: {error.message.removeprefix(f'{refused.path}: ')}"
    return type(error)(message, hint=hint or None, **details)


def candidate_findings(pipeline: InstallPipeline, scanner: Scanner, candidate: Candidate) -> tuple[Mapping[str, object], ...]:
    """The findings of the scanner in a candidate, with what its publisher says of them."""
    found = tuple(finding.to_dict() for finding in scanner(candidate.tree))
    return judged_by_publisher(pipeline.records.read, candidate, found)
