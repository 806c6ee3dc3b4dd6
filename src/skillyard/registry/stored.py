"""The skill with exactly the content that was asked for: the one on this machine's disk, else out of the store of packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.errors import DigestMismatch, SkillNotFound
from skillyard.registry.registry import Registry

if TYPE_CHECKING:
    from skillyard.catalog import Catalog, Skill
    from skillyard.permissions import Gate

__all__ = ["skill_with_content"]


def skill_with_content(catalog: Catalog, gate: Gate, skill_id: str, digest: str) -> Skill:
    """The skill of a catalog, when it has that content and may be used; looked for once more when it seems to be another.

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
    from skillyard.catalog.single import read_installed
    from skillyard.registry.package_cache import PackageCache

    store, name = registry.store, skill_id.removeprefix("installed:")
    try:
        package = registry.ledger.package_of(name, digest) if store is not None else None
    finally:
        registry.close()
    if store is None or package is None:
        return None
    cache = PackageCache(registry.root.parent / "cache" / "skills", store)
    return read_installed(cache.folder(digest, package, name), skill_id)
