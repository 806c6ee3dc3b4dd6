"""Installing, step by step: fetch, measure, check, look for harm, ask, write down, activate.

Until the link `current` moves, in one step, nothing that serves has been touched. Whatever happens before leaves the old
version as it was, and what was begun is put in order at once, or by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from skillyard.packages import Limits, Source, Store, choose_skills, find_skills, without_secrets
from skillyard.registry.archive import keep_package
from skillyard.registry.candidate import Candidate, Scanner, checked, read_candidate, staged
from skillyard.registry.consent import agreed, power_change, refusal
from skillyard.registry.discarding import prune
from skillyard.registry.fetched import Fetcher
from skillyard.registry.local_edits import refuse_edits
from skillyard.registry.model import InstallReport, Result
from skillyard.registry.order import Order, chosen, folder_name
from skillyard.registry.publisher import shown_source
from skillyard.registry.recovery import recover, settling
from skillyard.registry.requirements import Requirements
from skillyard.registry.succession import agreed_replacements, refuse_replacements, refuse_taken, refuse_yanked, replacements

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.open_log import OpenLog
    from skillyard.registry.operations import Operations, Workplace
    from skillyard.registry.versions import Versions

__all__ = ["Pipeline"]


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
            pairs = chosen(pairs, order)
        logs = self._logs(operation, log, [candidate for candidate, _ in pairs], order)
        with log.step("validate_structure", 60):
            candidates = [checked(candidate, folder) for candidate, folder in pairs]
            for candidate in candidates:
                if self.versions.current(candidate.skill_id) is not None:
                    refuse_taken(candidate.skill_id, order)
                refuse_yanked(self.ledger, candidate, order)
            candidates, replaced = agreed_replacements(self.versions, self.ledger, candidates, order)
            candidates = [_told(candidate, order.source) for candidate in candidates]
        if self.scanner is not None:
            with log.step("scan", 65):
                candidates = [_scanned(candidate, self.scanner) for candidate in candidates]
        with log.step("consent", 70):
            accepted = agreed(self.versions, candidates, order)
        return tuple(
            self._commit(operation, candidate, own, accepted[candidate.skill_id] | replaced[candidate.skill_id], order)
            for candidate, own in zip(candidates, logs, strict=True)
        )

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

    def _commit(
        self, operation: Workplace, candidate: Candidate, log: OpenLog, accepted: frozenset[str], order: Order
    ) -> Result:
        skill_id = candidate.skill_id
        with self.versions.locked(skill_id):
            current = self.versions.current(skill_id)
            if current is not None:
                refuse_taken(skill_id, order)
                actual = refuse_edits(self.versions, self.ledger, skill_id, current, force=order.force)
                if actual == candidate.digest and not order.force:
                    self.ledger.end(log, skill_id, current, "unchanged")
                    pruned = self._prune(skill_id, operation)  # what an installation that was killed did not come to
                    return replace(self._result(candidate, log, "unchanged", current, current), pruned=pruned)
                self._refuse_what_came_between(candidate, accepted, order)
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
            pruned = self._prune(skill_id, operation)
        status: Literal["installed", "updated"] = "updated" if current else "installed"
        return replace(self._result(candidate, log, status, version, current), pruned=pruned)

    def _refuse_what_came_between(self, candidate: Candidate, accepted: frozenset[str], order: Order) -> None:
        """Judge once more, now that nobody else installs the skill: since the first time another version may have come."""
        found = replacements(self.versions, self.ledger, candidate, order)
        refuse_replacements(
            [change for change in found if change.sentence not in accepted],
            accept_signer=order.accept_signer,
            accept_source=order.accept_source,
        )
        change = power_change(self.versions, candidate)
        if change and not accepted.issuperset(change.widened):
            raise refusal([change], asked=False)

    def _prune(self, skill_id: str, operation: Workplace) -> tuple[str, ...]:
        return prune(self.versions, self.ledger, skill_id, operation.folder, keep=self.keep)

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


def _told(candidate: Candidate, source: Source) -> Candidate:
    """The candidate, with a warning where its address is not kept as it was given."""
    if without_secrets(source.address) == source.address:
        return candidate
    warning = "what may be a secret in its address is not kept: to update it, `skillyard install` it by its whole address"
    return replace(candidate, warnings=(*candidate.warnings, warning))


def _scanned(candidate: Candidate, scanner: Scanner) -> Candidate:
    return replace(candidate, findings=tuple(finding.to_dict() for finding in scanner(candidate.tree)))
