"""A client that writes its requests and closes its end at once gets every answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import preloaded
from mcp import StdioServerParameters

Command = Callable[..., StdioServerParameters]

START = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
RUN = {"id": 3, "method": "tools/call", "params": {"name": "run_skill", "arguments": {"name": "pdf"}}}


def frames(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def piped(parameters: StdioServerParameters, written: str) -> dict[Any, Any]:
    """The answers, by the ids of their requests, of a server whose input ends behind what is written."""
    done = preloaded.run(
        [parameters.command, *parameters.args], input=written, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    answers = [message for message in told if "method" not in message]
    found = {message["id"]: message for message in answers}
    assert len(found) == len(answers)
    return found


@contextmanager
def started(parameters: StdioServerParameters) -> Iterator[preloaded.Popen]:
    words = [parameters.command, *parameters.args]
    with preloaded.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process


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
