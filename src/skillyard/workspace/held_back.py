"""Places of a project that programs act on later without anyone asking: which they are, and where they are in a folder.

A session must not write what the user's shell, editor, `git` or another agent executes outside of the sandbox when it next
looks at the folder. `HELD_BACK` is the table; everything else is found by it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.errors import InvalidConfiguration
from skillyard.text import nearest

HELD_BACK: Final = frozenset({
    # git: hooks, and settings that name programs
    ".git",
    # shells and tools that act when one enters a folder, or begins a session there
    ".envrc", ".direnv", ".autoenv", ".autoenv.fish", ".autoenv.zsh", ".mise", ".mise.toml", ".mise.local.toml", "mise.toml",
    "mise.local.toml", ".bashrc", ".bash_login", ".bash_profile", ".profile", ".zlogin", ".zprofile", ".zshenv", ".zshrc",
    ".gitconfig", ".ssh", ".irbrc", ".lldbinit", ".pdbrc", ".rprofile",
    # hooks that git is configured to run, and what they execute
    ".githooks", ".husky", ".lefthook.yml", ".pre-commit-config.yaml", "lefthook.yaml", "lefthook.yml",
    # programs that editors' servers start, and settings of package managers that name programs
    ".cargo", ".npmrc", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml",
    # editors
    ".devcontainer", ".devcontainer.json", ".dir-locals-2.el", ".dir-locals.el", ".exrc", ".fleet", ".gdbinit", ".idea",
    ".lvimrc", ".nvim.lua", ".nvimrc", ".vimrc", ".vscode", ".zed",
    # other agents: settings with hooks, servers and permissions, and their skills
    ".agents", ".aider.conf.yml", ".amazonq", ".claude", ".claude.json", ".cline", ".clinerules", ".codeium", ".codex",
    ".config/agents", ".config/amp", ".config/crush", ".config/goose", ".config/kilo", ".config/opencode", ".continue",
    ".copilot", ".crush", ".crush.json", ".cursor", ".factory", ".gemini", ".github/hooks", ".github/skills", ".goose",
    ".junie", ".kilocode", ".kiro", ".mcp.json", ".opencode", ".opencode.json", ".openhands", ".qwen", ".roo", ".vibe",
    ".windsurf", "crush.json", "kilo.json", "kilo.jsonc", "opencode.json", "opencode.jsonc",
    # what a session of the desktop or of the shell starts, in a home folder
    ".config/autostart", ".config/systemd", ".local/bin",
    # Skillyard
    "skillyard.lock", "skillyard.toml",
})  # fmt: skip
"""Names, in small letters, of files and folders at any depth, some with the name of the folder that they are in.

