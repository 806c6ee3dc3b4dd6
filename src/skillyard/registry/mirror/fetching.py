"""A mirror as a source: what it lists is fetched package by package, each proven by both of its digests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from skillyard.errors import DigestMismatch, InvalidSource
from skillyard.packages import Limits, Origin, Source, extract, tree_digest
from skillyard.registry.fetched import Fetched
from skillyard.registry.mirror.index import MirroredSkill
from skillyard.registry.mirror.places import MirrorPlace

__all__ = ["MirrorFetcher"]


class MirrorFetcher:
    """Fetches from mirrors: `address` is the mirror's, `path` one skill's id, `ref` a version, else the one that serves."""

    def __init__(self, open_place: Callable[[str], MirrorPlace], limits: Limits | None = None) -> None:
        self._open = open_place
        self._limits = limits or Limits()

    def fetch(self, source: Source, into: Path) -> Fetched:
        """As `Fetcher.fetch`; of several skills each is a folder of the tree, named by its id."""
        place = self._open(source.address)
        names = (source.path,) if source.path else source.names
        skills = place.index().chosen(names)
        tree = into / f"mirror-{os.urandom(4).hex()}"
        tree.mkdir()
        for skill in skills.skills if names else skills.serving():
            self._unpack(place, skill, source.ref, tree / skill.skill_id, into)
        chosen = tree / source.path if source.path else tree
        return Fetched(chosen, Origin("mirror", source.address, path=source.path, version=source.ref), owned=True, chosen=True)

    def _unpack(self, place: MirrorPlace, skill: MirroredSkill, version: str, target: Path, into: Path) -> None:
        wanted = skill.version(version)
        archive = into / f"{target.name}.package.zip"
        archive.write_bytes(place.package(wanted.package))
        tree = Path(extract(archive, into, self._limits).tree)
        archive.unlink()
        found = tree_digest(tree) if (tree / "SKILL.md").is_file() else None
        if found is None:
            raise InvalidSource(f"the package of {skill.skill_id} in the mirror is no skill", hint="make the mirror again")
        if found != wanted.digest:
            raise DigestMismatch(
                f"{skill.skill_id} {wanted.version} is not what the mirror lists",
                hint="make the mirror again; `skillyard mirror export` checks what is there",
                expected=wanted.digest,
                found=found,
            )
        tree.rename(target)
