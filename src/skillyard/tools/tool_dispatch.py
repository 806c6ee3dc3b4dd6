"""Which tools are offered now, and from a call to its result: one for each call, whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import InvalidInput, PermissionDenied, SkillNotFound, SkillyardError
from skillyard.permissions import CommandPolicy
from skillyard.text import single_line
from skillyard.tools.reading_tools import READ_SKILL_FILE, SEARCH_SKILLS, SKILL, SKILLS_LIST, SKILLS_LOAD
from skillyard.tools.run_tools import RUN_SKILL, answer_run, find_declared, run_declared
from skillyard.tools.tool_arguments import check_arguments, decode_arguments, named_skill
from skillyard.tools.tool_context import Tool, ToolCaller, ToolContext, refusal
from skillyard.tools.tool_results import (
    ToolResult,
    failure,
    result_block,
    run_block,
    to_model_json,
)
from skillyard.tools.workspace_tools import WORKSPACE_TOOLS
from skillyard.tracing import end_tool_span, skill_attributes, tool_span

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution import AbpCall
    from skillyard.tools.tool_definitions import ToolDefinition

TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool for tool in (SKILL, SKILLS_LIST, SKILLS_LOAD, READ_SKILL_FILE, RUN_SKILL, SEARCH_SKILLS)
}


class ToolOffer:
    """The tools over one context as they stand now; `with_declared` says that a host has requested those of the skills too."""

    def __init__(self, context: ToolContext) -> None:
        self.with_declared = False
        self._context = context
        self.tools: Final = {**TOOLS, **(WORKSPACE_TOOLS if context.workspace is not None else {})}
        self._definitions: dict[str, tuple[tuple[Skill, ...], ToolDefinition]] = {}

    def names(self) -> tuple[str, ...]:
        """The names of our tools that something can use now."""
        return tuple(tool.name for tool in self._usable())

    def define(self, name: str) -> ToolDefinition:
        """One of our tools, whether or not something can use it.

        It is rebuilt only when the skills have changed since the last time.

        Raises:
            InvalidInput: no such tool.
        """
        if name not in self.tools:
            raise InvalidInput(f"no tool {name!r}", hint=f"the tools are: {', '.join(self.tools)}")
        offered = self._context.access.offered()
        cached = self._definitions.get(name)
        if cached is None or cached[0] is not offered:
            cached = self._definitions[name] = (offered, self.tools[name].define(self._context))
        return cached[1]

    def all(self, *, declared: bool) -> list[ToolDefinition]:
        """Our tools that something can use, with `declared` also those that skills declare for themselves."""
        own = [self.define(tool.name) for tool in self._usable()]
        theirs = self._context.declared().by_function.values() if declared else ()
        return own + [tool.definition() for tool in theirs]

    def is_ours(self, name: str) -> bool:
        """Whether a call of that name is for us, and not for a tool of the host."""
        return name in self.tools or (self.with_declared and name in self._context.declared().by_function)

    def _usable(self) -> list[Tool]:
        switch = self._context.policy.switch
        return [tool for tool in self.tools.values() if switch(tool.name) != "deny" and tool.offered(self._context)]


_log = logging.getLogger(__name__)
_NAMED: Final = 40  # tools that are listed in the answer to a call of an unknown one


class ToolDispatcher:
    """Calls of the tools over one context; nothing here raises, and the log keeps what was not expected."""

    def __init__(self, context: ToolContext, offer: ToolOffer) -> None:
        self._context = context
        self._offer = offer

    async def call(self, name: str, arguments: Mapping[str, object] | str | None, caller: ToolCaller) -> ToolResult:
        """Call one of our tools, or the function of a tool that a skill declares."""
        known = name if name in self._offer.tools else None
        with tool_span(name, known, arguments or {}, caller.call_id) as span:
            result = await self._call(name, arguments, caller)
            if span is not None:
                await self._end_span(span, result, known and _skill_argument(arguments))
        return result

    async def call_in_text(self, call: AbpCall, caller: ToolCaller) -> tuple[ToolResult, str]:
        """Execute a block in a model's text; the result, and the block to send back."""
        known = call.tool if call.tool in self._offer.tools else None
        with tool_span(call.tool, known, call.parameters, caller.call_id) as span:
            result, block = await self._call_in_text(call, caller)
            if span is not None:
                await self._end_span(span, result, _skill_argument(call.parameters) if known else call.tool)
        return result, block

    async def _end_span(self, span: Any, result: ToolResult, named: str | None) -> None:
        """Write on the span of a call what it came to, and the skill it has named."""

        def attributes() -> Mapping[str, str]:
            try:
                return skill_attributes(self._context.access.find(named)) if named else {}
            except SkillyardError:  # there is none, or it may not be used
                return {}

        skill = await asyncio.to_thread(attributes)
        end_tool_span(span, text=result.text, code=None if result.ok else result.code or "error", skill=skill)

    async def _call(self, name: str, arguments: Mapping[str, object] | str | None, caller: ToolCaller) -> ToolResult:
        tool = self._offer.tools.get(name)
        try:
            if tool is None:
                return await self._declared(name, arguments, caller)
            return await self._own(tool, arguments, caller)
        except SkillyardError as error:
            shown_error = error.with_texts(self._context.access.catalog.with_aliases)
            return (
                refusal(self._context, shown_error, name)
                if tool is None
                else tool.refuse(self._context, shown_error, _skill_argument(arguments))
            )
        except Exception:
            return _internal_error(name)

    async def _call_in_text(self, call: AbpCall, caller: ToolCaller) -> tuple[ToolResult, str]:
        if call.tool in self._offer.tools:
            result = await self._call(call.tool, call.parameters, caller)
            return result, result_block(call.tool, result.text if result.ok else f"Tool execution failed: {result.text}")
        try:
            declared = await asyncio.to_thread(find_declared, self._context, call.tool, call.action)
            run = await run_declared(self._context, declared, call.parameters, caller, action=call.action)
            return answer_run(declared.skill.label, run), run_block(call, run)
        except SkillNotFound:
            result = self._unknown(call.tool)
        except SkillyardError as error:
            result = refusal(self._context, error.with_texts(self._context.access.catalog.with_aliases), call.tool)
        except Exception:
            result = _internal_error(call.tool)
        return result, result_block(call.tool, f"Tool execution failed: {result.text}")

    async def _own(self, tool: Tool, arguments: Mapping[str, object] | str | None, caller: ToolCaller) -> ToolResult:
        definition = await asyncio.to_thread(self._offer.define, tool.name)
        given = decode_arguments(arguments)
        checked = check_arguments(definition.parameters, given)
        await self._switched(tool.name, given, caller)
        return await tool.call(self._context, checked, caller)

    async def _switched(self, name: str, given: Mapping[str, object], caller: ToolCaller) -> None:
        """Obey what the agent says of a tool over skills by its name; those of a workspace ask for themselves.

        Raises:
            PermissionDenied, ApprovalRejected: it may not be called.
        """
        permission = self._context.policy.switch(name)
        if permission == "allow" or name in WORKSPACE_TOOLS:
            return
        only = CommandPolicy(tools={name: permission})
        verdict = await self._context.gate(caller, lambda: only).authorize(name, to_model_json(given), folder="/")
        if not verdict.allowed:
            raise PermissionDenied(verdict.reason, hint="do it another way, or ask the user")

    async def _declared(self, name: str, arguments: Mapping[str, object] | str | None, caller: ToolCaller) -> ToolResult:
        available = await asyncio.to_thread(self._context.declared)
        if (declared := available.by_function.get(name)) is None:
            return self._unknown(name)
        run = await run_declared(self._context, declared, decode_arguments(arguments), caller)
        return answer_run(declared.skill.label, run)

    def _unknown(self, name: str) -> ToolResult:
        shown = single_line(str(name))[:200]
        names = (*self._offer.names(), *self._context.declared().by_function)
        text = f"There is no tool {shown!r}. The tools are: {', '.join(names[:_NAMED]) or 'none'}"
        return failure("unknown_tool", f"Unknown tool: {shown}", text)


def _internal_error(name: str) -> ToolResult:
    """Log an unexpected error and return the answer for it; to be called in its handler."""
    _log.exception("the tool %s failed", name)
    return failure("internal_error", f"Tool failed: {name}", "The tool failed. Try something else.")


def _skill_argument(arguments: Mapping[str, object] | str | None) -> str:
    """The skill a failed call was about, as far as the arguments name it."""
    try:
        given = decode_arguments(arguments)
    except InvalidInput:
        return ""
    named = named_skill(given)
    return "" if named is None else str(named)
