"""Distributed skills against a real MCP server in another process, over standard input and over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import InvalidConfiguration
from skillyard.execution import Executor, McpServer, Run, RunRequest
from skillyard.execution.remote_services import read_servers
from skillyard.sandbox import Policy

SERVER = '''
import os, sys, time
from mcp.server import MCPServer
from mcp.types import ImageContent

server = MCPServer("weather")

@server.tool()
def forecast(city: str, days: int = 1) -> dict:
    """Tell the weather."""
    return {"city": city, "days": days}

@server.tool(structured_output=False)
def words(n: int) -> str:
    return "[1, 2]" if n == 0 else "sun " * n

@server.tool()
def outcome() -> dict:
    return {"output": 5, "memoryWrites": [], "warnings": ["slow"]}

@server.tool()
def key() -> dict:
    return {"key": os.environ.get("WEATHER_KEY", "none"), "home": sorted(n for n in os.environ if "SKILLYARD" in n)}

@server.tool()
def broken() -> str:
    raise ValueError("no such city")

@server.tool()
def slow() -> str:
    time.sleep(2)
    return ""

@server.tool(structured_output=False)
def picture():
    return ImageContent(type="image", data="aGk=", mimeType="image/png")

if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
'''


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's program."""
    path = tmp_path_factory.mktemp("server") / "weather.py"
    path.write_text(SERVER)
    return path


@pytest.fixture
def executor(program: Path) -> Executor:
    settings = {"environment": {"WEATHER_TOKEN": "s3cr3t-value"}}
    server = McpServer(command=sys.executable, args=(str(program),), env={"WEATHER_KEY": "${WEATHER_TOKEN}"})
    return Executor(ceiling=Policy.ceiling(settings), servers={"weather": server})


@pytest.fixture
def over_http(address: str) -> Executor:
    """The same over HTTP, where one server answers all: over standard input each call starts one."""
    return Executor(servers=read_servers({"weather": {"url": address}}))


async def call(write_skill: Any, executor: Executor, tool: str, files: Any = None, **parameters: Any) -> Run:
    skill = write_skill(
        files or {"SKILL.md": "x"}, kind="distributed", config={"serverId": "weather", "toolName": tool, "timeoutMs": 20_000}
    )
    assert executor.can_run(skill)
    return await executor.run(RunRequest(skill, parameters))


@pytest.mark.row("000-11")
async def test_a_tool_of_a_registered_server_does_the_work(write_skill: Any, executor: Executor) -> None:
    run = await call(write_skill, executor, "forecast", city="上海", days=2)
    assert (run.status, run.output, run.error) == ("ok", {"city": "上海", "days": 2}, None), run
    assert (run.kind, run.isolation, run.warnings) == ("distributed", "none", ())


