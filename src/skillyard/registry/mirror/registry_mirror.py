"""A registry as a mirror: the index of what is installed, and the package of each version, made on first request."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import DigestMismatch, PackageMissing
from skillyard.packages import LocalStore, pack, tree_digest
from skillyard.packages.digest import digest_hex
from skillyard.registry.mirror_index import MirroredSkill, MirroredVersion, MirrorIndex

if TYPE_CHECKING:
    from skillyard.registry.model import InstalledSkill, SkillVersion
    from skillyard.registry.registry import Registry


_CACHE: Final = "cache/packages"


class RegistryMirror:
    """The installed skills of `registry` as a mirror; packages are kept in `cache/packages` of the folder `data`."""

    def __init__(self, registry: Registry, data: str) -> None:
        self._registry = registry
        self._store = LocalStore(Path(data) / _CACHE)
        self._names = Path(data) / _CACHE / "by-content"
        self._skills: dict[str, set[str]] = {}

    def index(self) -> MirrorIndex:
        """As `MirrorPlace.index`; versions whose files are gone, or were changed by hand, are left out."""
        listed = [self._skill(skill) for skill in self._registry.skills(uninstalled=True)]
        self._skills = {}
        for skill in listed:
            for version in skill.versions:
                self._skills.setdefault(version.package, set()).add(skill.skill_id)
        return MirrorIndex(tuple(skill for skill in listed if skill.versions))

    def skills_with(self, digest: str) -> frozenset[str]:
        """The ids of the skills that have a version with this package."""
        if digest not in self._skills:
            self.index()
        return frozenset(self._skills.get(digest, ()))

    def package(self, digest: str) -> bytes:
        """As `MirrorPlace.package`."""
        return self._store.get(digest)

    def _skill(self, skill: InstalledSkill) -> MirroredSkill:
        there = [version for version in self._registry.versions(skill.skill_id) if not version.removed]
        listed = tuple(found for version in there if (found := self._version(version)) is not None)
        current = skill.current_version if skill.current_version in {one.version for one in listed} else None
        return MirroredSkill(skill.skill_id, skill.name, skill.description, current, listed)

    def _version(self, version: SkillVersion) -> MirroredVersion | None:
        try:
            package, size = self._package(version)
        except (DigestMismatch, PackageMissing):
            return None
        assert version.installed_at is not None  # noqa: S101 # only versions that once were whole are told
        return MirroredVersion(
            version=version.version,
            digest=version.digest,
            package=package,
            size=size,
            installed_at=version.installed_at,
            declared_version=version.declared_version,
            signer=version.signer,
            deprecated=(version.deprecated_reason or "") if version.status == "deprecated" else None,
            yanked=(version.yanked_reason or "") if version.yanked else None,
        )

    def _package(self, version: SkillVersion) -> tuple[str, int]:
        """The digest and size of a version's package; the content names it, so it is made once.

        Raises:
            DigestMismatch: the files were changed by hand.
            PackageMissing: they are gone.
        """
        known = self._names / digest_hex(version.digest)
        with contextlib.suppress(FileNotFoundError, ValueError):
            digest, size = known.read_text().split()
            if self._store.has(digest):
                return digest, int(size)
        folder = self._registry.versions_folder.path(version.skill_id, version.version)
        if not folder.is_dir():
            raise PackageMissing(f"the files of {version.skill_id} {version.version} are gone")
        if tree_digest(folder) != version.digest:
            raise DigestMismatch(f"{folder} was changed by hand since it was installed")
        self._names.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._names / f".{os.getpid()}-{os.urandom(4).hex()}.zip"
        try:
            package = pack(folder, beside, whole=True)
            digest = self._store.put(beside.read_bytes(), package.archive_sha256)
        finally:
            beside.unlink(missing_ok=True)
        beside.write_text(f"{digest} {package.size}")
        beside.replace(known)
        return digest, package.size
