"""Changes of a catalog: one at a time, announced to the other processes of the folder; pages, scans and uses kept between them.

An announcement is the size of a file that grows by a byte with each change: asking for it costs a microsecond, and none is
missed. The settings file, which the command line writes too, is watched in the same way.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi import Request, Response
from pydantic import BaseModel

from skillyard.catalog import Skill
from skillyard.errors import HelpersBusy, SkillyardError
from skillyard.times import utc_now

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.insights import SkillUse
    from skillyard.scanner import Report, Severity, Suppression

_FILE: Final = "cache/changes"
_SETTINGS: Final = "settings.json"


class CatalogChangeLock:
    """Held while this process changes something; when it is released, the others are notified."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, _FILE)
        self._lock = threading.Lock()
        self._settings = Path(folder, _SETTINGS)
        self._seen, self._set = self._size(), self._changed()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.announce()
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it without an announcement; `announce` makes one."""
        with self._lock:
            yield

    def announce(self) -> None:
        """Announce a change to the other processes, while it is held."""
        alone = self._size() == self._seen
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(b".")
        if alone:  # else somebody else changed something too, and that is still to be looked at
            self._seen += 1

    def changed_elsewhere(self) -> bool:
        """Whether another process has changed something since the last check here."""
        return self._size() != self._seen or self._changed() != self._set

    def refresh_if_changed(self, refresh: Callable[[], object]) -> None:
        """Refresh, when it is still necessary."""
        with self._lock:
            size, changed = self._size(), self._changed()
            if size != self._seen or changed != self._set:
                refresh()
                self._seen, self._set = size, changed

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size  # noqa: PTH116 # at each request
        except FileNotFoundError:
            return 0

    def _changed(self) -> int:
        """When the settings were written, in nanoseconds."""
        try:
            return os.stat(self._settings).st_mtime_ns  # noqa: PTH116 # at each request
        except FileNotFoundError:
            return 0


class PendingChanges:
    """Adds changes up: what came and went again is nothing, what went and came again is changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added: set[str] = set()
        self._changed: set[str] = set()
        self._removed: set[str] = set()

    def add(self, added: Iterable[str], changed: Iterable[str], removed: Iterable[str]) -> None:
        """Add the changes of one scan."""
        with self._lock:
            for one in removed:
                self._changed.discard(one)
                (self._added.discard if one in self._added else self._removed.add)(one)
            for one in added:
                (self._changed if one in self._removed else self._added).add(one)
                self._removed.discard(one)
            self._changed.update(set(changed) - self._added)

    def take(self) -> dict[str, list[str]]:
        """All changes since the last call, by id."""
        with self._lock:
            changes = {"added": sorted(self._added), "changed": sorted(self._changed), "removed": sorted(self._removed)}
            for kind in (self._added, self._changed, self._removed):
                kind.clear()
            return changes


_KEPT: Final = 256


