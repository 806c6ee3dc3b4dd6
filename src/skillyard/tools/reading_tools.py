"""The tools that find skills, read their files and load them, and the text a model gets for a skill.

`skills_list`, `search_skills` and `read_skill_file` load nothing; `skill` and `skills_load` do.

The shape of that text, with everything the skill itself wrote inside one fence::

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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.errors import BinaryFile, FileMissing, SkillyardError
from skillyard.paths import relative_to
from skillyard.permissions import AllowedTools, unusable_skill
from skillyard.prompt import IndexOptions, build_index, describe_skill, disclosure_stage
from skillyard.prompt.budget import CLIENT_LIMIT
from skillyard.prompt.fence import fence
from skillyard.search import search_skills
from skillyard.text import is_label, nearest, quoted, shorten, single_line
from skillyard.tools.tool_arguments import Parameter, skill_parameter
from skillyard.tools.tool_context import Tool, ToolCaller, ToolContext, any_skill, refusal, schema_choices, skill_summary
from skillyard.tools.tool_definitions import WORDINGS, ToolDefinition
from skillyard.tools.tool_results import ToolResult, failure, to_model_json

if TYPE_CHECKING:
    from skillyard.catalog import FileContent, Skill
    from skillyard.document import Document
    from skillyard.permissions import SkillConsent
    from skillyard.search import Match
    from skillyard.tools.tool_arguments import Arguments

_LISTED: Final = 200
_FEW: Final = 10
_MOST: Final = 50
_ONE: Final = 200  # characters of a description
_FARTHEST: Final = 1000
_ERROR: Final = 1000  # characters


def _define_list(context: ToolContext) -> ToolDefinition:
    refresh = Parameter("refresh", "boolean", context.wording.skills_list_refresh)
    return ToolDefinition("skills_list", "List skills", context.wording.skills_list, (refresh,))


async def _list(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    if arguments.flag("refresh", True):
        await asyncio.to_thread(context.access.catalog.refresh)
    skills = context.access.offered()
    data: dict[str, object] = {"success": True, "skills": [skill_summary(skill) for skill in skills[:_LISTED]]}
    if len(skills) > _LISTED:
        data |= {"omitted": len(skills) - _LISTED, "hint": f"find the others with {context.tool_prefix}search_skills"}
    return ToolResult(to_model_json(data), title="1 skill" if len(skills) == 1 else f"{len(skills)} skills", data=data)


def _refuse_list(context: ToolContext, error: SkillyardError, requested: str) -> ToolResult:
    data = {"success": False, "error": shorten(single_line(error.message), _ERROR)}
    data |= {"hint": shorten(single_line(error.hint), _ERROR)} if error.hint else {}
    return failure(error.code, str(data["error"]), to_model_json(data), **data)


def _many_skills(context: ToolContext) -> bool:
    """More than a model takes in at a glance, or more than the index has room for."""
    skills = context.access.offered()
    return len(skills) > _FEW or bool(build_index(skills).omitted)


def _define_search(context: ToolContext) -> ToolDefinition:
    words = context.wording
    query = Parameter("query", "string", words.search_skills_query, required=True)
    limit = Parameter("limit", "integer", words.search_skills_limit, minimum=1, maximum=_MOST)
    offset = Parameter("offset", "integer", words.search_skills_offset, minimum=0, maximum=_FARTHEST)
    least = Parameter("min_confidence", "number", words.search_skills_min_confidence, minimum=0, maximum=1)
    return ToolDefinition("search_skills", "Search skills", words.search_skills, (query, limit, offset, least))


async def _search(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    query, limit = arguments.text("query"), arguments.number("limit", _FEW)
    index = await asyncio.to_thread(context.index)
    offset = arguments.number("offset", 0)
    least = arguments.share("min_confidence", 0.0)
    results = await asyncio.to_thread(search_skills, index, query, limit=offset + limit + 1, min_confidence=least)
    matches, more = results[offset : offset + limit], len(results) > offset + limit
    data: dict[str, object] = {"matches": [match.to_dict() for match in matches]} | ({"more": True} if more else {})
    if not matches and offset:
        return ToolResult(f"No more than {len(results)} skills fit {quoted(query)}.", title="No more skills", data=data)
    if not matches:
        return ToolResult(_nothing(query, len(index), least), title="No skill fits", data=data)
    lines = await asyncio.to_thread(lambda: [_match_lines(context, match) for match in matches])
    rest = [f"There are more: search again with offset {offset + limit}."] if more else []
    sure = sum(match.sure for match in matches)
    head = f"Skills that may fit {quoted(query)}, best first, as their authors describe them:"
    tool = f"{context.tool_prefix}skill"
    load = f"Load one with the {tool} tool."
    if matches[0].none_may_fit and not offset:
        head = f"These are the nearest to {quoted(query)}, best first, as their authors describe them; none may fit:"
    if not sure:
        load = (
            f"Load one with the {tool} tool if its description fits the task; search with other words, or do without a skill."
        )
    text = "\n".join([head, fence("skill_text", "\n".join(lines)), *rest, load])
    found = "1 skill" if len(matches) == 1 else f"{len(matches)} skills"
    return ToolResult(text, title=f"{found}, {sure} of them sure", data=data)


def _match_lines(context: ToolContext, match: Match) -> str:
    """One match; with its parameters when it fits well or that is preferred. Instructions come from the `skill` tool alone."""
    skill, session, user = match.skill, context.context.get("toolsDisclosure"), context.preferences.get("toolsDisclosure")
    stage = disclosure_stage(match.confidence, session=_text(session), user=_text(user))
    described = shorten(single_line(skill.description), _ONE)
    line = f"- {skill.label} ({skill.reference}, {match.confidence:.2f}): {described}"
    if stage == "metadata" or (stage == "brief" and session is None and user is None):
        return line
    _, separator, parameters = describe_skill(skill, "brief").partition("\nParameters:\n")
    return line + (f"\n  Parameters:\n  {parameters}".replace("\n-", "\n  -") if separator else "")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _nothing(query: str, count: int, least: float) -> str:
    above = f" with a confidence of {least:g}" if least else ""
    return (
        f"None of the {count} skills fits {quoted(query)}{above}. "
        "Try other words, or do the task without a skill; do not load one that does not fit."
    )


SKILLS_LIST = Tool("skills_list", any_skill, _define_list, _list, _refuse_list)
SEARCH_SKILLS = Tool("search_skills", _many_skills, _define_search, _search, refusal)
_LIMIT: Final = 1024 * 1024
_NAMED: Final = 40
_NAME: Final = 200  # characters of a file's name


def _define(context: ToolContext) -> ToolDefinition:
    words = context.wording
    parameters = (
        skill_parameter(words.read_skill_file_skill),
        Parameter("file_path", "string", words.read_skill_file_path, required=True, aliases=("path",)),
    )
    contract = _chinese_contract(parameters) if words is WORDINGS["zh"] else None
    return ToolDefinition("read_skill_file", "Read skill file", words.read_skill_file, parameters, openai_schema=contract)


def _chinese_contract(parameters: tuple[Parameter, ...]) -> Mapping[str, object]:
    """The Chinese definition for OpenAI is fixed by contract: its skill is `skill_name`, and its schema is open."""
    named = {"skill": "skill_name"}
    properties = {named.get(parameter.name, parameter.name): parameter.schema() for parameter in parameters}
    return {"type": "object", "properties": properties, "required": list(properties)}


async def _read_file(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    skill = context.access.find(arguments.text("skill"))
    consent = await context.approve(skill, caller)
    content = await asyncio.to_thread(_content, skill, arguments.text("file_path"))
    await asyncio.to_thread(context.access.confirm, skill, consent)
    if content.path == skill.path.rpartition("/")[2]:
        caller.session.remember(skill.id, skill.allowed_tools)
    return _answer(skill, content)


def _content(skill: Skill, path: str) -> FileContent:
    try:
        return skill.read_file(path, limit=_LIMIT)
    except FileMissing as error:
        names = [skill.path.rpartition("/")[2], *(file.name for file in skill.files())]
        raise FileMissing(error.message, hint=_files_hint(path, names), **(error.details | {"files": names[:_NAMED]})) from None


def _files_hint(path: str, names: list[str]) -> str:
    ends = [name for name in names if name.casefold().endswith("/" + path.casefold().strip("./"))]
    near = ends[:3] or nearest(path, names)
    question = f"Did you mean: {_listed(near)}?\n" if near else ""
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{question}Available files: {_listed(names[:_NAMED])}{more}"


def _listed(names: list[str]) -> str:
    return ", ".join(shorten(single_line(name), _NAME) for name in names)


def _answer(skill: Skill, content: FileContent) -> ToolResult:
    if content.binary or content.text is None:
        raise BinaryFile(
            f"{_listed([content.path])} is a binary file ({content.media_type}, {content.size} bytes)",
            hint="it cannot be shown as text; work with it by its path in the skill's folder",
            path=content.path,
            size=content.size,
            media_type=content.media_type,
        )
    noted = f"({shorten(single_line(content.note), _NAME)})\n\n" if content.note else ""
    text = fence("file_text", f"{noted}{content.text}", skill=skill.label, path=content.path)
    data = {"path": content.path, "size": content.size, "content": content.text, "note": content.note}
    return ToolResult(text, title=f"Read {skill.label}/{_listed([content.path])}", data=data)


def _refuse(context: ToolContext, error: SkillyardError, requested: str) -> ToolResult:
    """Every failure as a text that starts with `Error:` or `错误:`."""
    return refusal(context, error, requested, prefix=context.wording.error)


READ_SKILL_FILE = Tool("read_skill_file", any_skill, _define, _read_file, _refuse)


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
    prefix: str = "",
) -> str:
    """The whole answer for one loaded skill; `files` are its other files, `tools` those it requests, where they are listed.

    `folder` is where the model finds it, when that is not its location; `running` says how its scripts are run.
    `prefix` stands before the names of the tools.
    """
    listed = tools.listed() if tools is not None else ""
    plain_folder = _has_plain_folder(skill)
    folder = folder or skill.location
    about = [
        *([] if plain_folder else [_folder_line(folder)]),
        *([_file_list(files)] if files else []),
        *([_kept_list(kept, prefix)] if (kept := [one.address for one in skill.kept_links() if one.sha256]) else []),
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


def has_scripts(files: Sequence[str]) -> bool:
    """Whether there is anything among the files of a skill that is run."""
    return any(name.endswith(_SCRIPTS) for name in files)


def run_advice(prefix: str = "") -> str:
    """How scripts are run without a workspace; `prefix` is that of tool names."""
    return f"Run its scripts with `{prefix}run_skill`."


def running_advice(skill: Skill, files: Sequence[str], context: ToolContext, caller: ToolCaller) -> str:
    """How a model runs the scripts of a skill here, in one sentence; empty when it has none, or nothing here runs them."""
    if not has_scripts(files):
        return ""
    workspace = context.workspace_of(caller.session)
    if workspace is not None and workspace.shows(skill):
        bash = f"{context.tool_prefix}bash"
        return f"Run its scripts with `{bash}`, by their path in that folder; your files are in {workspace.path}."
    return run_advice(context.tool_prefix) if skill in context.runnable() else ""


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
    """Whether every name below the root, which is not trusted, is a plain word."""
    below = skill.location.removeprefix(skill.root.location.rstrip("/"))
    return all(is_label(part.lstrip(".")) for part in below.split("/") if part)


def _folder_line(folder: str) -> str:
    return f"Skill directory: {single_line(folder)}"


def _file_list(files: Sequence[str]) -> str:
    lines = ["Additional files:", *(f"- {shorten(single_line(name), _FILE_NAME)}" for name in files[:FILES_SHOWN])]
    if len(files) > FILES_SHOWN:
        lines.append(f"- … and {len(files) - FILES_SHOWN} more")
    return "\n".join(lines)


def _kept_list(addresses: Sequence[str], prefix: str) -> str:
    """The kept links of the skill."""
    lines = [f"Do not fetch these: the copies that were reviewed are read with {prefix}read_skill_file, by their address:"]
    return "\n".join([*lines, *(f"- {shorten(single_line(address), 2 * _FILE_NAME)}" for address in addresses)])


_DESCRIPTION_BUDGET = 2000


def _define_skill(context: ToolContext) -> ToolDefinition:
    skills = context.access.offered()
    words = context.wording
    wanted = skill_parameter(words.skill_skill, choices=schema_choices(skills))
    force = Parameter("force", "boolean", words.skill_force)
    listed = _listing(skills, _DESCRIPTION_BUDGET)
    description = f"{words.skill}\n\n{listed}"
    return ToolDefinition(
        "skill",
        "Skill",
        description,
        (wanted, force) if context.repeat == "note" else (wanted,),
        listing=listed,
        brief=_brief(words.skill, skills) if len(description) > CLIENT_LIMIT else "",
    )


def _listing(skills: tuple[Skill, ...], budget: int) -> str:
    return build_index(skills, IndexOptions(style="tool", budget=budget)).text.strip()


def _brief(purpose: str, skills: tuple[Skill, ...]) -> str:
    """The description with as much of the listing as every client shows."""
    room = CLIENT_LIMIT - len(purpose) - 2
    budget = room // 3  # tokens, of which one is three to four characters; of Chinese, one
    while len(listed := _listing(skills, budget)) > room and budget > 0:
        budget = budget * room // (len(listed) + 1)
    return f"{purpose}\n\n{listed}" if len(listed) <= room else purpose


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
    prefix = context.tool_prefix
    text = render_skill(skill, document.body, files, tools=tools, folder=folder, running=running, prefix=prefix)
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
    wanted = skill_parameter(context.wording.skills_load_skill, missing="name")  # the words of a contract
    return ToolDefinition("skills_load", "Load skill", context.wording.skills_load, (wanted,))


async def _skills_load(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    skill = context.access.find(arguments.text("skill"))
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
