"""Fill the records from the disk: for skills that were there before the records, and for columns that older rows lack.

A version that is written down keeps its digest, origin and status; content and inventory are read again (row 003-16). A folder
`{skill_id}/current` that is no link, as older installers made it, becomes a version with a link to it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import SkillyardError
from skillyard.packages import Origin, Store, tree_digest
from skillyard.registry.archive import keep_package
from skillyard.registry.candidate import read_candidate
from skillyard.registry.versions import CURRENT

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.operations import Operations
    from skillyard.registry.versions import Versions

__all__ = ["Backfilled", "backfill"]


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What was found: `versions` as `skill_id@version`, and `problems`, one sentence for each folder that says nothing."""

    versions: tuple[str, ...]
    added: tuple[str, ...]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The outcome as plain data."""
        return {"versions": list(self.versions), "added": list(self.added), "problems": list(self.problems)}


def backfill(versions: Versions, operations: Operations, ledger: Ledger, store: Store | None = None) -> Backfilled:
    """Write down every version on the disk; with a `store` put the packages there that it lacks."""
    seen: list[str] = []
    added: list[str] = []
    problems: list[str] = []
    with operations.begin() as operation:
        operation.settled = True  # it opens no log
        for skill_id in versions.skills():
            with versions.locked(skill_id):
                try:
                    _adopt_folder(skill_id, versions, ledger, operation.folder)
                    known = ledger.version_names(skill_id)
                    for version in versions.names(skill_id):
                        _fill(skill_id, version, versions, ledger)
                        seen.append(f"{skill_id}@{version}")
                        added += [seen[-1]] if version not in known else []
                    if store is not None:
                        _keep_packages(skill_id, versions, ledger, store, operation.folder)
                except (SkillyardError, OSError) as error:
                    problems.append(f"{versions.home(skill_id)}: {error}")
    return Backfilled(tuple(seen), tuple(added), tuple(problems))


def _fill(skill_id: str, version: str, versions: Versions, ledger: Ledger) -> None:
    path = versions.path(skill_id, version)
    candidate = read_candidate(path, Origin("folder", str(path)), folder_name=skill_id, skill_id=skill_id)
    ledger.adopt(candidate, version, path, current=versions.current(skill_id) == version)


def _keep_packages(skill_id: str, versions: Versions, ledger: Ledger, store: Store, scratch: Path) -> None:
    for version in ledger.versions(skill_id):
        folder = versions.path(skill_id, version.version)
        kept = version.package_digest is not None and store.has(version.package_digest)
        if not kept and folder.is_dir() and tree_digest(folder) == version.digest:
            digest = keep_package(store, folder, scratch)
            ledger.mark(skill_id, version.version, "store", package_digest=digest)


def _adopt_folder(skill_id: str, versions: Versions, ledger: Ledger, scratch: Path) -> None:
    """Make a version of a real folder `current`; one that was moved and not yet linked to is linked to now."""
    folder = versions.home(skill_id) / CURRENT
    if folder.is_dir() and not folder.is_symlink():
        version = versions.free_name(skill_id, ledger.version_names(skill_id))
        folder.rename(versions.path(skill_id, version))
        versions.activate(skill_id, version, scratch)
    elif versions.current(skill_id) is None and ledger.skill(skill_id) is None:
        with contextlib.suppress(IndexError):
            versions.activate(skill_id, versions.names(skill_id)[-1], scratch)
