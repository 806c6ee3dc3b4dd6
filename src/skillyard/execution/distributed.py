"""Skills of kind `distributed`: a tool of an MCP server that the operator registered under `[servers.NAME]`.

`config` has `serverId` and `toolName`. Without `toolName` the skill names a pool of workers: the engine hands it over, and the
worker runs the skill's own script.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidConfiguration, SkillyardError
from skillyard.execution.http_service import MissingGrant, SecretGrants, timeout_of
from skillyard.execution.kinds import KindUnavailable, RemoteAnswer, RemoteCall, failed_answer, outcome_of_answer
from skillyard.execution.outcome import SkillOutcome, infer_format
from skillyard.plain_json import read_json
from skillyard.settings_reader import Setting, Settings, SettingsReader, table_of, text, texts

_TEXTS_BY_NAME: Final = table_of(Setting("text", lambda value: isinstance(value, str)), "a table of texts")
_SETTINGS: Final[Settings] = {
    "command": text(),
    "args": texts("a list of texts"),
    "env": _TEXTS_BY_NAME,
    "cwd": text(),
    "url": text(),
    "headers": _TEXTS_BY_NAME,
    "tools": texts("a list of texts"),
}


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server: a `command` to start with `args`, `env` and `cwd`, or the `url` of one that runs, with `headers`.

    Values of `env` and `headers` may hold `${NAME}` for a secret the operator grants. `tools` are the tools that skills may
    call; None means all. A started server runs outside the sandbox: it is the operator's own program.

    Raises:
        InvalidConfiguration: it has both a command and a url, or neither.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    tools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise InvalidConfiguration(
                "a server has either a command or a url", hint='for example url = "http://localhost:9000/mcp"'
            )

    def permits(self, tool: str) -> bool:
        """Whether skills may call this tool."""
        return self.tools is None or tool in self.tools


def read_servers(tables: Mapping[str, object], file: str = "skillyard.toml") -> dict[str, McpServer]:
    """The servers of a configuration, which `file` has, by their names.

    Raises:
        InvalidConfiguration: a table has an unknown key or an invalid value.
    """
    servers = {}
    for name, table in tables.items():
        try:
            values = SettingsReader(file).read(_SETTINGS, table, f"servers.{name}")
        except InvalidConfiguration as error:  # without the value, which may be a secret
            raise InvalidConfiguration(error.message.partition(", not ")[0], hint=error.hint, **error.details) from None
        try:
            servers[name] = McpServer(**values)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"servers.{name}: {error.message}", hint=error.hint) from None
    return servers


if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

    from skillyard.catalog import Skill


_CONNECT_S: Final = 10.0
_READ_S: Final = 600.0  # a server may hold a stream open; the call's own time ends it


class _Unreachable(Exception):
    """The server did not start or did not answer; no tool was called."""


def declared_worker_pool(config: Mapping[str, object]) -> str | None:
    """The worker pool that a distributed skill's `config` names; None when it names a tool of a server, or nothing."""
    name, tool = config.get("serverId"), config.get("toolName")
    if not isinstance(name, str) or not name.strip():
        return None
    return None if isinstance(tool, str) and tool.strip() else name.strip()


def worker_pool(skill: Skill) -> str | None:
    """The worker pool that a skill names; None when it names none, or cannot be read."""
    if skill.kind != "distributed":
        return None
    try:
        return declared_worker_pool(skill.document().metadata.config)
    except (SkillyardError, OSError):
        return None


def server_problem(config: Mapping[str, object], servers: Mapping[str, McpServer]) -> str | None:
    """Why no server can be called, or `None`."""
    name, tool = config.get("serverId"), config.get("toolName")
    if not isinstance(name, str) or not name.strip():
        return "it has no config.serverId"
    if not isinstance(tool, str) or not tool.strip():
        return f"it names the worker pool {name.strip()!r}, which `catalog.run` and the tools reach through PostgreSQL"
    if name not in servers:
        return f"no server {name!r} is registered: add [servers.{name}] to your own skillyard.toml"
    return None


