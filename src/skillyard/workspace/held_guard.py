"""The watch over the places of a folder that a session may not write: see `held_back`.

What is there when a session begins is shown to it as a read-only copy where the sandbox can do that. What appears, and under
Landlock what changes, is set aside after each command and while programs work, and what was there is put back.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from skillyard.errors import DiskFull, FileProblem, PlaceHeldBack
from skillyard.paths import read_inside
from skillyard.text import sanitize, single_line
from skillyard.workspace.answers import WorkspaceAnswer
from skillyard.workspace.folder import WorkspaceFolder
from skillyard.workspace.held_back import HeldPlaces, PlaceMark, held_part, is_repository_part

_MOST_NAMED: Final = 10
_NAME: Final = 200
_LEAST_SECONDS: Final = 0.1  # between two looks while programs work
_MOST_SECONDS: Final = 5.0
_SHARE: Final = 20  # looks may take a twentieth of the time


class HeldGuard:
    """What is held back in one folder, as it was when the session began or when nothing of the session was at work.

    The asynchronous methods look in a thread, one at a time; `to_show` and `begin` block, and nothing else may be called
    meanwhile.
    """

    def __init__(self, folder: str, writable: frozenset[str]) -> None:
        self._folder: Final = folder
        self._writable: Final = writable
        self._finder: Final = HeldPlaces(folder, writable)
        self._places: dict[str, PlaceMark] = {}
        self._shown: Mapping[str, str] = {}
        self._mounted = False
        self._open = False
        self._restored: set[str] = set()
        self._cost = 0.0
        self._set_aside: list[str] = []
        self._looking = asyncio.Lock()

    @property
    def seconds(self) -> float:
        """How long to wait between two looks."""
        return min(max(_LEAST_SECONDS, self._cost * _SHARE), _MOST_SECONDS)

    async def accept_current(self) -> bool:
        """Take what is there for what a person wants there; whether that is something else than a session is shown.

        Nothing of a session can have written since the last look.
        """
        async with self._looking:
            return await asyncio.to_thread(self._accept)

    def _accept(self) -> bool:
        found = self._look(within=False)
        same = {path: _shown_mark(mark) for path, mark in found.items()} == {
            path: _shown_mark(mark) for path, mark in self._places.items()
        }
        self._places = found
        return not same

    def to_show(self) -> tuple[str, ...]:
        """The paths of what a session is to see as read-only copies.

        All but links, repositories that are written, and folders that cannot be read.
        """
        return tuple(
            path for path, mark in self._places.items()
            if _is_copied(path, mark) and (stat.S_ISREG(mark.kind) or os.access(f"{self._folder}/{path}", os.R_OK | os.X_OK))
        )  # fmt: skip

    def begin(self, shown: Mapping[str, str], *, mounted: bool) -> None:
        """A session has begun: `shown` are the paths of the copies that were made, which it sees when they are `mounted`."""
        self._shown, self._mounted, self._open = shown, mounted, True
        self._restored.clear()
        self._places |= {path: mark for path, mark in self._look().items() if path in self._places}  # of other owners now

    def refuse(self, path: str) -> None:
        """Refuse a path below the folder that a file tool is to write.

        Raises:
            PlaceHeldBack: it is held back.
        """
        if part := held_part(path, self._writable):
            raise held_back_error([part])

    async def settle(self) -> None:
        """Set aside what has appeared or changed, and put back what was there; nothing without a session."""
        async with self._looking:
            await asyncio.to_thread(self._settle)

    def _settle(self) -> None:
        if not self._open:  # the copies are gone, and whatever changes the folder is no session
            return
        found = self._look()
        gone: list[str] = []
        for path, mark in found.items():
            before = self._places.get(path)
            if any(path.startswith(f"{one}/") or is_repository_part(path, one) for one in gone) or (
                before and not self._differs(path, mark, before)
            ):
                continue
            if before is None and not stat.S_ISLNK(mark.kind) and self._is_moved(mark):
                continue
            gone.append(path)
            self._set_aside_and_restore(path, before)
        for path in self._places.keys() - found.keys():
            self._restore_missing(path)
        if gone:  # what was put back is another file; with a mark before it is read nothing is written in between unseen
            marks = {path: mark for path, mark in self._look().items() if path in gone and path in self._places}
            self._places |= {path: mark for path, mark in marks.items() if self._is_kept(path)}

    async def finish(self) -> None:
        """Settle for the last time: no process of the session is left, and the copies of what was there still are."""
        async with self._looking:
            await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._settle()
        for path in sorted(self._restored):  # a program that writes without end may have been quicker than the marks
            if not self._is_kept(path):
                self._set_aside_and_restore(path, self._places.get(path))
        self._open = False

    async def end(self) -> None:
        """The session has ended, and nothing of it can have written since the last look: what differs is somebody else's."""
        async with self._looking:
            self._open = False

    async def check(self, answer: WorkspaceAnswer) -> WorkspaceAnswer:
        """The answer to a call that may have written, with what was set aside since the last one."""
        await self.settle()
        paths, self._set_aside = tuple(dict.fromkeys(self._set_aside)), []
        if not paths:
            return answer
        error = held_back_error(paths)
        notice = f"[Held back: {error.message}; it was moved to .skillyard/held-back ({error.hint})]"
        code = answer.code if not answer.ok else error.code
        data = {**answer.data, "held_back": error.details["paths"]}
        return replace(answer, ok=False, code=code, text=f"{answer.text}\n{sanitize(notice)}", data=data)

    def _look(self, *, within: bool = True) -> dict[str, PlaceMark]:
        begun = time.monotonic()
        found = self._finder.look(within=within)
        self._cost = time.monotonic() - begun
        return found

    def _differs(self, path: str, mark: PlaceMark, before: PlaceMark) -> bool:
        """Whether the session has changed a place that was there."""
        if _is_head(path):  # of a repository that was there: git writes it with each commit
            return False
        if self._mounted and path in self._shown and mark.parent == before.parent:
            return False  # it cannot: somebody else has
        return mark.identity != before.identity or mark.changed != before.changed

    def _is_moved(self, mark: PlaceMark) -> bool:
        return self._mounted and any(
            mark.identity == one.identity and mark.changed == one.changed for one in self._places.values()
        )

    def _set_aside_and_restore(self, path: str, before: PlaceMark | None) -> None:
        folder = WorkspaceFolder(self._folder)
        folder.set_aside(path)
        self._set_aside.append(path)
        if before is not None:
            self._put_back(folder, path, before)

    def _is_kept(self, path: str) -> bool:
        """Whether a place is as it was shown; what has no copy is."""
        copy = self._shown.get(path)
        return copy is None or _is_as_copied(self._folder, path, copy)

    def _restore_missing(self, path: str) -> None:
        """Something is not there any more: where no mount has kept it, it is put back."""
        if _is_repository(path, self._places[path]):
            WorkspaceFolder(self._folder).find_again(path, self._places[path].identity)
        if self._mounted or path not in self._shown or os.path.lexists(f"{self._folder}/{path}"):
            return
        self._set_aside.append(path)
        self._put_back(WorkspaceFolder(self._folder), path, self._places[path])

    def _put_back(self, folder: WorkspaceFolder, path: str, before: PlaceMark) -> None:
        if stat.S_ISDIR(before.kind) and path not in self._shown:
            folder.find_again(path, before.identity)
        elif copy := self._shown.get(path):
            self._restored.add(path)
            try:
                _restore(folder, path, copy)
            except (FileProblem, DiskFull, OSError):
                return  # the copy is gone with the session, the original is set aside


