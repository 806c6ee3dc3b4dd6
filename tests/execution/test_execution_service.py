"""Service skills against a real server on loopback: what is sent, what comes back, what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from skillyard.errors import NotExecutable
from skillyard.execution import Executor, Run, RunRequest
from skillyard.sandbox import Policy


@dataclass
class Server:
    """A server that gives the same answer to everything and keeps what it was asked."""

    status: str = "200 OK"
    body: bytes = b"{}"
    headers: str = "Content-Type: application/json\r\n"
    delay: float = 0
    asked: list[bytes] = field(default_factory=list)
    port: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.create_task(self.serve(reader, writer)))

    async def close(self) -> None:
        self.closing.set()
        await asyncio.gather(*self.tasks)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
            self.asked.append(head + await reader.readexactly(length))
            if self.delay:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.closing.wait(), self.delay)
            head_out = f"HTTP/1.1 {self.status}\r\n{self.headers}Content-Length: {len(self.body)}\r\n\r\n"
            writer.write(head_out.encode() + self.body)
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    @property
    def first_lines(self) -> list[str]:
        return [data.split(b"\r\n")[0].decode() for data in self.asked]

    def header(self, name: str) -> str:
        head = self.asked[-1].split(b"\r\n\r\n")[0].decode("latin-1")
        return next(line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith(f"{name.lower()}:"))

    @property
    def sent(self) -> Any:
        return json.loads(self.asked[-1].partition(b"\r\n\r\n")[2])


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    listening = await asyncio.start_server(found.accept, "127.0.0.1", 0)
    found.port = listening.sockets[0].getsockname()[1]
    yield found
    listening.close()
    await found.close()


Ask = Callable[..., Any]


@pytest.fixture
def ask(write_skill: Any, server: Server) -> Ask:
    """Run a service skill of the server; `config` overrides its fields."""

    async def run(parameters: dict[str, Any] | None = None, *, ceiling: Any = None, files: Any = None, **config: Any) -> Run:
        host = f"http://127.0.0.1:{server.port}"
        security = {"network": "allowlist", "network_allowlist": config.pop("allow", [host])}
        security |= config.pop("security", {})
        fields = config.pop("fields", {})
        skill = write_skill(
            files or {"SKILL.md": "x"}, kind="service", config={"endpoint": f"{host}/v1"} | config, security=security, **fields
        )
        policy = ceiling or Policy.ceiling({"network-allowlist": [host], "private-networks": True})
        return await Executor(ceiling=policy).run(RunRequest(skill, parameters or {}))

    return run


@pytest.mark.row("000-11")
async def test_parameters_are_posted_as_json_and_the_answer_is_the_output(ask: Ask, server: Server) -> None:
    server.body = '{"place": "上海", "temperature": 18.2}'.encode()
    run = await ask({"location": "上海"}, headers={"X-Unit": "C"})
    assert (run.status, run.output, run.format) == ("ok", {"place": "上海", "temperature": 18.2}, "object")
    assert (run.kind, run.isolation, run.error, run.warnings) == ("service", "none", None, ())
    assert run.verdict == f"ok after {run.duration_ms:,} ms, asked over HTTP"
    assert server.first_lines == ["POST /v1 HTTP/1.1"]
    assert server.sent == {"location": "上海"}
    assert (server.header("content-type"), server.header("x-unit")) == ("application/json", "C")


@pytest.mark.row("000-11")
@pytest.mark.parametrize("method", ["GET", "DELETE", "get"])
async def test_get_and_delete_send_parameters_in_the_query(ask: Ask, server: Server, method: str) -> None:
    parameters = {"q": "a b&c", "n": 1, "yes": True, "none": None, "many": [1, "x"], "deep": {"a": 1}}
    await ask(parameters, method=method, endpoint=f"http://127.0.0.1:{server.port}/v1?key=1")
    query = "key=1&q=a+b%26c&n=1&yes=true&many=1&many=x&deep=%7B%22a%22%3A+1%7D"
    assert server.first_lines == [f"{method.upper()} /v1?{query} HTTP/1.1"]
    assert server.header("content-length") == "0"


@pytest.mark.row("000-39")
@pytest.mark.parametrize(
    ("body", "content_type", "output", "format_"),
    [
        (b"plain words", "text/plain", "plain words", "text"),
        ("café".encode("latin-1"), "text/plain; charset=latin-1", "café", "text"),
        (b"\x89PNG\xff", "image/png", "iVBOR/8=", "binary"),
        (b"", "application/json", None, "void"),
        (b"7", "application/json", 7, "primitive"),
        (b"NaN", "application/json", "NaN", "text"),
        (b'"text"', "application/json", "text", "text"),
        (b'{"status": "success", "message": "a"}', "", {"status": "success", "message": "a"}, "object"),
        (b'{"result": {"a": 1}}', "", {"result": {"a": 1}}, "object"),
    ],
)
async def test_a_body_is_json_when_it_parses_and_else_text_or_bytes(
    ask: Ask, server: Server, body: bytes, content_type: str, output: object, format_: str
) -> None:
    server.body, server.headers = body, f"Content-Type: {content_type}\r\n" if content_type else ""
    run = await ask()
    assert (run.output, run.format, run.status) == (output, format_, "ok")


@pytest.mark.row("D-19", "000-34", "000-35")
@pytest.mark.parametrize("protocol", ["vcp", "abp"])
async def test_an_outcome_in_the_answer_is_unwrapped(ask: Ask, server: Server, protocol: str) -> None:
    write = {"ownerType": "user", "ownerId": "ada", "type": "fact", "content": "x", "importance": 1}
    outcome = {"output": 5, "memoryWrites": [write], "warnings": ["slow"]}
    server.body = json.dumps({"id": "1", "tool": "t", "result": outcome} if protocol == "abp" else outcome).encode()
    run = await ask(fields={"protocol": protocol})
    assert (run.output, len(run.memory_writes), run.warnings) == (5, 1, ("slow",))
    server.body = b'{"output": null, "status": "error", "message": "no such city"}'
    run = await ask()
    assert (run.status, run.error and run.error.message) == ("error", "no such city")


@pytest.mark.row("000-40", "D-17")
@pytest.mark.parametrize(("status", "part"), [("404 Not Found", "404: "), ("500 Oops", "500: "), ("302 Found", "redirect")])
async def test_a_bad_answer_is_a_failure_and_nothing_stands_in(ask: Ask, server: Server, status: str, part: str) -> None:
    server.status, server.body = status, b'{"detail": "who?"}'
    run = await ask(files={"scripts/execute.py": "def execute():\n    return 'stood in'"})
    assert run.status == "error"
    assert run.error is not None
    assert run.error.code == "SANDBOX_EXECUTION_ERROR"
    assert part in run.error.message
    assert run.output != "stood in"
    assert len(server.asked) == 1


@pytest.mark.row("000-20", "D-17")
async def test_what_the_policy_refuses_stays_refused(ask: Ask, server: Server) -> None:
    script = {"scripts/execute.py": "def execute():\n    return 'stood in'"}
    host = f"http://127.0.0.1:{server.port}"
    refused = [
        await ask(allow=["https://example.com"], files=script),
        await ask(security={"network": "none"}, files=script),
        await ask(ceiling=Policy.ceiling({"network": "none"}), files=script),
        await ask(ceiling=Policy.ceiling({"network-allowlist": ["https://example.com"]}), files=script),
        await ask(ceiling=Policy.ceiling({"network-allowlist": [host]}), files=script),  # private networks are closed
        await ask(ceiling=Policy.ceiling(), files=script),
    ]
    assert {(run.status, run.error.code) for run in refused if run.error} == {("denied", "SECURITY_VALIDATION_ERROR")}
    assert len([run for run in refused if run.output is None]) == 6
    assert server.asked == []


@pytest.mark.row("000-20")
async def test_time_and_size_are_limited(ask: Ask, server: Server) -> None:
    server.delay = 30
    run = await ask(timeoutMs=60)
    assert (run.status, run.error and run.error.code) == ("timeout", "RESOURCE_LIMIT_ERROR")
    run = await ask(timeoutMs=30_000, security={"timeout_ms": 60})  # the policy's time is the most
    assert run.status == "timeout"
    server.delay, server.body = 0, b"x" * 5000
    host = f"http://127.0.0.1:{server.port}"
    run = await ask(ceiling=Policy.ceiling({"network-allowlist": [host], "private-networks": True, "result-bytes": 4000}))
    assert (run.status, run.error and run.error.code) == ("output_limit", "RESOURCE_LIMIT_ERROR")


@pytest.mark.row("000-40")
async def test_a_granted_secret_goes_out_in_a_header_and_never_comes_back(ask: Ask, server: Server) -> None:
    host = f"http://127.0.0.1:{server.port}"
    settings = {"network-allowlist": [host], "private-networks": True, "environment": {"WEATHER_KEY": "s3cr3t-value"}}
    server.body = b'{"echo": "Bearer s3cr3t-value", "s3cr3t-value": ["czNjcjN0LXZhbHVl", "\\u0073\\u0033cr3t-value"]}'
    run = await ask(headers={"Authorization": "Bearer ${WEATHER_KEY}"}, ceiling=Policy.ceiling(settings))
    assert server.header("authorization") == "Bearer s3cr3t-value"
    assert run.output == {"echo": "Bearer [redacted]", "[redacted]": ["[redacted]", "[redacted]"]}
    server.status = "401 Unauthorized"
    run = await ask(headers={"Authorization": "Bearer ${WEATHER_KEY}"}, ceiling=Policy.ceiling(settings))
    assert "s3cr3t" not in str(run)


@pytest.mark.row("000-40")
async def test_a_secret_goes_nowhere_without_the_operators_word(ask: Ask, server: Server, write_skill: Any) -> None:
    header = {"headers": {"X-Key": "${WEATHER_KEY}"}}
    run = await ask(**header)
    assert (run.status, run.error and "not granted" in run.error.message) == ("denied", True)
    host = f"http://127.0.0.1:{server.port}"
    granted = {"network-allowlist": [host], "private-networks": True, "environment": {"WEATHER_KEY": "s3cr3t-value"}}
    security = {"network": "allowlist", "network_allowlist": [host]}
    skill = write_skill({"SKILL.md": "x"}, kind="service", config={"endpoint": host, **header}, security=security)
    # The hosts of a project's file are no word of the operator.
    run = await Executor(ceiling=Policy.ceiling(granted), secret_hosts=()).run(RunRequest(skill, {}))
    assert (run.status, run.error and "operator names" in run.error.message) == ("denied", True)
    anywhere = Policy.ceiling({"environment": {"WEATHER_KEY": "s3cr3t-value"}})
    assert (await Executor(ceiling=anywhere).run(RunRequest(skill, {}))).status == "denied"
    in_the_body = await ask({"key": "${WEATHER_KEY}"}, ceiling=Policy.ceiling(granted))
    assert in_the_body.ok
    assert server.sent == {"key": "${WEATHER_KEY}"}  # only headers are filled in
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "config",
    [
        {"endpoint": "ftp://example.com"},
        {"endpoint": "http://user:pw@example.com/"},
        {"method": "CONNECT"},
        {"headers": ["a"]},
        {"headers": {"Host": "evil"}},
        {"headers": {"X": "a\r\nY: b"}},
    ],
)
async def test_a_configuration_that_cannot_be_meant_says_so(ask: Ask, server: Server, config: dict[str, Any]) -> None:
    with pytest.raises(NotExecutable):
        await ask(**config)
    assert server.asked == []


@pytest.mark.row("000-17")
async def test_parameters_are_checked_before_anything_is_sent(ask: Ask, server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}, "additionalProperties": False}
    run = await ask({"m": 1}, fields={"input_schema": schema})
    assert (run.error and run.error.code, server.asked) == ("VALIDATION_FAILED", [])
    server.body = b'{"n": "text"}'
    run = await ask(fields={"input_schema": schema, "output_schema": schema})
    assert server.sent == {"n": 3}
    assert "output_schema" in run.warnings[0]