Of a `.git` folder that is there only `_GIT_PARTS` is held back, since a commit writes the rest. Texts that agents read
(`AGENTS.md`, `CLAUDE.md`) and what the project's own commands execute (`Makefile`, `package.json`) are not: writing them is
often the task, and nothing executes them unasked.
"""

_GIT_PARTS: Final = ("config", "config.worktree", "hooks", "info/attributes", "commondir", "worktrees")
_MODULES: Final = "modules"
_NOT_ENTERED: Final = frozenset({"node_modules", "__pycache__", ".venv"})
_MOST_VISITED: Final = 20_000
_DEEPEST: Final = 64  # levels of folders; what is deeper is held back as a whole
_DEEPEST_MODULE: Final = 6
_LISTED: Final = stat.S_IRUSR | stat.S_IXUSR
_MOST_MODULES: Final = 2_000
_MOST_CONFIG: Final = 64 * 1024
_HOOKS_PATH: Final = re.compile(rb"^[ \t]{0,20}hookspath[ \t]{0,20}=[ \t]{0,20}([^\n]{1,500})", re.IGNORECASE | re.MULTILINE)
_SETTLED_NS: Final = 2_000_000_000  # after which another change has another time, also where times are whole seconds
_FILE_SYSTEMS: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_OCTAL: Final = re.compile(r"\\([0-7]{3})")  # how blanks are written in mountinfo


@dataclass(frozen=True, slots=True)
class PlaceMark:
    """By what a change of a place shows: the file itself, the folder that it is in, and its content.

    `changed` is the time of the last change and the size of a file, and of a folder a sum over what is inside, and how many.
    """

    kind: int
    device: int
    inode: int
    parent: int
    changed: tuple[int, int]

    @property
    def identity(self) -> tuple[int, int]:
        """The file itself, whatever its name."""
        return self.device, self.inode


def check_writable(names: Iterable[object]) -> frozenset[str]:
    """The names that an operator lets sessions write, in small letters and without a `/` at the end.

    Raises:
        InvalidConfiguration: a name that is not held back, or a path.
    """
    found = set()
    for given in names:
        name = given.casefold().rstrip("/") if isinstance(given, str) else ""
        if name not in HELD_BACK:
            raise _unknown_name(given, name)
        found.add(name)
    return frozenset(found)


def _unknown_name(given: object, name: str) -> InvalidConfiguration:
    part = held_part(name)
    near = [part.rpartition("/")[2]] if part else nearest(name, HELD_BACK)
    known = f"give the name alone, one of: {', '.join(sorted(HELD_BACK))}"
    hint = f"did you mean {' or '.join(near)}?" if near else known
    if "/" in name:
        return InvalidConfiguration(f"{given!r} is a path, and what is held back has a name", hint=hint)
    return InvalidConfiguration(f"nothing of the name {given!r} is held back in workspaces", hint=hint)


def held_part(path: str, writable: frozenset[str] = frozenset()) -> str | None:
    """The part of a path below a workspace (`a/b/c`) because of which it is held back; None when it is not."""
    parts = [part for part in path.split("/") if part and part != "."]
    for at, part in enumerate(parts):
        name = part.casefold()
        if not _is_held(name, parts[at - 1] if at else "", writable):
            continue
        if name != ".git" or at == len(parts) - 1 or _is_of_git("/".join(parts[at + 1 :]).casefold()):
            return "/".join(parts[: at + 1])
    return None


def held_name(path: str) -> str | None:
    """The name in `HELD_BACK` because of which a path is held back; None where it is held back because of what it holds."""
    if part := held_part(path):
        names = part.casefold().split("/")
        return next(one for one in (names[-1], "/".join(names[-2:])) if one in HELD_BACK)
    return ".git" if path.rpartition("/")[2] == "HEAD" else None


def _is_held(name: str, above: str, writable: frozenset[str]) -> bool:
    """Whether a name, in small letters, is held back in a folder of the name `above`."""
    return any(one in HELD_BACK and one not in writable for one in (name, f"{above.casefold()}/{name}"))


def _is_of_git(inner: str) -> bool:
    """Whether a path in a `.git` folder is one that is held back, also in the repository of a submodule."""
    if inner.startswith(f"{_MODULES}/"):
        return any(f"/{one}/" in f"/{inner}/" for one in _GIT_PARTS)
    return any(inner == one or inner.startswith(f"{one}/") for one in _GIT_PARTS)


def is_repository_part(path: str, head: str) -> bool:
    """Whether a place is held back only because there is a `HEAD` at the path `head`."""
    folder = head.removesuffix("HEAD")
    return head.rpartition("/")[2] == "HEAD" and path.startswith(folder) and _is_of_git(path.removeprefix(folder))


@dataclass(frozen=True, slots=True)
class _ListedFolder:
    """What one folder had for the table when it was listed: held names with whether each is a folder, and folders to enter.

    `state` is its device, inode and time of change before the listing, and None where a later change might not show in them.
    """

    state: tuple[int, int, int] | None
    entries: int
    held: tuple[tuple[str, bool], ...]
    entered: tuple[str, ...]
    is_repository: bool


class HeldPlaces:
    """Finds what of the table is in a folder, again and again.

    A folder is listed again only when it was changed: a name that appears, goes or moves changes the time of its folder, which
    no program can set (`ctime`). `clock` counts nanoseconds since 1970.
    """

    def __init__(self, folder: str, writable: frozenset[str] = frozenset(), *, clock: Callable[[], int] = time.time_ns) -> None:
        self._folder = folder
        self._writable = writable
        self._clock = clock
        self._listed: dict[str, _ListedFolder] = {}
        self._device = _device_with_times(folder)
        self._closed: set[str] = set()  # folders that could not be listed before a session began
        self._targets: set[str] = set()  # what links and settings of before a session lead to

    def look(self, *, within: bool = False) -> dict[str, PlaceMark]:
        """What is there, by its path below the folder, the upper levels first. No link is followed.

        `within` a session a folder that it has made unreadable becomes readable again for its owner.

        Of over 20,000 entries the deeper ones are not looked at, nor are folders of installed packages. A folder that cannot
        be listed, or that is deeper than 64 levels, is held back as a whole.
        """
        folder, before, known = self._folder, self._listed, {}
        found: dict[str, PlaceMark] = {}
        waiting = deque([""])
        visited = 0
        while waiting and visited <= _MOST_VISITED:
            prefix = waiting.popleft()
            try:
                listed = known[prefix] = self._list(prefix, before.get(prefix), within=within)
            except OSError:  # nobody can say what is in there
                if not within:
                    self._closed.add(prefix)
                _add_nearest(found, folder, prefix)
                continue
            visited += listed.entries
            if listed.is_repository:
                _add(found, folder, f"{prefix}HEAD")
                _Repository(found, folder, prefix).add()
            for name, is_folder in listed.held:
                _add(found, folder, f"{prefix}{name}")
                if is_folder and name.casefold() == ".git":
                    _Repository(found, folder, f"{prefix}{name}/").add()
            waiting.extend([f"{prefix}{name}/" for name in listed.entered])
        self._listed = known
        if not within:
            self._targets = {target for path in found for target in _targets(folder, path)}
        for path in self._targets - found.keys():
            _add(found, folder, path)
        return found

    def _list(self, prefix: str, before: _ListedFolder | None, *, within: bool) -> _ListedFolder:
        if prefix.count("/") > _DEEPEST:
            raise OSError(errno.ENAMETOOLONG, "deeper than is looked")
        path, now = f"{self._folder}/{prefix}", self._clock()
        status = os.lstat(path)
        state = status.st_dev, status.st_ino, status.st_ctime_ns
        if before is not None and before.state == state:
            return before
        if within and status.st_mode & _LISTED != _LISTED and prefix not in self._closed:
            _make_readable(path)
        with os.scandir(path) as items:
            entries = list(items)
        held, entered = [], []
        above = prefix.rstrip("/").rpartition("/")[2]
        for entry in entries:
            name = entry.name.casefold()
            if _is_held(name, above, self._writable):
                held.append((entry.name, entry.is_dir(follow_symlinks=False)))
            elif name not in _NOT_ENTERED and name != ".git":
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        entered.append(entry.name)
        names = {entry.name for entry in entries}
        # a repository without a `.git`; `commondir` says where the rest of it is
        bare = ".git" not in self._writable and "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names)
        settled = status.st_dev == self._device and status.st_ctime_ns < now - _SETTLED_NS
        return _ListedFolder(state if settled else None, len(entries), tuple(held), tuple(entered), bare)


def _device_with_times(folder: str) -> int | None:
    """The device of a folder on a file system of this machine; None on one that may not know when a folder was changed."""
    try:
        real = os.path.realpath(folder)
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", errors="surrogateescape").splitlines()
        device = os.lstat(real).st_dev
    except OSError:
        return None
    best, kind = "", ""
    for line in mounts:
        point, _, rest = line.partition(" - ")
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), point.split()[4])
        if len(point) >= len(best) and (real == point or real.startswith(f"{point.rstrip('/')}/")):
            best, kind = point, rest.partition(" ")[0]
    return device if kind in _FILE_SYSTEMS else None


@dataclass(slots=True)
class _Repository:
    """The held parts of one repository and of its submodules, and what they point to inside the folder."""

    found: dict[str, PlaceMark]
    folder: str
    prefix: str
    modules: int = 0

    def add(self) -> None:
        """Add them."""
        self._add_parts(self.prefix)
        self._add_modules(f"{self.prefix}{_MODULES}/", 1)

    def _add_parts(self, prefix: str) -> None:
        for inner in _GIT_PARTS:
            _add(self.found, self.folder, f"{prefix}{inner}")

    def _add_modules(self, prefix: str, depth: int) -> None:
        for name in _folders_in(f"{self.folder}/{prefix}"):
            self.modules += 1
            inner = f"{prefix}{name}/"
            if depth > _DEEPEST_MODULE or self.modules > _MOST_MODULES:
                _add(self.found, self.folder, inner.rstrip("/"))
                return
            self._add_parts(inner)
            is_one = os.path.lexists(f"{self.folder}/{inner}HEAD")
            self._add_modules(f"{inner}{_MODULES}/" if is_one else inner, depth + 1)


def _folders_in(path: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(path) as items:
        yield from [item.name for item in items if item.is_dir(follow_symlinks=False)]


def _add(found: dict[str, PlaceMark], folder: str, path: str) -> None:
    with suppress(OSError):
        found[path] = place_mark(f"{folder}/{path}")


def _make_readable(path: str) -> None:
    """Let the owner of a folder list it; no link is followed."""
    with suppress(OSError):
        folder = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            Path(f"/proc/self/fd/{folder}").chmod(stat.S_IMODE(os.fstat(folder).st_mode) | _LISTED)
        finally:
            os.close(folder)


def _add_nearest(found: dict[str, PlaceMark], folder: str, prefix: str) -> None:
    """Add a folder that cannot be listed; where its path is too long for the system, the nearest one above that has a name."""
    path = prefix.rstrip("/")
    while path and path not in found:
        _add(found, folder, path)
        path = path.rpartition("/")[0] if path not in found else ""


def _targets(folder: str, path: str) -> set[str]:
    """What is executed inside the folder because of a place: where it leads as a link, and the hooks of a repository."""
    place, top = Path(folder, path), Path(os.path.realpath(folder))
    leading = [place] if place.is_symlink() else []
    if place.name.casefold() == ".git":
        leading += _hooks_of(place)
    ends = {Path(os.path.realpath(one)) for one in leading}
    return {str(end.relative_to(top)) for end in ends if end != top and end.is_relative_to(top) and os.path.lexists(end)}


def _hooks_of(repository: Path) -> Iterator[Path]:
    """The links among the hooks of a repository, and the folder of hooks that its settings name."""
    with suppress(OSError), os.scandir(repository / "hooks") as items:
        yield from [Path(item.path) for item in items if item.is_symlink()]
    with suppress(OSError, ValueError), (repository / "config").open("rb") as file:
        for match in _HOOKS_PATH.finditer(file.read(_MOST_CONFIG)):
            yield repository.parent / os.fsdecode(match[1].strip().strip(b'"'))


def place_mark(path: str) -> PlaceMark:
    """The mark of a file, link or folder, taken when owners have changed: times count that no program can set."""
    state, parent = os.lstat(path), Path(path).parent.lstat()
    changed = (state.st_ctime_ns, state.st_size)
    if stat.S_ISDIR(state.st_mode):
        changed = (0, 0) if Path(path).name.casefold() == ".git" else _inside(path)
    return PlaceMark(stat.S_IFMT(state.st_mode), state.st_dev, state.st_ino, parent.st_ino, changed)


_MOST_INSIDE: Final = 5_000


def _inside(path: str) -> tuple[int, int]:
    """A sum over all files and folders inside, and how many there are."""
    total, count, waiting = 0, 0, [path]
    while waiting and count < _MOST_INSIDE:
        with suppress(OSError), os.scandir(waiting.pop()) as items:
            for item in items:
                state = item.stat(follow_symlinks=False)
                is_folder = item.is_dir(follow_symlinks=False)
                total ^= hash((item.path, state.st_ino, 0 if is_folder else state.st_ctime_ns, state.st_mode))
                count += 1
                if is_folder:
                    waiting.append(item.path)
    return total, count
