"""A server that is killed while many upload: all it acknowledged is there and whole, the rest is there whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import preloaded
import pytest

from skillyard.packages import tree_digest
from skillyard.registry import Registry

Pack = Callable[..., bytes]
API = "/api/v1/skill-definitions"
SENDERS = 6


class Server:
    """A server and the processes it starts, which all end at once."""

    def __init__(self, home: Path, url: str) -> None:
        workers = "2" if url.startswith("postgresql") else "1"
        command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json", "--workers", workers]
        self._log = (home / "server.log").open("a")
        environment = {**os.environ, "SKILLYARD_DATABASE_URL": url}
        self._process = preloaded.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=home / "project", env=environment,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.address = str(json.loads(self._process.stdout.readline())["address"])

    def end(self, number: signal.Signals) -> None:
        """Send all of them a signal, and wait until they are gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        self._process.communicate(timeout=60)
        self._log.close()


class Sender(threading.Thread):
    """Uploads one version after the other of skills of its own, by one of the endpoints, until the server is gone."""

    def __init__(self, number: int, pack: Pack, tried: dict[str, int], acknowledged: dict[str, set[int]]) -> None:
        super().__init__()
        self._names = (f"of-{number}", f"also-of-{number}")
        self._number, self._pack = number, pack
        self._tried, self._acknowledged = tried, acknowledged
        self.address = ""

    def run(self) -> None:
        with contextlib.suppress(httpx.TransportError), httpx.Client(base_url=self.address, timeout=60) as client:
            while True:
                for name in self._names:
                    self._tried[name] += 1
                    version = self._tried[name]
                    answer = self._send(client, name, version)
                    assert answer.status_code == (201 if self._number % 3 == 0 else 200), answer.text
                    self._acknowledged[name].add(version)

    def _send(self, client: httpx.Client, name: str, version: int) -> httpx.Response:
        files = {f"references/{part}.md": f"{version} {part}\n" * 100 for part in range(8)}
        data = self._pack(name, body=f"Text {version}.", files=files)
        if self._number % 3 == 0:
            return client.post(f"{API}/upload-create", files={"file": (f"{name}.zip", data)})
        known = client.get(f"{API}/{name}").json().get("data", {}).get("isActive", False)
        if self._number % 3 == 1:
            endpoint = f"/anthropic/v1/skills/skill_{name}/versions" if known else "/anthropic/v1/skills"
            return client.post(endpoint, files={"files": (f"{name}.zip", data)})
        endpoint = f"/openai/v1/skills/skill_{name}/versions" if known else "/openai/v1/skills"
        return client.post(endpoint, files={"files": (f"{name}.zip", data)}, data={"default": "true"})


@pytest.fixture
def servers(home: Path, database_address: str) -> Iterator[Callable[[], Server]]:
    """Give a function that starts a server over the one home."""
    with contextlib.ExitStack() as stack:

        def start() -> Server:
            server = Server(home, database_address)
            stack.callback(server.end, signal.SIGKILL)
            return server

        yield start


def _number_in(path: Path) -> int:
    """Which version a folder holds; every file of it must be of that one."""
    found = re.search(r"^Text (\d+)\.$", (path / "SKILL.md").read_text(), re.MULTILINE)
    assert found
    for part in range(8):
        assert (path / f"references/{part}.md").read_text() == f"{found[1]} {part}\n" * 100
    return int(found[1])


def _look(home: Path, url: str, acknowledged: dict[str, set[int]], tried: dict[str, int]) -> None:
    """Disk and records agree, hold what was acknowledged, and nothing is left over."""
    registry = Registry(str(home / "data"), url)
    with contextlib.closing(registry):
        versions = registry.storage.versions
        for name, numbers in acknowledged.items():
            recorded = {version.version: version for version in registry.installed.versions(name) if not version.removed}
            folders = {version: versions.path(name, version) for version in versions.names(name)}
            assert set(folders) == set(recorded)
            for version, folder in folders.items():
                assert tree_digest(folder) == recorded[version].digest
            held = {_number_in(folder) for folder in folders.values()}
            assert held <= set(range(1, tried[name] + 1))
            oldest = min(held) if len(held) >= 5 else 0  # those before may have been pruned
            assert {number for number in numbers if number >= oldest} <= held
            current = versions.current(name)
            assert current is not None
            assert current == registry.installed.skill(name).current_version
            assert _number_in(folders[current]) >= max(numbers)
        assert not [log for log in registry.installed.history(limit=500) if log.status in ("pending", "in_progress")]
        assert [path.name for path in registry.storage.operations.folder.iterdir()] == ["gate"]


@pytest.mark.abuse("F18")
@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.long)])
def test_a_server_killed_during_many_uploads_loses_nothing_it_acknowledged_and_leaves_nothing_half(
    servers: Callable[[], Server], home: Path, database_address: str, pack: Pack, kills: int
) -> None:
    chance = random.Random(18)
    tried: dict[str, int] = defaultdict(int)
    acknowledged: dict[str, set[int]] = defaultdict(set)
    for _ in range(kills):
        server = servers()
        before = sum(map(len, acknowledged.values()))
        senders = [Sender(number, pack, tried, acknowledged) for number in range(SENDERS)]
        for sender in senders:
            sender.address = server.address
            sender.start()
        while sum(map(len, acknowledged.values())) < before + SENDERS:  # it is busy with all of them
            time.sleep(0.01)
            assert any(sender.is_alive() for sender in senders)
        time.sleep(chance.random() / 2)
        server.end(signal.SIGKILL)
        for sender in senders:
            sender.join()
    server = servers()
    with httpx.Client(base_url=server.address, timeout=60) as client:
        for name, numbers in acknowledged.items():
            text = client.get(f"{API}/{name}/files/SKILL.md").text
            found: Any = re.search(r"Text (\d+)\.", text)
            assert max(numbers) <= int(found[1]) <= tried[name]
    server.end(signal.SIGTERM)
    assert "Traceback" not in (home / "server.log").read_text()
    _look(home, database_address, acknowledged, tried)
