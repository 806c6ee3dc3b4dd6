"""The transports of MCP: standard input and output for any client on this machine, and streamable HTTP, with the same handlers.

Over standard input and output everything that was read is answered before leaving: a client may write its requests and close
its end at once. The SDK drops what it works on as soon as the reading side closes. So it learns of the end of the input only
when no request is unanswered, or when nobody can read an answer any more.

HTTP is an ASGI application for one address. Clients of 2026-07-28 send requests that stand for themselves; older ones open a
session, which belongs to the caller who opened it and ends when the client says so, after half an hour without a request, or
with the server. Where several processes serve one address no session is kept (`sessions=False`), because the next request may
reach another process: older clients get no notifications of changes.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from typing import TYPE_CHECKING, Final

import anyio
from mcp import types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.datastructures import Headers

from skillyard.mcp.mcp_server import create_server, use_of_nobody
from skillyard.tools import SkillTools

if TYPE_CHECKING:
    from anyio.abc import ObjectReceiveStream, ObjectSendStream
    from starlette.types import Message, Receive, Scope, Send

    from skillyard.mcp.mcp_server import SkillServer, ToolUses
    from skillyard.workspace import Workspace

    Read = SessionMessage | Exception


_POLL_S: Final = 0.2  # between two checks whether the client still reads
_ENDLESS: Final = "subscriptions/listen"  # its answer is the stream of what happens: it ends when the client leaves
_CANCELLED: Final = "notifications/cancelled"


class StdoutWatch:
    """Standard output as it was when this was made, watched for its reader; the SDK replaces it."""

    def __init__(self) -> None:
        self._own: int | None = None
        with suppress(OSError, ValueError):
            self._own = os.dup(sys.stdout.fileno())

    @property
    def gone(self) -> bool:
        """Whether it is a pipe that nobody reads any more."""
        if self._own is None:
            return False
        watching = select.poll()
        watching.register(self._own, 0)  # errors are always reported
        return any(happened & select.POLLERR for _, happened in watching.poll(0))

    def close(self) -> None:
        """Close this copy of it."""
        if self._own is not None:
            os.close(self._own)
            self._own = None


class _PendingRequests:
    """The ids of requests that were read and not yet answered."""

    def __init__(self) -> None:
        self._open: Counter[str | int] = Counter()
        self._changed = anyio.Event()

    def read(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != _ENDLESS:
            self._open[coerce_request_id(message.id)] += 1
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"))

    def written(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._settle(message.id)

    def _settle(self, request: object) -> None:
        if isinstance(request, str | int) and (request_id := coerce_request_id(request)) in self._open:
            self._open -= Counter([request_id])
            self._changed.set()

    async def settled(self, outlet: StdoutWatch) -> None:
        """Return when every request is answered, or nobody reads."""
        while self._open and not outlet.gone:
            self._changed = anyio.Event()
            with anyio.move_on_after(_POLL_S):
                await self._changed.wait()


@asynccontextmanager
async def drain_requests(
    reading: ObjectReceiveStream[Read],
    writing: ObjectSendStream[SessionMessage],
    outlet: StdoutWatch,
    lines: Sequence[str] = (),
    answered: Sequence[str | int] = (),
) -> AsyncIterator[tuple[ObjectReceiveStream[Read], ObjectSendStream[SessionMessage]]]:
    """The two streams of a client as a server should see them: the first ends when all that came through it was answered.

    `lines` were read before; the server's answers to those of their requests that are `answered` are dropped. What is no
    message is answered here with an error of JSON-RPC: the SDK only logs it.
    """
    pending = _PendingRequests()
    inner_in, server_reads = anyio.create_memory_object_stream["Read"](0)
    server_writes, inner_out = anyio.create_memory_object_stream[SessionMessage](0)
    dropped = list(answered)

    async def forward(message: Read) -> None:
        if isinstance(message, SessionMessage):
            pending.read(message.message)
            await inner_in.send(message)
        elif (refusal := _refused_line(message)) is not None:
            await writing.send(SessionMessage(refusal))

    async def forward_requests() -> None:
        async with inner_in, reading:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has left by itself
                for line in lines:
                    await forward(_parsed(line))
                async for message in reading:
                    await forward(message)
                await pending.settled(outlet)

    async def forward_answers() -> None:
        async with inner_out:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client has left
                async for message in inner_out:
                    answer = message.message
                    if isinstance(answer, types.JSONRPCResponse | types.JSONRPCError) and answer.id in dropped:
                        dropped.remove(answer.id)
                    else:
                        await writing.send(message)
                    pending.written(message.message)

    async with writing, anyio.create_task_group() as relaying:
        relaying.start_soon(forward_requests)
        relaying.start_soon(forward_answers)
        yield server_reads, server_writes


def _parsed(line: str) -> Read:
    """One line as the SDK gives it."""
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _refused_line(error: Exception) -> types.JSONRPCError | None:
    """The answer to a line that is no message; None for an empty one."""
    if not isinstance(error, ValidationError):
        return None
    fault = error.errors(include_url=False, include_context=False)[0]
    if fault["type"] != "json_invalid":
        refusal = types.ErrorData(code=types.INVALID_REQUEST, message="the line is JSON, but no message of JSON-RPC 2.0")
    elif isinstance(fault["input"], str) and not fault["input"].strip():
        return None
    else:
        refusal = types.ErrorData(code=types.PARSE_ERROR, message="the line is not JSON: write one message on each line")
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=refusal)


def run_stdio(
    tools: SkillTools,
    workspace: Workspace | None,
    *,
    watch: bool,
    lines: Sequence[str],
    answered: Sequence[str | int],
    tool_prefix: str = "",
) -> None:
    """Serve `tools` over standard input and output (`serve_stdio`), of which `lines` were read before (`drain_requests`)."""
    server = create_server(tools, watch=watch, tool_prefix=tool_prefix)
    try:
        asyncio.run(_serve(server, workspace, lines, answered))
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client went away while an answer was written: there is nobody left to serve


async def _serve(server: SkillServer, workspace: Workspace | None, lines: Sequence[str], answered: Sequence[str | int]) -> None:
    try:
        with closing(StdoutWatch()) as outlet:
            async with (
                stdio_server() as (read, written),
                drain_requests(read, written, outlet, lines, answered) as (reading, writing),
            ):
                await server.run(reading, writing, server.create_initialization_options())
    finally:
        if workspace is not None:
            await workspace.close()


_BLANKS: Final = b" \t"  # around the value of a header they are no part of it (RFC 9110, 5.5); httptools leaves those behind it
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
        on_call: ToolUses = use_of_nobody,
        tool_prefix: str = "",
    ) -> None:
        self._server = create_server(tools, watch=watch, on_call=on_call, tool_prefix=tool_prefix)
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
        scope = {**scope, "headers": [(name, value.strip(_BLANKS)) for name, value in scope["headers"]]}
        named = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        opened: str | None = None

        async def noting(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start":
                opened = self._note(caller, named, message, ending=scope["method"] == "DELETE")
            await send(message)

        if scope["method"] == "POST":  # the SDK calls a body that breaks off an error of the server
            whole = await _received(receive)
            if whole is None:
                await send({"type": "http.response.start", "status": _FAILED, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            receive = _again(whole, receive)
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


async def _received(receive: Receive) -> bytes | None:
    """The whole body of a request; None when its client went away before it was sent. How large it is others limit."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """What gives the body as one message, and then what comes after it."""
    waiting = [body]

    async def give() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return give


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unsent(message: Message) -> None:
    """What the end of a session answers: no client requested it."""
