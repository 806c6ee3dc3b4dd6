"""Deleting versions for good, when nobody needs them any more."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import VersionUnusable
from skillyard.packages import tree_digest
from skillyard.registry.local_edits import refuse_edits
from skillyard.registry.version_locks import locked_to

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.model import SkillVersion
    from skillyard.registry.versions import Versions

__all__ = ["discard", "discard_all", "prune"]


def discard(versions: Versions, ledger: Ledger, version: SkillVersion, scratch: Path) -> None:
    """Delete the files of a version and forget its package; whoever calls this holds the lock of the skill.

    Raises:
        VersionUnusable: it serves, an agent is locked to it, or somebody reads it now.
        LocalEdits: it was changed by hand.
    """
    skill_id, name = version.skill_id, version.version
    if versions.current(skill_id) == name:
        raise VersionUnusable(f"{skill_id} {name} serves", hint="let another version serve first, or uninstall the skill")
    if name in locked_to(ledger.versions(skill_id), ledger.locks(skill_id)):
        raise VersionUnusable(f"an agent is locked to {skill_id} {name}", hint="take the lock away first")
    if versions.path(skill_id, name).is_dir():
        refuse_edits(versions, ledger, skill_id, name, force=False)
        if not versions.remove(skill_id, name, scratch):
            raise VersionUnusable(f"{skill_id} {name} is being read", hint="try again")
    ledger.mark(skill_id, name, "discard", removed_at=datetime.now(UTC), package_digest=None)


def discard_all(versions: Versions, ledger: Ledger, skill_id: str, scratch: Path) -> tuple[str, ...]:
    """Delete the files of every version that nobody reads; give their names."""
    return tuple(name for name in versions.names(skill_id) if _remove(versions, ledger, skill_id, name, scratch))


def prune(versions: Versions, ledger: Ledger, skill_id: str, scratch: Path, *, keep: int) -> tuple[str, ...]:
    """Delete the files of all but the newest `keep` versions; give their names.

    Never of a version that serves, is in use, locked or changed by hand. Whoever calls this holds the lock of the skill.
    """
    there = [version for version in ledger.versions(skill_id) if not version.removed]
    needed = {versions.current(skill_id), *locked_to(there, ledger.locks(skill_id))}
    return tuple(
        old.version
        for old in there[keep:]
        if old.version not in needed
        and not _edited(versions.path(skill_id, old.version), old)
        and _remove(versions, ledger, skill_id, old.version, scratch)
    )


def _edited(path: Path, version: SkillVersion) -> bool:
    return path.is_dir() and tree_digest(path) != version.digest


def _remove(versions: Versions, ledger: Ledger, skill_id: str, version: str, scratch: Path) -> bool:
    """Delete the files of a version unless somebody reads them, and write that down; whether they are gone."""
    gone = versions.remove(skill_id, version, scratch) or not versions.path(skill_id, version).exists()
    if gone:
        ledger.mark(skill_id, version, "prune", removed_at=datetime.now(UTC))
    return gone
