"""A whole site for a moment under faults: what `make soak` does for as long as one likes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak.relay import Relay

ROOT = Path(__file__).parents[2]


@pytest.mark.long  # each fault by itself has its test in the rooms of engine, database and server
@pytest.mark.parametrize(("servers", "workers", "seconds"), [(2, 2, 6), (3, 4, 30)], ids=["a moment", "longer"])
def test_nothing_is_lost_or_doubled_while_servers_workers_the_proxy_and_the_database_fail(
    tmp_path: Path, servers: int, workers: int, seconds: int
) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.soak", "--seconds", str(seconds), "--pace", "0.35", "--clients", "4"]
    command += ["--servers", str(servers), "--workers", str(workers), "--seed", "11", "--report", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    reported = json.loads(report.read_text())
    assert (reported["lost"], reported["doubled"], reported["left"], reported["strange"]) == ([], [], [], [])
    assert reported["accepted"] > 0
    assert sum(reported["states"].values()) == reported["accepted"]
    assert sum(reported["faults"].values()) >= 10


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


async def test_the_wire_hands_on_holds_back_and_cuts() -> None:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    relay = await Relay(server.sockets[0].getsockname()[1]).open()
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(b"one")
    assert await reader.read(100) == b"one"
    relay.hold()
    writer.write(b"two")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.2)
    relay.heal()
    assert await reader.read(100) == b"two"
    relay.cut()
    with pytest.raises(ConnectionError):
        assert await reader.read(100) == b"none"
        raise ConnectionError
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    with pytest.raises(ConnectionError):
        assert await reader.read(100) == b""
        raise ConnectionError
    writer.close()
    relay.heal()
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(b"three")
    assert await reader.read(100) == b"three"
    writer.close()
    await relay.close()
    server.close()
