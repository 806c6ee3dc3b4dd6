"""Checks before a version becomes current: not yanked, same source and signer, consent to added powers, fit for a rollback.

A matching name alone makes nothing an update: a namesake from another source, or content that somebody else signed, would
replace a trusted skill. That needs agreement; an expected digest (a lock) does not replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillyard.access import SCOPES, may_approve
from skillyard.errors import (
    ConsentRequired,
    GraveFindings,
    PermissionDenied,
    SkillExists,
    VersionNotApproved,
    VersionNotFound,
    VersionUnusable,
)
from skillyard.packages import find_skills, tree_digest
from skillyard.registry.powers import NO_POWERS, PowerChange, installed_powers
from skillyard.registry.registry_values import SkillVersion
from skillyard.registry.source_replacements import shown_origin, source_identity
from skillyard.registry.version_files import NO_STORE_HINT
from skillyard.settings_reader import SettingsReader
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.registry.candidate import Candidate, InstallRequest
    from skillyard.registry.record_queries import RecordReader
    from skillyard.registry.registry_records import RegistryRecords
    from skillyard.registry.registry_values import ResultStatus
    from skillyard.registry.version_store import VersionStore


def require_consent(
    versions: VersionStore, candidates: Sequence[Candidate], request: InstallRequest
) -> Mapping[str, frozenset[str]]:
    """For each skill the sentences that were agreed to; a new skill needs no consent, unless it is only a dependency.

    Raises:
        ConsentRequired: nobody was asked, or the answer was no.
    """
    asked = [candidate for candidate in candidates if candidate.required_by or not request.new]
    changes = [change for candidate in asked if (change := _change_to_agree(versions, candidate))]
    if changes and not (request.consent is not None and request.consent(changes)):
        raise consent_required(changes, asked=request.consent is not None)
    agreed = {change.skill_id: frozenset(change.widened) for change in changes}
    return {candidate.skill_id: agreed.get(candidate.skill_id, frozenset()) for candidate in candidates}


def _change_to_agree(versions: VersionStore, candidate: Candidate) -> PowerChange | None:
    """What a candidate may do beyond the current version; of a dependency always a change, with the skills that require it."""
    change = current_power_change(versions, candidate)
    if not candidate.required_by:
        return change
    powers = candidate.powers
    change = change or PowerChange(candidate.skill_id, candidate.name, NO_POWERS, powers, powers.sentences())
    reasons = candidate.required_by
    if (current := versions.current(candidate.skill_id)) is not None:
        before = next((found.version for found in find_skills(versions.path(candidate.skill_id, current))), None)
        after = candidate.document.metadata.version
        reasons += (f"it replaces version {before or current} with {after or 'one that declares none'}",)
    return replace(change, required_by=reasons, source=shown_origin(candidate.origin.to_dict()))


_SHOWN_FINDINGS: Final = 3

_CODE_HOST: Final = "github.com"


@dataclass(frozen=True, slots=True)
class FindingPolicy:
    """What the operator's `[scan]` says of findings at an install: the severities in `stops` refuse it.

    `accept_by` are the scopes and the names of keys of which one is enough to accept them; without any whoever may install may.
    """

    stops: frozenset[str] = frozenset()
    accept_by: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Mapping[str, object], file: str) -> FindingPolicy:
        """The policy of a table `[scan]` in a settings file. Raises InvalidConfiguration: it says what cannot be meant."""
        from skillyard.scanner import accepting_callers, stopping_severities

        callers = accepting_callers(table, file)
        if unknown := [one for one in callers if ":" in one and one not in SCOPES]:
            expected = f"names of keys and scopes ({', '.join(SCOPES)})"
            raise SettingsReader(file).wrong("scan.accept-by", expected, unknown[0])
        return cls(stopping_severities(table, file), callers)


def refuse_grave_findings(
    records: RecordReader, candidates: Sequence[Candidate], policy: FindingPolicy, accept: Collection[str]
) -> list[Candidate]:
    """The candidates, with the grave findings that are accepted; what the current version has too is no news.

    Raises:
        GraveFindings: a finding that the policy stops, by none of the rules in `accept`.
        PermissionDenied: it is by one of them, and the current actor may accept no finding.
    """
    grave: list[dict[str, object]] = []
    judged = []
    for candidate in candidates:
        stopped = [one for one in candidate.findings if one.get("severity") in policy.stops]
        known = {_finding_key(one) for one in records.findings(candidate.skill_id)} if stopped else set()
        news = [one for one in stopped if _finding_key(one) not in known]
        judged.append(replace(candidate, accepted=tuple(one for one in news if one.get("rule") in accept)))
        grave += [{"skill_id": candidate.skill_id, **one} for one in news if one.get("rule") not in accept]
    if not grave:
        if policy.accept_by and any(one.accepted for one in judged) and not may_approve(policy.accept_by):
            needed = " or ".join(policy.accept_by)
            raise PermissionDenied(
                f"accepting what the scanner found needs {needed}", hint="nothing was changed; ask somebody who may install it"
            )
        return judged
    rules = list(dict.fromkeys(str(one["rule"]) for one in grave))
    shown = grave[:_SHOWN_FINDINGS]
    lines = [f"{one['skill_id']}/{one['file']}:{one['line']} {one['rule']}: {one['message']}" for one in shown]
    more = f" (and {len(grave) - _SHOWN_FINDINGS} more)" if len(grave) > _SHOWN_FINDINGS else ""
    raise GraveFindings(
        "the scanner found harm: " + single_line("; ".join(lines)) + more,
        hint="nothing was changed; look at what it names, and if you accept it, call it again with "
        + " ".join(f"--accept {rule}" for rule in rules),
        findings=grave,
        rules=rules,
    )


def judged_by_publisher(
    records: RecordReader, candidate: Candidate, findings: tuple[Mapping[str, object], ...]
) -> tuple[Mapping[str, object], ...]:
    """The findings, in the light of who publishes the skill.

    A name like that of another skill of the same publisher imitates nobody; uploads are one source of many people, so that
    this does not hold for them. A well-known name, letter by letter, from somebody else is a finding at `low`.
    """
    from skillyard.scanner.names import IMITATES, WELL_KNOWN, imitation, taken_name

    publisher = source_identity(candidate.origin.to_dict())
    owner = publisher[1].lower() if len(publisher) > 1 and publisher[0] == _CODE_HOST else ""
    if owner and owner != WELL_KNOWN.get(candidate.skill_id, owner):
        return (*findings, taken_name(candidate.skill_id, owner).to_dict())
    if not publisher or publisher == ("upload",) or all(one.get("rule") != IMITATES for one in findings):
        return findings
    own = {version.skill_id: "" for version in records.serving() if source_identity(version.origin) == publisher}
    own |= {name: known for name, known in WELL_KNOWN.items() if known == owner}
    if candidate.skill_id not in own and imitation(candidate.name, own) is None:
        return findings
    return tuple(one for one in findings if one.get("rule") != IMITATES)


def _finding_key(finding: Mapping[str, object]) -> tuple[object, ...]:
    """What stays the same when lines above a finding come and go."""
    return finding.get("rule"), finding.get("file"), finding.get("evidence")


def current_power_change(versions: VersionStore, candidate: Candidate) -> PowerChange | None:
    """The change against the current version, which cannot be deleted meanwhile."""
    with versions.locked(candidate.skill_id):
        return power_change(versions, candidate)


def power_change(versions: VersionStore, candidate: Candidate) -> PowerChange | None:
    """The change against the current version; the caller holds the lock of the skill."""
    current = versions.current(candidate.skill_id)
    if current is None:
        return None
    before = installed_powers(versions.path(candidate.skill_id, current)) or NO_POWERS
    if candidate.powers <= before:
        return None
    return PowerChange(candidate.skill_id, candidate.name, before, candidate.powers, candidate.powers.added_since(before))


def consent_required(changes: Sequence[PowerChange], *, asked: bool) -> ConsentRequired:
    """The error for changes that nobody agreed to; its message lists them when nobody was `asked`."""
    wider = ", ".join(change.skill_id for change in changes if not change.required_by)
    dependencies = ", ".join(change.skill_id for change in changes if change.required_by)
    parts = [f"{wider} would be allowed more than before"] if wider else []
    parts += [f"{dependencies} would be installed as well"] if dependencies else []
    sentences = "; ".join(f"{change.skill_id} {sentence}" for change in changes for sentence in change.sentences[:10])
    return ConsentRequired(
        " and ".join(parts) + (f": {sentences}" if sentences and not asked else ""),
        hint="nothing was changed; if you agree, call it again with --yes",
        changes=[change.to_dict() for change in changes],
        consent=",".join(change.consent for change in changes),
    )


def rollback_target(
    versions: Sequence[SkillVersion],
    version: str | None,
    current: str | None,
    *,
    stored: bool,
    force: bool,
    refused: Callable[[SkillVersion], str | None],
) -> SkillVersion:
    """The version to go back to, of `versions` (the newest first): the one named, else the newest usable before `current`.

    With `stored` a version whose files were deleted can be restored from the store; `force` allows a deprecated one. `refused`
    says why a version may not be used for want of an approval: no such one is chosen unasked.

    Raises:
        VersionNotFound: there is none.
        VersionUnusable: it was yanked, is deprecated, or its files were deleted.
    """
    if version is None:
        return _previous_usable([one for one in versions if one.version == current or not refused(one)], current, stored=stored)
    target = named_version(versions, version)
    if problem := _rollback_problem(target, stored=stored, force=force):
        raise VersionUnusable(f"{target.skill_id} {target.version} {problem[0]}", hint=problem[1])
    return target


def named_version(versions: Sequence[SkillVersion], version: str) -> SkillVersion:
    """The version with that install version, or the newest that declares it or was published as it.

    Raises:
        VersionNotFound: there is none; `candidates` are those there are.
    """
    match = next((one for one in versions if version in (one.version, one.declared_version, one.label)), None)
    if match is None:
        skill_id = versions[0].skill_id if versions else "it"
        raise VersionNotFound(
            f"{skill_id} has no version {version}",
            hint=f"`skillyard versions {skill_id}` lists them",
            candidates=[one.version for one in versions],
        )
    return match


def _previous_usable(versions: Sequence[SkillVersion], current: str | None, *, stored: bool) -> SkillVersion:
    names = [one.version for one in versions]
    older = versions[names.index(current) + 1 :] if current in names else versions
    usable = [one for one in older if not _rollback_problem(one, stored=stored, force=False)]
    if not usable:
        skill_id = versions[0].skill_id if versions else "NAME"
        others = [one.version for one in versions if one.version != current and one.status == "deprecated" and not one.removed]
        hint = f"`skillyard versions {skill_id}` lists what there is"
        if others:
            hint = f"{others[0]} is deprecated: `skillyard rollback {skill_id} {others[0]} --force` activates it anyway"
        raise VersionNotFound("there is no earlier version to go back to", hint=hint)
    return usable[0]


def _rollback_problem(version: SkillVersion, *, stored: bool, force: bool) -> tuple[str, str] | None:
    if version.removed and not (stored and version.package_digest):
        if version.package_digest:
            return "is no longer on the disk, and no store is configured to restore it from", NO_STORE_HINT
        return "is no longer on the disk", "install it again from its source"
    if version.yanked:
        why = f": {version.yanked_reason}" if version.yanked_reason else ""
        return f"was yanked{why}", "choose another one, or undo the yank"
    if version.status == "deprecated" and not force:
        why = f": {version.deprecated_reason}" if version.deprecated_reason else ""
        return f"is deprecated{why}", "choose another one, or use --force"
    return None


def refuse_existing(skill_id: str, request: InstallRequest) -> None:
    """Refuse a skill that is installed already where only new ones are accepted. Raises SkillExists: it is."""
    if request.new:
        raise SkillExists(f"there is a skill {skill_id!r}", hint="publish it as a version of that skill", skill_id=skill_id)


def refuse_yanked(records: RegistryRecords, candidate: Candidate, request: InstallRequest) -> None:
    """Refuse content that was yanked, unless it is forced, and content that lost its approval.

    Raises:
        VersionUnusable, VersionNotApproved: it was.
    """
    for version in records.read.versions(candidate.skill_id):
        if version.approval == "withdrawn" and version.digest == candidate.digest and not version.current:
            raise VersionNotApproved(
                f"this content of {candidate.skill_id} {replace(version, yanked=False).refusal}",
                hint=f"install another one; to bring it back: `skillyard approve {candidate.skill_id} {version.version}`",
            )
        if version.yanked and version.digest == candidate.digest and not request.force:
            why = f": {version.yanked_reason}" if version.yanked_reason else ""
            back = f"take that back with `skillyard yank {candidate.skill_id} {version.version} --undo`"
            uploaded = request.source.kind == "upload"
            raise VersionUnusable(
                f"this content of {candidate.skill_id} was yanked as {version.version}{why}",
                hint=f"publish other content, or {back}" if uploaded else "install another version, or use --force",
            )


def refuse_taken_version(records: RegistryRecords, candidate: Candidate, request: InstallRequest) -> None:
    """Refuse an upload under a version that its publisher gave to other content before, or to what is not current any more.

    Raises:
        VersionUnusable: the version is taken.
    """
    label = request.source.version if request.source.kind == "upload" else ""
    if not label:
        return
    taken = next((one for one in records.read.versions(candidate.skill_id) if one.label == label), None)
    if taken is None:
        return
    why = f": {taken.yanked_reason}" if taken.yanked_reason else ""
    withdrawn = f", and was withdrawn{why}" if taken.yanked else ""
    if taken.digest != candidate.digest:
        raise VersionUnusable(
            f"{candidate.skill_id} {label} was published before, with other content{withdrawn}", hint="give it a higher version"
        )
    if not taken.current and taken.approval != "waiting":
        raise VersionUnusable(
            f"exactly this was published before as {candidate.skill_id} {label}{withdrawn or ', and is not current any more'}",
            hint="give it a higher version" + ("" if taken.yanked else ", or roll back to that one"),
        )


def beside_edit(versions: VersionStore, candidate: Candidate, request: InstallRequest) -> tuple[Candidate, ResultStatus, str]:
    """The candidate, with a warning if it diverged from an adopted edit that stays the current version."""
    current = versions.current(candidate.skill_id) or ""
    if candidate.digest in (request.edit_of, tree_digest(versions.path(candidate.skill_id, current))):
        return candidate, "unchanged", current
    warning = f"its source has something else ({_shown_version(candidate)}), and what is here was edited: {THEIRS}"
    return replace(candidate, warnings=(*candidate.warnings, warning)), "kept", current


THEIRS: Final = "`skillyard update NAME --theirs` takes that of the source, and the edit stays a version to roll back to"


def _shown_version(candidate: Candidate) -> str:
    return candidate.document.metadata.version or candidate.origin.version or "no version declared"
