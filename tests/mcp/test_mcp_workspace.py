"""The tools of a workspace over MCP: offered when asked for, with pictures, live output, and an end with the connection."""

from __future__ import annotations

import base64
import fcntl
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.server.lowlevel import Server

from skillyard.permissions import WORKSPACE_TOOL_NAMES
from skillyard.workspace import Workspace, options_from_settings

Make = Callable[..., Server[Any]]
Command = Callable[..., StdioServerParameters]
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder to work in, with a picture."""
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk/red.png").write_bytes(_png())
    return tmp_path / "desk"


async def test_without_being_asked_for_there_is_no_shell(server: Make) -> None:
    async with Client(server()) as client:
        assert not {tool.name for tool in (await client.list_tools()).tools} & set(WORKSPACE_TOOL_NAMES)
        with pytest.raises(MCPError, match="no tool 'bash'"):
            await client.call_tool("bash", {"command": "true"})


async def test_a_client_is_told_what_the_tools_may_do(server: Make, desk: Path) -> None:
    async with Workspace(desk) as workspace, Client(server(workspace=workspace)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(WORKSPACE_TOOL_NAMES) <= set(tools)
        assert tools["bash"].input_schema["properties"]["timeout"]["type"] == "integer"
        assert tools["code_run"].input_schema["required"] == ["language", "code"]
        reported = {name: tools[name].annotations for name in WORKSPACE_TOOL_NAMES}
        assert [name for name in WORKSPACE_TOOL_NAMES if reported[name].read_only_hint] == [
            "file_read",
            "file_list",
            "file_search",
        ]
        changing = [name for name in WORKSPACE_TOOL_NAMES if reported[name].destructive_hint]
        assert changing == ["bash", "code_run", "file_write", "file_edit"]
        assert not any(one.open_world_hint for one in reported.values()), "there is no network"
    reaching = options_from_settings({"network-allowlist": ["api.example.com"]})
    async with Workspace(desk, options=reaching) as workspace, Client(server(workspace=workspace)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [name for name in WORKSPACE_TOOL_NAMES if tools[name].annotations.open_world_hint] == ["bash", "code_run"]


@MODES
async def test_what_a_command_writes_is_reported_while_it_runs(mode: str, server: Make, desk: Path) -> None:
    received: list[tuple[float, str]] = []
    gone_on = anyio.Event()

    async def progress(done: float, _total: float | None, message: str | None) -> None:
        received.append((done, message or ""))
        if "first" in "".join(text for _, text in received):
            (desk / "go").touch()
            gone_on.set()

    async with Workspace(desk) as workspace, Client(server(workspace=workspace), mode=mode) as client:
        command = "echo first; until [ -e go ]; do sleep 0.02; done; echo second; exit 3"
        result = await client.call_tool("bash", {"command": command}, progress_callback=progress)
        assert gone_on.is_set(), "the client heard of the first line before the command ended"
        assert "".join(text for _, text in received) == "first\nsecond\n"
        assert [done for done, _ in received] == sorted({done for done, _ in received})
        assert result.is_error
        assert result.structured_content is not None
        assert (result.structured_content["code"], result.structured_content["exit_code"]) == ("command_failed", 3)


@MODES
async def test_a_command_ends_when_its_client_cancels_it_and_the_session_stays(mode: str, server: Make, desk: Path) -> None:
    async with Workspace(desk) as workspace, Client(server(workspace=workspace), mode=mode) as client:
        await client.call_tool("bash", {"command": "export KEPT=yes"})
        with anyio.CancelScope() as calling:

            async def progress(*_: object) -> None:
                calling.cancel()

            await client.call_tool("bash", {"command": "echo on; sleep 600; touch late"}, progress_callback=progress)
        assert calling.cancelled_caught
        after = await client.call_tool("bash", {"command": "echo $KEPT; pgrep -c sleep; ls"})
        assert isinstance(after.content[0], types.TextContent)
        lines = after.content[0].text.splitlines()
        assert "yes" in lines
        assert "late" not in lines
        assert "1" not in lines, "nothing goes on"


async def test_over_standard_input_and_output_a_workspace_is_worked_in(forked: Command, shop: Path, desk: Path) -> None:
    async with Client(forked("--no-watch", "--workspace", str(desk))) as client:
        loaded = await client.call_tool("skill", {"skill": "pdf"})
        assert isinstance(loaded.content[0], types.TextContent)
        assert f"Skill directory: {shop}/pdf\nRun its scripts with `bash`" in loaded.content[0].text
        run = await client.call_tool("bash", {"command": f"python3 {shop}/pdf/scripts/fill.py > out.txt"})
        assert not run.is_error, run.content
        assert (desk / "out.txt").read_text() == "x\n"
        picture = await client.call_tool("file_read", {"file_path": "red.png"})
        image = picture.content[1]
        assert isinstance(image, types.ImageContent)
        assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", _png())
        holding = {"command": "exec 9> lock; flock 9; echo held; sleep 600", "background": True}
        started = await client.call_tool("bash", holding)
        assert started.structured_content is not None
        process = {"process": started.structured_content["process"], "timeout": 200}
        while "held" not in str((await client.call_tool("bash", process)).content):
            pass
        assert not _is_free(desk / "lock")
    deadline = time.monotonic() + 30
    while not _is_free(desk / "lock") and time.monotonic() < deadline:
        await anyio.sleep(0.05)
    assert _is_free(desk / "lock"), "the session ends with the connection"


async def test_the_operators_rules_hold_wherever_the_shell_stands(forked: Command, desk: Path, home: Path) -> None:
    (home / ".config/skillyard").mkdir(parents=True)
    rules = '[permissions.commands]\ndeny = ["Read(secret/**)"]\nask = ["Bash(git:*)"]\n'
    (home / ".config/skillyard/skillyard.toml").write_text(rules, "utf-8")
    (desk / "secret").mkdir()
    (desk / "secret/key").write_text("k3y")
    async with Client(forked("--no-watch", "--workspace", str(desk))) as client:
        asked = (await client.call_tool("bash", {"command": "git status"})).structured_content or {}
        assert asked["code"] == "approval_rejected", "nobody can be asked"
        assert not (await client.call_tool("bash", {"command": "cd secret"})).is_error
        calls: dict[str, dict[str, str]] = {"bash": {"command": "cat key"}, "file_read": {"file_path": "key"}}
        for tool, arguments in calls.items():
            denied = await client.call_tool(tool, arguments)
            assert (denied.structured_content or {})["code"] == "permission_denied", tool
            assert "the operator's rule `deny Read(secret/**)`" in str(denied.content), tool


def _is_free(lock: Path) -> bool:
    """Whether no process holds the lock."""
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
