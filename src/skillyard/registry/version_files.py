"""The files of installed versions: kept in and restored from the package store, checked for local edits, deleted."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import DigestMismatch, LocalEdits, StoreFailed, VersionUnusable
from skillyard.packages import Package, Store, extract, find_skills, pack, tree_digest
from skillyard.registry.requirements import locked_versions

if TYPE_CHECKING:
    from skillyard.registry.model import SkillVersion
    from skillyard.registry.records import RegistryRecords
    from skillyard.registry.version_store import VersionStore


NO_STORE_HINT: Final = "name the store in [packages] of your own skillyard.toml or in SKILLYARD_STORE, or install it again"


def store_package(store: Store, tree: Path, scratch: Path) -> Package:
    """Put the skill in `tree` into the store, whole; gives its package. Raises StoreFailed: it cannot be written."""
    target = scratch / f".{os.urandom(6).hex()}.zip"
    try:
        package = pack(tree, target, whole=True)
        store.put(target.read_bytes(), package.archive_sha256)
        return package
    finally:
        target.unlink(missing_ok=True)


def restore_version(
    store: Store | None, versions: VersionStore, records: RegistryRecords, version: SkillVersion, scratch: Path
) -> None:
    """Bring the files of a version back from the store; they have reached the disk.

    Raises:
        StoreFailed: no store is configured.
        PackageMissing, StoreFailed: the store does not give it.
        DigestMismatch: it is not what was installed.
    """
    if store is None:
        raise StoreFailed(f"no store has {version.skill_id} {version.version}: none is configured", hint=NO_STORE_HINT)
    archive, into = scratch / "restored.zip", scratch / "restored"
    archive.write_bytes(store.get(str(version.package_digest)))
    into.mkdir()
    (skill,) = find_skills(extract(archive, into).tree)
    actual = tree_digest(skill.directory)
    if actual != version.digest:
        raise DigestMismatch(
            f"the store has other content of {version.skill_id} {version.version} than was installed",
            hint="install it again from its source",
            expected=version.digest,
            found=actual,
        )
    versions.place(skill.directory, version.skill_id, version.version)
    records.mark(version.skill_id, version.version, "restore", removed_at=None)


def refuse_local_edits(versions: VersionStore, records: RegistryRecords, skill_id: str, version: str, *, force: bool) -> str:
    """The digest of a version as it is on the disk. Raises LocalEdits: it is not what was installed, and no `force`."""
    path = versions.path(skill_id, version)
    actual = tree_digest(path)
    recorded = next((one.digest for one in records.read.versions(skill_id) if one.version == version), actual)
    if actual != recorded and not force:
        raise LocalEdits(
            f"{path} was changed by hand since it was installed",
            hint="copy your changes to a skill of your own, or use --force: the changed version stays on the disk",
            path=str(path),
        )
    return actual


def discard_version(versions: VersionStore, records: RegistryRecords, version: SkillVersion, scratch: Path) -> None:
    """Delete the files of a version and forget its package; the caller holds the lock of the skill.

    Raises:
        VersionUnusable: it is current, an agent is locked to it, or it is being read.
        LocalEdits: it was changed by hand.
    """
    skill_id, name = version.skill_id, version.version
    if versions.current(skill_id) == name:
        raise VersionUnusable(
            f"{skill_id} {name} is the current version", hint="roll back to another one first, or uninstall the skill"
        )
    if name in locked_versions(records.read.versions(skill_id), records.read.locks(skill_id)):
        raise VersionUnusable(f"an agent is locked to {skill_id} {name}", hint="remove the lock first")
    if versions.path(skill_id, name).is_dir():
        refuse_local_edits(versions, records, skill_id, name, force=False)
        if not versions.remove(skill_id, name, scratch):
            raise VersionUnusable(f"{skill_id} {name} is being read", hint="try again")
    records.mark(skill_id, name, "discard", removed_at=datetime.now(UTC), package_digest=None)


def discard_all_versions(versions: VersionStore, records: RegistryRecords, skill_id: str, scratch: Path) -> tuple[str, ...]:
    """Delete the files of every version that is not being read; give their names."""
    return tuple(name for name in versions.names(skill_id) if _remove_version(versions, records, skill_id, name, scratch))


def prune_versions(
    versions: VersionStore, records: RegistryRecords, skill_id: str, scratch: Path, *, keep: int
) -> tuple[str, ...]:
    """Delete the files of all but the newest `keep` versions; give their names.

    Never of a version that is current, in use, locked or changed by hand. The caller holds the lock of the skill.
    """
    there = [version for version in records.read.versions(skill_id) if not version.removed]
    needed = {versions.current(skill_id), *locked_versions(there, records.read.locks(skill_id))}
    return tuple(
        old.version
        for old in there[keep:]
        if old.version not in needed
        and not ((path := versions.path(skill_id, old.version)).is_dir() and tree_digest(path) != old.digest)
        and _remove_version(versions, records, skill_id, old.version, scratch)
    )


def _remove_version(versions: VersionStore, records: RegistryRecords, skill_id: str, version: str, scratch: Path) -> bool:
    """Delete the files of a version unless they are being read, and record that; whether they are deleted."""
    deleted = versions.remove(skill_id, version, scratch) or not versions.path(skill_id, version).exists()
    if deleted:
        records.mark(skill_id, version, "prune", removed_at=datetime.now(UTC))
    return deleted
