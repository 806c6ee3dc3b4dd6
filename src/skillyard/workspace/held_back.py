"""Places of a project that programs act on later without anyone asking: which they are, and where they are in a folder.

A session must not write what the user's shell, editor, `git` or another agent executes outside of the sandbox when it next
looks at the folder. `HELD_BACK` is the table; everything else is found by it.
"""

from __future__ import annotations

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

HELD_BACK: Final = frozenset({
    # git: hooks, and settings that name programs
    ".git",
    # shells and tools that act when one enters a folder, or begins a session there
    ".envrc", ".direnv", ".autoenv", ".autoenv.zsh", ".mise", ".mise.toml", "mise.toml", ".bashrc", ".bash_login",
    ".bash_profile", ".profile", ".zlogin", ".zprofile", ".zshenv", ".zshrc", ".gitconfig", ".ssh",
    # hooks that git is told to run
    ".githooks", ".husky",
    # editors
    ".devcontainer", ".devcontainer.json", ".dir-locals.el", ".exrc", ".fleet", ".gdbinit", ".idea", ".lvimrc", ".nvim.lua",
    ".nvimrc", ".vimrc", ".vscode", ".zed",
    # other agents: settings with hooks, servers and permissions
    ".agents", ".aider.conf.yml", ".claude", ".codex", ".continue", ".cursor", ".gemini", ".kiro", ".mcp.json", ".opencode",
    ".qwen", ".roo", ".windsurf", "crush.json", "opencode.json", "opencode.jsonc",
    # Skillyard
    "skillyard.lock", "skillyard.toml",
})  # fmt: skip
"""Names, in small letters, of files and folders at any depth.

Of a `.git` folder that is there only `_OF_GIT` is held back, since a commit writes the rest. Texts that agents read
(`AGENTS.md`, `CLAUDE.md`) and what the project's own commands execute (`Makefile`, `package.json`) are not: writing them is
often the task, and nothing executes them unasked.
"""

_OF_GIT: Final = ("config", "config.worktree", "hooks", "info/attributes", "commondir", "worktrees")
_MODULES: Final = "modules"
_NOT_ENTERED: Final = frozenset({"node_modules", "__pycache__", ".venv"})
_MOST_VISITED: Final = 20_000
_DEEPEST: Final = 24
_DEEPEST_MODULE: Final = 6
_SETTLED_NS: Final = 2_000_000_000  # after which another change has another time, also where times are whole seconds
_FILE_SYSTEMS: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_OCTAL: Final = re.compile(r"\\([0-7]{3})")  # how blanks are written in mountinfo


@dataclass(frozen=True, slots=True)
class PlaceMark:
    """By what a change of a place shows: the file itself, the folder that it is in, and, for a file, its content's times."""

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
    """The names that an operator lets sessions write, in small letters.

    Raises:
        InvalidConfiguration: a name that is not held back.
    """
    found = set()
    for name in names:
        if not isinstance(name, str) or name.casefold() not in HELD_BACK:
            known = ", ".join(sorted(HELD_BACK))
            raise InvalidConfiguration(f"{name!r} is not held back in workspaces", hint=f"these are: {known}")
        found.add(name.casefold())
    return frozenset(found)


def held_part(path: str, writable: frozenset[str] = frozenset()) -> str | None:
    """The part of a path below a workspace (`a/b/c`) because of which it is held back; None when it is not."""
    parts = [part for part in path.split("/") if part and part != "."]
    for at, part in enumerate(parts):
        name = part.casefold()
        if name not in HELD_BACK or name in writable:
            continue
        if name != ".git" or at == len(parts) - 1 or _is_of_git("/".join(parts[at + 1 :]).casefold()):
            return "/".join(parts[: at + 1])
    return None


def _is_of_git(inner: str) -> bool:
    """Whether a path in a `.git` folder is one that is held back, also in the repository of a submodule."""
    if inner.startswith(f"{_MODULES}/"):
        return any(f"/{one}/" in f"/{inner}/" for one in _OF_GIT)
    return any(inner == one or inner.startswith(f"{one}/") for one in _OF_GIT)


