"""MCP over streamable HTTP: the same handlers as over standard input and output, as an ASGI application for one address.

Clients of 2026-07-28 send requests that stand for themselves; older ones open a session, which belongs to the caller who opened
it and ends when the client says so, after half an hour without a request, or with the server. Where several processes serve one
address no session is kept (`sessions=False`), because the next request may reach another process: older clients get no
notifications of changes.

A session takes memory until it ends, and a client that forgets its own opens another: of one caller only the newest are kept,
the one that was not used for longest ends when another is opened. When too many of all callers are open, no more are opened.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers

from skillyard.mcp.server import create_server

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from skillyard.mcp.tool_calls import ToolUses
    from skillyard.tools import SkillTools


_ENDED: Final = 404
_FAILED: Final = 400


class McpHttpApp:
    """The skills of one `SkillTools` at one address, while `running()` is entered; who may come in is decided before it.

    Of each caller `each` sessions of older clients are kept, of all `total`; `idle_s` seconds without a request end one.
    `on_call` stands around each call of a tool, and says whose it is.
    """

    def __init__(
        self,
        tools: SkillTools,
        *,
        watch: bool = True,
        sessions: bool = True,
        each: int = 32,
        total: int = 1000,
        idle_s: float = 1800,
        on_call: ToolUses | None = None,
    ) -> None:
        self._server = create_server(tools, watch=watch, **({"on_call": on_call} if on_call else {}))
        self._manager = StreamableHTTPSessionManager(
            self._server, stateless=not sessions, session_idle_timeout=idle_s, max_sessions=total
        )
        self._each = each
        self._sessions: dict[str, OrderedDict[str, None]] = {}
        """The sessions of each caller, the one that was not used for longest first."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests in this block; at its end every session ends."""
        async with self._manager.run():
            yield

    def end_subscriptions(self) -> None:
        """End the streams that only wait for changes: a server that stops would wait for them for ever."""
        self._server.listening.close()

    async def answer(self, scope: Scope, receive: Receive, send: Send, *, caller: str) -> None:
        """Answer one request of `caller`; a session of somebody else does not exist for them."""
        user = AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))
        named = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        opened: str | None = None

        async def noting(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start":
                opened = self._note(caller, named, message, ending=scope["method"] == "DELETE")
            await send(message)

        await self._manager.handle_request({**scope, "user": user}, receive, noting)
        if opened is not None:
            await self._end_oldest(scope, user, caller)

    def _note(self, caller: str, named: str | None, message: Message, *, ending: bool) -> str | None:
        """Keep in mind which session was used last; gives the id of one that this answer opened."""
        status, made = message["status"], Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
        sessions = self._sessions.setdefault(caller, OrderedDict())
        if named is not None and (status == _ENDED or (ending and status < _FAILED)):
            sessions.pop(named, None)
        elif named is not None and named in sessions:
            sessions.move_to_end(named)
        opened = made if named is None and made is not None and status < _FAILED else None
        if opened is not None:
            sessions[opened] = None
        if not sessions:
            del self._sessions[caller]
        return opened

    async def _end_oldest(self, scope: Scope, user: AuthenticatedUser, caller: str) -> None:
        """End the sessions of the caller that are too many, as if their client had ended them."""
        sessions = self._sessions.get(caller, OrderedDict())
        while len(sessions) > self._each:
            session, _ = sessions.popitem(last=False)
            headers = [(MCP_SESSION_ID_HEADER.encode(), session.encode()), (b"accept", b"application/json, text/event-stream")]
            request = {**scope, "method": "DELETE", "headers": headers, "user": user}
            await self._manager.handle_request(request, _nothing, _unsent)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unsent(message: Message) -> None:
    """What the end of a session answers: no client requested it."""
