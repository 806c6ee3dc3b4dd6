"""The packages of installed versions in a store: put there before it serves, taken when its files are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import DigestMismatch
from skillyard.packages import Store, extract, find_skills, pack, tree_digest

if TYPE_CHECKING:
    from skillyard.registry.model import SkillVersion

__all__ = ["keep_package", "restored"]


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


def restored(store: Store, version: SkillVersion, scratch: Path) -> Path:
    """The files of a version, from the store, in a new folder below `scratch`; they have reached the disk.

    Raises:
        PackageMissing, StoreFailed: the store does not give it.
        DigestMismatch: it is not what was installed.
    """
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
    return skill.directory
