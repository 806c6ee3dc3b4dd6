"""Skills as MCP prompts, which a person picks by name like a slash command, and the completion of arguments.

A prompt is the skill itself, as the tool `skill` gives it; what the person adds comes as a message of its own, so that no text
of a skill can pass for theirs. Skills with `user-invocable: false` are no prompts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mcp import types

from skillyard.document import DESCRIPTION_LIMIT
from skillyard.errors import SkillNotFound, SkillyardError
from skillyard.mcp.published_skills import FILE_NAME_LIMIT, SCHEME, cut_page
from skillyard.mcp.skill_resources import TEMPLATE
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.mcp.published_skills import PublishedSkill, PublishedSkills
    from skillyard.tools import ToolResult


_PROMPTS_A_PAGE: Final = 50
_REQUEST: Final = "request"


def list_page(skills: PublishedSkills, cursor: str | None) -> types.ListPromptsResult:
    """The prompts of the next skills, by their address."""
    page, following = cut_page(skills, cursor, size=_PROMPTS_A_PAGE, key=lambda published: published.uri)
    listed = [prompt for published in page if (prompt := _prompt(published))]
    return types.ListPromptsResult(prompts=listed, next_cursor=following)


def find(skills: PublishedSkills, name: str) -> PublishedSkill:
    """The skill behind a prompt.

    Raises:
        SkillNotFound: there is no such prompt.
    """
    match = next((published for published in skills if _name(published) == name), None)
    if match is None or _prompt(match) is None:
        raise SkillNotFound(f"there is no prompt {single_line(name)[:200]!r}", hint="list the prompts to see their names")
    return match


def messages(published: PublishedSkill, loaded: ToolResult, request: str | None) -> types.GetPromptResult:
    """The loaded skill as the first message, what the person wants as the second."""
    texts = [loaded.text, *([request] if request else [])]
    prompt_messages = [types.PromptMessage(role="user", content=types.TextContent(type="text", text=text)) for text in texts]
    return types.GetPromptResult(description=_described(published), messages=prompt_messages)


def _prompt(published: PublishedSkill) -> types.Prompt | None:
    """None for a skill that people do not call by name, or that cannot be read just now."""
    try:
        metadata = published.skill.document().metadata
    except (SkillyardError, OSError):
        return None
    if not metadata.user_invocable:
        return None
    hint = single_line(metadata.argument_hint or "")
    argument = types.PromptArgument(
        name=_REQUEST, description=shorten(hint, 200) or "What it shall be used for.", required=False
    )
    return types.Prompt(name=_name(published), title=published.title, description=_described(published), arguments=[argument])


def _name(published: PublishedSkill) -> str:
    return "/".join(published.path)


def _described(published: PublishedSkill) -> str:
    return shorten(single_line(published.skill.description), DESCRIPTION_LIMIT)


_MOST: Final = 100  # as many as the protocol lets a server send


def complete_argument(skills: PublishedSkills, params: types.CompleteRequestParams) -> types.CompleteResult:
    """The values that complete what was typed, those that begin with it first; none where there are none."""
    values: Iterable[str] = ()
    if isinstance(params.ref, types.ResourceTemplateReference) and params.ref.uri == TEMPLATE:
        if params.argument.name == "skill":
            values = ("/".join(published.path) for published in skills)
        elif params.argument.name == "path":
            given = params.context.arguments if params.context else None
            values = _files(skills, (given or {}).get("skill", ""))
    fitting = _fitting(values, params.argument.value)
    return types.CompleteResult(
        completion=types.Completion(values=fitting[:_MOST], total=len(fitting), has_more=len(fitting) > _MOST)
    )


def _files(skills: PublishedSkills, name: str) -> tuple[str, ...]:
    """The files of the skill that was chosen before."""
    try:
        published, _ = skills.locate(f"{SCHEME}{name}")
        return tuple(name for name in published.files() if single_line(name) == name and len(name) <= FILE_NAME_LIMIT)
    except (SkillyardError, OSError):
        return ()


def _fitting(values: Iterable[str], typed: str) -> list[str]:
    part = typed.casefold()
    fitting = [value for value in values if part in value.casefold()]
    return sorted(fitting, key=lambda value: (not value.casefold().startswith(part), value))
