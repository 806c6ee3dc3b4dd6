"""The tools that load a skill, `skill` and `skills_load`, and the text a model gets for it.

The shape, with everything the skill itself wrote inside one fence::

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
    Run its scripts with run_skill.
    Follow the list of allowed tools when possible.

    Follow the instructions above to complete the task.

The folder stands inside too when its name is more than a plain word.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillyardError
from skillyard.paths import relative_to
from skillyard.permissions import AllowedTools, unusable_skill
from skillyard.prompt import IndexOptions, build_index
from skillyard.prompt.fence import fence
from skillyard.text import is_label, shorten, single_line
from skillyard.tools.arguments import Parameter
from skillyard.tools.definitions import ToolDefinition
from skillyard.tools.results import ToolResult, failure, to_model_json
from skillyard.tools.tool_context import Tool, ToolCaller, ToolContext, any_skill, refusal, schema_choices, skill_summary

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Document
    from skillyard.permissions import SkillConsent
    from skillyard.tools.arguments import Arguments


FILES_SHOWN: Final = 100
_FILE_NAME: Final = 200  # characters of one name in the list
_FOLDER_NAMES: Final = ("{baseDir}", "${CLAUDE_SKILL_DIR}", "${SKILL_DIR}")
_SCRIPTS: Final = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".mts")
_CLOSING: Final = "Follow the instructions above to complete the task."


def render_skill(
    skill: Skill,
    body: str,
    files: Sequence[str],
    *,
    tools: AllowedTools | None = None,
    folder: str | None = None,
    running: str = "",
) -> str:
    """The whole answer for one loaded skill; `files` are its other files, `tools` those it requests, where they are listed.

    `folder` is where the model finds it, when that is not its location; `running` says how its scripts are run.
    """
    listed = tools.listed() if tools is not None else ""
    plain_folder = _has_plain_folder(skill)
    folder = folder or skill.location
    about = [
        *([] if plain_folder else [_folder_line(folder)]),
        *([_file_list(files)] if files else []),
        *([f"Allowed tools: {listed}"] if listed else []),
    ]
    written = [
        skill.description.strip(),
        "---",
        fill_placeholders(body, folder).strip(),
        *(["---", *about] if about else []),
    ]
    frame = [
        *([_folder_line(folder)] if plain_folder else []),
        *([running] if running else []),
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


def running_advice(skill: Skill, files: Sequence[str], context: ToolContext, caller: ToolCaller) -> str:
    """How a model runs the scripts of a skill here, in one sentence; empty when it has none, or nothing here runs them."""
    if not any(name.endswith(_SCRIPTS) for name in files):
        return ""
    workspace = context.workspace_of(caller.session)
    if workspace is not None and workspace.shows(skill):
        return f"Run its scripts with `bash`, by their path in that folder; your files are in {workspace.path}."
    return "Run its scripts with `run_skill`." if skill in context.runnable() else ""


def fill_placeholders(text: str, directory: str) -> str:
    """`text` with the placeholders for the skill's folder filled in."""
    for name in _FOLDER_NAMES:
        text = text.replace(name, directory)
    return text


def skill_fingerprint(skill: Skill, body: str, files: Sequence[str]) -> str:
    """What changes when the answer for a skill changes: its description, body, folder or file list."""
    framed = "\0".join([skill.description, body, skill.location, *files])
    return hashlib.sha256(framed.encode("utf-8", "surrogatepass")).hexdigest()


def _has_plain_folder(skill: Skill) -> bool:
    """Whether everything below the root, which a stranger may have named, is a plain word."""
    below = skill.location.removeprefix(skill.root.location.rstrip("/"))
    return all(is_label(part.lstrip(".")) for part in below.split("/") if part)


def _folder_line(folder: str) -> str:
    return f"Skill directory: {single_line(folder)}"


def _file_list(files: Sequence[str]) -> str:
    lines = ["Additional files:", *(f"- {shorten(single_line(name), _FILE_NAME)}" for name in files[:FILES_SHOWN])]
    if len(files) > FILES_SHOWN:
        lines.append(f"- … and {len(files) - FILES_SHOWN} more")
    return "\n".join(lines)


_DESCRIPTION_BUDGET = 2000
_ERROR = 1000  # characters of an error


def _define_skill(context: ToolContext) -> ToolDefinition:
    skills = context.access.offered()
    words = context.wording
    skill_parameter = Parameter(
        "skill", "string", words.skill_skill, required=True, choices=schema_choices(skills), aliases=("name",)
    )
    force = Parameter("force", "boolean", words.skill_force)
    listed = build_index(skills, IndexOptions(style="tool", budget=_DESCRIPTION_BUDGET)).text.strip()
    return ToolDefinition(
        "skill",
        "Skill",
        f"{words.skill}\n\n{listed}",
        (skill_parameter, force) if context.repeat == "note" else (skill_parameter,),
        listing=listed,
    )


