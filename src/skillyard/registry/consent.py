"""Consent to more power: what a new version may do beyond the one that serves, and who agreed to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import ConsentRequired
from skillyard.registry.powers import PowerChange, Powers, read_powers

if TYPE_CHECKING:
    from skillyard.registry.candidate import Candidate
    from skillyard.registry.order import Order
    from skillyard.registry.versions import Versions

__all__ = ["agreed", "change_now", "power_change", "powers_in", "refusal"]


def agreed(versions: Versions, candidates: Sequence[Candidate], order: Order) -> Mapping[str, frozenset[str]]:
    """For each skill the sentences somebody agreed to; a new one changes nothing that is there.

    Raises:
        ConsentRequired: nobody was asked, or who was asked said no.
    """
    if order.new:
        return {candidate.skill_id: frozenset() for candidate in candidates}
    changes = [change for candidate in candidates if (change := change_now(versions, candidate))]
    if changes and not (order.consent is not None and order.consent(changes)):
        raise refusal(changes, asked=order.consent is not None)
    told = {change.skill_id: frozenset(change.widened) for change in changes}
    return {candidate.skill_id: told.get(candidate.skill_id, frozenset()) for candidate in candidates}


def change_now(versions: Versions, candidate: Candidate) -> PowerChange | None:
    """The change against the version that serves at this moment; nobody deletes that meanwhile."""
    with versions.locked(candidate.skill_id):
        return power_change(versions, candidate)


def power_change(versions: Versions, candidate: Candidate) -> PowerChange | None:
    """The change against the version that serves; whoever calls this holds the lock of the skill."""
    current = versions.current(candidate.skill_id)
    if current is None:
        return None
    before = powers_in(versions.path(candidate.skill_id, current))
    widened = candidate.powers.beyond(before)
    return PowerChange(candidate.skill_id, candidate.name, before, candidate.powers, widened) if widened else None


def refusal(changes: Sequence[PowerChange], *, asked: bool) -> ConsentRequired:
    """What is raised when nobody agreed to these changes; when nobody was `asked` it says them."""
    names = ", ".join(change.skill_id for change in changes)
    said = "; ".join(f"{change.skill_id} {sentence}" for change in changes for sentence in change.widened[:10])
    return ConsentRequired(
        f"{names} would be allowed more than before" + ("" if asked else f": {said}"),
        hint="nothing was changed; if you agree, call it again with --yes",
        changes=[change.to_dict() for change in changes],
        consent=",".join(change.consent for change in changes),
    )


def powers_in(path: Path) -> Powers:
    """What the skill in an installed folder may do."""
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    return read_powers(path, parse_document(read_inside(path, "SKILL.md", limit=DOCUMENT_LIMIT)))