@pytest.mark.row("000-39")
async def test_text_pictures_and_outcomes_are_read_for_what_they_are(write_skill: Any, over_http: Executor) -> None:
    plain, listed, picture, outcome = [
        await call(write_skill, over_http, tool, **parameters)
        for tool, parameters in (("words", {"n": 2}), ("words", {"n": 0}), ("picture", {}), ("outcome", {}))
    ]
    assert (plain.output, plain.format) == ("sun sun ", "text")
    assert (listed.output, listed.format) == ([1, 2], "object")
    assert picture.output == [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    assert (outcome.output, outcome.warnings) == (5, ("slow",))


@pytest.mark.row("000-40")
async def test_a_server_gets_the_operators_secret_and_it_never_comes_back(write_skill: Any, executor: Executor) -> None:
    run = await call(write_skill, executor, "key")
    assert run.output == {"key": "[redacted]", "home": []}


@pytest.mark.row("D-17", "000-40")
async def test_a_tool_that_fails_is_a_failure_and_nothing_stands_in(
    write_skill: Any, executor: Executor, over_http: Executor
) -> None:
    script = {"scripts/execute.py": "def execute():\n    return 'stood in'"}
    for by, tool, part in ((executor, "broken", "broken"), (over_http, "missing", "missing"), (over_http, "forecast", "city")):
        run = await call(write_skill, by, tool, script)
        assert (run.status, run.kind) == ("error", "distributed")
        assert run.error is not None
        assert run.error.code == "SANDBOX_EXECUTION_ERROR"
        assert part in run.error.message


@pytest.mark.row("000-20")
async def test_time_and_size_are_limited(write_skill: Any, program: Path, executor: Executor) -> None:
    skill = write_skill(
        {"SKILL.md": "x"}, kind="distributed", config={"serverId": "weather", "toolName": "slow", "timeoutMs": 1500}
    )
    run = await executor.run(RunRequest(skill, {}))
    assert (run.status, run.error and run.error.code) == ("timeout", "RESOURCE_LIMIT_ERROR")
    small = Executor(
        ceiling=Policy.ceiling({"result-bytes": 100}),
        servers={"weather": McpServer(command=sys.executable, args=(str(program),))},
    )
    run = await call(write_skill, small, "words", n=100)
    assert (run.status, run.error and run.error.code) == ("output_limit", "RESOURCE_LIMIT_ERROR")


async def test_skills_call_only_the_tools_that_the_operator_names(write_skill: Any, program: Path) -> None:
    server = McpServer(command=sys.executable, args=(str(program),), tools=("words",))
    run = await call(write_skill, Executor(servers={"weather": server}), "forecast", city="x")
    assert (run.status, run.error and run.error.code) == ("denied", "SECURITY_VALIDATION_ERROR")


@pytest.mark.row("D-17", "000-40")
async def test_a_server_that_cannot_be_started_gives_way(write_skill: Any, program: Path) -> None:
    script = {"scripts/execute.py": "def execute():\n    return 'stood in'"}
    gone = {"weather": McpServer(command="/nonexistent/program")}
    run = await call(write_skill, Executor(servers=gone), "forecast", script)
    assert (run.output, run.kind) == ("stood in", "direct")
    assert "cannot be reached" in run.warnings[0]
    dying = {"weather": McpServer(command=sys.executable, args=("-c", "raise SystemExit(1)"))}
    run = await call(write_skill, Executor(servers=dying), "forecast", script)
    assert run.output == "stood in"
    secret = {"weather": McpServer(command=sys.executable, args=(str(program),), env={"K": "${NOT_GRANTED}"})}
    run = await call(write_skill, Executor(servers=secret), "forecast", script)
    assert (run.status, run.error and "NOT_GRANTED" in run.error.message) == ("denied", True)


@pytest.fixture(scope="module")
def address(program: Path) -> Iterator[str]:
    """A server over HTTP, in another process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(program), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.mark.row("000-11")
async def test_a_server_may_be_reached_over_http(write_skill: Any, address: str) -> None:
    executor = Executor(servers=read_servers({"weather": {"url": address, "headers": {"X-Who": "me"}}}))
    run = await call(write_skill, executor, "forecast", city="Oslo")
    assert (run.status, run.output) == ("ok", {"city": "Oslo", "days": 1}), run
    nobody = Executor(servers=read_servers({"weather": {"url": address.replace("/mcp", "/nothing")}}))
    run = await call(write_skill, nobody, "forecast", city="Oslo")
    assert run.status == "unavailable", run


@pytest.mark.parametrize(
    "table",
    [
        "text",
        {},
        {"command": "a", "url": "b"},
        {"command": "a", "arguments": []},
        {"command": "a", "args": "b"},
        {"command": "a", "args": [1]},
        {"command": "a", "env": {"A": 1}},
        {"url": 5},
        {"url": "a", "headers": []},
        {"url": "a", "tools": "b"},
    ],
)
def test_a_server_that_cannot_be_meant_is_refused_with_its_name(table: Any) -> None:
    with pytest.raises(InvalidConfiguration, match=r"servers\.weather"):
        read_servers({"weather": table})


def test_a_wrong_value_of_a_server_is_not_repeated_since_it_may_be_a_secret() -> None:
    with pytest.raises(InvalidConfiguration, match=r"servers\.weather\.headers must be a table of texts$"):
        read_servers({"weather": {"url": "a", "headers": ["Bearer abc"]}})
