"""MCP over streamable HTTP: the same handlers as over standard input and output, as an ASGI application for one address.

Clients of 2026-07-28 send requests that stand for themselves; older ones open a session, which belongs to the caller who opened
it and ends when the client says so, after half an hour without a request, or with the server. Where several processes serve one
address no session is kept (`sessions=False`), because the next request may reach another process: older clients then hear of no
changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from skillyard.mcp.server import create_server

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from skillyard.tools import SkillTools

__all__ = ["HttpDoor"]


class HttpDoor:
    """The skills of one `SkillTools` at one address, while `running()` is entered; who may come in is decided before it."""

    def __init__(self, tools: SkillTools, *, watch: bool = True, sessions: bool = True) -> None:
        self._server = create_server(tools, watch=watch)
        self._manager = StreamableHTTPSessionManager(self._server, stateless=not sessions)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests in this block; at its end every session ends."""
        async with self._manager.run():
            yield

    def stop_telling(self) -> None:
        """End the streams that only wait for changes: a server that stops would wait for them in vain."""
        self._server.listening.close()

    async def answer(self, scope: Scope, receive: Receive, send: Send, *, caller: str) -> None:
        """Answer one request of `caller`; a session of somebody else does not exist for them."""
        user = AuthenticatedUser(AccessToken(token="", client_id=caller, scopes=[]))
        await self._manager.handle_request({**scope, "user": user}, receive, send)
