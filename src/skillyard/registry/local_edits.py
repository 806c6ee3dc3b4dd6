"""Versions that somebody changed by hand: they are told from what was installed, and never deleted or replaced unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.errors import LocalEdits
from skillyard.packages import tree_digest

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.versions import Versions

__all__ = ["refuse_edits"]


def refuse_edits(versions: Versions, ledger: Ledger, skill_id: str, version: str, *, force: bool) -> str:
    """The digest of a version as it is on the disk.

    Raises:
        LocalEdits: it is not what was installed, and `force` does not say that this is fine.
    """
    path = versions.path(skill_id, version)
    actual = tree_digest(path)
    recorded = next((known.digest for known in ledger.versions(skill_id) if known.version == version), actual)
    if actual != recorded and not force:
        raise LocalEdits(
            f"{path} was changed by hand since it was installed",
            hint="copy your changes to a skill of your own, or use --force: the changed version stays on the disk",
            path=str(path),
        )
    return actual
