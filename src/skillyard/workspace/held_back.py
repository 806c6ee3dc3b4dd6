"""Places of a project that programs act on later without anyone asking: which they are, and where they are in a folder.

A session must not write what the user's shell, editor, `git` or another agent executes outside of the sandbox when it next
looks at the folder. `HELD_BACK` is the table; everything else is found by it.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
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


def held_places(folder: str, writable: frozenset[str] = frozenset(), *, deepest: int = _DEEPEST) -> dict[str, PlaceMark]:
    """What of the table is in a folder, by its path below it, the upper levels first. No link is followed.

    Of over 20,000 entries the deeper ones are not looked at, nor are folders of installed packages.
    """
    found: dict[str, PlaceMark] = {}
    waiting: deque[tuple[str, int]] = deque([("", 0)])
    visited = 0
    while waiting and visited <= _MOST_VISITED:
        prefix, depth = waiting.popleft()
        try:
            with os.scandir(f"{folder}/{prefix}") as items:
                entries = list(items)
        except OSError:
            continue
        visited += len(entries)
        names = {entry.name for entry in entries}
        if prefix and {"HEAD", "objects", "refs"} <= names and ".git" not in writable:  # a repository without a `.git`
            _add(found, folder, f"{prefix}HEAD")
            _add_repository(found, folder, prefix)
        for entry in entries:
            name, path = entry.name.casefold(), f"{prefix}{entry.name}"
            if name in HELD_BACK and name not in writable:
                _add(found, folder, path)
                if name == ".git" and entry.is_dir(follow_symlinks=False):
                    _add_repository(found, folder, f"{path}/")
            elif name not in _NOT_ENTERED and name != ".git" and depth < deepest:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{path}/", depth + 1))
    return found


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
