"""Scan one root: walk it, take what the cache remembers, read the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.catalog.cache import Snapshot, load_snapshot, save_snapshot
from skillyard.catalog.model import Root
from skillyard.catalog.walk import LEGACY_FILE, walk

if TYPE_CHECKING:
    from skillyard.catalog.model import Facts, Found
    from skillyard.catalog.roots import Place
    from skillyard.document import Profile

__all__ = ["Progress", "Scan", "scan_place"]

Progress = Callable[[int, int], object]
"""Called now and then while files are read, with how many are done and how many there are."""

_NO_HEADER: Final = '"front-matter-missing"'
_LEGACY: Final = '"legacy-metadata"'


class Scan(NamedTuple):
    """One root and what it holds: files found and, in the same order, what they say."""

    root: Root
    found: list[Found]
    facts: list[Facts]


def scan_place(place: Place, precedence: int, *, profile: Profile, cache: str | None, progress: Progress | None = None) -> Scan:
    """Scan one place; `cache` is the cache folder, or None to read every file."""
    if place.refused:
        return Scan(Root(place.path, place.source, "refused", precedence, place.refused), [], [])
    read_at_ns = time.time_ns()
    walked = walk(place.path, boundary=place.boundary, installed=place.installed, depth=place.depth)
    root = Root(place.path, place.source, walked.status, precedence, walked.reason)
    if not walked.found:
        return Scan(root, [], [])
    known = load_snapshot(cache, place.path, profile) if cache else None
    if known and known.found == walked.found and not any(_may_differ(place.path, *pair) for pair in _doubtful(known)):
        return Scan(root, walked.found, known.facts)
    facts = _read_new(place.path, walked.found, known, profile, progress)
    if cache:
        save_snapshot(cache, place.path, profile, Snapshot(walked.found, facts), read_at_ns=read_at_ns)
    return Scan(root, walked.found, facts)


def _read_new(
    root: str, found: list[Found], known: Snapshot | None, profile: Profile, progress: Progress | None
) -> list[Facts]:
    """What every file says; only those that are new or different are opened."""
    from skillyard.catalog.sharing import read_all  # with it comes the document room, which an unchanged tree never needs

    if not known:
        return read_all(root, found, profile, progress=progress)
    remembered = {one: facts for one, facts in zip(known.found, known.facts, strict=True) if not _may_differ(root, one, facts)}
    new = [one for one in found if one not in remembered]
    remembered.update(zip(new, read_all(root, new, profile, progress=progress), strict=True))
    return [remembered[one] for one in found]


def _doubtful(known: Snapshot) -> list[tuple[Found, Facts]]:
    """The few skills that depend on a second file: those without front matter, and those that took it from METADATA.yml."""
    return [
        (one, facts)
        for one, facts in zip(known.found, known.facts, strict=True)
        if facts[4] != "[]" and (_NO_HEADER in facts[4] or _LEGACY in facts[4])
    ]


def _may_differ(root: str, found: Found, facts: Facts) -> bool:
    """Whether the second file of a skill may say something else by now."""
    if facts[4] == "[]":
        return False
    if _LEGACY in facts[4]:
        return True
    if _NO_HEADER not in facts[4]:
        return False
    return os.path.lexists(f"{root}/{found[0]}/{LEGACY_FILE}")