def is_repository_part(path: str, head: str) -> bool:
    """Whether a place is held back only because there is a `HEAD` at the path `head`."""
    folder = head.removesuffix("HEAD")
    return head.endswith("/HEAD") and path.startswith(folder) and _is_of_git(path.removeprefix(folder))


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

    def look(self, *, deepest: int = _DEEPEST) -> dict[str, PlaceMark]:
        """What is there, by its path below the folder, the upper levels first. No link is followed.

        Of over 20,000 entries the deeper ones are not looked at, nor are folders of installed packages.
        """
        folder, before, known = self._folder, self._listed, {}
        found: dict[str, PlaceMark] = {}
        waiting: deque[tuple[str, int]] = deque([("", 0)])
        visited = 0
        while waiting and visited <= _MOST_VISITED:
            prefix, depth = waiting.popleft()
            try:
                listed = known[prefix] = self._list(prefix, before.get(prefix))
            except OSError:
                continue
            visited += listed.entries
            if listed.is_repository:
                _add(found, folder, f"{prefix}HEAD")
                _add_repository(found, folder, prefix)
            for name, is_folder in listed.held:
                _add(found, folder, f"{prefix}{name}")
                if is_folder and name.casefold() == ".git":
                    _add_repository(found, folder, f"{prefix}{name}/")
            if depth < deepest:
                waiting.extend([(f"{prefix}{name}/", depth + 1) for name in listed.entered])
        self._listed = known
        return found

    def _list(self, prefix: str, before: _ListedFolder | None) -> _ListedFolder:
        path, now = f"{self._folder}/{prefix}", self._clock()
        status = os.lstat(path)
        state = status.st_dev, status.st_ino, status.st_ctime_ns
        if before is not None and before.state == state:
            return before
        with os.scandir(path) as items:
            entries = list(items)
        held, entered = [], []
        for entry in entries:
            name = entry.name.casefold()
            if name in HELD_BACK and name not in self._writable:
                held.append((entry.name, entry.is_dir(follow_symlinks=False)))
            elif name not in _NOT_ENTERED and name != ".git":
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        entered.append(entry.name)
        # a repository without a `.git`
        bare = prefix and ".git" not in self._writable and {"HEAD", "objects", "refs"} <= {entry.name for entry in entries}
        settled = status.st_dev == self._device and status.st_ctime_ns < now - _SETTLED_NS
        return _ListedFolder(state if settled else None, len(entries), tuple(held), tuple(entered), bool(bare))


def held_places(folder: str, writable: frozenset[str] = frozenset(), *, deepest: int = _DEEPEST) -> dict[str, PlaceMark]:
    """What of the table is in a folder now: see `HeldPlaces.look`."""
    return HeldPlaces(folder, writable).look(deepest=deepest)


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


def _add_repository(found: dict[str, PlaceMark], folder: str, prefix: str, depth: int = 0) -> None:
    for inner in _OF_GIT:
        _add(found, folder, f"{prefix}{inner}")
    if depth >= _DEEPEST_MODULE:
        return
    for name in (_MODULES,) if depth == 0 else _folders_in(f"{folder}/{prefix}"):
        if depth == 0 or name not in ("hooks", "info", "logs", "objects", "refs"):
            if depth == 0 and not _is_folder(f"{folder}/{prefix}{name}"):
                continue
            _add_repository(found, folder, f"{prefix}{name}/", depth + 1)


def _folders_in(path: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(path) as items:
        yield from [item.name for item in items if item.is_dir(follow_symlinks=False)]


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _add(found: dict[str, PlaceMark], folder: str, path: str) -> None:
    with suppress(OSError):
        found[path] = place_mark(f"{folder}/{path}")


def place_mark(path: str) -> PlaceMark:
    """The mark of a file, link or folder; of a folder its own, and the newest change and the number of what is in it.

    Who owns it does not count: it is given to the user of the session.
    """
    state, parent = os.lstat(path), Path(path).parent.lstat()
    changed = (state.st_mtime_ns, state.st_size)
    if stat.S_ISDIR(state.st_mode):
        changed = (0, 0) if Path(path).name.casefold() == ".git" else _inside(path)
    return PlaceMark(stat.S_IFMT(state.st_mode), state.st_dev, state.st_ino, parent.st_ino, changed)


_MOST_INSIDE: Final = 5_000


def _inside(path: str) -> tuple[int, int]:
    newest, count, waiting = 0, 0, [path]
    while waiting and count < _MOST_INSIDE:
        with suppress(OSError), os.scandir(waiting.pop()) as items:
            for item in items:
                state = item.stat(follow_symlinks=False)
                newest, count = max(newest, state.st_mtime_ns), count + 1
                if item.is_dir(follow_symlinks=False):
                    waiting.append(item.path)
    return newest, count
