"""Installing, step by step: fetch, measure, check, look for harm, ask, write down, activate.

Until the link `current` moves, in one step, nothing that serves has been touched. Whatever happens before leaves the old
version as it was, and what was begun is put in order at once, or by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from skillyard.errors import (
    AmbiguousSkill,
    ConsentRequired,
    DigestMismatch,
    NoSkillInside,
    SignerChanged,
    SkillExists,
    VersionUnusable,
)
from skillyard.packages import (
    Limits,
    Source,
    Store,
    choose_skills,
    find_skills,
    read_signature,
    shown_address,
    tree_digest,
    without_secrets,
)
from skillyard.registry.archive import keep_package
from skillyard.registry.candidate import Candidate, Scanner, checked, read_candidate, staged
from skillyard.registry.discarding import remove_version
from skillyard.registry.fetched import Fetcher
from skillyard.registry.local_edits import refuse_edits
from skillyard.registry.model import Consent, InstallReport, Progress, Result, SkillVersion
from skillyard.registry.powers import PowerChange, Powers, read_powers
from skillyard.registry.publisher import publisher, shown_source
from skillyard.registry.recovery import recover, settling
from skillyard.registry.requirements import Requirements
from skillyard.registry.version_locks import locked_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillyard.registry.ledger import Ledger
    from skillyard.registry.open_log import OpenLog
    from skillyard.registry.operations import Operations, Workplace
    from skillyard.registry.versions import Versions

__all__ = ["Order", "Pipeline", "folder_name", "powers_in", "refuse_edits"]

_PUBLISHED: Final = ("git", "address", "well-known")
_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar", ".zip", ".skill", ".git")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be installed, and how.

    `names` are the skills of the source that are wanted, all when empty; `only` ids that it must have; `expected` the digests
    that it must have. `force` installs over local edits and yanked content, and installs the same content again. With
    `accept_signer` another signer than before is taken, or none. Without `activate` a version is put beside the one that
    serves, as if it had been installed at the moment `installed_at`. With `new` none may be installed already.
    `operation_id` was made by `new_operation_id`.
    """

    source: Source
    names: tuple[str, ...] = ()
    only: Collection[str] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    operation: Literal["install", "update"] = "install"
    consent: Consent | None = None
    force: bool = False
    accept_signer: bool = False
    activate: bool = True
    new: bool = False
    progress: Progress | None = None
    operation_id: str | None = None
    installed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything an installation needs; `keep` versions of a skill stay on the disk, their packages go to the `store`."""

    versions: Versions
    operations: Operations
    ledger: Ledger
    fetcher: Fetcher
    unmet: Callable[[str, Requirements], tuple[str, ...]]
    scanner: Scanner | None = None
    limits: Limits = field(default_factory=Limits)
    keep: int = 5
    store: Store | None = None

    def install(self, order: Order) -> InstallReport:
        """Carry out an order; all skills are fetched, checked and agreed to before the first is installed.

        Raises:
            SkillyardError: what was refused; nothing of it serves, and the log says why.
        """
        recover(self.operations, self.versions, self.ledger)
        with self.operations.begin(order.operation_id) as operation:
            log = self.ledger.begin(operation.id, order.operation, source=shown_source(order.source), progress=order.progress)
            with settling(operation, self.versions, self.ledger):
                results = self._install(operation, log, order)
        return InstallReport(operation.id, results)

    def _install(self, operation: Workplace, log: OpenLog, order: Order) -> tuple[Result, ...]:
        with log.step("download", 30):
            fetched = self.fetcher.fetch(order.source, operation.folder)
            found = choose_skills(find_skills(fetched.tree), () if fetched.chosen else order.names)
        with log.step("checksum", 50):
            pairs = []
            for skill in found:
                folder = folder_name(skill.path, order.source)
                tree, origin = staged(skill, fetched, operation.folder, self.limits)
                pairs.append((read_candidate(tree, origin, folder_name=folder), folder))
            pairs = _chosen(pairs, order)
        logs = self._logs(operation, log, [candidate for candidate, _ in pairs], order)
        with log.step("validate_structure", 60):
            candidates = [checked(candidate, folder) for candidate, folder in pairs]
            for candidate in candidates:
                if self.versions.current(candidate.skill_id) is not None:
                    _refuse_taken(candidate.skill_id, order)
                self.refuse_yanked(candidate, order)
            candidates = [_told(self.signed(candidate, order), order.source) for candidate in candidates]
        if self.scanner is not None:
            with log.step("scan", 65):
                candidates = [_scanned(candidate, self.scanner) for candidate in candidates]
        with log.step("consent", 70):
            agreed = self._agreed(candidates, order)
        return tuple(
            self._commit(operation, candidate, own, agreed[candidate.skill_id], order)
            for candidate, own in zip(candidates, logs, strict=True)
        )

    def refuse_yanked(self, candidate: Candidate, order: Order) -> None:
        """Refuse content that was yanked, unless it is forced.

        Raises:
            VersionUnusable: it was.
        """
        for version in self.ledger.versions(candidate.skill_id):
            if version.yanked and version.digest == candidate.digest and not order.force:
                why = f": {version.yanked_reason}" if version.yanked_reason else ""
                raise VersionUnusable(
                    f"this content of {candidate.skill_id} was yanked as {version.version}{why}",
                    hint="install another version, or use --force",
                )

    def signed(self, candidate: Candidate, order: Order) -> Candidate:
        """The candidate when its signer may publish it: whoever signed the newest version, and not something older.

        Content whose digest was promised needs nobody to vouch for it. What `accept_signer` lets pass is a warning.

        Raises:
            SignerChanged: somebody else signed it, nobody did, or it was signed before the version that is installed.
        """
        versions = self.ledger.versions(candidate.skill_id)
        signer = versions[0].signer if versions else None
        if signer is None or candidate.skill_id in order.expected:
            return candidate
        problem = self._signing_problem(candidate, versions[0], older=order.installed_at is not None)
        if problem is None:
            return candidate
        if order.accept_signer:
            return replace(candidate, warnings=(*candidate.warnings, problem))
        raise SignerChanged(
            f"{candidate.skill_id}: {problem}",
            hint="ask who publishes it whether that is right; then use --accept-signer",
            before=signer,
            now=candidate.signer,
        )

    def _signing_problem(self, candidate: Candidate, newest: SkillVersion, *, older: bool) -> str | None:
        if candidate.signer != newest.signer:
            now = f"signed by {candidate.signer}" if candidate.signer else "not signed"
            return f"it was signed by {newest.signer} until now, and this is {now}"
        if older:  # it will not serve
            return None
        path = self.versions.path(candidate.skill_id, newest.version)
        before = read_signature(path) if path.is_dir() and candidate.digest != newest.digest else None
        if before is not None and (candidate.signed_at or "") < before.signed_at:
            return f"it was signed at {candidate.signed_at}, before the version that is installed ({before.signed_at})"
        return None

    def _agreed(self, candidates: Sequence[Candidate], order: Order) -> Mapping[str, frozenset[str]]:
        """For each skill the sentences somebody agreed to; a new one changes nothing that is there."""
        if order.new:
            return {candidate.skill_id: frozenset() for candidate in candidates}
        changes = [change for candidate in candidates if (change := self.change_now(candidate))]
        if changes and not (order.consent is not None and order.consent(changes)):
            raise _without_consent(changes, asked=order.consent is not None)
        told = {change.skill_id: frozenset(change.widened) for change in changes}
        return {candidate.skill_id: told.get(candidate.skill_id, frozenset()) for candidate in candidates}

    def change_now(self, candidate: Candidate) -> PowerChange | None:
        """The change against the version that serves at this moment; nobody deletes that meanwhile."""
        with self.versions.locked(candidate.skill_id):
            return self._change(candidate)

    def _change(self, candidate: Candidate) -> PowerChange | None:
        current = self.versions.current(candidate.skill_id)
        if current is None:
            return None
        before = powers_in(self.versions.path(candidate.skill_id, current))
        widened = (*candidate.powers.beyond(before), *self._moved(candidate, current))
        return PowerChange(candidate.skill_id, candidate.name, before, candidate.powers, widened) if widened else None

    def _moved(self, candidate: Candidate, current: str) -> tuple[str, ...]:
        """That a skill fetched from the net would be replaced by one from elsewhere: its name alone makes it no update."""
        versions = self.ledger.versions(candidate.skill_id)
        origin = next((known.origin for known in versions if known.version == current), {})
        before, now = str(origin.get("address", "")), candidate.origin.address
        if origin.get("kind") not in _PUBLISHED or publisher(before) == publisher(now):
            return ()
        return (f"comes from {shown_address(now)}, and no longer from {shown_address(before)}",)

    def _logs(self, operation: Workplace, log: OpenLog, candidates: Sequence[Candidate], order: Order) -> list[OpenLog]:
        """One log for each skill: the first goes on with the one there is."""
        logs = []
        for index, candidate in enumerate(candidates):
            kind = "update" if self.versions.current(candidate.skill_id) else order.operation
            own = log
            if index:
                own = self.ledger.begin(
                    operation.id, kind, source=log.source, skill_id=candidate.skill_id, progress=order.progress, like=log
                )
            own.operation, own.skill_id = kind, candidate.skill_id
            self.ledger.write_log(own.id, operation=kind, skill_id=candidate.skill_id)
            logs.append(own)
        return logs

    def _commit(self, operation: Workplace, candidate: Candidate, log: OpenLog, agreed: frozenset[str], order: Order) -> Result:
        skill_id = candidate.skill_id
        with self.versions.locked(skill_id):
            current = self.versions.current(skill_id)
            if current is not None:
                _refuse_taken(skill_id, order)
                actual = refuse_edits(self.versions, self.ledger, skill_id, current, force=order.force)
                if actual == candidate.digest and not order.force:
                    self.ledger.end(log, skill_id, current, "unchanged")
                    pruned = self.prune(skill_id, operation)  # what an installation that was killed did not come to
                    return replace(self._result(candidate, log, "unchanged", current, current), pruned=pruned)
                self.signed(candidate, order)
                change = self._change(candidate)
                if change and not agreed.issuperset(change.widened):  # somebody else installed meanwhile
                    raise _without_consent([change], asked=False)
            version = self.versions.free_name(skill_id, self.ledger.version_names(skill_id), order.installed_at)
            if self.store is not None:
                with log.step("store", 75):
                    kept = keep_package(self.store, candidate.tree, operation.folder)
                    candidate = replace(candidate, package_digest=kept)
            with log.step("save_db", 80):
                path = self.versions.path(skill_id, version)
                self.ledger.save(candidate, version, path, operation.id)
                self.versions.place(candidate.tree, skill_id, version)
            if not order.activate and current is not None:
                self.ledger.shelve(skill_id, version, log, order.installed_at)
                return self._result(candidate, log, "kept", version, current)
            with log.step("activate", 90):
                self.versions.activate(skill_id, version, operation.folder)
            self.ledger.activate(skill_id, version, log, action=log.operation)
            pruned = self.prune(skill_id, operation)
        status: Literal["installed", "updated"] = "updated" if current else "installed"
        return replace(self._result(candidate, log, status, version, current), pruned=pruned)

    def prune(self, skill_id: str, operation: Workplace, *, keep: int | None = None) -> tuple[str, ...]:
        """Delete the files of all but the newest versions; never of one that serves, is in use, locked or changed by hand."""
        there = [version for version in self.ledger.versions(skill_id) if not version.removed]
        held = locked_to(there, self.ledger.locks(skill_id))
        pruned = []
        for old in there[self.keep if keep is None else keep :]:
            path = self.versions.path(skill_id, old.version)
            if (
                old.version in held
                or old.version == self.versions.current(skill_id)
                or (path.is_dir() and tree_digest(path) != old.digest)
            ):
                continue
            if remove_version(self.versions, self.ledger, skill_id, old.version, operation.folder):
                pruned.append(old.version)
        return tuple(pruned)

    def _result(
        self,
        candidate: Candidate,
        log: OpenLog,
        status: Literal["installed", "updated", "unchanged", "kept"],
        version: str,
        previous: str | None,
    ) -> Result:
        return Result(
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
            origin=dict(candidate.origin.to_dict()),
        )


def powers_in(path: Path) -> Powers:
    """What the skill in an installed folder may do."""
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    return read_powers(path, parse_document(read_inside(path, "SKILL.md", limit=DOCUMENT_LIMIT)))


def _chosen(pairs: list[tuple[Candidate, str]], order: Order) -> list[tuple[Candidate, str]]:
    """The candidates the order is about, each id once, with the digests that were promised."""
    if order.only:
        pairs = [pair for pair in pairs if pair[0].skill_id in order.only]
    ids = [candidate.skill_id for candidate, _ in pairs]
    if missing := sorted(set(order.only) - set(ids)):
        raise NoSkillInside(f"the source no longer has {', '.join(missing)}", hint="install it from where it is now")
    if twice := sorted({skill_id for skill_id in ids if ids.count(skill_id) > 1}):
        raise AmbiguousSkill(
            f"the source has several skills called {', '.join(twice)}",
            hint="choose one by its path with --skill",
            candidates=[candidate.origin.path for candidate, _ in pairs if candidate.skill_id in twice],
        )
    for candidate, _ in pairs:
        promised = order.expected.get(candidate.skill_id)
        if promised is not None and promised != candidate.digest:
            raise DigestMismatch(
                f"{candidate.skill_id} is not the content that is locked",
                hint="`skillyard update` takes the new content and writes the lock again",
                expected=promised,
                found=candidate.digest,
            )
    return pairs


def _refuse_taken(skill_id: str, order: Order) -> None:
    """Refuse a skill that is installed already where only new ones are wanted."""
    if order.new:
        raise SkillExists(f"there is a skill {skill_id!r}", hint="publish it as a version of that skill", skill_id=skill_id)


def _told(candidate: Candidate, source: Source) -> Candidate:
    """The candidate, with a warning where its address is not kept as it was given."""
    if without_secrets(source.address) == source.address:
        return candidate
    warning = "what may be a secret in its address is not kept: to update it, `skillyard install` it by its whole address"
    return replace(candidate, warnings=(*candidate.warnings, warning))


def _scanned(candidate: Candidate, scanner: Scanner) -> Candidate:
    return replace(candidate, findings=tuple(finding.to_dict() for finding in scanner(candidate.tree)))


def _without_consent(changes: Sequence[PowerChange], *, asked: bool) -> ConsentRequired:
    names = ", ".join(change.skill_id for change in changes)
    said = "; ".join(f"{change.skill_id} {sentence}" for change in changes for sentence in change.widened[:10])
    return ConsentRequired(
        f"{names} would be allowed more than before" + ("" if asked else f": {said}"),
        hint="nothing was changed; if you agree, call it again with --yes",
        changes=[change.to_dict() for change in changes],
        consent=",".join(change.consent for change in changes),
    )


def folder_name(path: str, source: Source) -> str:
    """The name of the folder a skill came in, which stands in for a name without Latin letters (D-4)."""
    name = (path if path != "." else source.path or source.address).rstrip("/").rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
