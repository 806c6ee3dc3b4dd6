"""Make a skill folder, open one on the desktop, and delete one, without touching anything else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from skillyard.document import DESCRIPTION_LIMIT, NAME_LIMIT, is_name, new_document
from skillyard.errors import DeleteRefused, InvalidInput, SkillExists
from skillyard.paths import real_path

if TYPE_CHECKING:
    from skillyard.catalog.skill import Skill


def create_folder(root: str, name: str, description: str, instructions: str, *, source: str) -> str:
    """Write `root/name/SKILL.md` and return the folder; the root is created when it does not exist.

    Raises:
        InvalidInput: the name or description breaks the rule.
        SkillExists: there is something of that name already; it is left as it is.
    """
    _check(name, description)
    text = new_document(name, description.strip(), instructions)
    folder = f"{root}/{name}"
    os.makedirs(root, exist_ok=True)
    try:
        os.mkdir(folder)
    except FileExistsError:
        raise SkillExists(
            f'Skill "{name}" already exists in {source} skills', hint=f"choose another name, or see {folder}"
        ) from None
    with open(f"{folder}/SKILL.md", "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return folder


def _check(name: str, description: str) -> None:
    if not is_name(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of a skill",
            hint=f"use lower-case letters, digits and single hyphens, at most {NAME_LIMIT}: for example report-writer",
        )
    if not 1 <= len(description.strip()) <= DESCRIPTION_LIMIT:
        raise InvalidInput(
            f"a description has 1 to {DESCRIPTION_LIMIT} characters, this one has {len(description.strip())}",
            hint="say what the skill does and when to use it",
        )


def delete_folder(skill: Skill) -> None:
    """Delete the folder a user's skill was found in (the stored one, never one computed from the id).

    Raises:
        DeleteRefused: not a user skill, reached through a link, or not a folder of its own below its root.
    """
    directory, root = skill.directory, skill.root.path
    if skill.source != "user":
        way = (
            f"`skillyard uninstall {skill.slug}`"
            if skill.source == "installed"
            else f"if you are sure, delete {skill.location} yourself"
        )
        raise DeleteRefused("Can only delete user skills", hint=way, id=skill.id)
    below = directory[len(root.rstrip("/")) + 1 :]
    if not below or real_path(directory) != f"{real_path(root).rstrip('/')}/{below}":
        raise DeleteRefused(
            f"{skill.location} is reached through a link or is the root itself",
            hint="remove the link, or delete the folder it leads to, by hand",
            id=skill.id,
        )
    if not os.path.lexists(skill.path):
        raise DeleteRefused(f"{skill.location} holds no SKILL.md any more", hint="refresh the catalog", id=skill.id)
    import shutil

    shutil.rmtree(directory)


def has_desktop() -> bool:
    """Whether there is a desktop here with a program that shows folders."""
    return _opener() is not None


def open_folder(folder: str) -> bool:
    """Start the desktop's own opener, which goes on by itself; False where there is no desktop."""
    import subprocess

    program = _opener()
    if program is None:
        return False
    quiet = subprocess.DEVNULL
    subprocess.Popen([program, folder], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)  # noqa: S603
    return True


def _opener() -> str | None:
    import shutil
    import sys

    mac = sys.platform == "darwin"
    desktop = mac or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return shutil.which("open" if mac else "xdg-open") if desktop else None
