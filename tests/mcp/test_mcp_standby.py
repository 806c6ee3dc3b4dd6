"""A server whose sandboxes stand ready."""

from __future__ import annotations

import asyncio
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