async def call_server(call: RemoteCall, servers: Mapping[str, McpServer]) -> RemoteAnswer:
    """Call the tool of one of the registered servers.

    Raises:
        KindUnavailable: the server is not registered or cannot be reached; no tool was called.
    """
    if problem := server_problem(call.config, servers):
        raise KindUnavailable("distributed", problem)
    name, tool = str(call.config["serverId"]), str(call.config["toolName"])
    server, grants = servers[name], SecretGrants(call.ceiling)
    if not server.permits(tool):
        message = f"skills may not call {tool!r} of the server {name!r}: its `tools` do not name it"
        return failed_answer("SECURITY_VALIDATION_ERROR", message, status="denied")
    import asyncio  # only a call waits for a server

    milliseconds = timeout_of(call.config, call.policy)
    try:
        async with asyncio.timeout(milliseconds / 1000):
            result = await _call_tool(server, tool, dict(call.parameters), grants)
    except TimeoutError:
        return failed_answer("RESOURCE_LIMIT_ERROR", f"{tool!r} did not answer within {milliseconds} ms", status="timeout")
    except MissingGrant as error:
        return failed_answer("SECURITY_VALIDATION_ERROR", str(error), status="denied")
    except _Unreachable as error:
        reason = grants.redacted_text(f"the server {name!r} cannot be reached: {error}")
        raise KindUnavailable("distributed", reason) from None
    if isinstance(result, str):
        return failed_answer("SANDBOX_EXECUTION_ERROR", grants.redacted_text(f"{tool!r} failed: {result}"))
    return _answer(result, tool, call.policy.result_bytes, grants)


async def _call_tool(server: McpServer, tool: str, parameters: dict[str, object], grants: SecretGrants) -> CallToolResult | str:
    """The tool's result, or why the call failed after the server was reached."""
    connected = False
    try:
        async with _client(server, grants) as client:
            connected = True
            return await client.call_tool(tool, parameters)
    except (MissingGrant, TimeoutError):
        raise
    except Exception as error:  # the client's transports raise whatever their libraries do
        reason = _reason(error)
        if connected:
            return reason
        raise _Unreachable(reason) from None


@asynccontextmanager
async def _client(server: McpServer, grants: SecretGrants) -> AsyncIterator[Client]:
    """A client that is connected to the server."""
    # The SDK takes most of a second to import: only a call pays for it. Its transports take a client of httpx2.
    import httpx2
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if server.command:
        parameters = StdioServerParameters(
            command=server.command, args=list(server.args), env=grants.fill(server.env) or None, cwd=server.cwd
        )
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 # a device
            async with Client(stdio_client(parameters, errlog=nowhere)) as client:
                yield client
        return
    http = httpx2.AsyncClient(headers=grants.fill(server.headers), timeout=httpx2.Timeout(_CONNECT_S, read=_READ_S))
    async with http, Client(streamable_http_client(server.url or "", http_client=http)) as client:
        yield client


def _reason(error: BaseException) -> str:
    """The innermost error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).strip() or type(error).__name__


def _answer(result: CallToolResult, tool: str, limit: int, grants: SecretGrants) -> RemoteAnswer:
    value = grants.redacted(_output(result))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text.encode("utf-8", "replace")) > limit:
        return failed_answer("RESOURCE_LIMIT_ERROR", f"{tool!r} answered more than {limit} bytes", status="output_limit")
    if result.is_error:
        return failed_answer(
            "SANDBOX_EXECUTION_ERROR", f"{tool!r} failed: {text[:2000]}", outcome=SkillOutcome(value, infer_format(value))
        )
    return RemoteAnswer(outcome_of_answer(value))


def _output(result: CallToolResult) -> object:
    """What a tool answered: its structured content, else its text as JSON when it is, else every block as plain data."""
    if result.structured_content is not None:
        return result.structured_content
    texts = [block.text for block in result.content if block.type == "text"]
    if len(texts) < len(result.content):
        return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    text = "\n".join(texts)
    try:
        return read_json(text)
    except ValueError:
        return text or None
