"""Scan the root folders: walk each, reuse what the cache holds, read the rest; and watch them for changes.

The cache has one file per root and profile, replaced in one step, readable by its owner only. A file counts as unchanged when
its mode, size, mtime and inode are; one written less than a tenth of a second before it was read is read again. A process that
scans again takes what it has read itself, and leaves it to later to write a few changes of many. A cache file
that cannot be trusted (see `files.read_private_cache`), or that another version wrote, is ignored and written anew. Watching
does not use up the watch descriptors of the machine.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from operator import is_not
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard._version import __version__
from skillyard.catalog.catalog_rows import Root
from skillyard.catalog.summaries import LEGACY_FILE, FindSkillFiles, find_and_read, find_skill_files, read_facts, walk
from skillyard.files import read_private_cache, write_private_cache

if TYPE_CHECKING:
    from skillyard.catalog.catalog_rows import Changes, FileStamp, SkillFacts
    from skillyard.catalog.roots import RootFolder
    from skillyard.document import Profile


_MAGIC: Final = b"SKYD"
_FORMAT: Final = 1
_FEW_OF: Final = 100  # one change in so many files is written when there are more
_UNSETTLED_NS: Final = 100_000_000
_LARGEST: Final = 512 * 1024 * 1024


class Snapshot(NamedTuple):
    """What one root held when it was last read: the files and, in the same order, the facts read from them.

    A file that may have changed since then has a stamp that never comes again. `unsaved` files are not in the cache as they
    are; None: it was read from there.
    """

    profile: Profile
    stamps: list[FileStamp]
    facts: list[SkillFacts]
    unsaved: int | None = None


def load_snapshot(folder: str, root: str, profile: Profile) -> Snapshot | None:
    """The cached snapshot of `root`; None when there is none that can be trusted."""
    match read_private_cache(_file(folder, root, profile), _MAGIC, largest=_LARGEST):
        case (written_by, path, stamps, facts) if (written_by, path) == (_code_stamps(), root):
            return Snapshot(profile, stamps, facts)
    return None


def save_snapshot(folder: str, root: str, snapshot: Snapshot) -> None:
    """Cache `snapshot`; a cache that cannot be written is skipped."""
    content = (_code_stamps(), root, snapshot.stamps, snapshot.facts)
    write_private_cache(_file(folder, root, snapshot.profile), _MAGIC, content)


def _file(folder: str, root: str, profile: str) -> str:
    key = root.encode("utf-8", "surrogateescape")
    return f"{folder}/{zlib.crc32(key):08x}{zlib.adler32(key):08x}-{profile}-{_FORMAT}.{sys.implementation.cache_tag}"


def _code_stamps() -> tuple[object, ...]:
    """What decides how a file is read: the version, and size and time of every file of the code that reads it."""
    stamps: list[tuple[str, int, int]] = []
    package = os.path.dirname(os.path.dirname(__file__))
    for component in ("document", "catalog"):
        with contextlib.suppress(OSError), os.scandir(f"{package}/{component}") as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    stamps.append((entry.name, status.st_size, status.st_mtime_ns))
    return __version__, tuple(sorted(stamps))


Progress = Callable[[int, int], object]
"""Called now and then while files are read, with how many are done and how many there are."""

_NO_HEADER: Final = '"front-matter-missing"'
_LEGACY: Final = '"legacy-metadata"'


class RootScan(NamedTuple):
    """One root and what it holds: its files and, in the same order, the facts read from them; and what the next scan needs."""

    root: Root
    stamps: list[FileStamp]
    facts: list[SkillFacts]
    snapshot: Snapshot | None = None


def scan_roots(
    folders: Iterable[RootFolder],
    *,
    profile: Profile,
    cache: str | None,
    progress: Progress | None = None,
    last: Sequence[RootScan] = (),
) -> tuple[RootScan, ...]:
    """Scan the folders in order of precedence; what has not changed since `last` is not read again.

    One that cannot be read any more keeps its list from there.
    """
    known = {scan.root.path: scan.snapshot for scan in last}
    scans = (
        scan_root(folder, precedence, profile=profile, cache=cache, progress=progress, last=known.get(folder.path))
        for precedence, folder in enumerate(folders)
    )
    return tuple([_or_last_good(scan, last) for scan in scans])


def _or_last_good(scan: RootScan, last: Sequence[RootScan]) -> RootScan:
    """The last good list of a root that cannot be read any more; a deleted one has none."""
    if scan.root.status != "unreadable":
        return scan
    for good in last:
        if good.root.path == scan.root.path and good.stamps:
            return good._replace(root=scan.root)
    return scan


_others_are_frozen = False


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from looking through thousands of new tuples: it takes a tenth of the time and finds none.

    Afterwards everything counts as old: freezing and unfreezing moves it there without a search. Where a program has frozen
    objects of its own, those are left frozen; they are counted until there are some, because counting millions takes
    milliseconds.
    """
    global _others_are_frozen
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            _others_are_frozen = _others_are_frozen or gc.get_freeze_count() > 0
            if not _others_are_frozen:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def scan_root(
    folder: RootFolder,
    precedence: int,
    *,
    profile: Profile,
    cache: str | None,
    progress: Progress | None = None,
    last: Snapshot | None = None,
) -> RootScan:
    """Scan one folder; `cache` is the cache folder, or None to read every file. `last` is what this process has read of it."""
    shown = (folder.alias, folder.variable)
    if folder.refused:
        return RootScan(Root(folder.path, folder.source, "refused", precedence, folder.refused, *shown), [], [])
    read_at_ns = time.time_ns()
    if cache is None or last is None or last.profile != profile:
        last = load_snapshot(cache, folder.path, profile) if cache else None
    read: dict[FileStamp, SkillFacts] = {}
    walked = walk(
        folder.path,
        boundary=folder.boundary,
        installed=folder.installed,
        depth=folder.depth,
        find=find_skill_files if last else _reading_finder(read, profile, progress),
    )
    stamps = walked.stamps
    root = Root(folder.path, folder.source, walked.status, precedence, walked.reason, *shown)
    if not stamps:
        return RootScan(root, [], [])
    if last and last.stamps == stamps and not _second_file_may_differ(folder.path, last):
        return RootScan(root, stamps, last.facts, last)
    facts = _with_new(folder.path, stamps, _unchanged(folder.path, last) if last else read, profile, progress)
    unsaved = _unsaved(last, facts)
    snapshot = Snapshot(profile, _settled(stamps, read_at_ns), facts, unsaved)
    if cache and unsaved > len(facts) // _FEW_OF:
        save_snapshot(cache, folder.path, snapshot)
        snapshot = snapshot._replace(unsaved=0)
    return RootScan(root, stamps, facts, snapshot)


