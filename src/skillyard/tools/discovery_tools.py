"""The tools that find and read skills without loading them: `skills_list`, `search_skills` and `read_skill_file`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillyard.errors import BinaryFile, FileMissing, SkillyardError
from skillyard.prompt import build_index, describe_skill, disclosure_stage
from skillyard.prompt.fence import fence
from skillyard.search import search_skills
from skillyard.text import nearest, quoted, shorten, single_line
from skillyard.tools.arguments import Parameter
from skillyard.tools.definitions import WORDINGS, ToolDefinition
from skillyard.tools.results import ToolResult, failure, to_model_json
from skillyard.tools.tool_context import Tool, ToolCaller, ToolContext, any_skill, refusal, skill_summary

if TYPE_CHECKING:
    from skillyard.catalog import FileContent, Skill
    from skillyard.search import Match
    from skillyard.tools.arguments import Arguments


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
        data |= {"omitted": len(skills) - _LISTED, "hint": "find the others with search_skills"}
    return ToolResult(to_model_json(data), title=f"{len(skills)} skills", data=data)


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
    load = "Load one with the skill tool."
    if not sure and not offset:
        head = f"These are the nearest to {quoted(query)}, best first, as their authors describe them; none may fit:"
        load = "Load one with the skill tool if its description fits the task; search with other words, or do without a skill."
    text = "\n".join([head, fence("skill_text", "\n".join(lines)), *rest, load])
    return ToolResult(text, title=f"{len(matches)} skills, {sure} of them sure", data=data)


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
        Parameter("skill_name", "string", words.read_skill_file_name, required=True, aliases=("skill", "name")),
        Parameter("file_path", "string", words.read_skill_file_path, required=True, aliases=("path",)),
    )
    # The Chinese definition is fixed by contract, which leaves the schema open.
    closed = words is not WORDINGS["zh"]
    return ToolDefinition("read_skill_file", "Read skill file", words.read_skill_file, parameters, closed=closed)


async def _read(context: ToolContext, arguments: Arguments, caller: ToolCaller) -> ToolResult:
    skill = context.access.find(arguments.text("skill_name"))
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


READ_SKILL_FILE = Tool("read_skill_file", any_skill, _define, _read, _refuse)
