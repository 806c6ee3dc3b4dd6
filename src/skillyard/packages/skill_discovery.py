"""Finding the skills in a folder that was unpacked or fetched: in its root, or somewhere below."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.errors import NoSkillInside
from skillyard.paths import is_regular

_FILE: Final = "SKILL.md"
_NOT_SEARCHED: Final = frozenset((".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", "venv", "__MACOSX"))
_DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """One folder with a SKILL.md: where it is, its path from the searched folder (`.` for that itself), and what it says."""

    directory: Path
    path: str
    name: str
    skill_id: str
    description: str
    version: str | None = None


def find_skills(tree: str | os.PathLike[str]) -> tuple[FoundSkill, ...]:
    """Every skill in `tree`, by path; what lies below a skill belongs to it. Links are not followed.

    A SKILL.md that is a folder, a pipe or a link makes no skill.
    """
    root = Path(tree)
    return tuple(sorted((_read_skill(root, path) for path in _folders(root, "", 0)), key=lambda skill: skill.path))


def choose_skills(found: Sequence[FoundSkill], wanted: Sequence[str] = ()) -> tuple[FoundSkill, ...]:
    """Those of `found` that are named by name, id or path; all of them when none is named.

    Raises:
        NoSkillInside: there is none at all, or none of a name that is wanted.
    """
    if not found:
        raise NoSkillInside(
            "there is no skill in it: no folder has a file SKILL.md", hint="a skill is a folder with a SKILL.md"
        )
    chosen: dict[str, FoundSkill] = {}
    for name in wanted:
        fitting = [skill for skill in found if name.strip("/") in (skill.name, skill.skill_id, skill.path)]
        if not fitting:
            names = sorted(skill.name for skill in found)
            few = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise NoSkillInside(f"there is no skill {name!r} in it", hint=f"there are {few}", candidates=names)
        chosen |= {skill.path: skill for skill in fitting}
    return tuple(chosen.values()) if wanted else tuple(found)


def _folders(root: Path, prefix: str, depth: int) -> Iterator[str]:
    if is_regular(root / prefix / _FILE):
        yield prefix.rstrip("/") or "."
        return
    if depth == _DEPTH:
        return
    with os.scandir(root / prefix) as entries:
        below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_SEARCHED]
    for name in sorted(below):
        yield from _folders(root, f"{prefix}{name}/", depth + 1)


def _read_skill(root: Path, path: str) -> FoundSkill:
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    folder = root if path == "." else root / path
    document = parse_document(read_inside(folder, _FILE, limit=16 * DOCUMENT_LIMIT), directory_name=folder.name)
    metadata = document.metadata
    return FoundSkill(folder, path, metadata.name, document.skill_id, metadata.description, metadata.version)
