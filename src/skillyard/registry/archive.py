"""The packages of installed versions in a store: put there before it serves, taken when its files are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import DigestMismatch, StoreFailed
from skillyard.packages import Store, extract, find_skills, pack, tree_digest

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.model import SkillVersion
    from skillyard.registry.versions import Versions

__all__ = ["NO_STORE", "keep_package", "restore"]

NO_STORE: Final = "name the store in [packages] of your own skillyard.toml or in SKILLYARD_STORE, or install it again"


def keep_package(store: Store, tree: Path, scratch: Path) -> str:
    """Put the skill in `tree` into the store, whole; gives the digest of its package.

    Raises:
        StoreFailed: it cannot be written.
    """
    target = scratch / f"{tree.name}.package.zip"
    package = pack(tree, target, whole=True)
    try:
        return store.put(target.read_bytes(), package.archive_sha256)
    finally:
        target.unlink()


def restore(store: Store | None, versions: Versions, ledger: Ledger, version: SkillVersion, scratch: Path) -> None:
    """Bring the files of a version back from the store; they have reached the disk.

    Raises:
        StoreFailed: no store is configured.
        PackageMissing, StoreFailed: the store does not give it.
        DigestMismatch: it is not what was installed.
    """
    if store is None:
        raise StoreFailed(f"no store has {version.skill_id} {version.version}: none is configured", hint=NO_STORE)
    archive, into = scratch / "restored.zip", scratch / "restored"
    archive.write_bytes(store.get(str(version.package_digest)))
    into.mkdir()
    (skill,) = find_skills(extract(archive, into).tree)
    found = tree_digest(skill.directory)
    if found != version.digest:
        raise DigestMismatch(
            f"the store has other content of {version.skill_id} {version.version} than was installed",
            hint="install it again from its source",
            expected=version.digest,
            found=found,
        )
    versions.place(skill.directory, version.skill_id, version.version)
    ledger.mark(version.skill_id, version.version, "restore", removed_at=None)
