"""The skill with exactly the requested content: from this machine's disk, else from the package store through a cache.

Cached packages are fetched by digest, verified, read-only and bounded in size; the least recently used go first.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import DigestMismatch, InvalidInput, SkillNotFound, VersionUnusable
from skillyard.files import delete_tree, lock_file
from skillyard.packages import PackageLimits, Store, extract, tree_digest, tree_size
from skillyard.packages.digest import digest_hex
from skillyard.paths import CLOEXEC, DIRECTORY, NOFOLLOW
from skillyard.registry.registry import Registry
from skillyard.registry.version_store import ensure_real_folder, set_usual_modes

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog
    from skillyard.permissions import PermissionGate
    from skillyard.registry.registry_values import SkillVersion


_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_INSTALLED: Final = "installed:"  # before the ids of installed skills
_YOUNG_S: Final = 60.0  # what was requested that recently is about to be used


@dataclass(frozen=True, slots=True)
class PackageCache:
    """Unpacked packages of `store` below the folder `root`, together at most `limit` bytes as long as that is possible."""

    root: Path
    store: Store
    limit: int = 2 << 30

    def folder(self, digest: str, package: str, name: str) -> Path:
        """The folder with the content that `digest` names, unpacked from `package` when it is not there; it is called `name`.

        Raises:
            PackageMissing, StoreFailed: the store does not give it.
            DigestMismatch: the package holds something else.
            ArchiveRefused: it breaks a rule of archives.
        """
        entry = self.root / digest_hex(digest)
        folder = entry / name
        if not _is_whole(folder, digest):
            ensure_real_folder(self.root, 0o700)
            with lock_file(self.root / f".lock-{digest_hex(digest)[:2]}"):
                if not _is_whole(folder, digest):  # no other process was faster
                    self._fetch(digest, package, entry, name)
        with contextlib.suppress(FileNotFoundError):
            os.utime(entry)
        return folder

    def _fetch(self, digest: str, package: str, entry: Path, name: str) -> None:
        data = self.store.get(package)
        self._make_room(3 * len(data))
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.root, ignore_cleanup_errors=True) as scratch:
            archive = Path(scratch, "package.zip")
            archive.write_bytes(data)
            tree = extract(archive, scratch, PackageLimits()).tree
            if tree_digest(tree) != digest:
                raise DigestMismatch(f"the package {package} holds other content than was asked for", expected=digest)
            made = Path(scratch, "made")
            made.mkdir(0o700)
            set_usual_modes(Path(tree))
            Path(tree).rename(made / name)
            if entry.exists():  # damaged
                entry.rename(Path(scratch, "damaged"))
            made.rename(entry)
            delete_tree(Path(scratch, "damaged"))

    def _make_room(self, needed: int) -> None:
        """Delete what was used longest ago until so many bytes fit; never what is in use or was requested a moment ago."""
        entries = sorted((entry for entry in self.root.iterdir() if entry.name[0] != "."), key=_last_used)
        sizes = {entry: tree_size(entry, lenient=True) for entry in entries}
        total = sum(sizes.values()) + needed
        for entry in entries:
            if total <= self.limit or _last_used(entry) > time.time() - _YOUNG_S:
                return
            if not self._is_in_use(entry):
                doomed = self.root / f".gone-{os.urandom(6).hex()}"
                with contextlib.suppress(FileNotFoundError):
                    entry.rename(doomed)
                    delete_tree(doomed)
                    total -= sizes[entry]

    def _is_in_use(self, entry: Path) -> bool:
        import fcntl  # not on every platform

        for folder in entry.iterdir() if entry.is_dir() else ():
            try:
                descriptor = os.open(folder, _FOLDER)
            except OSError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
        return False


def _is_whole(folder: Path, digest: str) -> bool:
    return folder.is_dir() and tree_digest(folder) == digest


def _last_used(entry: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return entry.stat().st_mtime
    return 0.0


def skill_with_content(catalog: SkillCatalog, gate: PermissionGate, skill_id: str, digest: str) -> Skill:
    """The skill of a catalog, when it has that content and may be used; read again once when it differs.

    Raises:
        SkillNotFound: it is not there, and no store is configured.
        DigestMismatch: neither the disk nor the store has that content.
        PackageMissing, StoreFailed: the store does not give it any more.
        PermissionDenied, SkillUnusable: it may not be used.
    """
    for again in (False, True):
        try:
            if again:
                catalog.refresh()
            skill = catalog.get(skill_id)
            if skill.digest() == digest:
                gate.check(skill)
                return skill
        except SkillNotFound:
            if again and catalog.configuration.package_store is None:
                raise
    stored = _from_store(Registry.of(catalog), skill_id, digest)
    if stored is None:
        raise DigestMismatch(
            f"this worker has other content of {skill_id} than was asked for",
            hint="install the same version where the worker runs, or let it use the same store of packages",
            expected=digest,
        )
    gate.check(stored)
    return stored


def _from_store(registry: Registry, skill_id: str, digest: str) -> Skill | None:
    """The installed skill with exactly that content; None when the store never got it."""
    from skillyard.catalog.skill import read_skill_folder

    store, name = registry.store, skill_id.removeprefix(_INSTALLED)
    try:
        package = registry.records.read.package_of(name, digest) if store is not None else None
    finally:
        registry.close()
    if store is None or package is None:
        return None
    cache = PackageCache(registry.root.parent / "cache" / "skills", store)
    return read_skill_folder(cache.folder(digest, package, name), skill_id)


def version_skill(catalog: SkillCatalog, skill_id: str, version: str) -> Skill:
    """An installed skill as one of its versions is, whichever is current.

    Raises:
        InvalidInput: the skill is not installed, so it has no versions.
        SkillNotFound, VersionNotFound: there is no such skill or version.
        VersionUnusable: the version was yanked, failed, is not approved, or its files are gone.
    """
    if not skill_id.startswith(_INSTALLED):
        raise InvalidInput(f"{skill_id} is not installed, so it has no versions", hint="leave the version out")
    with contextlib.closing(Registry.of(catalog)) as registry:
        found = registry.installed.version(skill_id, version)
        if found.refusal or found.removed or found.status == "failed":
            why = found.refusal or ("was deleted" if found.removed else "was never usable")
            raise VersionUnusable(f"{found.skill_id} {found.version} {why}", hint="take another version")
        return _version(registry, found)


def version_with_content(catalog: SkillCatalog, skill_id: str, digest: str) -> Skill | None:
    """The installed skill as its version with that digest is; None when none that may be used has it.

    Raises:
        SkillNotFound: there never was such a skill.
    """
    with contextlib.closing(Registry.of(catalog)) as registry:
        versions = registry.installed.versions(skill_id)
        usable = (
            one for one in versions if one.digest == digest and not (one.yanked or one.removed or one.approval == "waiting")
        )
        found = next(usable, None)
        return None if found is None else _version(registry, found)


def _version(registry: Registry, version: SkillVersion) -> Skill:
    from skillyard.catalog.skill import read_skill_folder

    folder = registry.storage.versions.path(version.skill_id, version.version)
    return read_skill_folder(folder, f"{_INSTALLED}{version.skill_id}")
