"""Approval of exact contents: which versions wait for a person, who decides, and what a withdrawn approval stops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from skillyard.errors import (
    DigestMismatch,
    PermissionDenied,
    SecondPersonRequired,
    VersionNotApproved,
    VersionNotFound,
    VersionUnusable,
)
from skillyard.registry.powers import installed_powers
from skillyard.registry.registry_values import PINNED, ApprovalState, ListedApproval, Operation, SkillVersion, VersionApproval
from skillyard.registry.upgrade_checks import named_version, rollback_target
from skillyard.registry.version_files import refuse_local_edits

if TYPE_CHECKING:
    from skillyard.registry.candidate import ApprovalPolicy
    from skillyard.registry.installed_skills import InstalledSkills, RegistryStorage
    from skillyard.registry.powers import Powers


class VersionApprovals:
    """Which versions wait for a person, by the operator's `policy`; approves them, and takes approvals back.

    An approval is of exactly one content of a skill. `switched` is called with the id of a skill after its current version
    changed; what could not follow it comes back as sentences.
    """

    def __init__(
        self,
        storage: RegistryStorage,
        installed: InstalledSkills,
        policy: ApprovalPolicy,
        switched: Callable[[str], Collection[str]],
    ) -> None:
        self.policy = policy
        self._storage = storage
        self._installed = installed
        self._switched = switched

    def listed(self, state: ApprovalState = "waiting") -> tuple[ListedApproval, ...]:
        """What is in a state, the longest waiting first; contents that no version has any more are left out."""
        serving = self._installed.serving()
        found = []
        for approval in self._storage.records.read.approvals():
            if approval.state == state:
                versions = self._installed.versions(approval.skill_id)
                version = next((one for one in versions if one.digest == approval.digest), None)
                found += [self._listed(approval, version, serving.get(approval.skill_id))] if version else []
        return tuple(found)

    def _listed(self, approval: VersionApproval, version: SkillVersion, current: SkillVersion | None) -> ListedApproval:
        powers, refusal = self._powers(version), self.refusal_of_caller(version)
        before = self._powers(current) if current else None
        return ListedApproval(
            skill_id=approval.skill_id,
            version=version.version,
            label=version.label,
            digest=approval.digest,
            state=approval.state,
            reasons=approval.reasons,
            asked_by=approval.asked_by,
            asked_at=approval.asked_at,
            decided_by=approval.decided_by,
            decided_at=approval.decided_at,
            reason=approval.reason,
            current=(current.label or current.version) if current else None,
            power_sentences=powers.sentences() if powers else (),
            widened=powers.added_since(before) if powers and before else (),
            refusal=refusal.message if refusal else None,
        )

    def find(self, name: str, version: str | None = None) -> SkillVersion:
        """The version of that name, without one the newest that waits.

        Raises:
            SkillNotFound, VersionNotFound: there is none.
        """
        versions = self._installed.versions(name)
        if version is not None:
            return named_version(versions, version)
        waiting = next((one for one in versions if one.approval == "waiting"), None)
        if waiting is None:
            raise VersionNotFound(f"no version of {name} waits for approval", hint="`skillyard versions NAME` lists them all")
        return waiting

    def problem(self, version: SkillVersion) -> str | None:
        """Why a version may not become current, as far as approvals go; None when it may."""
        if version.approval in ("waiting", "withdrawn"):
            return replace(version, yanked=False).refusal
        return "waits for approval" if version.approval is None and self._reasons(version) else None

    def require(self, version: SkillVersion) -> None:
        """Return when a version may become current; else let it wait where nobody was asked about it.

        Raises:
            VersionNotApproved: it waits for approval, or lost it.
        """
        if (problem := self.problem(version)) is None:
            return
        if version.approval is None:
            self._storage.records.ask_approval(version.skill_id, version.digest, self._reasons(version))
        raise VersionNotApproved(
            f"{version.skill_id} {version.version} {problem}",
            hint=f"somebody who may: `skillyard approve {version.skill_id} {version.version}`",
        )

    def refusal_of_caller(self, version: SkillVersion) -> PermissionDenied | None:
        """Why the current actor may not approve a version; None when they may."""
        from skillyard.access import claimant, may_approve  # with the database behind it

        if not may_approve(self.policy.by):
            needed = " or ".join(self.policy.by)
            return PermissionDenied(f"deciding about versions needs {needed}", hint="use a key that has it")
        member, asked = claimant(), self._asked(version)
        by, with_key = (asked.asked_by, asked.asked_by_member) if asked else (version.installed_by, member is not None)
        same = by == member if with_key else member is None
        if same and (reasons := self.policy.second_reasons(self._powers(version))):
            return SecondPersonRequired(
                f"{by} brought {version.skill_id} {version.version} here and may not approve it: {reasons[0]}",
                hint="ask somebody else who may approve versions",
            )
        return None

    def _asked(self, version: SkillVersion) -> VersionApproval | None:
        known = self._storage.records.read.approvals(version.skill_id)
        return next((one for one in known if one.digest == version.digest), None)

    def approve(self, name: str, version: str | None = None, *, digest: str = "", reason: str = "") -> SkillVersion:
        """Approve exactly the content of a version; it becomes current, unless a newer or a pinned one is.

        With a `digest` only when the version has it. To approve again changes nothing.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version, or none waits.
            DigestMismatch: it is other content than was read.
            PermissionDenied, SecondPersonRequired: the current actor may not approve it.
            VersionUnusable, LocalEdits: it was yanked, its files are gone, or were changed by hand.
        """
        chosen = self.find(name, version)
        skill_id = chosen.skill_id
        if digest and digest != chosen.digest:
            raise DigestMismatch(
                f"{skill_id} {chosen.version} is not the content that was read",
                hint="read it again, then approve it",
                expected=digest,
                found=chosen.digest,
            )
        if chosen.yanked or chosen.removed:
            why = chosen.refusal if chosen.yanked else "is no longer on the disk"
            raise VersionUnusable(f"{skill_id} {chosen.version} {why}", hint="choose another version")
        if refusal := self.refusal_of_caller(chosen):
            raise refusal
        store, records = self._storage.versions, self._storage.records
        kind: Operation = "update" if store.current(skill_id) else "install"
        with self._storage.operation(kind, skill_id, version=chosen.version, owned=False) as (running, log):
            refuse_local_edits(store, records, skill_id, chosen.version, force=False)
            if chosen.approval != "approved":
                records.decide(chosen, "approved", reason)
            if self._takes_over(chosen, store.current(skill_id)):
                store.activate(skill_id, chosen.version, running.folder)
                records.activate(skill_id, chosen.version, log, action=kind)
            else:
                records.logs.end(log, skill_id, chosen.version, "approved; another version stays current")
        self._switched(skill_id)
        return self._installed.version(skill_id, chosen.version)

    def withdraw(self, name: str, version: str | None = None, *, reason: str = "") -> SkillVersion:
        """Withdraw the approval of a version, by default the current one, or refuse one that waits.

        Where it is current it gives way to the newest usable version before it, or to none. A pinned one stays, and says that
        it is no longer approved; so do agents and schedules that name it.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
            PermissionDenied: the current actor may not decide about it.
        """
        chosen = self.find(name, version) if version is not None else self._installed.current(name)
        refusal = self.refusal_of_caller(chosen)
        if refusal is not None and not isinstance(refusal, SecondPersonRequired):
            raise refusal
        skill_id, store, records = chosen.skill_id, self._storage.versions, self._storage.records
        kind: Operation = "rollback"
        with self._storage.operation(kind, skill_id, version=chosen.version, owned=False) as (running, log):
            if chosen.approval != "withdrawn":
                records.decide(chosen, "withdrawn", reason)
            current = store.current(skill_id)
            if current != chosen.version or self._pinned(skill_id) == current:
                records.logs.end(log, skill_id, current, "the approval was withdrawn")
            elif (before := self._before(skill_id, current)) is not None:
                store.activate(skill_id, before, running.folder)
                records.activate(skill_id, before, log, action=kind)
            else:
                store.deactivate(skill_id)
                records.deactivate(skill_id, log)
        self._switched(skill_id)
        return self._installed.version(skill_id, chosen.version)

    def _before(self, skill_id: str, current: str) -> str | None:
        """The version that serves in place of the current one; None where there is none."""
        versions = self._installed.versions(skill_id)
        try:
            return rollback_target(versions, None, current, stored=False, force=False, refused=self.problem).version
        except VersionNotFound:
            return None

    def _takes_over(self, chosen: SkillVersion, current: str | None) -> bool:
        """Whether a version that had no approval becomes current with it: not over a newer one, nor over one that is pinned."""
        if chosen.approval not in ("waiting", "withdrawn") or chosen.status == "deprecated" or chosen.version == current:
            return False
        if current is None:
            return True
        names = [one.version for one in self._installed.versions(chosen.skill_id)]
        return self._pinned(chosen.skill_id) != current and names.index(chosen.version) < names.index(current)

    def _pinned(self, skill_id: str) -> str | None:
        from skillyard.registry.registry_records import VersionTags

        return VersionTags(self._storage.records.database).of(skill_id).get(PINNED)

    def _reasons(self, version: SkillVersion) -> tuple[str, ...]:
        if not (self.policy.sources or self.policy.second_person):
            return ()
        origin = {key: str(value) for key, value in version.origin.items()}
        return self.policy.reasons(origin, self._powers(version))

    def _powers(self, version: SkillVersion) -> Powers | None:
        return installed_powers(self._storage.versions.path(version.skill_id, version.version))
