"""Find every SKILL.md below one root: bounded, in one order, and never following a link in a circle.

A folder with a SKILL.md is a skill and is not searched further. Hidden folders are skipped, and so are the folders in
`NOT_SEARCHED`, unless they hold a SKILL.md themselves. Links to folders are followed after all real folders, so that a skill's
real path comes first when both are below the root; a folder is entered once, whatever leads to it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from skillyard.catalog.model import Found, RootStatus

__all__ = [
    "LEGACY_FILE",
    "MAX_DEPTH",
    "MAX_DEPTH_NAMED",
    "MAX_ENTRIES",
    "MAX_FOLDERS",
    "NOT_SEARCHED",
    "OUTSIDE",
    "SKILL_FILE",
    "Boundary",
    "Walked",
    "walk",
]

SKILL_FILE: Final = "SKILL.md"
LEGACY_FILE: Final = "METADATA.yml"
"""Where old packages keep what belongs in the front matter (row 000-6)."""
MAX_DEPTH: Final = 6
"""How many folders deep below a well-known root a skill is found (client guide: 4 to 6)."""
MAX_DEPTH_NAMED: Final = 16
"""The same for a root that the caller named: whole collections are listed, however they are sorted into folders."""
MAX_FOLDERS: Final = 50_000
"""How many folders without a SKILL.md are opened in one root."""
MAX_ENTRIES: Final = 250_000
"""How many directory entries are looked at in one root."""
OUTSIDE: Final = -1
"""The mode recorded for a linked skill whose real folder lies beyond the boundary: listed, never opened."""

NOT_SEARCHED: Final = frozenset(
    ("node_modules", "__pycache__", "venv", "dist", "build", "coverage", "site-packages", "bower_components", "target")
)
_TYPE: Final = 0o170000
_LINK: Final = 0o120000


class Boundary(NamedTuple):
    """Where links may lead: real paths of folders; a skill linked from elsewhere is refused (rows 004-8, D-27)."""

    folders: tuple[str, ...]

    def holds(self, path: str) -> bool:
        """Whether the real path `path` is one of the folders or below one, compared by components."""
        return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in self.folders)


class Walked(NamedTuple):
    """What one root holds, in an order that depends on names alone, and whether all of it was seen."""

    found: list[Found]
    status: RootStatus
    reason: str | None


def walk(root: str, *, boundary: Boundary | None = None, installed: bool = False, depth: int = MAX_DEPTH) -> Walked:
    """Every skill at most `depth` folders below `root`, which may be a skill folder itself.

    `installed` says that each child holds its version behind a `current` link, as the install room lays them out.
    """
    walker = _Walker(root, boundary, depth)
    try:
        return walker.run(installed=installed)
    except FileNotFoundError:
        return Walked([], "missing", "there is no such folder")
    except NotADirectoryError:
        return Walked([], "missing", "it is not a folder")
    except OSError as error:
        return Walked([], "unreadable", f"it cannot be read: {error.strerror}")


class _Full(Exception):
    """A cap was reached; carries the sentence for the root."""


class _Walker:
    """The state of one walk."""

    def __init__(self, root: str, boundary: Boundary | None, max_depth: int) -> None:
        self.root = root
        self.max_depth = max_depth
        self.boundary = boundary
        self.found: list[Found] = []
        self.links: list[tuple[str, int]] = []
        self.entered: set[tuple[int, int]] = set()
        self.entries = 0
        self.unreadable = 0

    def run(self, *, installed: bool) -> Walked:
        try:
            if installed:
                self._installed()
            elif not self._take("", self.root):
                self._enter("", 1, strict=True)
                self._follow_links()
        except _Full as full:
            return Walked(self.found, "truncated", str(full))
        missed = f"{self.unreadable} folders below it cannot be read" if self.unreadable else None
        return Walked(self.found, "ok", missed)

    def _enter(self, relative: str, depth: int, *, strict: bool = False) -> None:
        """Look into one folder that is no skill; `depth` is the depth of its children."""
        path = f"{self.root}/{relative}" if relative else self.root
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in self.entered:
                return
            self.entered.add((status.st_dev, status.st_ino))
            names, links, other = self._children(path)
        except OSError:
            if strict:
                raise
            self.unreadable += 1
            return
        if other:
            self._take(relative, path, other)
            return
        prefix = f"{relative}/" if relative else ""
        self.links += [(prefix + name, depth) for name in links]
        for name in self._skills(path, prefix, names):
            if depth < self.max_depth and name not in NOT_SEARCHED:
                self._enter(prefix + name, depth + 1)

    def _children(self, path: str) -> tuple[list[str], list[str], str | None]:
        """The folders and links in `path`, sorted, and a SKILL.md spelled in another case."""
        names: list[str] = []
        links: list[str] = []
        others: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                self.entries += 1
                if entry.is_dir(follow_symlinks=False):
                    if name[0] != ".":
                        names.append(name)
                elif len(name) == 8 and name.lower() == "skill.md":
                    others.append(name)
                elif entry.is_symlink() and name[0] != ".":
                    links.append(name)
        self._count()
        names.sort()
        return names, sorted(links), max(others, default=None)

    def _count(self) -> None:
        if self.entries > MAX_ENTRIES:
            raise _Full(f"it has more than {MAX_ENTRIES} entries; skills beyond them are not listed")
        if len(self.entered) > MAX_FOLDERS:
            raise _Full(f"it has more than {MAX_FOLDERS} folders; skills beyond them are not listed")

    def _skills(self, path: str, prefix: str, names: list[str]) -> list[str]:
        """Record the folders among `names` that are skills; give back the others."""
        lstat, append, deeper = os.lstat, self.found.append, []
        for name in names:
            file = f"{path}/{name}/SKILL.md"
            try:
                status = lstat(file)
            except OSError:
                deeper.append(name)
                continue
            mode = status.st_mode
            if mode & _TYPE == _LINK:
                status = _behind(file, status)
            append((prefix + name, SKILL_FILE, mode, status.st_size, status.st_mtime_ns, status.st_ino))
        return deeper

    def _take(self, relative: str, path: str, file: str = SKILL_FILE) -> bool:
        """Record the folder at `path` if it has that file."""
        try:
            status = os.lstat(f"{path}/{file}")
        except OSError:
            return False
        mode = status.st_mode
        if mode & _TYPE == _LINK:
            status = _behind(f"{path}/{file}", status)
        self.found.append((relative, file, mode, status.st_size, status.st_mtime_ns, status.st_ino))
        return True

    def _follow_links(self) -> None:
        """Look behind every link to a folder; links found there join the end of the queue."""
        real_root = os.path.realpath(self.root) if self.links else ""
        for relative, depth in self.links:  # grows while it runs
            path = f"{self.root}/{relative}"
            if not os.path.isdir(path):
                continue  # a broken link or a link to a file (row 001-3)
            target = os.path.realpath(path)
            if self.boundary and not self.boundary.holds(target):
                if os.path.lexists(f"{target}/{SKILL_FILE}"):
                    self.found.append((relative, SKILL_FILE, OUTSIDE, 0, 0, 0))
            elif Boundary((target,)).holds(real_root):
                continue  # it leads back up: everything there was seen, or is no business of this root
            elif not self._take(relative, path) and depth < self.max_depth:
                self._enter(relative, depth + 1)

    def _installed(self) -> None:
        names, _, _ = self._children(self.root)
        for name in names:
            self._take(f"{name}/current", f"{self.root}/{name}/current")


def _behind(file: str, link: os.stat_result) -> os.stat_result:
    """What a linked SKILL.md leads to, so that a change there is seen; the link itself when it is broken."""
    try:
        return os.stat(file)
    except OSError:
        return link
