"""Where a session of a workspace sees the folders of skills, and what is mounted for that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.sandbox import ReadOnlyMount

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def skill_mounts(skills: Iterable[Skill], folder: str, own_paths: bool) -> tuple[ReadOnlyMount, ...]:
    """The mounts that show skills to a session over `folder`, those whose folder is gone or holds that one left out."""
    mounts = []
    for skill in skills:
        source, target = os.path.realpath(skill.directory), seen_folder(skill, own_paths)
        holds = f"{folder}/".startswith(f"{source}/")
        elsewhere = own_paths and os.path.realpath(target) != source
        if Path(source).is_dir() and target.startswith("/") and not holds and not elsewhere:
            mounts.append(ReadOnlyMount(source, target))
    return tuple(mounts)
