"""Three-stage disclosure: how much of a skill is shown, by how surely it fits.

========== =============================================== ================================
stage      what is shown                                   confidence
========== =============================================== ================================
metadata   name and description                            below 0.15, or unknown
brief      and its parameters                              from 0.15
full       and its instructions                            from 0.7
========== =============================================== ================================

A preference of the session overrides that of the user, and that the confidence. Nothing is cached: a skill is
read each time, so that an edit is seen at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.text import sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill


Stage = Literal["metadata", "brief", "full"]
"""How much of a skill is shown."""

_BRIEF_FROM: Final = 0.15
_FULL_FROM: Final = 0.7
_DESCRIPTION: Final = 1024  # characters
_PARAMETERS: Final = 40
_PARAMETER: Final = 200  # characters of its description
_WORD: Final = 64  # characters of its name and of its type


def disclosure_stage(confidence: float, *, session: str | None = None, user: str | None = None) -> Stage:
    """The stage for a skill that fits with `confidence`; a preference of the session, else of the user, decides instead.

    Raises:
        InvalidInput: a preference that is no stage.
    """
    if (preferred := user if session is None else session) is not None:
        return _stage(preferred)
    if confidence >= _FULL_FROM:
        return "full"
    return "brief" if confidence >= _BRIEF_FROM else "metadata"


def describe_skill(skill: Skill, stage: Stage) -> str:
    """The text about `skill` at `stage`, without anything invisible; only the metadata of one that cannot be read.

    Raises:
        InvalidInput: no such stage.
    """
    lines = [f"{skill.label} ({skill.reference}): {shorten(single_line(skill.description), _DESCRIPTION)}"]
    if _stage(stage) == "metadata":
        return lines[0]
    try:
        document = skill.document()
    except (OSError, SkillyardError):
        return lines[0]
    if parameters := _parameters(document.metadata.input_schema):
        lines += ["Parameters:", *parameters]
    if stage == "full" and (body := sanitize(document.body).strip()):
        lines += ["", body]
    return "\n".join(lines)


def _stage(text: str) -> Stage:
    if text in get_args(Stage):
        return cast("Stage", text)
    raise InvalidInput(f"no disclosure stage {text!r}", hint=f"choose one of: {', '.join(get_args(Stage))}")


def _parameters(schema: Mapping[str, object] | None) -> list[str]:
    """One line for each parameter that the input schema names."""
    properties = (schema or {}).get("properties")
    required = (schema or {}).get("required")
    if not isinstance(properties, Mapping):
        return []
    needed = set(map(str, required)) if isinstance(required, list) else set()
    return [_parameter(str(name), declared, str(name) in needed) for name, declared in list(properties.items())[:_PARAMETERS]]


def _parameter(name: str, declared: object, needed: bool) -> str:
    details: Mapping[str, object] = declared if isinstance(declared, Mapping) else {}
    kind = shorten(single_line(str(details.get("type", "any"))), _WORD)
    description = shorten(single_line(str(details.get("description", ""))), _PARAMETER)
    line = f"- {shorten(single_line(name), _WORD)} ({kind}{', required' if needed else ''})"
    return f"{line}: {description}" if description else line
