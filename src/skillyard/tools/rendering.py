"""The text a model gets when it loads a skill.

The shape (row 001-16), with everything the skill itself wrote inside one fence, the names of its files and the tools it asks
for among it::

    # Skill: pdf

    <skill_text nonce="5f0c2e9a41d7b386" skill="pdf" source="project">
    What the description says.

    ---

    The instructions, with {baseDir}, ${CLAUDE_SKILL_DIR} and ${SKILL_DIR} replaced by the skill's folder.

    ---

    Additional files:
    - reference.md
    - scripts/fill.py

    Allowed tools: Read, Bash(python:*)
    </skill_text nonce="5f0c2e9a41d7b386">

    ---

    Skill directory: /home/me/.claude/skills/pdf
    Follow the list of allowed tools when possible.

    Follow the instructions above to complete the task.

The folder stands inside too when its name is more than a plain word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillyard.prompt.fence import fence
from skillyard.text import is_label, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.permissions import AllowedTools

__all__ = ["FILES_SHOWN", "fingerprint", "render_skill", "substitute"]

FILES_SHOWN: Final = 100
_FILE_NAME: Final = 200  # characters of one name in the list
_FOLDER_NAMES: Final = ("{baseDir}", "${CLAUDE_SKILL_DIR}", "${SKILL_DIR}")
_CLOSING: Final = "Follow the instructions above to complete the task."


def render_skill(skill: Skill, body: str, files: Sequence[str], *, tools: AllowedTools | None = None) -> str:
    """The whole answer for one loaded skill; `files` are its other files, `tools` those it asks for, where it is to be said."""
    listed = tools.listed() if tools is not None else ""
    plain_folder = _has_plain_folder(skill)
    about = [
        *([] if plain_folder else [_folder_line(skill)]),
        *([_file_list(files)] if files else []),
        *([f"Allowed tools: {listed}"] if listed else []),
    ]
    written = [skill.description.strip(), "---", substitute(body, skill.location).strip(), *(["---", *about] if about else [])]
    frame = [
        *([_folder_line(skill)] if plain_folder else []),
        *([tools.advice()] if tools is not None and listed else []),
    ]
    parts = [
        f"# Skill: {skill.label}",
        fence("skill_text", "\n\n".join(written), skill=skill.label, source=skill.source),
        "---",
        *(["\n".join(frame)] if frame else []),
        _CLOSING,
    ]
    return "\n\n".join(parts)


def substitute(text: str, directory: str) -> str:
    """`text` with the placeholders for the skill's folder filled in (row 001-16)."""
    for name in _FOLDER_NAMES:
        text = text.replace(name, directory)
    return text


def fingerprint(skill: Skill, body: str, files: Sequence[str]) -> str:
    """What changes when the answer for a skill changes: its description, body, folder or file list."""
    framed = "\0".join([skill.description, body, skill.location, *files])
    return hashlib.sha256(framed.encode("utf-8", "surrogatepass")).hexdigest()


def _has_plain_folder(skill: Skill) -> bool:
    """Whether everything below the root, which a stranger may have named, is a plain word."""
    below = skill.location.removeprefix(skill.root.location.rstrip("/"))
    return all(is_label(part.lstrip(".")) for part in below.split("/") if part)


def _folder_line(skill: Skill) -> str:
    return f"Skill directory: {single_line(skill.location)}"


def _file_list(files: Sequence[str]) -> str:
    lines = ["Additional files:", *(f"- {shorten(single_line(name), _FILE_NAME)}" for name in files[:FILES_SHOWN])]
    if len(files) > FILES_SHOWN:
        lines.append(f"- … and {len(files) - FILES_SHOWN} more")
    return "\n".join(lines)
