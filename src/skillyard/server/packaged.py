"""The files of a version as this server gives them away: its package, what is in it, and what proves that it is whole."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import lru_cache
from pathlib import Path

from skillyard.errors import VersionUnusable
from skillyard.packages import digest_of, pack
from skillyard.registry import SkillVersion
from skillyard.server.service import Service

__all__ = ["bundle_of", "files_in", "folder_of", "names_in", "package_digest", "package_of"]


def folder_of(service: Service, version: SkillVersion) -> Path:
    """The folder of a version.

    Raises:
        VersionUnusable: its files are gone.
    """
    folder = service.registry.versions_folder.path(version.skill_id, version.version)
    if not folder.is_dir():
        raise VersionUnusable(f"the files of {version.skill_id} {version.version} are gone", hint="take another version")
    return folder


def package_of(service: Service, version: SkillVersion) -> bytes:
    """The package of a version with its SKILL.md in the root."""
    return _package(service, version).read_bytes()


def package_digest(service: Service, version: SkillVersion) -> str:
    """`sha256:…` of the package of a version."""
    return _digest_in(_package(service, version))


def files_in(service: Service, version: SkillVersion) -> tuple[tuple[str, int, str], ...]:
    """Path, size in bytes and SHA-256 of each file of a version, by path."""
    return _files_in(_package(service, version))


def names_in(service: Service, version: SkillVersion) -> list[str]:
    """The paths of the files of a version, sorted."""
    with zipfile.ZipFile(_package(service, version)) as package:
        return [entry.filename for entry in package.infolist() if not entry.is_dir()]


def _package(service: Service, version: SkillVersion) -> Path:
    """The file of a package, made once: a version never changes, and its digest is in the name."""
    kept = Path(service.catalog.data_directory, "cache/packages", f"{version.digest.removeprefix('sha256:')}.zip")
    if not kept.exists():
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pack(folder_of(service, version), kept, whole=True)
    return kept


@lru_cache(maxsize=16_384)
def _digest_in(package: Path) -> str:
    return digest_of(package.read_bytes())


@lru_cache(maxsize=256)
def _files_in(package: Path) -> tuple[tuple[str, int, str], ...]:
    with zipfile.ZipFile(package) as opened:
        return tuple(
            (entry.filename, entry.file_size, hashlib.sha256(opened.read(entry)).hexdigest())
            for entry in opened.infolist()
            if not entry.is_dir()
        )


def bundle_of(service: Service, version: SkillVersion) -> bytes:
    """The same with everything in one folder, named as the skill's id: what can be uploaded again as it is."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package_of(service, version))) as flat, zipfile.ZipFile(made, "w") as bundle:
        for entry in flat.infolist():
            data = flat.read(entry)
            entry.filename = f"{version.skill_id}/{entry.filename}"
            bundle.writestr(entry, data)
    return made.getvalue()