def _restore(folder: WorkspaceFolder, path: str, copy: str) -> None:
    if not Path(copy).is_dir():
        folder.put_exactly(path, Path(copy).read_bytes(), executable=bool(Path(copy).stat().st_mode & stat.S_IXUSR))
        return
    for base, _, files in os.walk(copy):
        for name in files:
            _restore(folder, f"{path}{base[len(copy) :]}/{name}", f"{base}/{name}")


def _is_as_copied(folder: str, path: str, copy: str) -> bool:
    """Whether a file or folder of a session has the content of its copy, and nothing beside that."""
    try:
        if not Path(copy).is_dir():
            data = Path(copy).read_bytes()
            return read_inside(folder, path, limit=len(data)) == data
        names = set(_names_in(copy))
        there = set(islice(_names_in(f"{folder}/{path}"), len(names) + 1))
        return there == names and all(_is_as_copied(folder, f"{path}/{name}", f"{copy}/{name}") for name in names)
    except (FileProblem, OSError):
        return False


def _names_in(folder: str) -> Iterator[str]:
    """The paths of everything in a folder that is no folder itself; links are not followed."""
    for base, folders, files in os.walk(folder):
        below = base[len(folder) + 1 :]
        for name in (*files, *(one for one in folders if Path(base, one).is_symlink())):
            yield f"{below}/{name}" if below else name


def _is_head(path: str) -> bool:
    return path.rpartition("/")[2] == "HEAD"


def _is_copied(path: str, mark: PlaceMark) -> bool:
    if stat.S_ISLNK(mark.kind) or _is_head(path):
        return False
    return not _is_repository(path, mark) and (stat.S_ISDIR(mark.kind) or stat.S_ISREG(mark.kind))


def _is_repository(path: str, mark: PlaceMark) -> bool:
    return path.rpartition("/")[2].casefold() == ".git" and stat.S_ISDIR(mark.kind)


def _shown_mark(mark: PlaceMark) -> tuple[object, ...]:
    return mark.kind, mark.identity, mark.changed


def held_back_error(paths: list[str] | tuple[str, ...]) -> PlaceHeldBack:
    """The error about places that a session wanted to write."""
    named = ", ".join(repr(single_line(path)[:_NAME]) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return PlaceHeldBack(
        f"a session may not write {named}{more}, because programs outside of it act on that without anyone asking",
        hint="do it another way; the user can allow it by name, with `writable` in the settings [workspace] or with --writable",
        paths=list(paths[:_MOST_NAMED]),
    )
