"""Which tools there are and which can be used now, each with its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput
from skillyard.tools.listing import SEARCH_SKILLS, SKILLS_LIST
from skillyard.tools.loading import SKILL, SKILLS_LOAD
from skillyard.tools.reading import READ_SKILL_FILE
from skillyard.tools.running import RUN_SKILL

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.tools.definition import ToolDefinition
    from skillyard.tools.tool import Tool, ToolContext

__all__ = ["TOOLS", "Offer"]

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool for tool in (SKILL, SKILLS_LIST, SKILLS_LOAD, READ_SKILL_FILE, RUN_SKILL, SEARCH_SKILLS)
}


class Offer:
    """The tools over one context as they stand now; `with_declared` says that a host has asked for those of the skills too."""

    def __init__(self, context: ToolContext) -> None:
        self.with_declared = False
        self._context = context
        self._definitions: dict[str, tuple[tuple[Skill, ...], ToolDefinition]] = {}

    def names(self) -> tuple[str, ...]:
        """The names of our tools that something can use now."""
        return tuple(tool.name for tool in self._usable())

    def define(self, name: str) -> ToolDefinition:
        """One of our tools, whether or not something can use it.

        It is written anew only when the skills are others than the last time.

        Raises:
            InvalidInput: no such tool.
        """
        if name not in TOOLS:
            raise InvalidInput(f"no tool {name!r}", hint=f"the tools are: {', '.join(TOOLS)}")
        offered = self._context.access.offered()
        known = self._definitions.get(name)
        if known is None or known[0] is not offered:
            known = self._definitions[name] = (offered, TOOLS[name].define(self._context))
        return known[1]

    def all(self, *, declared: bool) -> list[ToolDefinition]:
        """Our tools that something can use, with `declared` also those that skills declare for themselves."""
        own = [self.define(tool.name) for tool in self._usable()]
        theirs = self._context.declared().by_function.values() if declared else ()
        return own + [tool.definition() for tool in theirs]

    def is_ours(self, name: str) -> bool:
        """Whether a call of that name is for us, and not for a tool of the host."""
        return name in TOOLS or (self.with_declared and name in self._context.declared().by_function)

    def _usable(self) -> list[Tool]:
        return [tool for tool in TOOLS.values() if tool.offered(self._context)]