def _settled(stamps: Sequence[FileStamp], read_at_ns: int) -> list[FileStamp]:
    """The stamps of files that were read at `read_at_ns` (wall clock), to be compared with later ones."""
    latest = read_at_ns - _UNSETTLED_NS
    return [one if one[4] < latest else (*one[:4], -1, one[5]) for one in stamps]


def _unsaved(last: Snapshot | None, facts: Sequence[SkillFacts]) -> int:
    """How many files are not in the cache as they are; all where it holds what another process has read."""
    if last is None or last.unsaved is None:
        return len(facts)
    return last.unsaved + sum(map(is_not, facts, last.facts)) + abs(len(facts) - len(last.facts))


def _reading_finder(read: dict[FileStamp, SkillFacts], profile: Profile, progress: Progress | None) -> FindSkillFiles:
    """Reads each file as soon as it is found, for a root that has no cached snapshot; the facts go into `read`."""

    def find(root: str, folders: list[str]) -> list[FileStamp | None]:
        from skillyard.offload.forked_map import forked_map

        pairs = forked_map(folders, lambda some: find_and_read(root, some, profile), progress=progress)
        read.update([pair for pair in pairs if pair])
        return [pair and pair[0] for pair in pairs]

    return find


def _unchanged(root: str, cached: Snapshot) -> dict[FileStamp, SkillFacts]:
    """The cached facts, by the state that a file has had."""
    known = dict(zip(cached.stamps, cached.facts, strict=True))
    for stamp, facts in zip(cached.stamps, cached.facts, strict=True):
        if facts[4] != "[]" and _may_differ(root, stamp, facts):
            del known[stamp]
    return known


def _with_new(
    root: str, stamps: list[FileStamp], known: dict[FileStamp, SkillFacts], profile: Profile, progress: Progress | None
) -> list[SkillFacts]:
    """The facts of every file, in the order of `stamps`; only those that are not known are read."""
    new = [one for one in stamps if one not in known]
    if new:
        from skillyard.offload.forked_map import forked_map

        read = forked_map(new, lambda some: [read_facts(root, one, profile) for one in some], progress=progress)
        known.update(zip(new, read, strict=True))
    return [known[one] for one in stamps]


def _second_file_may_differ(root: str, cached: Snapshot) -> bool:
    pairs = zip(cached.stamps, cached.facts, strict=True)
    return any(_may_differ(root, one, facts) for one, facts in pairs if facts[4] != "[]")


def _may_differ(root: str, stamp: FileStamp, facts: SkillFacts) -> bool:
    """Whether METADATA.yml of a skill may have changed: of one without front matter, or that took it from there."""
    return _LEGACY in facts[4] or (_NO_HEADER in facts[4] and os.path.lexists(f"{root}/{stamp[0]}/{LEGACY_FILE}"))


async def watch_folders(
    watched: Callable[[], list[str]], *, debounce_ms: int, look_again_s: float, refresh: Callable[[], Changes]
) -> AsyncIterator[Changes]:
    """Call `refresh` when a file below one of the `watched` folders changes, and yield what is different.

    Changes within `debounce_ms` milliseconds come as one. Every `look_again_s` seconds it is called anyway: a folder
    may have appeared, and some file systems report nothing. Where the system has no watches left, that is all that happens.
    """
    import asyncio  # most processes watch nothing

    while True:
        folders = watched()
        async with aclosing(_ticks(folders, debounce_ms, look_again_s)) as ticks:
            async for _ in ticks:
                changes = await asyncio.to_thread(refresh)
                if changes.any or changes.problem:
                    yield changes
                if watched() != folders:
                    break


async def _ticks(folders: list[str], debounce_ms: int, look_again_s: float) -> AsyncGenerator[None, None]:
    """Yield once when the watch has begun, then whenever a file changed or the time is up; end when watching is impossible."""
    import asyncio

    if folders:
        try:
            async with aclosing(_events(folders, debounce_ms, look_again_s)) as events:
                async for _ in events:
                    yield
        except (OSError, ExceptionGroup):
            pass  # no watches left, a root went away in between, or a file has a name that cannot be decoded
    yield
    await asyncio.sleep(look_again_s)


async def _events(folders: list[str], debounce_ms: int, look_again_s: float) -> AsyncGenerator[None, None]:
    import asyncio

    from watchfiles import awatch  # its native part is only needed here

    events = awatch(
        *folders,
        watch_filter=None,
        debounce=debounce_ms,
        step=min(50, debounce_ms),
        rust_timeout=int(look_again_s * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    first = asyncio.ensure_future(anext(events))
    try:
        await asyncio.sleep(0)  # lets the watch begin, so that the look that follows misses nothing
        yield
        await first
        yield
        async for _ in events:
            yield
    finally:
        first.cancel()
