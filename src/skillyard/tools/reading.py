"""The tool that reads one file of a skill: `read_skill_file` (document 003, 5.2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillyard.errors import BinaryFile, FileMissing, SkillyardError
from skillyard.prompt.fence import fence
from skillyard.text import nearest, shorten, single_line
from skillyard.tools.arguments import Parameter
from skillyard.tools.definition import ToolDefinition
from skillyard.tools.result import ToolResult
from skillyard.tools.tool import Caller, Tool, ToolContext, any_skill, refusal
from skillyard.tools.wording import WORDINGS

if TYPE_CHECKING:
    from skillyard.catalog import FileContent, Skill
    from skillyard.tools.arguments import Arguments

__all__ = ["READ_SKILL_FILE"]

_LIMIT: Final = 1024 * 1024
_NAMED: Final = 40
_NAME: Final = 200  # characters of a file's name


def _define(context: ToolContext) -> ToolDefinition:
    words = context.wording
    parameters = (
        Parameter("skill_name", "string", words.read_skill_file_name, required=True),
        Parameter("file_path", "string", words.read_skill_file_path, required=True),
    )
    # In Chinese the definition is that of document 003 to the letter, which leaves the schema open.
    closed = words is not WORDINGS["zh"]
    return ToolDefinition("read_skill_file", "Read skill file", words.read_skill_file, parameters, closed=closed)


async def _read(context: ToolContext, arguments: Arguments, caller: Caller) -> ToolResult:
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


def _refuse(context: ToolContext, error: SkillyardError, wanted: str) -> ToolResult:
    """Every failure as a text that starts with `Error:` or `错误:` (row 003-9)."""
    return refusal(context, error, wanted, prefix=context.wording.error)


READ_SKILL_FILE = Tool("read_skill_file", any_skill, _define, _read, _refuse)
