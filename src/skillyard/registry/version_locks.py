"""Which versions somebody holds on to: a version lock is an install version, a declared one, or a range such as `^1.2.0`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillyard.registry.model import SkillVersion
from skillyard.registry.ranges import read_wanted

__all__ = ["locked_to"]


def locked_to(known: Sequence[SkillVersion], locks: Iterable[str]) -> frozenset[str]:
    """The version that each lock means, of those `known` (the newest first): for a range the newest in it."""
    found = (next((one.version for one in known if _means(lock, one)), None) for lock in locks)
    return frozenset(version for version in found if version is not None)


def _means(lock: str, version: SkillVersion) -> bool:
    if lock in (version.version, version.declared_version):
        return True
    return version.declared_version is not None and read_wanted(f"it@{lock}").holds(version.declared_version)
