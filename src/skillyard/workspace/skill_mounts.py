"""Where a session of a workspace sees the folders of skills, and what is mounted for that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.sandbox import ReadOnlyMount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillyard.catalog import Skill

_ALIASED: Final = "/skills"


def seen_folder(skill: Skill, own_paths: bool) -> str:
    """The folder of a skill as a session sees it: its location.

    Skills of organisations, which have no path of the machine, are below `/skills`, and with `own_paths` (under Landlock, which
    shows everything at its real path) where they really are.
    """
    if skill.root.alias is None:
        return skill.location
    return skill.directory if own_paths else f"{_ALIASED}/{skill.location.removeprefix('~/')}"


def skill_mounts(
    skills: Iterable[Skill], folder: str, own_paths: bool, *, pinned: Callable[[Skill], Skill] | None = None
) -> tuple[ReadOnlyMount, ...]:
    """The mounts that show skills to a session over `folder`, those whose folder is gone or holds that one left out.

    `pinned` gives the version of a skill that is used: its files are at its own folder, and where the skill itself would be,
    since a text that was given before the version was fixed names that.
    """
    mounts = []
    for skill in skills:
        used = pinned(skill) if pinned is not None else skill
        source = os.path.realpath(used.directory)
        if not Path(source).is_dir() or f"{folder}/".startswith(f"{source}/"):
            continue
        for target in dict.fromkeys((seen_folder(used, own_paths), seen_folder(skill, own_paths))):
            elsewhere = own_paths and os.path.realpath(target) != source
            if target.startswith("/") and not elsewhere:
                mounts.append(ReadOnlyMount(source, target))
    return tuple(mounts)
