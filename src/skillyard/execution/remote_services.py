"""Skills that are executed elsewhere: kind `service`, one HTTP request; and kind `distributed`, a tool of an MCP server.

Of a service `config` has `endpoint`, `method` (POST when absent), `headers` and `timeoutMs`. The hosts are those of
`security.network_allowlist` of the skill that the operator allows too; redirects are not followed. The response is the output.

Of a distributed skill `config` has `serverId` and `toolName`: the operator registered the server under `[servers.NAME]`.
Without `toolName` the skill names a pool of workers: the engine hands it over, and the worker runs its own script.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from skillyard.errors import InvalidConfiguration, InvalidInput, NetworkFailed, NetworkRefused, NotExecutable, SkillyardError
from skillyard.execution.kinds import KindUnavailable, RemoteAnswer, RemoteCall, failed_answer, outcome_of_answer
from skillyard.execution.run import SkillOutcome, infer_format
from skillyard.network import guarded_request
from skillyard.network.hosts import ANY_HOST, MalformedHost, permits, read_destination, read_rules
from skillyard.plain_json import read_json
from skillyard.sandbox.policy import redact
from skillyard.settings_reader import Setting, Settings, SettingsReader, table_of, text, texts

if TYPE_CHECKING:
    from skillyard.network import GuardedResponse
    from skillyard.sandbox import Policy

_NAME: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")


class MissingGrant(Exception):
    """A name that no operator granted; its text is a sentence."""


class SecretGrants:
    """What an operator grants, and the values that were handed out."""

    def __init__(self, ceiling: Policy) -> None:
        self._granted = {name: value for name, value in ceiling.environment.items() if name in ceiling.secrets and value}
        self._used: dict[str, str] = {}

    def fill(self, texts: Mapping[str, str]) -> dict[str, str]:
        """`texts` with every `${NAME}` in their values replaced.

        Raises:
            MissingGrant: a name is not granted, or has no value here.
        """
        return {key: _NAME.sub(self._value, text) for key, text in texts.items()}

    def names_secret(self, texts: Iterable[str]) -> bool:
        """Whether any of `texts` names a secret."""
        return any(_NAME.search(text) for text in texts)

    def redacted(self, value: object) -> object:
        """`value` without the values that were handed out, at any place in it; keys included."""
        if not self._used:
            return value
        if isinstance(value, str):
            return self.redacted_bytes(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, Mapping):
            return {self.redacted(key): self.redacted(item) for key, item in value.items()}
        return [self.redacted(item) for item in value] if isinstance(value, (list, tuple)) else value

    def redacted_text(self, text: str) -> str:
        """A text without the values that were handed out."""
        return str(self.redacted(text))

    def redacted_bytes(self, data: bytes) -> bytes:
        """Bytes without the values that were handed out, also where they are encoded in one of the usual ways."""
        return redact(data, sorted(self._used.values(), key=len, reverse=True))

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._granted:
            raise MissingGrant(f"the secret {name} is not granted here")
        self._used[name] = self._granted[name]
        return self._granted[name]


NO_ENDPOINT: Final = "it has no config.endpoint"
"""Why a service without an endpoint cannot be called."""

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
_IN_THE_QUERY: Final = ("GET", "DELETE", "HEAD")
_CHARSET: Final = re.compile(r"charset=\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_SHOWN: Final = 500


def has_endpoint(config: Mapping[str, object]) -> bool:
    """Whether there is something to call."""
    endpoint = config.get("endpoint")
    return isinstance(endpoint, str) and bool(endpoint.strip())


def timeout_of(config: Mapping[str, object], policy: Policy) -> int:
    """The time for a call in milliseconds: what `config.timeoutMs` says, and never more than the policy's."""
    timeout = config.get("timeoutMs", config.get("timeout_ms"))
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout < 1:
        return policy.timeout_ms
    return min(int(timeout), policy.timeout_ms)


async def call_service(call: RemoteCall, secret_hosts: Sequence[str] = ()) -> RemoteAnswer:
    """Ask the service; secrets may go to `secret_hosts` only.

    Raises:
        KindUnavailable: there is no endpoint, or it does not answer; nothing was sent.
        NotExecutable: the endpoint, the method or a header cannot be used.
    """
    if not has_endpoint(call.config):
        raise KindUnavailable("service", NO_ENDPOINT)
    method = _method(call.config)
    url, body = _request(call, method)
    grants = SecretGrants(call.ceiling)
    try:
        headers = _headers(call, grants, secret_hosts, with_body=bool(body))
    except MissingGrant as error:
        return failed_answer("SECURITY_VALIDATION_ERROR", str(error), status="denied")
    return await _ask(call, method, url, headers, body, grants)


async def _ask(
    call: RemoteCall, method: str, url: str, headers: dict[str, str], body: bytes, grants: SecretGrants
) -> RemoteAnswer:
    import asyncio  # only a call waits for a network

    milliseconds = timeout_of(call.config, call.policy)
    try:
        async with asyncio.timeout(milliseconds / 1000):
            response = await guarded_request(
                method,
                url,
                allow=call.policy.network_allowlist,
                headers=headers,
                body=body,
                timeout_s=milliseconds / 1000 + 1,
                max_bytes=call.policy.result_bytes,
                allow_private=call.policy.private_networks,
            )
    except TimeoutError:
        return failed_answer("RESOURCE_LIMIT_ERROR", f"the service did not answer within {milliseconds} ms", status="timeout")
    except NetworkRefused as error:
        return failed_answer("SECURITY_VALIDATION_ERROR", grants.redacted_text(error.sentence), status="denied")
    except NetworkFailed as error:
        return _not_answered(error, grants)
    except InvalidInput as error:
        raise NotExecutable(grants.redacted_text(error.message), hint=error.hint) from None
    return _answer_of_response(response, grants)


