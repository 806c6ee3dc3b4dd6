"""Bringing disk and database together: after an operation that failed or was killed, and for skills without records.

The link `current` on the disk decides: the version it names is complete and current. `recover` settles abandoned operations,
`backfill` writes records for versions that are on the disk only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import DatabaseUnavailable, DiskFull, SkillyardError
from skillyard.packages import Origin, Store, tree_digest
from skillyard.registry.candidate import read_candidate
from skillyard.registry.version_files import store_package
from skillyard.registry.version_store import CURRENT
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.registry.operations import Operations, RunningOperation
    from skillyard.registry.records import RegistryRecords
    from skillyard.registry.version_store import VersionStore


def recover(operations: Operations, versions: VersionStore, records: RegistryRecords) -> int:
    """Settle every operation whose process has ended; give how many there were."""
    count = 0
    for operation in operations.abandoned():
        settle(operation, versions, records, None)
        count += 1
    return count


def settle(operation: RunningOperation, versions: VersionStore, records: RegistryRecords, error: BaseException | None) -> None:
    """Bring disk and records of one operation together, and end its logs; `error` is None when its process was killed."""
    for skill_id in records.read.touched(operation.id):
        with versions.locked(skill_id):
            _settle_skill(operation, skill_id, versions, records)
    records.logs.fail(operation.id, error)
    operation.settled = True


@contextlib.contextmanager
def settling(operation: RunningOperation, versions: VersionStore, records: RegistryRecords) -> Iterator[None]:
    """Carry out an operation: it is settled at the end, and at once when something is raised."""
    try:
        yield
    except BaseException as error:
        full = DiskFull.of(error)
        with contextlib.suppress(DatabaseUnavailable):  # then the next start does it
            settle(operation, versions, records, full or error)
        if full is not None:
            raise full from error
        raise
    operation.settled = True


def _settle_skill(operation: RunningOperation, skill_id: str, versions: VersionStore, records: RegistryRecords) -> None:
    current = versions.current(skill_id)
    for version in records.read.installing(operation.id, skill_id):
        if version == current:
            records.activate(skill_id, version, action="recover")
            records.logs.end_interrupted(operation.id, skill_id)
        else:
            versions.remove(skill_id, version, operation.folder)
            records.fail_version(skill_id, version)
    recorded = records.read.skill(skill_id)
    if recorded is None or recorded.current_version == current:
        return
    if current is None:
        records.deactivate(skill_id)
    elif current in records.read.version_names(skill_id):
        records.activate(skill_id, current, action="recover")
    records.logs.end_interrupted(operation.id, skill_id)


@dataclass(frozen=True, slots=True)
class BackfillReport(WireForm):
    """The result: `versions` as `skill_id@version`, and `problems`, one sentence for each folder without a version."""

    versions: tuple[str, ...]
    added: tuple[str, ...]
    problems: tuple[str, ...]


def backfill(
    versions: VersionStore, operations: Operations, records: RegistryRecords, store: Store | None = None
) -> BackfillReport:
    """Record every version on the disk; with a `store` put the packages there that it lacks."""
    seen: list[str] = []
    added: list[str] = []
    problems: list[str] = []
    with operations.begin() as operation:
        operation.settled = True  # it opens no log
        for skill_id in versions.skills():
            with versions.locked(skill_id):
                try:
                    _adopt_folder(skill_id, versions, records, operation.folder)
                    recorded = records.read.version_names(skill_id)
                    for version in versions.names(skill_id):
                        _backfill_version(skill_id, version, versions, records)
                        seen.append(f"{skill_id}@{version}")
                        added += [seen[-1]] if version not in recorded else []
                    if store is not None:
                        _keep_packages(skill_id, versions, records, store, operation.folder)
                except (SkillyardError, OSError) as error:
                    problems.append(f"{versions.home(skill_id)}: {error}")
    return BackfillReport(tuple(seen), tuple(added), tuple(problems))


def _backfill_version(skill_id: str, version: str, versions: VersionStore, records: RegistryRecords) -> None:
    path = versions.path(skill_id, version)
    candidate = read_candidate(path, Origin("folder", str(path)), folder_name=skill_id, skill_id=skill_id)
    records.adopt(candidate, version, path, current=versions.current(skill_id) == version)


def _keep_packages(skill_id: str, versions: VersionStore, records: RegistryRecords, store: Store, scratch: Path) -> None:
    for version in records.read.versions(skill_id):
        folder = versions.path(skill_id, version.version)
        kept = version.package_digest is not None and store.has(version.package_digest)
        if not kept and folder.is_dir() and tree_digest(folder) == version.digest:
            package = store_package(store, folder, scratch)
            records.mark(skill_id, version.version, "store", package_digest=package.archive_sha256)


def _adopt_folder(skill_id: str, versions: VersionStore, records: RegistryRecords, scratch: Path) -> None:
    """Make a version of a real folder `current`; one that was moved and not yet linked to is linked to now."""
    folder = versions.home(skill_id) / CURRENT
    if folder.is_dir() and not folder.is_symlink():
        version = versions.free_name(skill_id, records.read.version_names(skill_id))
        folder.rename(versions.path(skill_id, version))
        versions.activate(skill_id, version, scratch)
    elif versions.current(skill_id) is None and records.read.skill(skill_id) is None:
        with contextlib.suppress(IndexError):
            versions.activate(skill_id, versions.names(skill_id)[-1], scratch)