async def _skill(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    skill = context.access.find(arguments.text("skill"))
    consent = await context.approve(skill, caller)
    document, files = await asyncio.to_thread(_read, context, skill, consent)
    mark = skill_fingerprint(skill, document.body, files)
    folder = _folder(skill, context, caller)
    data = {
        "skillId": skill.id,
        "skillName": skill.label,
        "skillSource": skill.source,
        "permission": consent.permission,
        "directory": folder,
        "files": list(files),
        "fingerprint": mark,
    }
    title = f"Loaded skill: {skill.label}"
    if context.repeat == "note" and caller.session.has(skill.id, mark) and not arguments.flag("force", False):
        return ToolResult(_already_loaded_note(skill), title=title, data=data | {"repeated": True})
    caller.session.remember(skill.id, skill.allowed_tools, mark)
    tools = AllowedTools(skill.allowed_tools, mode=context.allowed_tools)
    running = await asyncio.to_thread(running_advice, skill, files, context, caller)
    text = render_skill(skill, document.body, files, tools=tools, folder=folder, running=running)
    return ToolResult(text, title=title, data=data)


def _read(context: ToolContext, skill: Skill, consent: SkillConsent) -> tuple[Document, tuple[str, ...]]:
    document = skill.document()
    context.access.confirm(skill, consent)
    if not document.usable:  # changed since it was listed, or broken behind the part that a list reads
        reason = "; ".join(d.message for d in document.diagnostics if d.severity == "error")
        raise unusable_skill(skill, "broken", reason)
    return document, tuple(file.name for file in skill.files())


def _already_loaded_note(skill: Skill) -> str:
    return (
        f"The skill {skill.label!r} is already loaded in this conversation and has not changed. "
        "Follow its instructions above. Call again with force: true when you no longer have them."
    )


def _define_skills_load(context: ToolContext) -> ToolDefinition:
    name = Parameter("name", "string", context.wording.skills_load_name, required=True, aliases=("skill", "id"))
    return ToolDefinition("skills_load", "Load skill", context.wording.skills_load, (name,))


async def _skills_load(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    skill = context.access.find(arguments.text("name"))
    consent = await context.approve(skill, caller)
    document, files = await asyncio.to_thread(_read, context, skill, consent)
    caller.session.remember(skill.id, skill.allowed_tools)
    running = await asyncio.to_thread(running_advice, skill, files, context, caller)
    described = _described(skill, context, caller)
    data: dict[str, object] = {"success": True, "skill": described, "content": document.text}
    data |= {"scripts": running} if running else {}
    return ToolResult(to_model_json(data), title=f"Loaded skill: {skill.label}", data=data)


def _folder(skill: Skill, context: ToolContext, caller: ToolCaller) -> str:
    """The skill's folder as the shell of the conversation sees it; its location where there is none."""
    workspace = context.workspace_of(caller.session)
    return workspace.skill_folder(skill) if workspace is not None else skill.location


def _described(skill: Skill, context: ToolContext, caller: ToolCaller) -> dict[str, object]:
    project, folder = context.access.catalog.project_root, _folder(skill, context, caller)
    paths = {"directoryPath": folder, "skillMdPath": folder + skill.main_file.removeprefix(skill.location)}
    if context.workspace is None:  # else they are for its shell, which begins elsewhere
        paths = {name: relative_to(path, project) for name, path in paths.items()}
    return {**skill_summary(skill), **paths}


def _refuse_load(context: ToolContext, error: SkillyardError, requested: str) -> ToolResult:
    """A failure of `skills_load` in the shape that its clients know: `{"success": false, "error": …}`."""
    answer = refusal(context, error, requested)
    title = answer.title or error.message
    message = f"Failed to read SKILL.md: {error.message}" if title.startswith("Failed to read") else title
    detail, hint = (shorten(single_line(text), _ERROR) for text in (error.message, error.hint or ""))
    message = shorten(single_line(message), _ERROR)
    candidates = _texts(error.details.get("candidates"))
    data: dict[str, object] = {"success": False, "error": message}
    data |= {"candidates": candidates} if candidates else {}
    data |= {"detail": detail} if detail not in message else {}
    data |= {"hint": hint} if hint else {}
    return failure(error.code, title, to_model_json(data), **{**error.details, **data})


def _texts(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, Sequence) and not isinstance(values, str) else []


SKILL = Tool("skill", any_skill, _define_skill, _skill, refusal)
SKILLS_LOAD = Tool("skills_load", any_skill, _define_skills_load, _skills_load, _refuse_load)
