"""Find every SKILL.md below one root: bounded, in one order, and never following a link in a circle.

A folder with a SKILL.md is a skill and is not searched further. Hidden folders are skipped, and so are the folders in
`NOT_SEARCHED`, unless they hold a SKILL.md themselves. The search goes level by level, so that a skill further up comes first.
Links to folders are followed after all real folders, so that a skill's real path comes first when both are below the root; a
folder is entered once, whatever leads to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.paths import real_path

if TYPE_CHECKING:
    from skillyard.catalog.records import FileStamp, RootStatus


SKILL_FILE: Final = "SKILL.md"
LEGACY_FILE: Final = "METADATA.yml"
"""Where old packages keep what belongs in the front matter."""
MAX_DEPTH: Final = 6
"""How many folders deep below a well-known root a skill is found (client guide: 4 to 6)."""
MAX_DEPTH_NAMED: Final = 16
"""The same for a root that the caller named: whole collections are listed, however they are sorted into folders."""
MAX_FOLDERS: Final = 50_000
"""How many folders without a SKILL.md are opened in one root."""
MAX_ENTRIES: Final = 250_000
"""How many directory entries are read in one root."""
OUTSIDE_BOUNDARY: Final = -1
"""The mode recorded for a linked skill whose real folder lies beyond the boundary: listed, never opened."""

NOT_SEARCHED: Final = frozenset(
    ("node_modules", "__pycache__", "venv", "dist", "build", "coverage", "site-packages", "bower_components", "target")
)
_TYPE: Final = 0o170000
_LINK: Final = 0o120000


class Boundary(NamedTuple):
    """Where links may lead: real paths of folders; a skill linked from elsewhere is refused."""

    folders: tuple[str, ...]

    def holds(self, path: str) -> bool:
        """Whether the real path `path` is one of the folders or below one, compared by components."""
        return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in self.folders)


FindSkillFiles = Callable[[str, list[str]], "list[FileStamp | None]"]
"""Given a root and folders relative to it: the stamp of the SKILL.md in each, or None where there is none."""


class WalkResult(NamedTuple):
    """What one root holds, in an order that depends on names alone, and whether all of it was seen."""

    stamps: list[FileStamp]
    status: RootStatus
    reason: str | None


def find_skill_files(root: str, folders: list[str]) -> list[FileStamp | None]:
    """The SKILL.md of each folder, found with one `lstat` each."""
    stamps: list[FileStamp | None] = []
    lstat = os.lstat
    for folder in folders:
        try:
            status = lstat(f"{root}/{folder}/SKILL.md")
        except OSError:
            stamps.append(None)
            continue
        mode = status.st_mode
        if mode & _TYPE == _LINK:
            status = _behind(f"{root}/{folder}/SKILL.md", status)
        stamps.append((folder, SKILL_FILE, mode, status.st_size, status.st_mtime_ns, status.st_ino))
    return stamps


def walk(
    root: str,
    *,
    boundary: Boundary | None = None,
    installed: bool = False,
    depth: int = MAX_DEPTH,
    find: FindSkillFiles = find_skill_files,
) -> WalkResult:
    """Every skill at most `depth` folders below `root`, which may be a skill folder itself.

    `installed` means that each child holds its version behind a `current` link, as the install room lays them out. `find` works
    on many folders at once; one that also reads the files saves opening each of them twice.
    """
    walker = _Walker(root, boundary, depth, find)
    try:
        return walker.run(installed=installed)
    except FileNotFoundError:
        return WalkResult([], "missing", "there is no such folder")
    except NotADirectoryError:
        return WalkResult([], "missing", "it is not a folder")
    except OSError as error:
        return WalkResult([], "unreadable", f"it cannot be read: {error.strerror}")


class _Walker:
    """The state of one walk."""

    def __init__(self, root: str, boundary: Boundary | None, max_depth: int, find: FindSkillFiles) -> None:
        self.root = root
        self.boundary = boundary
        self.max_depth = max_depth
        self.find = find
        self.stamps: list[FileStamp] = []
        self.links: list[tuple[str, int]] = []
        self.entered: set[tuple[int, int]] = set()
        self.entries = 0
        self.unreadable = 0
        self.full: str | None = None

    def run(self, *, installed: bool) -> WalkResult:
        if installed:
            self._installed()
        elif not self._take(""):
            self._search(self._enter("", 1), 1)
            self._follow_links()
        if self.full:
            return WalkResult(self.stamps, "truncated", f"{self.full}; skills beyond them are not listed")
        missed = f"{self.unreadable} folders below it cannot be read" if self.unreadable else None
        return WalkResult(self.stamps, "ok", missed)

    def _search(self, folders: list[str], depth: int) -> None:
        """Look into `folders`, which are `depth` below the root, then into those below the ones that are no skills."""
        while folders:
            below: list[str] = []
            for folder, stamp in zip(folders, self.find(self.root, folders), strict=True):
                if stamp:
                    self.stamps.append(stamp)
                elif depth < self.max_depth and folder.rpartition("/")[2] not in NOT_SEARCHED:
                    below += self._try_enter(folder, depth + 1)
            folders, depth = below, depth + 1

    def _try_enter(self, folder: str, depth: int) -> list[str]:
        try:
            return self._enter(folder, depth)
        except OSError:
            self.unreadable += 1
            return []

    def _enter(self, relative: str, depth: int) -> list[str]:
        """The folders in one folder that is no skill, `depth` below the root; its links are kept for later."""
        path = f"{self.root}/{relative}"
        status = os.stat(path)
        identity = status.st_dev, status.st_ino
        if self.full or identity in self.entered:
            return []
        if len(self.entered) >= MAX_FOLDERS:
            self.full = f"it has more than {MAX_FOLDERS} folders"
            return []
        self.entered.add(identity)
        names, links, other = self._children(path)
        if other and self._take(relative, other):
            return []
        prefix = f"{relative}/" if relative else ""
        self.links += [(prefix + name, depth) for name in links]
        return [prefix + name for name in names]

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
        names.sort()
        links.sort()
        if self.entries > MAX_ENTRIES:
            self.full = f"it has more than {MAX_ENTRIES} entries"
            names, links = names[:MAX_ENTRIES], []
        return names, links, max(others, default=None)

    def _take(self, relative: str, file: str = SKILL_FILE) -> bool:
        """Record one folder if it has that file."""
        path = f"{self.root}/{relative}/{file}" if relative else f"{self.root}/{file}"
        try:
            status = os.lstat(path)
        except OSError:
            return False
        mode = status.st_mode
        if mode & _TYPE == _LINK:
            status = _behind(path, status)
        self.stamps.append((relative, file, mode, status.st_size, status.st_mtime_ns, status.st_ino))
        return True

    def _follow_links(self) -> None:
        """Look behind every link to a folder; links found there join the end of the queue."""
        real_root = real_path(self.root) if self.links else ""
        for relative, depth in self.links:  # grows while it runs
            path = f"{self.root}/{relative}"
            if not os.path.isdir(path):
                continue  # a broken link or a link to a file
            target = real_path(path)
            if self.boundary and not self.boundary.holds(target):
                if os.path.lexists(f"{target}/{SKILL_FILE}"):
                    self.stamps.append((relative, SKILL_FILE, OUTSIDE_BOUNDARY, 0, 0, 0))
            elif Boundary((target,)).holds(real_root):
                continue  # it leads back up: everything there was seen, or is no business of this root
            elif not self._take(relative) and depth < self.max_depth:
                self._search(self._try_enter(relative, depth + 1), depth + 1)

    def _installed(self) -> None:
        names, _, _ = self._children(self.root)
        self.stamps += [stamp for stamp in find_skill_files(self.root, [f"{name}/current" for name in names]) if stamp]


def _behind(file: str, link: os.stat_result) -> os.stat_result:
    """What a linked SKILL.md leads to, so that a change there is seen; the link itself when it is broken."""
    try:
        return os.stat(file)
    except OSError:
        return link
