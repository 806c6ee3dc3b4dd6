"""The tools that load a skill: `skill` (document 001) and `skills_load` (document 004)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillyard.errors import SkillyardError
from skillyard.paths import relative_to
from skillyard.permissions import AllowedTools, unusable
from skillyard.prompt import build_index
from skillyard.text import shorten, single_line
from skillyard.tools.arguments import Parameter
from skillyard.tools.definition import ToolDefinition
from skillyard.tools.rendering import fingerprint, render_skill
from skillyard.tools.result import ToolResult, as_json, failure
from skillyard.tools.tool import Caller, Tool, ToolContext, about, any_skill, names_of, refusal

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Document
    from skillyard.permissions import Consent
    from skillyard.tools.arguments import Arguments

__all__ = ["SKILL", "SKILLS_LOAD"]

_DESCRIPTION_BUDGET = 2000
_ERROR = 1000  # characters of an error


def _define_skill(context: ToolContext) -> ToolDefinition:
    skills = context.access.offered()
    words = context.wording
    wanted = Parameter("skill", "string", words.skill_skill, required=True, choices=names_of(skills), aliases=("name",))
    force = Parameter("force", "boolean", words.skill_force)
    listed = build_index(skills, style="tool", budget=_DESCRIPTION_BUDGET).text.strip()
    return ToolDefinition(
        "skill", "Skill", f"{words.skill}\n\n{listed}", (wanted, force) if context.repeat == "note" else (wanted,)
    )


async def _skill(context: ToolContext, arguments: Arguments, caller: Caller) -> ToolResult:
    skill = context.access.find(arguments.text("skill"))
    consent = await context.approve(skill, caller)
    document, files = await asyncio.to_thread(_read, context, skill, consent)
    mark = fingerprint(skill, document.body, files)
    data = {
        "skillId": skill.id,
        "skillName": skill.label,
        "skillSource": skill.source,
        "permission": consent.permission,
        "directory": skill.location,
        "files": list(files),
        "fingerprint": mark,
    }
    title = f"Loaded skill: {skill.label}"
    if context.repeat == "note" and caller.session.has(skill.id, mark) and not arguments.flag("force", False):
        return ToolResult(_already(skill), title=title, data=data | {"repeated": True})
    caller.session.remember(skill.id, skill.allowed_tools, mark)
    text = render_skill(skill, document.body, files, tools=AllowedTools(skill.allowed_tools, mode=context.allowed_tools))
    return ToolResult(text, title=title, data=data)


def _read(context: ToolContext, skill: Skill, consent: Consent) -> tuple[Document, tuple[str, ...]]:
    document = skill.document()
    context.access.confirm(skill, consent)
    if not document.usable:  # changed since it was listed, or broken behind the part that a list reads
        reason = "; ".join(d.message for d in document.diagnostics if d.severity == "error")
        raise unusable(skill, "broken", reason)
    return document, tuple(file.name for file in skill.files())


def _already(skill: Skill) -> str:
    return (
        f"The skill {skill.label!r} is already loaded in this conversation and has not changed. "
        "Follow its instructions above. Call again with force: true when you no longer have them."
    )


def _define_skills_load(context: ToolContext) -> ToolDefinition:
    name = Parameter("name", "string", context.wording.skills_load_name, required=True, aliases=("skill", "id"))
    return ToolDefinition("skills_load", "Load skill", context.wording.skills_load, (name,))


async def _skills_load(context: ToolContext, arguments: Arguments, caller: Caller) -> ToolResult:
    skill = context.access.find(arguments.text("name"))
    consent = await context.approve(skill, caller)
    document, _ = await asyncio.to_thread(_read, context, skill, consent)
    caller.session.remember(skill.id, skill.allowed_tools)
    data: dict[str, object] = {"success": True, "skill": _described(skill, context), "content": document.text}
    return ToolResult(as_json(data), title=f"Loaded skill: {skill.label}", data=data)


def _described(skill: Skill, context: ToolContext) -> dict[str, object]:
    project = context.access.catalog.project_root
    return {
        **about(skill),
        "directoryPath": relative_to(skill.location, project),
        "skillMdPath": relative_to(skill.main_file, project),
    }


def _refuse_load(context: ToolContext, error: SkillyardError, wanted: str) -> ToolResult:
    """A failure of `skills_load` in the shape of row 004-11: `{"success": false, "error": …}`."""
    said = refusal(context, error, wanted)
    title = said.title or error.message
    message = f"Failed to read SKILL.md: {error.message}" if title.startswith("Failed to read") else title
    detail, hint = (shorten(single_line(text), _ERROR) for text in (error.message, error.hint or ""))
    message = shorten(single_line(message), _ERROR)
    candidates = _texts(error.details.get("candidates"))
    data: dict[str, object] = {"success": False, "error": message}
    data |= {"candidates": candidates} if candidates else {}
    data |= {"detail": detail} if detail not in message else {}
    data |= {"hint": hint} if hint else {}
    return failure(error.code, title, as_json(data), **{**error.details, **data})


def _texts(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, Sequence) and not isinstance(values, str) else []


SKILL = Tool("skill", any_skill, _define_skill, _skill, refusal)
SKILLS_LOAD = Tool("skills_load", any_skill, _define_skills_load, _skills_load, _refuse_load)
