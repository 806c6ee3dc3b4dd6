"""A client that writes its requests and closes its end at once gets every answer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import preloaded
import pytest
from mcp import StdioServerParameters
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from skillyard.catalog import SkillCatalog
from skillyard.mcp import McpHttpApp
from skillyard.mcp.handshake import VERSIONS, listed_tools
from skillyard.tools import SkillTools

Command = Callable[..., StdioServerParameters]

START = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LIST = {"id": 2, "method": "tools/list", "params": {}}
RUN = {"id": 3, "method": "tools/call", "params": {"name": "run_skill", "arguments": {"skill": "pdf"}}}


def frames(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def piped(parameters: StdioServerParameters, written: str) -> dict[Any, Any]:
    """The answers, by the ids of their requests, of a server whose input ends behind what is written."""
    done = preloaded.run(
        [parameters.command, *parameters.args], input=written, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in done.stdout.splitlines()]
    answers = [message for message in reported if "method" not in message]
    found = {message["id"]: message for message in answers}
    assert len(found) == len(answers)
    return found


@contextmanager
def started(parameters: StdioServerParameters) -> Iterator[preloaded.Popen]:
    words = [parameters.command, *parameters.args]
    with preloaded.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "1999-01-01"])
async def test_the_answer_before_the_sdk_is_there_is_that_of_the_sdk(
    version: str, server: Any, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    options = server().create_initialization_options()
    message = frames({**START, "params": {**START["params"], "protocolVersion": version}})  # type: ignore[dict-item]
    (answer,) = piped(command("--no-watch"), message).values()
    expected = {
        "capabilities": options.capabilities.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"extensions"}),
        "instructions": options.instructions,
        "protocolVersion": version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION,
        "serverInfo": {"name": options.server_name, "version": options.server_version}
        | {"title": options.title, "description": options.description},
    }
    assert answer["result"] == expected
    assert VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


async def test_a_body_that_breaks_off_is_no_error_of_the_server(shop: Path) -> None:
    app = McpHttpApp(SkillTools(SkillCatalog.discover(roots=[shop], cache=False)), watch=False)
    arriving = [{"type": "http.request", "body": b'{"jsonrpc"', "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return arriving.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    async with app.running():
        await app.answer(scope, receive, send, caller="ada")
    assert (sent[0]["status"], arriving) == (400, [])


@pytest.mark.parametrize("answers", [0, 1])
def test_a_client_that_goes_away_leaves_no_error(command: Command, answers: int) -> None:
    with started(command("--no-watch")) as process:
        for _ in range(answers):
            process.stdin.write(frames(START))
            process.stdin.flush()
            process.stdout.readline()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.write(frames(START, {"id": 2, "method": "tools/list"}, RUN))
            process.stdin.close()
        assert (process.stderr.read(), process.wait(60)) == ("", 0)


def test_tools_are_listed_while_the_sdk_is_imported(command: Command, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "slow/mcp").mkdir(parents=True)
    (tmp_path / "slow/mcp/__init__.py").write_text("import time\ntime.sleep(600)\n")
    parameters = command("--no-watch")
    words, env = [parameters.command, *parameters.args], {**os.environ, "PYTHONPATH": str(tmp_path / "slow")}
    ping, more = {"id": "p", "method": "ping"}, {"id": 3, "method": "tools/list", "params": {"cursor": "2"}}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(frames(START, {"method": "notifications/initialized"}, more, LIST, ping))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.kill()
    assert [answer["id"] for answer in answers] == [1, 2, "p"]
    assert answers[1]["result"] == {"tools": defined(shop)}


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_the_sdk_lists_the_same_tools(version: str, command: Command, shop: Path) -> None:
    start = {**START, "params": {**START["params"], "protocolVersion": version}}  # type: ignore[dict-item]
    answers = piped(command("--no-watch"), frames(start, {**LIST, "params": {"cursor": "1"}}))
    assert answers[2]["result"] == {"tools": defined(shop)}


def defined(shop: Path) -> list[dict[str, Any]]:
    tools = SkillTools(SkillCatalog.discover(roots=[shop], cache=False), repeat="text")
    return listed_tools(tools.definitions("mcp", abp_tools=True), "")


def test_a_handshake_that_is_not_whole_is_left_to_the_sdk(command: Command) -> None:
    answers = piped(command("--no-watch"), frames({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}))
    assert answers[1]["error"]["code"] == -32602


@pytest.mark.parametrize("begin", ["", frames(START)])
def test_a_line_that_is_no_message_is_answered_with_an_error_and_the_next_one_as_usual(command: Command, begin: str) -> None:
    written = begin + "no json\n\n" + frames({"id": 4, "method": "ping"})
    assert piped(command("--no-watch"), written)[None]["error"]["code"] == -32700
    answers = piped(command("--no-watch"), begin + '{"a": 1}\n' + frames({"id": 4, "method": "ping"}))
    assert (answers[None]["error"]["code"], "result" in answers[4] or begin == "") == (-32600, True)


def test_all_that_was_read_is_answered_when_the_input_ends_at_once(command: Command) -> None:
    asked = [{"id": number, "method": "tools/list"} for number in range(2, 12)]
    answers = piped(command("--no-watch"), frames(START, {"method": "notifications/initialized"}, *asked))
    assert set(answers) == set(range(1, 12))
    assert all("result" in answer for answer in answers.values())


def test_a_run_that_was_asked_for_comes_to_its_end_when_the_input_has_ended(command: Command, shop: Path) -> None:
    shop.joinpath("pdf/scripts/fill.py").write_text("import time\ntime.sleep(1)\nprint('filled')\n")
    answers = piped(command("--no-watch"), frames(START, RUN, {"id": "last", "method": "no/such/method"}))
    assert "filled" in answers[3]["result"]["content"][0]["text"]
    assert answers["last"]["error"]["code"] == -32601


def test_nothing_is_waited_for_when_nothing_was_asked(command: Command) -> None:
    assert piped(command(), "") == {}
    assert set(piped(command(), frames(START, {"method": "notifications/initialized"}))) == {1}


def test_what_the_client_took_back_is_not_waited_for(command: Command, shop: Path) -> None:
    shop.joinpath("pdf/scripts/fill.py").write_text("import time\ntime.sleep(600)\n")
    taken_back = {"method": "notifications/cancelled", "params": {"requestId": 3}}
    odd = {"method": "notifications/cancelled", "params": {"requestId": [3]}}
    assert set(piped(command("--no-watch"), frames(START, RUN, odd, taken_back))) == {1}


def test_a_client_that_reads_no_more_holds_up_nothing(command: Command, shop: Path) -> None:
    shop.joinpath("pdf/scripts/fill.py").write_text("import time\ntime.sleep(600)\n")
    with started(command("--no-watch")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(frames(START, RUN))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=60)
