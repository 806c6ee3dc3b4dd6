"""Programs of this machine that a run may use: found where only their owners can put them, and made reachable for the run."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from skillyard.sandbox.identity import can_reach

_SYSTEM_FOLDERS: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_SHARED: Final = "/var/cache/skillyard/programs"  # of root, for the users that root's runs are given
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_PATIENCE: Final = 5  # seconds for a program to tell its version


def on_trusted_path(name: str) -> Iterator[str]:
    """The programs called `name`: those of the system first, then along `PATH`.

    Of `PATH` only absolute folders count that belong to root or to this user and that nobody else may write to.
    """
    given = os.environ.get("PATH", "").split(os.pathsep)
    for folder in dict.fromkeys((*_SYSTEM_FOLDERS, *filter(_is_trusted, given))):
        path = f"{folder}/{name}"
        if Path(path).is_file() and os.access(path, os.X_OK):
            yield path


def _is_trusted(folder: str) -> bool:
    if not folder.startswith("/"):
        return False
    try:
        state = Path(folder).stat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid in (0, os.geteuid()) and not state.st_mode & _OTHERS_WRITE


def is_binary(path: str) -> bool:
    """Whether the file is a machine's program and not a script that would need another one."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def is_system(path: str) -> bool:
    """Whether every sandbox has this path anyway."""
    return path in ("/", "/usr") or path.startswith("/usr/")


def version_of(path: str) -> tuple[int, ...]:
    """What the program says to `--version`, for example `(24, 19, 0)`; `()` when it does not answer."""
    with contextlib.suppress(OSError):
        state = Path(path).stat()
        return _version(path, state.st_mtime_ns, state.st_size)
    return ()


@lru_cache(maxsize=32)
def _version(path: str, changed: int, size: int) -> tuple[int, ...]:
    import subprocess  # only where a skill in another language is to run

    try:
        answer = subprocess.run([path, "--version"], capture_output=True, env={}, cwd="/", timeout=_PATIENCE, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(rb"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", answer.stdout)
    return tuple(int(part) for part in match.groups()) if match else ()


def reachable(path: str, *, as_other: bool) -> str | None:
    """A path of the same program that the run can open; `None` when there can be none.

    What lies in a private home gets a second name in a folder of root's own (a copy on another file system).
    """
    real = os.path.realpath(path)
    if can_reach(real, as_other=as_other):
        return real
    return _shared(real) if as_other else None


def _shared(real: str) -> str | None:
    try:
        state = Path(real).stat()
        target = Path(_SHARED, f"{state.st_dev:x}-{state.st_ino:x}-{state.st_mtime_ns:x}-{state.st_size:x}", Path(real).name)
        if not target.exists():
            _share(real, target)
    except OSError:
        return None
    return str(target) if can_reach(str(target), as_other=True) else None


def _share(real: str, target: Path) -> None:
    """Make `target` whole or not at all, whoever else is doing the same."""
    import shutil
    import tempfile

    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in (target.parent, *target.parent.parents[:2]):
        folder.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        fresh = Path(temporary, target.name)
        try:
            os.link(real, fresh)
        except OSError:
            shutil.copyfile(real, fresh)
            fresh.chmod(0o755)
        fresh.replace(target)
