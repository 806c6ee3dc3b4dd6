"""A server whose sandboxes stand ready, and which loads what calls need before they come."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import preloaded
from mcp import Client, StdioServerParameters


def running(marker: str) -> bool:
    """Whether a process with the marker on its command line lives on this machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


async def test_a_server_keeps_sandboxes_ready_and_takes_them_along(
    forked: Callable[..., StdioServerParameters], shop: Path
) -> None:
    (shop / "pdf/scripts/fill.py").rename(shop / "pdf/scripts/fill-0815.py")
    async with Client(forked("--prewarm", "1", "--no-watch")) as client:
        for _ in range(3):
            result = await client.call_tool("run_skill", {"skill": "pdf"})
            assert not result.is_error
            await until(lambda: running("/skill/scripts/fill-0815.py"))
    await until(lambda: not running("/skill/scripts/fill-0815.py"))


async def test_more_than_may_stand_ready_is_refused(command: Callable[..., StdioServerParameters]) -> None:
    parameters = command("--prewarm", "9")
    words = [parameters.command, *parameters.args]
    done = await asyncio.to_thread(preloaded.run, words, input="", capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "from 1 to 8" in done.stderr


def loaded(process: int, package: str) -> bool:
    return f"/site-packages/{package}/" in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")


async def test_what_the_first_search_and_run_need_is_loaded_before_they_come(
    command: Callable[..., StdioServerParameters],
) -> None:
    parameters = command("--no-watch")
    words = [parameters.command, *parameters.args]
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

    def line(**message: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"

    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write(line(id=1, method="initialize", params=about) + line(method="notifications/initialized"))
        await until(lambda: loaded(process.pid, "numpy"))
        assert not loaded(process.pid, "sqlalchemy")  # many clients call nothing
        process.stdin.write(line(id=2, method="tools/call", params={"name": "skill", "arguments": {"skill": "pdf"}}))
        await until(lambda: loaded(process.pid, "sqlalchemy"))
        process.stdin.close()
        assert process.wait(timeout=60) == 0
