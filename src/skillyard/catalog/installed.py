"""Installed skills: keep the version in use from being removed, and read one skill from a folder that no root leads to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from skillyard.catalog.records import Root
from skillyard.catalog.skill import Skill
from skillyard.errors import SkillNotFound
from skillyard.open_flags import CLOEXEC, DIRECTORY, HAS_FOLDER_DESCRIPTORS, NOFOLLOW

if TYPE_CHECKING:
    from pathlib import Path


_CURRENT: Final = "/current"
_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_TRIES: Final = 20


@contextlib.contextmanager
def pinned(skill: Skill) -> Iterator[Skill]:
    """The skill in the folder of its version instead of behind the link `current`; that folder is not deleted meanwhile.

    A skill that was not installed is returned unchanged.
    """
    if skill.source != "installed" or not HAS_FOLDER_DESCRIPTORS:
        yield skill
        return
    if not skill.directory.endswith(_CURRENT):
        with _held_as_it_is(skill.directory):
            yield skill
        return
    descriptor, name = _held(skill.directory)
    try:
        home = skill.directory[len(skill.root.path.rstrip("/")) + 1 : -len(_CURRENT)]
        yield skill.located(f"{home}/{name}") if name else skill
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def _held_as_it_is(folder: str) -> Iterator[None]:
    """Keep a folder from being deleted; one that is about to be deleted is not waited for."""
    import fcntl

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, _FOLDER)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


def _held(link: str) -> tuple[int | None, str | None]:
    """The folder behind the link, open and locked against being deleted, and its name; nothing when it is no such link."""
    import fcntl  # only for who uses an installed skill

    for _ in range(_TRIES):
        try:
            name = os.readlink(link)
            if "/" in name:
                return None, None
            descriptor = os.open(f"{link[: -len(_CURRENT)]}/{name}", _FOLDER)
        except FileNotFoundError:
            continue  # it was replaced and deleted in between
        except OSError:
            return None, None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)  # it is about to be deleted
            continue
        return descriptor, name
    return None, None


def read_skill_folder(folder: Path, skill_id: str) -> Skill:
    """The skill in `folder` under the id `skill_id`, as if it had been installed there.

    Raises:
        SkillNotFound: there is no SKILL.md that can be read.
    """
    from skillyard.catalog.summaries import find_and_read

    (read,) = find_and_read(str(folder.parent), [folder.name], "standard")
    if read is None:
        raise SkillNotFound(f"there is no skill in {folder}", hint="delete the folder: it is fetched again")
    stamp, facts = read
    problem = facts[1]
    root = Root(str(folder.parent), "installed")
    return Skill((skill_id, "broken" if problem else "ok", problem, 0, stamp, facts), root, "standard")
