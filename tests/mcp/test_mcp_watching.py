"""Clients hear of changes, and standard output carries the protocol alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import preloaded
import pytest
from mcp import Client, StdioServerParameters, types

Command = Callable[..., StdioServerParameters]


async def names(client: Client) -> list[str]:
    skill = next(tool for tool in (await client.list_tools()).tools if tool.name == "skill")
    return [line.removeprefix("- **").partition("**")[0] for line in (skill.description or "").splitlines()]


@pytest.mark.row("001-14")
async def test_a_listening_client_is_told_when_a_skill_comes(forked: Command, shop: Path, make_skill: Any) -> None:
    async with Client(forked()) as client, client.listen(tools_list_changed=True, resources_list_changed=True) as events:
        assert "fresh" not in await names(client)
        make_skill(shop, "fresh")
        with anyio.fail_after(20):
            async for event in events:
                if type(event).__name__ == "ToolsListChanged":
                    break
        assert "fresh" in await names(client)


async def test_an_older_client_is_notified(forked: Command, shop: Path, make_skill: Any) -> None:
    received: list[str] = []
    reported = anyio.Event()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification | types.ResourceListChangedNotification):
            received.append(message.method)
            if len(received) == 2:
                reported.set()

    async with Client(forked(), mode="legacy", message_handler=listen) as client:
        assert "fresh" not in await names(client)
        make_skill(shop, "fresh")
        with anyio.fail_after(20):
            await reported.wait()
        assert "fresh" in await names(client)
    assert set(received) == {"notifications/tools/list_changed", "notifications/resources/list_changed"}


async def test_a_refresh_asked_for_by_a_tool_is_announced_too(forked: Command, shop: Path, make_skill: Any) -> None:
    async with Client(forked("--no-watch")) as client, client.listen(tools_list_changed=True) as events:
        assert "fresh" not in await names(client)
        make_skill(shop, "fresh")
        await client.call_tool("skills_list", {"refresh": True})
        with anyio.fail_after(20):
            event = await anext(aiter(events))
        assert type(event).__name__ == "ToolsListChanged"
        assert "fresh" in await names(client)


def test_bad_frames_do_not_stop_the_server_and_output_is_protocol_only(command: Command) -> None:
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    frames = [
        "this is not json",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "no/such/method"}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "skill", "arguments": {"skill": 1}}}),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "skills/get", "params": {}}),
        json.dumps({"jsonrpc": "2.0", "id": 5, "method": "skills/list"}),
    ]
    parameters = command("--no-watch")
    with preloaded.Popen(
        [parameters.command, *parameters.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(frames) + "\n")
        process.stdin.flush()
        answers: dict[int, Any] = {}
        while len(answers) < 5:
            message = json.loads(process.stdout.readline())
            assert message["jsonrpc"] == "2.0"
            if message.get("id") is not None:
                answers[message["id"]] = message
        process.stdin.close()
        assert process.wait(timeout=20) == 0
    assert answers[2]["error"]["code"] == types.METHOD_NOT_FOUND
    assert answers[3]["result"]["isError"] is True
    assert answers[4]["error"]["code"] == types.INVALID_PARAMS
    assert len(answers[5]["result"]["skills"]) == 3


def test_a_root_that_cannot_be_served_is_said_on_standard_error(tmp_path: Path) -> None:
    done = preloaded.run(
        [sys.executable, "-m", "skillyard", "mcp", "--language", "xx"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert done.stdout == ""
