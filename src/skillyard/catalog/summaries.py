"""Find every SKILL.md below one root, and summarize each as far as a list needs it, as plain values.

The search is bounded, in one order, and never follows a link in a circle. A folder with a SKILL.md is a skill and is not
searched further. Hidden folders are skipped, but for those in which coding agents and collections keep skills, and so are the
folders in `NOT_SEARCHED`, unless they hold a SKILL.md themselves. The search goes level by level, so that a skill further up
comes first. Links to folders are followed after all real folders, so that a skill's real path comes first when both are below
the root; a folder is entered once, whatever leads to it.

The first 4 KiB hold the front matter of nearly every file; more is read only when its closing fence is further down. The result
is a tuple of text and bytes: it is small, goes through a pipe or into the cache as it is, and includes the pieces of JSON that
never change, so that a list of ten thousand is put together by joining text.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.paths import CLOEXEC, NOCTTY, NOFOLLOW, NONBLOCK, is_inside, real_path, refuse_reserved, slug

if TYPE_CHECKING:
    from skillyard.catalog.catalog_rows import FileStamp, RootStatus, SkillFacts
    from skillyard.document import Diagnostic, Profile, Summary


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
_HIDDEN_COLLECTIONS: Final = frozenset((".curated", ".experimental", ".system"))
_WITH_SKILLS: Final = frozenset(
    (".agent", ".agents", ".claude", ".codex", ".cursor", ".gemini", ".github", ".goose", ".opencode", ".qwen", ".windsurf")
)
"""Hidden folders whose folder `skills` is searched, and nothing else of them: there are copies of projects and of plugins."""
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

    `installed` means that each child holds its version behind a `current` link, as `registry` lays them out. `find` works
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
        folders = "1 folder" if self.unreadable == 1 else f"{self.unreadable} folders"
        missed = f"{folders} below it cannot be read" if self.unreadable else None
        return WalkResult(self.stamps, "ok", missed)

    def _search(self, folders: list[str], depth: int) -> None:
        """Look into `folders`, which are `depth` below the root, then into those below the ones that are no skills."""
        while folders:
            below: list[str] = []
            for folder, stamp in zip(folders, self.find(self.root, folders), strict=True):
                if stamp:
                    if stamp[2] & _TYPE != _LINK or "/." not in f"/{folder}":  # for an agent: the skill is listed where it lies
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
                    if name[0] != "." or name in _HIDDEN_COLLECTIONS:
                        names.append(name)
                    elif name in _WITH_SKILLS and os.path.isdir(f"{path}/{name}/skills"):
                        names.append(f"{name}/skills")
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


_FIRST_READ: Final = 4096
# A FIFO must not block and a link must not be followed: what is behind one is decided on its real path.
_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC | NOCTTY


def find_and_read(root: str, folders: list[str], profile: Profile) -> list[tuple[FileStamp, SkillFacts] | None]:
    """The SKILL.md of each folder and its facts, or None where there is none."""
    return [_read_folder(root, folder, profile) for folder in folders]


def _read_folder(root: str, relative: str, profile: Profile) -> tuple[FileStamp, SkillFacts] | None:
    """Look into one folder by opening its SKILL.md, which gives more than `lstat` at the same cost."""
    directory = f"{root}/{relative}"
    try:
        descriptor = os.open(f"{directory}/{SKILL_FILE}", _FLAGS)
    except FileNotFoundError:
        return None
    except OSError:
        return _find_then_read(root, relative, profile)
    try:
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 != stat.S_IFREG:
            return _find_then_read(root, relative, profile)
        folder = relative.rpartition("/")[2]
        summary = _summary(descriptor, SKILL_FILE, folder, profile, status.st_size)
    except OSError:
        return _find_then_read(root, relative, profile)
    finally:
        os.close(descriptor)
    stamp = (relative, SKILL_FILE, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
    return stamp, _facts(summary, directory, SKILL_FILE, folder, profile)


def _find_then_read(root: str, relative: str, profile: Profile) -> tuple[FileStamp, SkillFacts] | None:
    """The same for a SKILL.md that is a link or cannot be read."""
    (stamp,) = find_skill_files(root, [relative])
    return stamp and (stamp, read_facts(root, stamp, profile))


def read_facts(root: str, stamp: FileStamp, profile: Profile) -> SkillFacts:
    """The facts of the SKILL.md of one folder; for a file that cannot be read its diagnostics give the reason."""
    relative, file, mode = stamp[:3]
    directory = f"{root}/{relative}" if relative else root
    folder = _folder_name(directory)
    try:
        path = f"{directory}/{file}" if mode & 0o170000 == stat.S_IFREG else _real_file(directory, file, mode)
        refuse_reserved(path)
        descriptor = os.open(path, _FLAGS)
        try:
            summary = _summary(descriptor, file, folder, profile, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        summary = _broken("file-unreadable", file, folder, message, "check the file's permissions")
    except _NotAFileError as error:
        summary = _broken("file-not-regular", file, folder, str(error), error.fix)
    return _facts(summary, directory, file, folder, profile)


def _facts(summary: Summary, directory: str, file: str, folder: str, profile: Profile) -> SkillFacts:
    if summary.diagnostics:
        summary = _with_legacy_metadata(summary, directory, file, folder, profile)
    return _pack(summary, folder)


def _folder_name(directory: str) -> str:
    """The name the folder goes by; the version link of an installed skill is named after its parent."""
    head, _, name = directory.rpartition("/")
    return head.rpartition("/")[2] if name == "current" else name


class _NotAFileError(Exception):
    """Something other than a readable file is called SKILL.md."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def _real_file(directory: str, file: str, mode: int) -> str:
    """The real path of a linked SKILL.md that stays inside its skill's folder."""
    if mode == OUTSIDE_BOUNDARY:
        raise _NotAFileError(
            "the folder is a link that leads out of the project",
            "move the skill into the project, or set skills.allow-external-paths to true",
        )
    if not stat.S_ISLNK(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "device, pipe or socket"
        raise _NotAFileError(f"{file} is a {kind}, not a file", f"put a text file named {file} there")
    path = real_path(f"{directory}/{file}")
    if not is_inside(path, directory):
        raise _NotAFileError(f"{file} is a link that leaves the skill's folder", "link the whole folder, or copy the file")
    if not os.path.exists(path):
        raise _NotAFileError(f"{file} is a broken link", "fix or remove the link")
    return path


def _summary(descriptor: int, file: str, folder: str, profile: Profile, size: int) -> Summary:
    from skillyard.document import DOCUMENT_LIMIT, HEADER_LIMIT, NeedMore, summarize  # an unchanged list needs none of it

    if size > DOCUMENT_LIMIT:  # nothing loads it
        return _broken("file-too-large", file, folder, f"the file is over {DOCUMENT_LIMIT >> 20} MiB: {size:,} bytes")
    data = os.read(descriptor, _FIRST_READ)
    complete = len(data) < _FIRST_READ
    try:
        return summarize(data, file=file, directory_name=folder, profile=profile, complete=complete)
    except NeedMore:
        data += os.read(descriptor, HEADER_LIMIT + _FIRST_READ - len(data))
    return summarize(data, file=file, directory_name=folder, profile=profile)


def _broken(rule: str, file: str, folder: str, message: str, fix: str = "") -> Summary:
    from skillyard.document import Summary, diagnose  # with it come all rules, which a good file never needs

    diagnostic = diagnose(rule, file=file, message=message, fix=fix)
    return Summary(name=folder, description="", usable=False, diagnostics=(diagnostic,))


def _with_legacy_metadata(summary: Summary, directory: str, file: str, folder: str, profile: Profile) -> Summary:
    """The summary of METADATA.yml when SKILL.md has no front matter and there is one (they are not merged)."""
    if not any(diagnostic.rule == "front-matter-missing" for diagnostic in summary.diagnostics):
        return summary
    legacy = legacy_header(directory)
    if legacy is None:
        return summary
    from skillyard.document import diagnose, summarize

    read = summarize(legacy, file=LEGACY_FILE, directory_name=folder, profile=profile)
    note = diagnose("legacy-metadata", file=file)
    return read._replace(diagnostics=(note, *read.diagnostics))


def legacy_header(directory: str) -> bytes | None:
    """The content of the folder's METADATA.yml between fences, or None when there is no such file."""
    try:
        descriptor = os.open(f"{directory}/{LEGACY_FILE}", _FLAGS)
    except OSError:
        return None
    from skillyard.document import HEADER_LIMIT

    try:
        return b"---\n" + os.read(descriptor, HEADER_LIMIT - 16).strip() + b"\n---\n"
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _pack(summary: Summary, folder: str) -> SkillFacts:
    name, description, usable, shown, version, kind, tools, keywords, phrases, invocable, has_entry, facets, diagnostics = (
        summary
    )
    shapes = [one.to_dict() for one in diagnostics]
    plain = tuple([tuple(shape.values()) for shape in shapes])
    details = (description, shown, version, kind, tools, keywords, phrases, invocable, has_entry, plain, facets)
    problem = None if usable else _problem(diagnostics)
    head = f'"name": {quote(name)}, "description": {quote(description)}'
    return slug(name, folder), problem, name, head, json.dumps(shapes) if shapes else "[]", details


def _problem(diagnostics: tuple[Diagnostic, ...]) -> str:
    errors = [diagnostic.message for diagnostic in diagnostics if diagnostic.severity == "error"]
    return errors[0] if errors else "its SKILL.md cannot be used"
