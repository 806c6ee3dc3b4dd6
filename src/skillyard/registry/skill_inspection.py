"""What would be installed from a source, or by an update, checked as an installation does, without installing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.catalog.skill_files import Inventory, SkillFile, list_files
from skillyard.document import Diagnostic
from skillyard.errors import ArchiveRefused, FileProblem, SkillyardError
from skillyard.interop import ClientCompatibility, check_clients
from skillyard.interop.agent_plugins import skills_of_package
from skillyard.packages import FolderDifference, FoundSkill, Origin, choose_skills, compare_trees, find_skills
from skillyard.registry.candidate import (
    Candidate,
    InstallRequest,
    check_candidate,
    read_candidate,
    source_folder_name,
    staged_candidate,
)
from skillyard.registry.dependencies import DependencyPreview, DependencyRequest
from skillyard.registry.install_pipeline import InstallPipeline, candidate_findings, named_refusal
from skillyard.registry.installed_skills import listed_skill
from skillyard.registry.powers import PowerChange, Powers, installed_powers
from skillyard.registry.registry_values import (
    DependencyInstall,
    InstallRefusal,
    PendingState,
    PendingUpdate,
    SkillVersion,
    deprecated_version,
)
from skillyard.registry.requirements import without_skills
from skillyard.registry.source_replacements import edited_version, find_replacements, refuse_replacements
from skillyard.registry.upgrade_checks import (
    THEIRS,
    current_power_change,
    refuse_grave_findings,
    refuse_taken_version,
    refuse_yanked,
)
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.registry.mirror_locations import MirrorSource


@dataclass(frozen=True, slots=True)
class SkillInspection(WireForm, also=("power_sentences", "unchanged")):
    """One skill of a source, as it would be installed.

    `refusals` would stop it; `findings` of the scanner are advice, but for those that are a refusal; `unmet` is what this
    machine lacks. `clients` are those that can load it. `installed` is the current version, `difference` what would change in
    its files, `powers_before` what it may do, and `change` what the new one may do beyond that: it needs consent.
    """

    skill_id: str
    name: str
    description: str
    declared_version: str | None
    digest: str
    size_bytes: int
    front_matter: Mapping[str, object]
    skill_md: str
    files: tuple[SkillFile, ...] = field(metadata=wire(hidden=True))
    inventory: Inventory = field(metadata=wire(name="file_inventory"))
    powers: Powers
    diagnostics: tuple[Diagnostic, ...]
    refusals: tuple[InstallRefusal, ...] = field(metadata=wire(hidden=True))
    findings: tuple[Mapping[str, object], ...] = field(metadata=wire(hidden=True))
    clients: tuple[ClientCompatibility, ...]
    unmet: tuple[str, ...]
    warnings: tuple[str, ...]
    signer: str | None
    installed: SkillVersion | None = field(metadata=wire(hidden=True))
    powers_before: Powers | None
    difference: FolderDifference | None
    change: PowerChange | None
    changed_links: tuple[str, ...] = field(default=(), metadata=wire(hidden=True))
    """The addresses that it tells to fetch and where now stands something else than what is kept."""
    dependencies: tuple[DependencyInstall, ...] = field(default=(), metadata=wire(hidden=True))
    """Dependencies that would be installed, with the first skill of a source; the `warnings` have a sentence for each."""

    @property
    def power_sentences(self) -> tuple[str, ...]:
        """What it may do, in sentences."""
        return self.powers.sentences()

    @property
    def unchanged(self) -> bool:
        """Whether exactly this content is current already."""
        return self.installed is not None and self.installed.digest == self.digest and not self.changed_links


def inspect_source(
    pipeline: InstallPipeline, request: InstallRequest, progress: Callable[[int, int], object] | None = None
) -> tuple[SkillInspection, ...]:
    """Every skill of the source that is ordered; it is fetched into a folder that is deleted afterwards.

    `progress(done, total)` is called after each.

    Raises:
        InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: it cannot be fetched or is none.
    """
    with pipeline.operations.begin() as operation:
        operation.settled = True  # it opens no log: what is left is only to be deleted
        fetched = pipeline.fetcher.fetch(request.source, operation.folder)
        offered, _ = skills_of_package(Path(fetched.tree), find_skills(fetched.tree))
        skills = choose_skills(offered, () if fetched.chosen else request.names)
        inspected: list[SkillInspection] = []
        candidates: list[Candidate] = []
        for number, skill in enumerate(skills, 1):
            folder = source_folder_name(skill.path, request.source)
            try:
                candidate, _ = staged_candidate(skill, fetched, operation.folder, pipeline.limits, request.source)
            except (ArchiveRefused, FileProblem) as error:
                refusal = named_refusal(error, skill, ())
                inspected.append(_inspect_refused(pipeline, skill, fetched.origin, refusal, request))
            else:
                candidates.append(candidate)
                inspected.append(_inspect_candidate(pipeline, candidate, folder, request))
            if progress is not None:
                progress(number, len(skills))
        if pipeline.dependencies is None or not request.dependencies or not candidates:
            return tuple(inspected)
        asked = DependencyRequest(candidates, request.source, fetched, offered, operation.folder, pipeline.limits)
        found = pipeline.dependencies.preview(asked)
        there = {*(one.skill_id for one in candidates), *(one.skill_id for one in found.installs)}
        lacking = {one.skill_id: pipeline.unmet(one.skill_id, without_skills(one.requirements, there)) for one in candidates}
        return tuple(_with_dependencies(one, found, lacking.get(one.skill_id, one.unmet)) for one in inspected)


def _with_dependencies(one: SkillInspection, found: DependencyPreview, unmet: tuple[str, ...]) -> SkillInspection:
    """The inspection, with the dependencies of the skill and what it lacks then, or why its requirements are a refusal."""
    one = replace(one, unmet=unmet)
    if found.refusal is not None and one.skill_id in found.asking:
        refusal = InstallRefusal.of(found.refusal)
        return replace(one, refusals=(*one.refusals, refusal))
    if one.skill_id not in found.asking:
        return one
    said = tuple(each.sentence for each in found.installs)
    return replace(one, dependencies=found.installs, warnings=(*one.warnings, *said, *found.problems))


def _inspect_refused(
    pipeline: InstallPipeline, skill: FoundSkill, origin: Origin, error: SkillyardError, request: InstallRequest
) -> SkillInspection:
    """A skill that cannot even be staged, as far as it can be read where it is."""
    folder = source_folder_name(skill.path, request.source)
    refusal = InstallRefusal.of(error)
    try:
        candidate = read_candidate(skill.directory, origin, folder_name=folder)
    except FileProblem:
        candidate = read_candidate(skill.directory, origin, folder_name=folder, readable=False)
    return _inspect_candidate(pipeline, candidate, folder, request, refused=refusal)


def _inspect_candidate(
    pipeline: InstallPipeline,
    candidate: Candidate,
    folder: str,
    request: InstallRequest,
    *,
    refused: InstallRefusal | None = None,
) -> SkillInspection:
    """What is known of a candidate; one that is `refused` already is not compared with what is installed."""
    if pipeline.scanner is not None:
        candidate = replace(candidate, findings=candidate_findings(pipeline, pipeline.scanner, candidate))
    candidate, refusals = (candidate, (refused,)) if refused else _check_refusals(pipeline, candidate, folder, request)
    document = candidate.document
    installed = next((version for version in pipeline.records.read.versions(candidate.skill_id) if version.current), None)
    if not refusals and (reasons := pipeline.waits(candidate)):
        candidate = replace(candidate, warnings=(*candidate.warnings, f"it will wait for approval ({'; '.join(reasons)})"))
    before = pipeline.versions.path(candidate.skill_id, installed.version) if installed else None
    before = before if before is not None and before.is_dir() and not refused else None
    if before is not None:
        candidate = pipeline.with_links(candidate)
    tree = candidate.tree
    return SkillInspection(
        skill_id=candidate.skill_id,
        name=candidate.name,
        description=document.metadata.description,
        declared_version=document.metadata.version,
        digest=candidate.digest,
        size_bytes=candidate.size,
        front_matter=document.public_front_matter,
        skill_md=document.text,
        files=list_files(tree.as_posix()),
        inventory=candidate.inventory,
        powers=candidate.powers,
        diagnostics=document.diagnostics,
        refusals=refusals,
        findings=candidate.findings,
        clients=() if refused else check_clients(tree, name=folder or candidate.skill_id),
        unmet=pipeline.unmet(candidate.skill_id, candidate.requirements),
        warnings=candidate.warnings,
        signer=candidate.signer,
        installed=installed,
        powers_before=installed_powers(before) if before else None,
        difference=compare_trees(before, tree) if before else None,
        change=None if refused else current_power_change(pipeline.versions, candidate),
        changed_links=pipeline.changed_links(candidate) if before else (),
    )


def _check_refusals(
    pipeline: InstallPipeline, candidate: Candidate, folder: str, request: InstallRequest
) -> tuple[Candidate, tuple[InstallRefusal, ...]]:
    """The candidate with what its check adds, and why an installation would refuse it; consent is another matter."""
    refusals: list[InstallRefusal] = []
    with _noting(refusals):
        candidate = check_candidate(candidate, folder, pipeline.signers)
    with _noting(refusals):
        pipeline.records.require_owner(candidate.skill_id)
    with _noting(refusals):
        refuse_yanked(pipeline.records, candidate, request)
    with _noting(refusals):
        refuse_taken_version(pipeline.records, candidate, request)
    for change in find_replacements(pipeline.versions, pipeline.records, candidate, request):
        with _noting(refusals):
            refuse_replacements([change], accept_signer=False, accept_source=False)
    with _noting(refusals):
        refuse_grave_findings(pipeline.records.read, [candidate], pipeline.finding_policy, ())
    return candidate, tuple(refusals)


@contextlib.contextmanager
def _noting(refusals: list[InstallRefusal]) -> Iterator[None]:
    try:
        yield
    except SkillyardError as error:
        refusals.append(InstallRefusal.of(error))


def publisher_notice(current: SkillVersion, mirror: MirrorSource) -> str | None:
    """What the mirror that an installed version came from says against it; None when nothing.

    Raises:
        SkillyardError: as `MirrorSource.index`.
    """
    skill = listed_skill(current, mirror)
    listed = {version.digest: version for version in skill.versions}.get(current.digest) if skill else None
    if skill is None or listed is None or listed.withdrawal is None:
        return None
    now = skill.version() if skill.current else None
    replaced = now is not None and now.digest != listed.digest and now.yanked is None
    after = f"{now.called} takes its place" if now is not None and replaced else "nothing takes its place yet"
    return f"{listed.withdrawal}; {after}"


def compared_update(current: SkillVersion, found: SkillInspection | None, recorded: Sequence[SkillVersion]) -> PendingUpdate:
    """What an update would bring, where its source has `found`; `recorded` are all versions of the skill."""
    skill_id, version, declared = current.skill_id, current.version, current.label or None
    if found is None:
        return PendingUpdate(skill_id, "unknown", version, declared, reason="its source no longer has it")
    edited = edited_version(current, recorded)
    if edited is not current and found.digest == edited.digest:
        still = f"it was edited here; its source still has {edited.label or edited.version}, which was edited"
        return PendingUpdate(skill_id, "current", version, declared, found.declared_version, still)
    if found.unchanged:
        return PendingUpdate(skill_id, "current", version, declared, found.declared_version)
    deprecated = deprecated_version(recorded, found.digest)
    reason = f"it is the content of version {deprecated.version}, which is deprecated" if deprecated else None
    state: PendingState = "deprecated" if deprecated else "update" if edited is current else "diverged"
    if state == "diverged":
        reason = f"it was edited here: {THEIRS}"
    if any(one.digest == found.digest and one.approval == "waiting" for one in recorded):
        reason = "it is here already, and waits for approval"
    if found.changed_links:
        reason = reason or "its late links are not those that are kept: " + ", ".join(found.changed_links[:3])
    before = found.powers_before or found.powers
    return PendingUpdate(
        skill_id, state, version, declared, found.declared_version, reason, found.difference,
        widened=found.powers.added_since(before), narrowed=found.powers.lost_since(before),
    )  # fmt: skip


def with_notice(pending: PendingUpdate, current: SkillVersion, mirror: MirrorSource | None) -> PendingUpdate:
    """What an update would bring, with what the publisher says, which may be why there is none."""
    notice = None
    if mirror is not None:
        with contextlib.suppress(SkillyardError):  # the reason why nobody can tell says it too
            notice = publisher_notice(current, mirror)
    if notice is None or pending.state != "unknown" or not notice.startswith("withdrawn"):
        return replace(pending, notice=notice)
    return replace(pending, state="withdrawn", reason=notice, notice=notice)
