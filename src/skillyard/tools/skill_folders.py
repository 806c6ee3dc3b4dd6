"""Where a session of a workspace sees the folders of skills, and what is mounted for that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillyard.catalog import Skill
    from skillyard.sandbox import ReadOnlyMount
    from skillyard.workspace import Workspace

_ALIASED: Final = "/skills"


def seen_folder(skill: Skill, workspace: Workspace | None) -> str:
    """The folder of a skill as a model is told it: where the session sees it, or without a workspace its location.

    That is the same but for organisations, whose skills have no path of the machine: bubblewrap shows them below `/skills`,
    Landlock can show nothing but at its own path.
    """
    if workspace is None or skill.root.alias is None:
        return skill.location
    if workspace.own_paths:
        return skill.directory
    return f"{_ALIASED}/{skill.location.removeprefix('~/')}"


def skill_mounts(
    skills: Iterable[Skill], workspace: Workspace, *, pinned: Callable[[Skill], Skill] | None = None
) -> tuple[ReadOnlyMount, ...]:
    """The mounts that show skills to a workspace, those whose folder is gone or holds the workspace itself left out.

    `pinned` gives the version of a skill that is used: its files are at its own folder, and where the skill itself would be,
    since a text that was given before the version was fixed names that.
    """
    from skillyard.sandbox import ReadOnlyMount  # only where there are sessions

    mounts = []
    for skill in skills:
        used = pinned(skill) if pinned is not None else skill
        source = os.path.realpath(used.directory)
        if not Path(source).is_dir() or f"{workspace.folder}/".startswith(f"{source}/"):
            continue
        for target in dict.fromkeys((seen_folder(used, workspace), seen_folder(skill, workspace))):
            elsewhere = workspace.own_paths and os.path.realpath(target) != source
            if target.startswith("/") and not elsewhere:
                mounts.append(ReadOnlyMount(source, target))
    return tuple(mounts)
