"""Whether new content may follow what is installed: new where only new is wanted, not yanked, signed by who signed before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skillyard.errors import SignerChanged, SkillExists, VersionUnusable
from skillyard.packages import read_signature

if TYPE_CHECKING:
    from skillyard.registry.candidate import Candidate
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.model import SkillVersion
    from skillyard.registry.order import Order
    from skillyard.registry.versions import Versions

__all__ = ["refuse_taken", "refuse_yanked", "signed"]


def refuse_taken(skill_id: str, order: Order) -> None:
    """Refuse a skill that is installed already where only new ones are wanted.

    Raises:
        SkillExists: it is.
    """
    if order.new:
        raise SkillExists(f"there is a skill {skill_id!r}", hint="publish it as a version of that skill", skill_id=skill_id)


def refuse_yanked(ledger: Ledger, candidate: Candidate, order: Order) -> None:
    """Refuse content that was yanked, unless it is forced.

    Raises:
        VersionUnusable: it was.
    """
    for version in ledger.versions(candidate.skill_id):
        if version.yanked and version.digest == candidate.digest and not order.force:
            why = f": {version.yanked_reason}" if version.yanked_reason else ""
            raise VersionUnusable(
                f"this content of {candidate.skill_id} was yanked as {version.version}{why}",
                hint="install another version, or use --force",
            )


def signed(versions: Versions, ledger: Ledger, candidate: Candidate, order: Order) -> Candidate:
    """The candidate when its signer may publish it: whoever signed the newest version, and not something older.

    Content whose digest was promised needs nobody to vouch for it. What `accept_signer` lets pass is a warning.

    Raises:
        SignerChanged: somebody else signed it, nobody did, or it was signed before the version that is installed.
    """
    known = ledger.versions(candidate.skill_id)
    signer = known[0].signer if known else None
    if signer is None or candidate.skill_id in order.expected:
        return candidate
    problem = _signing_problem(versions, candidate, known[0], older=order.installed_at is not None)
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


def _signing_problem(versions: Versions, candidate: Candidate, newest: SkillVersion, *, older: bool) -> str | None:
    if candidate.signer != newest.signer:
        now = f"signed by {candidate.signer}" if candidate.signer else "not signed"
        return f"it was signed by {newest.signer} until now, and this is {now}"
    if older:  # it will not serve
        return None
    path = versions.path(candidate.skill_id, newest.version)
    before = read_signature(path) if path.is_dir() and candidate.digest != newest.digest else None
    if before is not None and (candidate.signed_at or "") < before.signed_at:
        return f"it was signed at {candidate.signed_at}, before the version that is installed ({before.signed_at})"
    return None
