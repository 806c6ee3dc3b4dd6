"""What an index says of a skill, read from the skill and made safe.

Everything here was written by strangers: it loses invisible and control characters and line breaks, and gets a limit, before
any style sees it. A name that could be mistaken, because it is not unique or more than plain words of 64 characters, gives way
to the skill's id, which every tool accepts as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillyardError
from skillyard.prompt.tokens import cut, quarters
from skillyard.text import is_label, sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["ShownSkill", "labels"]

RAW_LIMIT: Final = 16 * 1024  # characters of a description looked at; the Agent Skills specification allows 1024
FIELD_LIMIT: Final = 1024  # characters of any one field shown, whatever the caller allows
LABEL_COST: Final = 120  # quarter tokens of a name or id
FILE_LIMIT: Final = 200  # characters of the name of one file
FOLDER_LIMIT: Final = 1024  # characters of the path of a skill's folder


@dataclass(frozen=True, slots=True)
class ShownSkill:
    """A skill with the label it goes by and the limits of this index."""

    skill: Skill
    label: str
    description_chars: int | None

    @property
    def folder(self) -> str:
        """The skill's folder on one line, ending in a slash."""
        return shorten(single_line(self.skill.location), FOLDER_LIMIT).rstrip("/") + "/"

    def description(self) -> tuple[str, bool]:
        """The description on one line, cut to the limit, and whether it is whole."""
        whole = single_line(self.skill.description[:RAW_LIMIT])
        limit = FIELD_LIMIT if self.description_chars is None else min(self.description_chars, FIELD_LIMIT)
        short = shorten(whole, limit)
        return short, short == whole and len(self.skill.description) <= RAW_LIMIT

    def body(self) -> str:
        """The instructions, trimmed, with their lines but without invisible characters; empty when they cannot be read."""
        try:
            return sanitize(self.skill.document().body).strip()
        except (OSError, SkillyardError):
            return ""

    def top_files(self) -> tuple[str, ...]:
        """`SKILL.md`, the files beside it, then the folders with a slash: `SKILL.md, script.py, templates/`."""
        try:
            names = [_file(file.name) for file in self.skill.files()]
        except (OSError, SkillyardError):
            names = []
        beside = [name for name in names if "/" not in name]
        folders = [f"{name.partition('/')[0]}/" for name in names if "/" in name]
        return tuple(dict.fromkeys(["SKILL.md", *beside, *folders]))

    def classed_files(self) -> tuple[str, ...]:
        """`SKILL.md`, references, scripts and templates; several in one folder as `scripts/(8个脚本)` (row 003-8)."""
        try:
            found = self.skill.inventory()
        except (OSError, SkillyardError):
            return ("SKILL.md",)
        return (
            "SKILL.md",
            *_grouped(found.reference_files, "个文件"),
            *_grouped(found.script_files, "个脚本"),
            *_grouped(found.template_files, "个文件"),
        )


def _grouped(paths: Sequence[str], unit: str) -> list[str]:
    """Files of the top folder by name, the files of any other folder as one count, or by path when there is only one."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, slash, _ = path.partition("/")
        folders.setdefault(f"{folder}/" if slash else path, []).append(path)
    parts = [inside[0] if len(inside) == 1 else f"{folder}({len(inside)}{unit})" for folder, inside in folders.items()]
    return [_file(part) for part in parts]


def _file(name: str) -> str:
    return shorten(single_line(name), FILE_LIMIT)


def labels(skills: Sequence[Skill]) -> list[str]:
    """The word each skill goes by: its name when that is plain and unique among `skills`, else its id."""
    uses = Counter(skill.name for skill in skills)
    return [skill.name if uses[skill.name] == 1 and _is_plain(skill.name) else _clean(skill.reference) for skill in skills]


def _is_plain(name: str) -> bool:
    return quarters(name) <= LABEL_COST and is_label(name)


def _clean(reference: str) -> str:
    return cut(single_line(reference), LABEL_COST)
