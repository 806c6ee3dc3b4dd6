"""Skills as MCP prompts: what a person picks by name, such as a slash command, and the text the model then gets.

A prompt is the skill itself, as the tool `skill` gives it; what the person adds comes as a message of its own, so that no text
of a skill can pass for theirs. Skills with `user-invocable: false` are no prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp import types

from skillyard.document import DESCRIPTION_LIMIT
from skillyard.errors import SkillNotFound, SkillyardError
from skillyard.mcp.paging import page
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.mcp.published import PublishedSkill, PublishedSkills
    from skillyard.tools import ToolResult

__all__ = ["find", "list_page", "messages"]

_PROMPTS_A_PAGE: Final = 50
_REQUEST: Final = "request"


def list_page(skills: PublishedSkills, cursor: str | None) -> types.ListPromptsResult:
    """The prompts of the next skills, by their address."""
    found, following = page(skills, cursor, size=_PROMPTS_A_PAGE, key=lambda published: published.uri)
    listed = [prompt for published in found if (prompt := _prompt(published))]
    return types.ListPromptsResult(prompts=listed, next_cursor=following)


def find(skills: PublishedSkills, name: str) -> PublishedSkill:
    """The skill behind a prompt.

    Raises:
        SkillNotFound: there is no such prompt.
    """
    found = next((published for published in skills if _name(published) == name), None)
    if found is None or _prompt(found) is None:
        raise SkillNotFound(f"there is no prompt {single_line(name)[:200]!r}", hint="list the prompts to see their names")
    return found


def messages(published: PublishedSkill, loaded: ToolResult, request: str | None) -> types.GetPromptResult:
    """The loaded skill as the first message, what the person wants as the second."""
    texts = [loaded.text, *([request] if request else [])]
    told = [types.PromptMessage(role="user", content=types.TextContent(type="text", text=text)) for text in texts]
    return types.GetPromptResult(description=_described(published), messages=told)


def _prompt(published: PublishedSkill) -> types.Prompt | None:
    """None for a skill that people do not call by name, or that cannot be read just now."""
    try:
        metadata = published.skill.document().metadata
    except (SkillyardError, OSError):
        return None
    if not metadata.user_invocable:
        return None
    hint = single_line(metadata.argument_hint or "")
    wanted = types.PromptArgument(name=_REQUEST, description=shorten(hint, 200) or "What it shall be used for.", required=False)
    return types.Prompt(name=_name(published), title=published.title, description=_described(published), arguments=[wanted])


def _name(published: PublishedSkill) -> str:
    return "/".join(published.path)


def _described(published: PublishedSkill) -> str:
    return shorten(single_line(published.skill.description), DESCRIPTION_LIMIT)
