"""The text a model gets when it loads a skill.

The shape (row 001-16), with everything the skill itself wrote inside one fence::

    # Skill: pdf

    <skill_text nonce="5f0c2e9a41d7b386" skill="pdf" source="project">
    What the description says.

    ---

    The instructions, with {baseDir}, ${CLAUDE_SKILL_DIR} and ${SKILL_DIR} replaced by the skill's folder.
    </skill_text nonce="5f0c2e9a41d7b386">

    ---

    Skill directory: /home/me/.claude/skills/pdf
    Additional files:
    - reference.md
    - scripts/fill.py

    Allowed tools: Read, Bash(python:*). Follow this constraint when possible.

    Follow the instructions above to complete the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillyard.text import single_line
from skillyard.tools.fence import fence

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["FILES_SHOWN", "fingerprint", "render_skill", "substitute"]

FILES_SHOWN: Final = 100
_FOLDER_NAMES: Final = ("{baseDir}", "${CLAUDE_SKILL_DIR}", "${SKILL_DIR}")
_CLOSING: Final = "Follow the instructions above to complete the task."


def render_skill(skill: Skill, body: str, files: Sequence[str], *, hint: str = "") -> str:
    """The whole answer for one loaded skill; `files` are its other files, `hint` a line about the tools it asks for."""
    written = f"{skill.description.strip()}\n\n---\n\n{substitute(body, skill.location).strip()}"
    parts = [
        f"# Skill: {single_line(skill.name)}",
        fence("skill_text", written, skill=skill.name, source=skill.source),
        "---",
        _frame(skill.location, files),
        *([hint] if hint else []),
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


def _frame(directory: str, files: Sequence[str]) -> str:
    lines = [f"Skill directory: {single_line(directory)}"]
    if files:
        lines.append("Additional files:")
        lines += [f"- {single_line(name)}" for name in files[:FILES_SHOWN]]
    if len(files) > FILES_SHOWN:
        lines.append(f"- … and {len(files) - FILES_SHOWN} more")
    return "\n".join(lines)
