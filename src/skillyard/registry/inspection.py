"""Looking at a source before it is installed: what is in it, what it may do, what speaks against it; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skillyard.errors import SkillyardError
from skillyard.packages import Difference, choose_skills, compare_trees, find_skills
from skillyard.registry.candidate import Candidate, checked, read_candidate, staged
from skillyard.registry.consent import change_now, powers_in
from skillyard.registry.order import folder_name
from skillyard.registry.succession import refuse_replacements, refuse_yanked, replacements

if TYPE_CHECKING:
    from skillyard.catalog.inventory import SkillFile
    from skillyard.document import Diagnostic
    from skillyard.interop import Loading
    from skillyard.registry.model import SkillVersion
    from skillyard.registry.order import Order
    from skillyard.registry.pipeline import Pipeline
    from skillyard.registry.powers import PowerChange, Powers

__all__ = ["Inspected", "Refusal", "inspect"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an installation would be refused."""

    code: str
    message: str
    hint: str | None

    @classmethod
    def of(cls, error: SkillyardError) -> Self:
        """The same as an error says."""
        return cls(error.code, error.message, error.hint)


@dataclass(frozen=True, slots=True)
class Inspected:
    """One skill of a source, as it would be installed.

    `refusals` would stop it; `findings` of the scanner are advice, `unmet` is what this machine lacks. `clients` are those that
    can load it. `installed` is the version that serves now, `difference` what would become of its files, `powers_before` what
    it may do, and `change` what the new one may do beyond that: it needs consent.
    """

    skill_id: str
    name: str
    description: str
    declared_version: str | None
    digest: str
    size_bytes: int
    front_matter: Mapping[str, object]
    skill_md: str
    files: tuple[SkillFile, ...]
    inventory: Mapping[str, object]
    powers: Powers
    diagnostics: tuple[Diagnostic, ...]
    refusals: tuple[Refusal, ...]
    findings: tuple[Mapping[str, object], ...]
    clients: tuple[Loading, ...]
    unmet: tuple[str, ...]
    warnings: tuple[str, ...]
    signer: str | None
    installed: SkillVersion | None
    powers_before: Powers | None
    difference: Difference | None
    change: PowerChange | None

    @property
    def unchanged(self) -> bool:
        """Whether exactly this content serves already."""
        return self.installed is not None and self.installed.digest == self.digest


def inspect(pipeline: Pipeline, order: Order) -> tuple[Inspected, ...]:
    """Every skill of the source that is ordered; it is fetched into a folder that is gone afterwards.

    Raises:
        InvalidSource, ArchiveRefused, NoSkillInside, NetworkFailed: it cannot be fetched or is none.
    """
    with pipeline.operations.begin() as operation:
        operation.settled = True  # it opens no log: what is left is only to be deleted
        fetched = pipeline.fetcher.fetch(order.source, operation.folder)
        found = choose_skills(find_skills(fetched.tree), () if fetched.chosen else order.names)
        inspected = []
        for skill in found:
            folder = folder_name(skill.path, order.source)
            tree, origin = staged(skill, fetched, operation.folder, pipeline.limits)
            candidate = read_candidate(tree, origin, folder_name=folder)
            inspected.append(_inspected(pipeline, candidate, folder, order))
        return tuple(inspected)


def _inspected(pipeline: Pipeline, candidate: Candidate, folder: str, order: Order) -> Inspected:
    from skillyard.catalog.inventory import list_files
    from skillyard.interop import check_clients

    candidate, refusals = _judged(pipeline, candidate, folder, order)
    document = candidate.document
    installed = next((known for known in pipeline.ledger.versions(candidate.skill_id) if known.current), None)
    before = pipeline.versions.path(candidate.skill_id, installed.version) if installed else None
    before = before if before is not None and before.is_dir() else None
    tree = candidate.tree
    return Inspected(
        skill_id=candidate.skill_id,
        name=candidate.name,
        description=document.metadata.description,
        declared_version=document.metadata.version,
        digest=candidate.digest,
        size_bytes=candidate.size,
        front_matter=document.told,
        skill_md=document.text,
        files=list_files(tree.as_posix()),
        inventory=candidate.inventory,
        powers=candidate.powers,
        diagnostics=document.diagnostics,
        refusals=refusals,
        findings=tuple(finding.to_dict() for finding in pipeline.scanner(tree)) if pipeline.scanner else (),
        clients=check_clients(tree, name=folder or candidate.skill_id),
        unmet=pipeline.unmet(candidate.skill_id, candidate.requirements),
        warnings=candidate.warnings,
        signer=candidate.signer,
        installed=installed,
        powers_before=powers_in(before) if before else None,
        difference=compare_trees(before, tree) if before else None,
        change=change_now(pipeline.versions, candidate),
    )


def _judged(pipeline: Pipeline, candidate: Candidate, folder: str, order: Order) -> tuple[Candidate, tuple[Refusal, ...]]:
    """The candidate with what its check adds, and why an installation would refuse it; consent is another matter."""
    refusals = []
    judges: tuple[Callable[[Candidate], Candidate], ...] = (
        lambda found: checked(found, folder),
        lambda found: _not_yanked(pipeline, found, order),
    )
    for judge in judges:
        try:
            candidate = judge(candidate)
        except SkillyardError as error:
            refusals.append(Refusal.of(error))
    for change in replacements(pipeline.versions, pipeline.ledger, candidate, order):
        try:
            refuse_replacements([change], accept_signer=False, accept_source=False)
        except SkillyardError as error:
            refusals.append(Refusal.of(error))
    return candidate, tuple(refusals)


def _not_yanked(pipeline: Pipeline, candidate: Candidate, order: Order) -> Candidate:
    refuse_yanked(pipeline.ledger, candidate, order)
    return candidate
