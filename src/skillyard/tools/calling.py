"""One call of a model becomes one result, whatever happens: the model's loop must go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput, SkillNotFound, SkillyardError
from skillyard.text import single_line
from skillyard.tools.arguments import check, decode
from skillyard.tools.declared import find_declared, run_declared
from skillyard.tools.offering import TOOLS, Offer
from skillyard.tools.result import ToolResult, failure
from skillyard.tools.running import answer_run
from skillyard.tools.textform import block, run_block
from skillyard.tools.tool import Caller, Tool, ToolContext, refusal

if TYPE_CHECKING:
    from skillyard.execution import AbpCall

__all__ = ["Calling"]

_log = logging.getLogger(__name__)
_NAMED: Final = 40  # tools that are named to who asks for one there is not


class Calling:
    """Calls of the tools over one context; nothing here raises, and the log keeps what was not expected."""

    def __init__(self, context: ToolContext, offer: Offer) -> None:
        self._context = context
        self._offer = offer

    async def call(self, name: str, arguments: Mapping[str, object] | str | None, caller: Caller) -> ToolResult:
        """Call one of our tools, or the function of a tool that a skill declares."""
        tool = TOOLS.get(name)
        try:
            if tool is None:
                return await self._declared(name, arguments, caller)
            return await self._own(tool, arguments, caller)
        except SkillyardError as error:
            said = error.with_texts(self._context.access.catalog.with_aliases)
            return refusal(self._context, said, name) if tool is None else tool.refuse(self._context, said, _wanted(arguments))
        except Exception:
            return _broken(name)

    async def in_text(self, call: AbpCall, caller: Caller) -> tuple[ToolResult, str]:
        """Do what a block in a model's text asks for; the result, and the block to send back."""
        if call.tool in TOOLS:
            result = await self.call(call.tool, call.parameters, caller)
            return result, block(call.tool, result.text if result.ok else f"Tool execution failed: {result.text}")
        try:
            declared = await asyncio.to_thread(find_declared, self._context, call.tool, call.action)
            run = await run_declared(self._context, declared, call.parameters, caller, action=call.action)
            return answer_run(declared.skill.label, run), run_block(call, run)
        except SkillNotFound:
            result = self._unknown(call.tool)
        except SkillyardError as error:
            result = refusal(self._context, error.with_texts(self._context.access.catalog.with_aliases), call.tool)
        except Exception:
            result = _broken(call.tool)
        return result, block(call.tool, f"Tool execution failed: {result.text}")

    async def _own(self, tool: Tool, arguments: Mapping[str, object] | str | None, caller: Caller) -> ToolResult:
        definition = await asyncio.to_thread(self._offer.define, tool.name)
        checked = check(definition.parameters, decode(arguments))
        return await tool.call(self._context, checked, caller)

    async def _declared(self, name: str, arguments: Mapping[str, object] | str | None, caller: Caller) -> ToolResult:
        known = await asyncio.to_thread(self._context.declared)
        if (declared := known.by_function.get(name)) is None:
            return self._unknown(name)
        run = await run_declared(self._context, declared, decode(arguments), caller)
        return answer_run(declared.skill.label, run)

    def _unknown(self, name: str) -> ToolResult:
        shown = single_line(str(name))[:200]
        known = (*self._offer.names(), *self._context.declared().by_function)
        text = f"There is no tool {shown!r}. The tools are: {', '.join(known[:_NAMED]) or 'none'}"
        return failure("unknown_tool", f"Unknown tool: {shown}", text)


def _broken(name: str) -> ToolResult:
    """What is told of an error that nobody expected; to be called where it is being handled."""
    _log.exception("the tool %s failed", name)
    return failure("internal_error", f"Tool failed: {name}", "The tool failed. Try something else.")


def _wanted(arguments: Mapping[str, object] | str | None) -> str:
    """The skill a failed call was about, as far as the arguments tell."""
    try:
        given = decode(arguments)
    except InvalidInput:
        return ""
    return next((str(given[key]) for key in ("skill", "name", "skill_name", "id") if key in given), "")
