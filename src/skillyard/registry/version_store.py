"""The folder of installed skills: `{root}/{skill_id}/{version}/`, read-only, and a link `current` that is switched atomically.

File locks decide who may change a skill: one file for each skill in `.locks`, released by the kernel when its holder dies. The
same holds for a version that somebody reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skillyard.errors import InstallProblem, InvalidInput, VersionUnusable
from skillyard.files import delete_tree, lock_file, sync_folder
from skillyard.paths import CLOEXEC, DIRECTORY, NOFOLLOW

CURRENT: Final = "current"
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC


class VersionStore:
    """The versions of all skills below `root`; every name is checked before it becomes a path."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 # links stay as they were written

    def home(self, skill_id: str) -> Path:
        """The folder of one skill. Raises InvalidInput: the id is no storage name, for example `../../etc`."""
        if not _ID.fullmatch(skill_id):
            raise InvalidInput(f"{skill_id[:100]!r} cannot be the id of a skill", hint="as `skillyard list` shows it: pdf")
        return self.root / skill_id

    def path(self, skill_id: str, version: str) -> Path:
        """The folder of one version. Raises InvalidInput: a name cannot be one."""
        if not _VERSION.fullmatch(version) or version == CURRENT:
            raise InvalidInput(f"{version[:100]!r} cannot be a version", hint="`skillyard versions NAME` lists them")
        return self.home(skill_id) / version

    def skills(self) -> list[str]:
        """The ids that have a folder, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if _ID.fullmatch(entry.name) and entry.is_dir())

    def names(self, skill_id: str) -> list[str]:
        """The versions of a skill that are on the disk, the oldest first."""
        home = self.home(skill_id)
        if not home.is_dir():
            return []
        names = (entry.name for entry in home.iterdir() if entry.is_dir() and not entry.is_symlink())
        return sorted((name for name in names if _VERSION.fullmatch(name) and name != CURRENT), key=_version_sort_key)

    def current(self, skill_id: str) -> str | None:
        """The current version, or None."""
        try:
            name = (self.home(skill_id) / CURRENT).readlink().name
        except OSError:
            return None
        return name if _VERSION.fullmatch(name) and self.path(skill_id, name).is_dir() else None

    def free_name(self, skill_id: str, taken: set[str], moment: datetime | None = None) -> str:
        """A name for a version: the UTC time `YYYYMMDD-HHmmss`, with `-2`… when it is taken.

        It is the time now, or the `moment` at which a version was installed that comes from elsewhere.
        """
        stem = (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%d-%H%M%S")
        name, number = stem, 1
        while name in taken or self.path(skill_id, name).exists():
            number += 1
            name = f"{stem}-{number}"
        return name

    def locked(self, skill_id: str) -> contextlib.AbstractContextManager[None]:
        """Keep every other process and thread from changing this skill; waits for its turn."""
        return lock_file(ensure_real_folder(self.root / ".locks", 0o700) / self.home(skill_id).name)

    def place(self, tree: Path, skill_id: str, version: str) -> Path:
        """Move a finished tree, which has reached the disk, to its path, with the usual modes.

        Raises:
            VersionUnusable: there is such a version already.
            InstallProblem: a link stands where the versions of the skill belong.
        """
        target = self.path(skill_id, version)
        ensure_real_folder(target.parent, 0o755)
        if target.exists():
            raise VersionUnusable(f"{skill_id} {version} already exists", hint="install again")
        set_usual_modes(tree)
        tree.rename(target)
        sync_folder(target.parent)
        sync_folder(self.root)
        return target

    def activate(self, skill_id: str, version: str, scratch: Path) -> None:
        """Make `version` current: a link is made in `scratch` and moved over `current`, so that readers see the old or the new.

        Raises:
            VersionUnusable: there is no such version on the disk.
        """
        if not self.path(skill_id, version).is_dir():
            raise VersionUnusable(f"the files of {skill_id} {version} were removed", hint="install it again from its source")
        link = scratch / f"{skill_id}.link"
        link.unlink(missing_ok=True)
        link.symlink_to(version)
        link.replace(self.home(skill_id) / CURRENT)
        sync_folder(self.home(skill_id))

    def deactivate(self, skill_id: str) -> None:
        """Remove the link to the current version; all versions stay on the disk."""
        with contextlib.suppress(FileNotFoundError):
            (self.home(skill_id) / CURRENT).unlink()
            sync_folder(self.home(skill_id))

    def remove(self, skill_id: str, version: str, scratch: Path) -> bool:
        """Delete the files of a version that is not current; False when it is being read, or does not exist.

        It is moved away in one step, so that nobody ever sees a part of it.
        """
        import fcntl  # not on every platform

        path = self.path(skill_id, version)
        if self.current(skill_id) == version:
            return False
        try:
            descriptor = os.open(path, _FOLDER)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.chmod(0o755)
            grave = scratch / f"{skill_id}-{version}"
            path.rename(grave)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        delete_tree(grave)
        with contextlib.suppress(OSError):  # the last one
            self.home(skill_id).rmdir()
        return True


def ensure_real_folder(path: Path, mode: int) -> Path:
    """A folder that is there afterwards and is no link, whatever somebody planted.

    Raises:
        InstallProblem: there is a link or a file at its path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode)
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise InstallProblem(f"{path} is not a folder, or is a link to one", hint="check who put it there, and remove it")
    return path


def set_usual_modes(tree: Path) -> None:
    """Let everybody read everything in the tree, and only its owner write; what its owner may execute everybody may.

    The sandbox keeps whoever follows a skill from writing to it. The modes do not, because what is copied from a skill has the
    same, and a template that was copied is there to be written to.
    """
    for folder, names, files in os.walk(tree):
        for name in names:
            if not (path := Path(folder, name)).is_symlink():
                path.chmod(0o755)
        for name in files:
            if not (path := Path(folder, name)).is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
    tree.chmod(0o755)


def _version_sort_key(name: str) -> tuple[str, int, str]:
    """The time in a version's name, then the number behind it: `…-10` comes after `…-2`."""
    stem, _, number = name[:15], name[15:16], name[16:]
    return (stem, int(number), "") if number.isdecimal() and number.isascii() else (stem, 0 if not number else 1, name)
