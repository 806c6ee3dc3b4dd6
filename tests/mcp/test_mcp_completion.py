"""What clients may ask for beside tools, resources and prompts: completion, single addresses, and messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.server.lowlevel import Server

Make = Callable[..., Server[Any]]
Command = Callable[..., StdioServerParameters]
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
TEMPLATE = types.ResourceTemplateReference(uri="skill://{skill}/{+path}")


async def completed(client: Client, name: str, value: str, ref: Any = TEMPLATE, **given: str) -> list[str]:
    argument = {"name": name, "value": value}
    return (await client.complete(ref, argument, context_arguments=given or None)).completion.values


@MODES
async def test_names_of_skills_and_their_files_are_completed(mode: str, server: Make) -> None:
    async with Client(server(), mode=mode) as client:
        assert client.server_capabilities.completions is not None
        assert await completed(client, "skill", "") == ["pdf", "pdf-miner", "weather"]
        assert await completed(client, "skill", "MINE") == ["pdf-miner"]
        assert await completed(client, "path", "inv", skill="pdf") == ["templates/invoice.md"]
        assert (await completed(client, "path", "", skill="pdf"))[0] == "SKILL.md"
        for skill in ("", "nothing", "..", "%2e%2e", "a\0b"):
            assert await completed(client, "path", "", skill=skill) == []
        assert await completed(client, "path", "") == []
        assert await completed(client, "colour", "") == []
        assert await completed(client, "request", "", types.PromptReference(name="pdf")) == []


def test_a_skill_nobody_may_use_is_not_completed(server: Make) -> None:
    async def ask() -> list[str]:
        async with Client(server(permissions={"weather": "deny"})) as client:
            return await completed(client, "skill", "")

    assert anyio.run(ask) == ["pdf", "pdf-miner"]


async def test_an_older_client_hears_of_the_addresses_it_watches_and_no_others(
    forked: Command, shop: Path, make_skill: Any
) -> None:
    received: list[str] = []
    last = anyio.Event()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            received.append(str(message.params.uri))
            if received[-1] == "skill://fresh/SKILL.md":
                last.set()

    async with Client(forked(), mode="legacy", message_handler=listen) as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe is True
        for uri in ("skill://pdf/forms.md", "skill://weather/SKILL.md", "skill://fresh/SKILL.md", "skill://pdf/SKILL.md"):
            await client.session.send_request(_watch(uri), types.EmptyResult)
        stop = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri="skill://pdf/SKILL.md"))
        await client.session.send_request(stop, types.EmptyResult)
        await client.list_tools()
        make_skill(shop, "pdf", description="Otherwise.")
        make_skill(shop, "fresh")
        with anyio.fail_after(20):
            await last.wait()
        with pytest.raises(MCPError):
            await client.session.send_request(_watch(f"skill://{'a' * 3000}"), types.EmptyResult)
    assert set(received) == {"skill://pdf/forms.md", "skill://fresh/SKILL.md"}


async def test_messages_go_to_who_asked_for_their_level(forked: Command) -> None:
    received: list[tuple[str, Any]] = []

    async def log(message: types.LoggingMessageNotificationParams) -> None:
        received.append((message.level, message.data))

    async with Client(forked("--no-watch"), mode="legacy", logging_callback=log) as client:
        assert client.server_capabilities.logging is not None
        await client.call_tool("skill", {"skill": "nothing"})
        await client.session.send_request(_set_level("error"), types.EmptyResult)
        await client.call_tool("skill", {"skill": "nothing"})
        assert received == []
        await client.session.send_request(_set_level("info"), types.EmptyResult)
        await client.call_tool("skill", {"skill": "nothing"})
        with anyio.fail_after(20):
            while not received:
                await anyio.sleep(0.01)
    assert received == [("warning", {"tool": "skill", "code": "skill_not_found"})]


def _set_level(level: types.LoggingLevel) -> types.SetLevelRequest:
    return types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))


def _watch(uri: str) -> types.SubscribeRequest:
    return types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
