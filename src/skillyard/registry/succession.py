"""Whether new content may follow what is installed: not yanked, from the same source, signed by who signed before.

A name alone makes nothing an update: a namesake from another source, or content that somebody else signed, or nobody, would
take the place of a skill that was trusted. That is asked, and a promise of its digest (a lock) is no answer to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skillyard.errors import SignerChanged, SkillExists, SourceChanged, VersionUnusable
from skillyard.packages import read_signature
from skillyard.registry.model import Replacement
from skillyard.registry.publisher import shown_origin, source_identity

if TYPE_CHECKING:
    from skillyard.registry.candidate import Candidate
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.model import AgreeReplacement, SkillVersion
    from skillyard.registry.order import Order
    from skillyard.registry.versions import Versions

__all__ = ["agreed_replacements", "refuse_replacements", "refuse_taken", "refuse_yanked", "replacements", "return_replacements"]


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


def agreed_replacements(
    versions: Versions, ledger: Ledger, candidates: Sequence[Candidate], order: Order
) -> tuple[list[Candidate], Mapping[str, frozenset[str]]]:
    """The candidates, with a warning for each change of source or signer that was agreed to, and the sentences of these by id.

    Raises:
        SignerChanged, SourceChanged: nobody agreed to one of them.
    """
    found = {candidate.skill_id: tuple(replacements(versions, ledger, candidate, order)) for candidate in candidates}
    changes = [change for candidate in candidates for change in found[candidate.skill_id]]
    refuse_replacements(changes, accept_signer=order.accept_signer, accept_source=order.accept_source, agree=order.replacing)
    warned = [
        replace(candidate, warnings=(*candidate.warnings, *(change.sentence for change in found[candidate.skill_id])))
        for candidate in candidates
    ]
    return warned, {skill_id: frozenset(change.sentence for change in own) for skill_id, own in found.items()}


def refuse_replacements(
    changes: Sequence[Replacement], *, accept_signer: bool, accept_source: bool, agree: AgreeReplacement | None = None
) -> None:
    """Return when every change was accepted beforehand, or `agree` accepts those that were not.

    Raises:
        SignerChanged: one of them is another signer.
        SourceChanged: they are from another source.
    """
    accepted = {"signer": accept_signer, "source": accept_source}
    open_ = [change for change in changes if not accepted[change.kind]]
    if not open_ or (agree is not None and agree(open_)):
        return
    kinds = {change.kind for change in open_}
    options = " and ".join(f"--accept-{kind}" for kind in ("signer", "source") if kind in kinds)
    error = SignerChanged if "signer" in kinds else SourceChanged
    raise error(
        "; ".join(f"{change.skill_id}: {change.sentence}" for change in open_),
        hint=f"nothing was changed; ask who publishes it whether that is right, then use {options}",
        before=open_[0].before,
        now=open_[0].now,
        replacements=[change.to_dict() for change in open_],
        consent=",".join(change.consent for change in open_),
    )


def replacements(versions: Versions, ledger: Ledger, candidate: Candidate, order: Order) -> Iterator[Replacement]:
    """What would be another signer or another source than before, if the candidate were installed."""
    known = ledger.versions(candidate.skill_id)
    promised = order.signers.get(candidate.skill_id) or None
    if promised is not None and candidate.signer != promised:
        yield _of(candidate, promised, f"the lock names {promised} as its signer")
    if known and known[0].signer is not None:
        yield from _signer_change(versions, candidate, known[0], older=order.installed_at is not None)
    serving = next((version for version in known if version.current), None)
    if serving is not None and order.activate and serving.digest != candidate.digest:
        now = candidate.origin.to_dict()
        yield from _source_change(candidate.skill_id, candidate.name, serving, now, candidate.signer, candidate.digest)


def return_replacements(name: str, serving: SkillVersion, target: SkillVersion) -> Iterator[Replacement]:
    """The same for a version that is here already and would serve again in place of `serving`."""
    if serving.signer is not None and serving.signer != target.signer:
        sentence = f"it is signed by {serving.signer} now, and {target.version} is {_signing(target.signer)}"
        yield Replacement(target.skill_id, name, "signer", serving.signer, target.signer, sentence, target.digest)
    yield from _source_change(target.skill_id, name, serving, target.origin, target.signer, target.digest)


def _signer_change(versions: Versions, candidate: Candidate, newest: SkillVersion, *, older: bool) -> Iterator[Replacement]:
    """Another signer than that of the newest version; or the same, who signed this before what is installed."""
    if candidate.signer != newest.signer:
        yield _of(candidate, newest.signer, f"it was signed by {newest.signer} until now")
        return
    path = versions.path(candidate.skill_id, newest.version)
    if older or candidate.digest == newest.digest or not path.is_dir():  # an older version will not serve
        return
    before = read_signature(path)
    if before is not None and (candidate.signed_at or "") < before.signed_at:
        why = f"it was signed at {candidate.signed_at}, before the version that is installed ({before.signed_at})"
        yield Replacement(candidate.skill_id, candidate.name, "signer", newest.signer, candidate.signer, why, candidate.digest)


def _source_change(
    skill_id: str, name: str, serving: SkillVersion, now: Mapping[str, object], signer: str | None, digest: str
) -> Iterator[Replacement]:
    """Another source than that of the version that serves; whoever signed that one may publish anywhere."""
    known = source_identity(serving.origin)
    if (known and known == source_identity(now)) or (signer is not None and signer == serving.signer):
        return
    before, after = shown_origin(serving.origin), shown_origin(now)
    yield Replacement(skill_id, name, "source", before, after, f"it comes from {after}, and no longer from {before}", digest)


def _of(candidate: Candidate, before: str | None, why: str) -> Replacement:
    sentence = f"{why}, and this is {_signing(candidate.signer)}"
    return Replacement(candidate.skill_id, candidate.name, "signer", before, candidate.signer, sentence, candidate.digest)


def _signing(signer: str | None) -> str:
    return f"signed by {signer}" if signer else "not signed"
