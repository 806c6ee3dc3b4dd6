"""From one mirror to another, and from a registry to a mirror: what is there already is not carried again.

Packages go first and the list last, so that a copy which was cut off is taken up where it ended, and whoever reads meanwhile
finds every package that the list names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skillyard.errors import PackageProblem
from skillyard.registry.mirror.index import MirroredSkill, MirrorIndex
from skillyard.registry.mirror.places import MirrorPlace, MirrorTarget

__all__ = ["Copied", "compare_mirrors", "copy_mirror"]

Progress = Callable[[int, int], object]
"""Told how many packages are there, and how many there will be."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did: ids that are `added`, `changed`, `removed` in the target's list; packages and bytes that were carried.

    `missing` are packages that the target lists and has not, or damaged: only a comparison looks for them.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    packages: int = 0
    size: int = 0
    missing: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the target was as the source already."""
        return not (self.added or self.changed or self.removed or self.missing)

    def to_dict(self) -> dict[str, object]:
        """The outcome as plain data."""
        return {
            "same": self.same,
            "added": list(self.added),
            "changed": list(self.changed),
            "removed": list(self.removed),
            "packages": self.packages,
            "size": self.size,
            "missing": list(self.missing),
        }


def copy_mirror(
    source: MirrorPlace,
    target: MirrorTarget,
    *,
    names: tuple[str, ...] = (),
    verify: bool = False,
    progress: Progress | None = None,
) -> Copied:
    """Make `target` hold what `source` holds; with `names` only those skills, and what else it holds stays.

    With `verify` what is there is read, and carried again when it is damaged.

    Raises:
        NoSkillInside: the source has none of a name.
        PackageMissing, DigestMismatch: a package of the source is gone or damaged; the list of the target stays as it was.
        StoreFailed, NetworkFailed, NetworkRefused: one of the two cannot be used.
    """
    index, before = source.index().chosen(names), target.find()
    listed = list(index.packages())
    carried = size = 0
    for number, (digest, _) in enumerate(listed, 1):
        if not (_is_whole(target, digest) if verify else target.has(digest)):
            data = source.package(digest)
            target.put(digest, data)
            carried, size = carried + 1, size + len(data)
        if progress is not None:
            progress(number, len(listed))
    after = _merged(before or MirrorIndex(), index) if names else index
    if after != before:
        target.write_index(after)
    outcome = _compared(before or MirrorIndex(), after)
    return Copied(outcome.added, outcome.changed, outcome.removed, carried, size)


def compare_mirrors(source: MirrorPlace, target: MirrorTarget, *, names: tuple[str, ...] = ()) -> Copied:
    """What a copy would do, and which packages that the target lists are `missing` or damaged there."""
    index, before = source.index().chosen(names), target.find() or MirrorIndex()
    outcome = _compared(before, _merged(before, index) if names else index)
    missing = tuple(digest for digest, _ in before.packages() if not _is_whole(target, digest))
    return Copied(outcome.added, outcome.changed, outcome.removed, missing=missing)


def _compared(before: MirrorIndex, after: MirrorIndex) -> Copied:
    old, new = _by_id(before), _by_id(after)
    return Copied(
        added=tuple(name for name in new if name not in old),
        changed=tuple(name for name, skill in new.items() if name in old and old[name] != skill),
        removed=tuple(name for name in old if name not in new),
    )


def _by_id(index: MirrorIndex) -> Mapping[str, MirroredSkill]:
    return {skill.skill_id: skill for skill in index.skills}


def _merged(before: MirrorIndex, more: MirrorIndex) -> MirrorIndex:
    merged = {**_by_id(before), **_by_id(more)}
    return MirrorIndex(tuple(merged[name] for name in sorted(merged)))


def _is_whole(place: MirrorPlace, digest: str) -> bool:
    try:
        place.package(digest)
    except PackageProblem:
        return False
    return True