def _not_answered(error: NetworkFailed, grants: SecretGrants) -> RemoteAnswer:
    message = grants.redacted_text(error.message)
    if error.details.get("sent") is False:
        raise KindUnavailable("service", message) from None
    if "limit" in error.details:
        return failed_answer("RESOURCE_LIMIT_ERROR", message, status="output_limit")
    return failed_answer("SANDBOX_EXECUTION_ERROR", message)


def _method(config: Mapping[str, object]) -> str:
    method = str(config.get("method") or "POST").upper()
    if method not in _METHODS:
        raise NotExecutable(f"config.method {method[:30]!r} cannot be used", hint=f"one of {', '.join(_METHODS)}")
    return method


def _request(call: RemoteCall, method: str) -> tuple[str, bytes]:
    """The address, with the parameters when the method has no body, and the body."""
    url = str(call.config["endpoint"]).strip()
    if method not in _IN_THE_QUERY:
        return url, json.dumps(call.parameters, ensure_ascii=False, allow_nan=False, default=dict).encode()
    query = urlencode([(name, text) for name, value in call.parameters.items() for text in _texts(value)])
    if not query:
        return url, b""
    return f"{url}{'&' if '?' in url else '?'}{query}", b""


def _texts(value: object) -> list[str]:
    """A value as it is written in a query: nothing for null, one for each entry of a list, JSON for an object."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, Mapping):
        return [json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict)]
    return [str(value)]


def _headers(call: RemoteCall, grants: SecretGrants, secret_hosts: Sequence[str], *, with_body: bool) -> dict[str, str]:
    """The skill's headers with their secrets filled in, and the usual headers of every request.

    Raises:
        MissingGrant: a secret is not granted, or the operator allows it to go to any host at all.
    """
    written = call.config.get("headers") or {}
    if not isinstance(written, Mapping):
        raise NotExecutable("config.headers is not a mapping", hint='for example headers: {"X-Key": "${WEATHER_KEY}"}')
    texts = {str(name): str(value) for name, value in written.items() if value is not None}
    if grants.names_secret(texts.values()) and not _may_know_secrets(str(call.config["endpoint"]).strip(), secret_hosts):
        raise MissingGrant(
            "a secret may only go to a host that the operator names: "
            "list the host in network-allowlist of your own [sandbox] settings"
        )
    names = {name.lower() for name in texts}
    usual = {"Accept": "application/json, */*;q=0.5"} | ({"Content-Type": "application/json"} if with_body else {})
    return {name: value for name, value in usual.items() if name.lower() not in names} | grants.fill(texts)


def _may_know_secrets(endpoint: str, secret_hosts: Sequence[str]) -> bool:
    """Whether the operator's own list names the host; that any host is allowed is not enough."""
    hosts = [host for host in secret_hosts if host != ANY_HOST]
    try:
        to = read_destination(endpoint)
        return permits(read_rules(hosts), to.scheme, to.host, to.port)
    except (InvalidInput, MalformedHost):
        return False


def _answer_of_response(response: GuardedResponse, grants: SecretGrants) -> RemoteAnswer:
    body = grants.redacted_bytes(response.body)
    outcome = _outcome(grants.redacted(_read(body)), body, response.headers.get("content-type", ""))
    if response.status < 300:
        return RemoteAnswer(outcome)
    if response.status < 400:
        return failed_answer(
            "SANDBOX_EXECUTION_ERROR", f"the service answered {response.status}, a redirect, which is not followed"
        )
    text = outcome.output if isinstance(outcome.output, str) else json.dumps(outcome.output, ensure_ascii=False)
    more = f": {text[:_SHOWN]}" if outcome.output is not None else ""
    return failed_answer("SANDBOX_EXECUTION_ERROR", f"the service answered {response.status}{more}", outcome=outcome)


def _read(body: bytes) -> object:
    """The body as JSON when it is, else the bytes."""
    if not body.strip():
        return None
    try:
        return read_json(body.decode("utf-8-sig"))
    except ValueError:
        return body


def _outcome(value: object, body: bytes, content_type: str) -> SkillOutcome:
    """What an answer says: read as JSON, else as text in its character set, else as binary data."""
    if not isinstance(value, bytes):
        return outcome_of_answer(value)
    charset = _CHARSET.search(content_type)
    try:
        return SkillOutcome(body.decode(charset[1] if charset else "utf-8"), "text")
    except (UnicodeError, LookupError):
        return SkillOutcome(base64.b64encode(body).decode(), "binary")


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
    return _answer_of_tool(result, tool, call.policy.result_bytes, grants)


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


def _answer_of_tool(result: CallToolResult, tool: str, limit: int, grants: SecretGrants) -> RemoteAnswer:
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