class CachedResponse(NamedTuple):
    """One answer: its JSON and the tag that changes with it."""

    data: bytes
    etag: str

    @classmethod
    def of(cls, answer: BaseModel) -> CachedResponse:
        """The answer as it is sent."""
        data = answer.model_dump_json().encode()
        return cls(data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')

    def response(self, request: Request) -> Response:
        """The whole, or 304 for who has it already."""
        headers = {"ETag": self.etag, "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match", "").removeprefix("W/") == self.etag:
            return Response(status_code=304, headers=headers)
        return Response(self.data, headers=headers, media_type="application/json")


_REPORTS: Final = 1_000
_TURN_S: Final = 30.0


class ScanReports:
    """The scanner's reports about skills, kept for as long as neither the content nor what is suppressed changes."""

    def __init__(self) -> None:
        self._reports: OrderedDict[tuple[object, ...], Report] = OrderedDict()
        self._lock = threading.Lock()
        self._watching = threading.Lock()
        self._worst: dict[str, tuple[object, Severity | None]] = {}
        self._suppressions: tuple[Suppression, ...] = ()
        self._sweeping = threading.Lock()

    def watch(self, skill: Skill, suppressions: tuple[Suppression, ...], *, again: bool) -> Report:
        """Run the skill and watch it, one skill at a time; the effects are among the findings, also of later reports.

        Blocks; raises as `watch_skill` and `scan_skill` do.

        Raises:
            HelpersBusy: others are watched, and it did not become this one's turn in half a minute.
        """
        from skillyard.scanner import scan_skill, watch_skill

        today = utc_now().date()
        key = (skill.directory, skill.digest(), today, suppressions)
        if not self._watching.acquire(timeout=_TURN_S):
            raise HelpersBusy("other skills are being watched", hint="try again in a minute", retry_after=30)
        try:
            watched = watch_skill(skill.directory, again=again)
        finally:
            self._watching.release()
        return self._keep(skill, key, scan_skill(skill.directory, suppressions=suppressions, today=today, watched=watched))

    def report(self, skill: Skill, suppressions: tuple[Suppression, ...]) -> Report:
        """The findings about what is in the skill's folder now. Blocks; raises as `scan_skill` does."""
        from skillyard.scanner import scan_skill

        today = utc_now().date()
        key = (skill.directory, skill.digest(), today, suppressions)
        with self._lock:
            if (kept := self._reports.get(key)) is not None:
                self._reports.move_to_end(key)
                self._worst[skill.directory] = (skill.stamp, kept.worst)
                return kept
        return self._keep(skill, key, scan_skill(skill.directory, suppressions=suppressions, today=today))

    def worst(
        self, skills: Sequence[Skill], suppressions: tuple[Suppression, ...], *, seconds: float
    ) -> dict[str, Severity | None]:
        """The highest severity of each scanned skill, by id; None: nothing was found, or it cannot be scanned.

        At most `seconds` are spent on those that were not, by one caller at a time: ask again. A skill counts as scanned
        while its SKILL.md is as it was, so that ten thousand are answered for without reading them. Blocks.
        """
        with self._lock:
            if self._suppressions != suppressions:
                self._worst, self._suppressions = {}, suppressions
        if self._sweeping.acquire(blocking=False):
            try:
                self._sweep([skill for skill in skills if not self._is_known(skill)], suppressions, seconds)
            finally:
                self._sweeping.release()
        return {skill.id: self._worst[skill.directory][1] for skill in skills if self._is_known(skill)}

    def _is_known(self, skill: Skill) -> bool:
        return self._worst.get(skill.directory, (None, None))[0] == skill.stamp

    def _sweep(self, skills: Sequence[Skill], suppressions: tuple[Suppression, ...], seconds: float) -> None:
        until = time.monotonic() + seconds
        for skill in skills:
            try:
                self.report(skill, suppressions)
            except (SkillyardError, OSError):
                self._worst[skill.directory] = (skill.stamp, None)
            if time.monotonic() > until:
                return

    def _keep(self, skill: Skill, key: tuple[object, ...], report: Report) -> Report:
        with self._lock:
            self._worst[skill.directory] = (skill.stamp, report.worst)
            self._reports[key] = report
            while len(self._reports) > _REPORTS:
                self._reports.popitem(last=False)
        return report


class PageCache:
    """The recently requested pages of one tuple of skills; another tuple clears the cache."""

    def __init__(self) -> None:
        self._skills: tuple[Skill, ...] = ()
        self._pages: OrderedDict[bytes, CachedResponse] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, skills: tuple[Skill, ...], query: bytes) -> CachedResponse | None:
        """The page for a query string, if it is of exactly these skills."""
        with self._lock:
            return self._pages.get(query) if self._skills is skills else None

    def put(self, skills: tuple[Skill, ...], query: bytes, make: Callable[[], BaseModel]) -> CachedResponse:
        """Prepare a page and keep it."""
        page = CachedResponse.of(make())
        with self._lock:
            if self._skills is not skills:
                self._skills = skills
                self._pages.clear()
            self._pages[query] = page
            while len(self._pages) > _KEPT:
                self._pages.popitem(last=False)
        return page


_USES_S: Final = 10.0


class RecentUses:
    """How often and when last every skill was used, read at most every ten seconds: for the pages of one order."""

    def __init__(self, database: Callable[[], Database], clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._uses: Mapping[str, SkillUse] = {}
        self._until: float | None = None

    def read(self) -> Mapping[str, SkillUse]:
        """The uses by the ids of skills. Blocks; raises as `read_uses` does."""
        from skillyard.insights import read_uses

        with self._lock:
            if self._until is None or self._clock() >= self._until:
                self._uses = read_uses(self._database())
                self._until = self._clock() + _USES_S
            return self._uses
