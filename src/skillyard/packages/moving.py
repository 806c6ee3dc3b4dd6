"""Every package of one store into another, proven by its digest; what is there already is not sent again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.packages.store import Store

__all__ = ["CopiedPackages", "copy_packages"]


@dataclass(frozen=True, slots=True)
class CopiedPackages:
    """How many packages the first store has, and how many of them were new to the second one."""

    packages: int
    new: int

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        return {"packages": self.packages, "new": self.new}


def copy_packages(source: Store, target: Store, *, check: bool = False) -> CopiedPackages:
    """Put every package of `source` into `target`; with `check` only count what `target` lacks.

    Raises:
        DigestMismatch: a package has become something else where it was kept.
        StoreFailed: one of the two cannot be used; what was put stays.
    """
    there, count, new = set(target.list()), 0, 0
    for digest in source.list():
        count += 1
        if digest not in there:
            new += 1
            if not check:
                target.put(source.get(digest), digest)
    return CopiedPackages(count, new)
