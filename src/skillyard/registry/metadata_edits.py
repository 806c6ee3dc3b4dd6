"""Metadata that a person sets for an installed skill in place of its SKILL.md: category, tags, author, addresses, icon.

Edits are kept in the database and never written into the folder, so content, digest and signature stay what they are; they
outlive new versions. Name, description and instructions can only be set by the SKILL.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from skillyard.errors import InvalidInput
from skillyard.text import single_line

EditValue = str | tuple[str, ...] | None
"""What a field is edited to; None takes the edit back, and the SKILL.md speaks again."""

EDITABLE: Final = ("category", "tags", "author", "homepage_url", "documentation_url", "icon_url")
_WORDS: Final = 200
_TAGS: Final = 50
_ADDRESS: Final = 2000


def check_edits(edits: Mapping[str, EditValue]) -> dict[str, str | list[str] | None]:
    """The edits as they are kept.

    Raises:
        InvalidInput: a field cannot be edited, or cannot be meant so.
    """
    return {name: _checked(name, value) for name, value in edits.items()}


def _checked(name: str, value: EditValue) -> str | list[str] | None:
    if name not in EDITABLE:
        raise InvalidInput(f"{name} cannot be edited", hint=f"only {', '.join(EDITABLE)}: all else its SKILL.md says")
    if value is None:
        return None
    if name == "tags":
        return _tags(value)
    if not isinstance(value, str):
        raise InvalidInput(f"the {_field_label(name)} is no text", hint="give one line of text")
    if name.endswith("_url") and value:
        return _address(name, value)
    return _line(name, value)


def _tags(value: Collection[str]) -> list[str]:
    if isinstance(value, str) or len(value) > _TAGS:
        raise InvalidInput("tags are a list of at most fifty", hint="leave some out")
    lines = (_line("tags", tag) for tag in value)
    return list(dict.fromkeys(line for line in lines if line))


def _line(name: str, value: str) -> str:
    line = single_line(value).strip()
    if len(line) > _WORDS:
        raise InvalidInput(f"{_field_label(name)}: over {_WORDS} characters", hint="shorten it")
    return line


def _address(name: str, value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if len(value) > _ADDRESS or not value.isprintable() or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"the {_field_label(name)} is no address of a page", hint="as in https://example.org/skill")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            f"the {_field_label(name)} holds a user's name or password", hint="leave it out: all see the address"
        )
    return value


def _field_label(name: str) -> str:
    return name.removesuffix("_url").replace("_", " ")
