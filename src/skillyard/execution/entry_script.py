"""Which script of a skill runs: the declared one, a conventional one, or the only one.

Code inside SKILL.md is never run: the entry is always a file of the skill.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from skillyard.document import CODE_LANGUAGES
from skillyard.errors import FileMissing, NotExecutable
from skillyard.paths import safe_relative

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Document


_NAMES: Final = ("execute", "main", "index", "run")
ENDINGS: Final = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".mts")


def find_entry(skill: Skill, document: Document, asked: str | None = None) -> str:
    """The script to run, as a path relative to the skill.

    In this order: the one asked for, `resources.entry`, `scripts/{execute,main,index,run}` with an ending that can run, the
    only script in `scripts/`.

    Raises:
        NotExecutable: there is none, or more than one and no rule to choose.
        PathRefused: the path asked for or declared leaves the skill.
        FileMissing: the script asked for or declared is not there.
    """
    if asked is not None:
        return _existing(skill, _meant(skill, asked), "there is no script {path!r} in the skill")
    if document.metadata.resources.entry:
        return _existing(skill, document.metadata.resources.entry, "the declared entry {path!r} is not in the skill")
    if found := conventional_entry(skill.directory):
        return found
    raise _nothing_to_run(skill, document)


def conventional_entry(directory: str) -> str | None:
    """The script that runs when none is declared, `None` when there is none or several could be meant."""
    scripts = Path(directory, "scripts")
    for name in _NAMES:
        for ending in ENDINGS:
            if (scripts / f"{name}{ending}").is_file():
                return f"scripts/{name}{ending}"
    alone = _scripts(directory)
    return alone[0] if len(alone) == 1 else None


def _scripts(directory: str) -> list[str]:
    try:
        names = sorted(item.name for item in Path(directory, "scripts").iterdir() if item.is_file())
    except OSError:
        return []
    return [f"scripts/{name}" for name in names if PurePosixPath(name).suffix.lower() in ENDINGS and name != "__init__.py"]


def _meant(skill: Skill, asked: str) -> str:
    """The script meant by a path: itself when it is there, else the only one of that name, with or without its ending."""
    if Path(skill.directory, safe_relative(asked)).is_file():
        return asked
    name = PurePosixPath(asked).name
    found = [path for path in _scripts(skill.directory) if name in (PurePosixPath(path).name, PurePosixPath(path).stem)]
    return found[0] if len(found) == 1 else asked


def _existing(skill: Skill, path: str, message: str) -> str:
    relative = safe_relative(path)
    if not Path(skill.directory, relative).is_file():
        raise FileMissing(message.format(path=relative), hint=_known(skill), candidates=_scripts(skill.directory))
    return relative


def _known(skill: Skill) -> str:
    scripts = _scripts(skill.directory)
    return f"its scripts: {', '.join(scripts[:10])}" if scripts else "the skill has no scripts"


def _nothing_to_run(skill: Skill, document: Document) -> NotExecutable:
    scripts = _scripts(skill.directory)
    if scripts:
        hint = f"declare resources.entry, or name one of: {', '.join(scripts[:10])}"
        return NotExecutable("the skill has several scripts and declares no entry", hint=hint, candidates=scripts)
    if any(block.language in CODE_LANGUAGES for block in document.code_blocks):
        hint = (
            "`skillyard migrate --skill-dir FOLDER` moves code that is meant to run to scripts/; else follow its instructions"
        )
        return NotExecutable("the skill's code is inside SKILL.md, which is never run", hint=hint)
    return NotExecutable("the skill has no script to run", hint="follow its instructions instead, or add scripts/execute.py")
