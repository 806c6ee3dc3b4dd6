"""Scan the roots: walk each, take what the cache remembers, read the rest."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.catalog.cache import Snapshot, load_snapshot, save_snapshot
from skillyard.catalog.model import Root
from skillyard.catalog.walk import LEGACY_FILE, look, walk

if TYPE_CHECKING:
    from skillyard.catalog.model import Facts, Found
    from skillyard.catalog.roots import Place
    from skillyard.document import Profile

__all__ = ["Progress", "Scan", "scan_place", "scan_places", "without_collecting"]

Progress = Callable[[int, int], object]
"""Called now and then while files are read, with how many are done and how many there are."""

_NO_HEADER: Final = '"front-matter-missing"'
_LEGACY: Final = '"legacy-metadata"'


class Scan(NamedTuple):
    """One root and what it holds: files found and, in the same order, what they say."""

    root: Root
    found: list[Found]
    facts: list[Facts]


def scan_places(
    places: Iterable[Place],
    *,
    profile: Profile,
    cache: str | None,
    progress: Progress | None = None,
    last: Sequence[Scan] = (),
) -> tuple[Scan, ...]:
    """Scan the places in order of precedence; one that cannot be read any more keeps its list from `last`."""
    scans = (
        scan_place(place, precedence, profile=profile, cache=cache, progress=progress)
        for precedence, place in enumerate(places)
    )
    return tuple([_or_last_good(scan, last) for scan in scans])


def _or_last_good(scan: Scan, last: Sequence[Scan]) -> Scan:
    """The last good list of a root that cannot be read any more; one that is gone is gone."""
    if scan.root.status != "unreadable":
        return scan
    for good in last:
        if good.root.path == scan.root.path and good.found:
            return good._replace(root=scan.root)
    return scan


@contextmanager
def without_collecting() -> Iterator[None]:
    """Keep the garbage collector from looking through thousands of new tuples: it takes a tenth of the time and finds none.

    Afterwards everything counts as old: freezing and unfreezing moves it there without a search. Where a program has frozen
    objects of its own, those are left frozen.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def scan_place(place: Place, precedence: int, *, profile: Profile, cache: str | None, progress: Progress | None = None) -> Scan:
    """Scan one place; `cache` is the cache folder, or None to read every file."""
    if place.refused:
        return Scan(Root(place.path, place.source, "refused", precedence, place.refused, place.alias), [], [])
    read_at_ns = time.time_ns()
    known = load_snapshot(cache, place.path, profile) if cache else None
    reader = None if known else _Reader(profile, progress)
    walked = walk(
        place.path,
        boundary=place.boundary,
        installed=place.installed,
        depth=place.depth,
        look=reader.look if reader else look,
    )
    root = Root(place.path, place.source, walked.status, precedence, walked.reason, place.alias)
    if not walked.found:
        return Scan(root, [], [])
    if known and known.found == walked.found and not any(_may_differ(place.path, *pair) for pair in _doubtful(known)):
        return Scan(root, walked.found, known.facts)
    remembered = reader.facts if reader else _unchanged(place.path, known, walked.found)
    facts = _with_new(place.path, walked.found, remembered, profile, progress)
    if cache:
        save_snapshot(cache, place.path, profile, Snapshot(walked.found, facts), read_at_ns=read_at_ns)
    return Scan(root, walked.found, facts)


class _Reader:
    """Reads each file as soon as it is found: nothing is remembered of this root, so all of them are read."""

    def __init__(self, profile: Profile, progress: Progress | None) -> None:
        self.profile = profile
        self.progress = progress
        self.facts: dict[str, Facts] = {}

    def look(self, root: str, folders: list[str]) -> list[Found | None]:
        """Look into the folders and keep what the files in them say."""
        from skillyard.catalog.facts import look_and_read  # with it comes the document room, which a known tree never needs
        from skillyard.catalog.sharing import share

        looked = share(folders, lambda some: look_and_read(root, some, self.profile), progress=self.progress)
        self.facts.update([(pair[0][0], pair[1]) for pair in looked if pair])
        return [pair and pair[0] for pair in looked]


def _unchanged(root: str, known: Snapshot | None, found: list[Found]) -> dict[str, Facts]:
    """What is remembered of the files that are as they were, by folder."""
    if not known:
        return {}
    current = set(found)
    pairs = zip(known.found, known.facts, strict=True)
    return {one[0]: facts for one, facts in pairs if one in current and not _may_differ(root, one, facts)}


def _with_new(
    root: str, found: list[Found], remembered: dict[str, Facts], profile: Profile, progress: Progress | None
) -> list[Facts]:
    """What every file says, in the order of `found`; only those that are not remembered are read."""
    new = [one for one in found if one[0] not in remembered]
    if new:
        from skillyard.catalog.facts import facts_of_files
        from skillyard.catalog.sharing import share

        read = share(new, lambda some: facts_of_files(root, some, profile), progress=progress)
        remembered.update(zip([one[0] for one in new], read, strict=True))
    return [remembered[one[0]] for one in found]


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
