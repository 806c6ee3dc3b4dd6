"""Calls of tools as MCP has them: for whom, with output that is reported while it comes, and the result with its pictures."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import types

from skillyard.text import sanitize

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from skillyard.tools import SkillTools, ToolResult
    from skillyard.workspace import CommandListener

_COMMAND_FIELDS: Final = ("exit_code", "signal", "duration_ms", "fresh", "output_file", "process")
_MESSAGE: Final = 8_000  # characters of output in one notification
_WAITING: Final = 64_000  # characters that wait for a client that reads slowly; what is older is left out


@dataclass(slots=True)
class ToolUse:
    """One call of a tool: for which `user`, None for whom the tools are made, and its `result` when it has come to one."""

    user: str | None = None
    result: ToolResult | None = None


ToolUses = Callable[[Any, str, Mapping[str, object]], AbstractAsyncContextManager[ToolUse]]
"""Stands around each call of a tool: is given the HTTP request, None over other transports, the tool and its arguments."""


@asynccontextmanager
async def use_of_nobody(request: object, name: str, arguments: Mapping[str, object]) -> AsyncIterator[ToolUse]:
    """What stands around calls where the tools serve one user."""
    yield ToolUse()


async def make_call(
    tools: SkillTools, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams, on_call: ToolUses
) -> ToolResult:
    """Make one call of a client: what a command writes is reported as progress, and a client that cancels ends it."""
    arguments = params.arguments or {}
    async with on_call(context.request, params.name, arguments) as use, _output_reported(context.session) as listener:
        result = use.result = await _to_its_end(tools.call(params.name, arguments, user=use.user, listener=listener))
    return result


async def _to_its_end(call: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """The result of a call in a task of its own, which is cancelled once, and then waited for, when the client cancels it.

    The SDK cancels what it calls again at every await: a run that is cancelled so could not write down that it was.
    """
    calling = asyncio.create_task(call)
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        calling.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([calling])
        raise


def tool_call_result(result: ToolResult) -> types.CallToolResult:
    """The result of a call: its text, then pictures; what the run or command came to is the structured content."""
    outcome = _outcome(result.data)
    detail = outcome if result.ok else outcome | {"code": result.code, "title": sanitize(result.title or "")}
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=result.text)]
    content += [
        types.ImageContent(type="image", data=base64.b64encode(image.data).decode("ascii"), mime_type=image.media_type)
        for image in result.images
    ]
    return types.CallToolResult(content=content, structured_content=detail or None, is_error=not result.ok)


def _outcome(data: Mapping[str, object]) -> dict[str, Any]:
    """A run whole; of a command what is not in its text."""
    if "run_id" in data:
        return dict(data)
    return {name: data[name] for name in _COMMAND_FIELDS if data.get(name) not in (None, False)} if "exit_code" in data else {}


class _LiveOutput:
    """What a command has written and its client was not sent yet."""

    def __init__(self) -> None:
        self._text = ""
        self._total = 0
        self._ended = False
        self._more = asyncio.Event()

    def add(self, _stream: str, text: str) -> None:
        """Keep a piece; never waits."""
        self._total += len(text)
        self._text = (self._text + text)[-_WAITING:]
        self._more.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._more.set()

    async def send(self, session: ServerSession) -> None:
        """Send what comes until it has ended, as notifications of progress: `progress` counts characters."""
        while self._text or not self._ended:
            await self._more.wait()
            self._more.clear()
            while self._text:
                piece, self._text = self._text[:_MESSAGE], self._text[_MESSAGE:]
                await session.report_progress(self._total - len(self._text), None, sanitize(piece))


@asynccontextmanager
async def _output_reported(session: ServerSession) -> AsyncIterator[CommandListener]:
    """What gets the output of the call inside the block; it is sent where the client wants to hear of progress."""
    live = _LiveOutput()
    sending = asyncio.create_task(live.send(session))
    try:
        yield live.add
        live.end()
        await asyncio.wait([sending])
    finally:
        sending.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(sending, return_exceptions=True)
