"""Which clients load a skill, under which name and description, and why one does not.

The rules are those of the clients' own documents and sources: what they require, what they cut, what they do to a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from skillyard.document import DESCRIPTION_LIMIT, DOCUMENT_LIMIT, NAME_LIMIT, is_name, parse_document, read_front_matter
from skillyard.document.spelling import SPEC_FIELDS
from skillyard.errors import InvalidInput
from skillyard.files import read_limited
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.document import Document


ClientName = Literal["claude", "codex", "gemini", "opencode", "api"]
CLIENTS: Final[tuple[ClientName, ...]] = get_args(ClientName)
_CLAUDE_SHOWN: Final = 1536  # characters of a description in Claude Code's listing
_TAG: Final = re.compile(r"<[^>]")
_RESERVED: Final = ("anthropic", "claude")
_UNSAFE: Final = re.compile(r'[:\\/<>*?"|]')


@dataclass(frozen=True, slots=True)
class ClientCompatibility:
    """What one client makes of a skill: the `name` and `description` it shows, `problems` that keep it out, and `notes`."""

    client: ClientName
    name: str
    description: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether the client offers the skill."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """The answer as plain data."""
        return {
            "client": self.client,
            "loads": self.loads,
            "name": self.name,
            "description": self.description,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class _Skill:
    """What the rules look at: the folder's name, the fields as a proper YAML reader sees them, and the document."""

    folder: str
    fields: Mapping[str, object]
    exact: bool
    document: Document

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""


def check_clients(
    folder: str | Path, clients: tuple[ClientName, ...] = CLIENTS, *, name: str | None = None
) -> tuple[ClientCompatibility, ...]:
    """What each of the clients makes of the skill in `folder`, when that is called `name` (absent: as it is called now).

    Raises:
        InvalidInput: there is no SKILL.md in it.
        FileTooLarge: it is longer than any SKILL.md may be.
    """
    place = Path(folder)
    place = place.parent if place.name == "SKILL.md" else place
    try:
        data = read_limited(place / "SKILL.md", DOCUMENT_LIMIT)
    except OSError as error:
        raise InvalidInput(f"{place}/SKILL.md cannot be read: {error.strerror}", hint="name the folder of a skill") from None
    front = read_front_matter(data)
    name = name or place.resolve().name
    skill = _Skill(name, front.texts, front.exact, parse_document(data, directory_name=name))
    return tuple(_RULES[client](skill) for client in clients)


def _claude(skill: _Skill) -> ClientCompatibility:
    """Claude Code: whatever its header; the folder names what has no name, the first paragraph describes (its skills.md)."""
    metadata, notes = skill.document.metadata, []
    if not skill.exact:
        notes.append("its front matter is not proper YAML: the text loads with no fields at all")
    description = metadata.description if skill.exact else ""
    if not description:
        description = next((line for line in skill.document.body.splitlines() if line.strip() and line[:1] != "#"), "")
        notes.append("it has no description: the first paragraph stands in for it")
    if len(description) > _CLAUDE_SHOWN:
        notes.append(f"the description is cut at {_CLAUDE_SHOWN} characters")
    if metadata.disable_model_invocation:
        notes.append("only the user can start it: disable-model-invocation")
    shown = skill.text("name") if skill.exact and skill.text("name") else skill.folder
    return ClientCompatibility("claude", shown, shorten(single_line(description), _CLAUDE_SHOWN), notes=tuple(notes))


def _codex(skill: _Skill) -> ClientCompatibility:
    """Codex: proper YAML, a description of at most 1,024 characters, a name of at most 64 (its core-skills loader)."""
    problems = _proper(skill) + _described(skill)
    name = skill.text("name") or skill.folder
    if len(name) > NAME_LIMIT:
        problems.append(f"the name has {len(name)} characters, at most {NAME_LIMIT} are allowed")
    return ClientCompatibility("codex", name, single_line(skill.text("description")), tuple(problems))


def _gemini(skill: _Skill) -> ClientCompatibility:
    """Gemini CLI: name and description, recovered line by line from improper YAML; a name is made safe for files."""
    metadata = skill.document.metadata
    problems = [f"it has no {name}" for name in ("name", "description") if not skill.text(name)]
    name = _UNSAFE.sub("-", skill.text("name") or skill.folder)
    notes = [] if name == (skill.text("name") or name) else ["characters of the name that no file may have became dashes"]
    if not skill.exact:
        notes.append("its front matter is not proper YAML: name and description are recovered line by line")
    return ClientCompatibility("gemini", name, single_line(metadata.description), tuple(problems), tuple(notes))


def _opencode(skill: _Skill) -> ClientCompatibility:
    """OpenCode: name and description; the name in small letters, digits and dashes, as the folder is called (its docs)."""
    problems = _proper(skill) + [f"it has no {name}" for name in ("name", "description") if not skill.text(name)]
    name = skill.text("name")
    if name and not is_name(name):
        problems.append("the name may have small letters, digits and single dashes only")
    elif name and name != skill.folder:
        problems.append(f"the name is not that of its folder, {skill.folder}")
    if len(skill.text("description")) > DESCRIPTION_LIMIT:
        problems.append(f"the description is over {DESCRIPTION_LIMIT} characters")
    return ClientCompatibility("opencode", name or skill.folder, single_line(skill.text("description")), tuple(problems))


def _api(skill: _Skill) -> ClientCompatibility:
    """The Skills API of Anthropic: the specification to the letter, no tags, no reserved words, folder and name the same."""
    name, description = skill.text("name"), skill.text("description")
    problems = _proper(skill) + _described(skill)
    if not name or not is_name(name):
        problems.append("the name may have small letters, digits and single dashes only, at most 64")
    elif name != skill.folder:
        problems.append(f"the name is not that of its folder, {skill.folder}")
    problems += [f"the name may not contain {word!r}" for word in _RESERVED if word in name.lower()]
    if _has_tag(name) or _has_tag(description):
        problems.append("name and description may not contain tags")
    unknown = sorted(skill.fields.keys() - SPEC_FIELDS)
    if unknown:
        problems.append(f"fields that the specification does not know: {', '.join(unknown[:8])}")
    return ClientCompatibility("api", name or skill.folder, single_line(description), tuple(problems))


def _proper(skill: _Skill) -> list[str]:
    return [] if skill.exact else ["its front matter is not proper YAML; `skillyard check --fix` fixes it"]


def _described(skill: _Skill) -> list[str]:
    description = skill.text("description")
    if not description:
        return ["it has no description"]
    over = len(description) - DESCRIPTION_LIMIT
    return [f"the description is {over} characters over {DESCRIPTION_LIMIT}"] if over > 0 else []


_RULES: Final[Mapping[ClientName, Callable[[_Skill], ClientCompatibility]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "api": _api,
}


def _has_tag(text: str) -> bool:
    """Whether there is a `<`, something and then a `>`."""
    opening = _TAG.search(text)
    return opening is not None and text.find(">", opening.end()) >= 0
