"""Many who read and few who write, at once, on two processes: every answer is right, every acknowledged write is there."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import preloaded
import pytest

Pack = Callable[..., bytes]
API = "/api/v1/skill-definitions"
CLIENTS = 6
READS = (
    "/api/v1/catalog?limit=20", "/api/v1/catalog/facets", "/api/v1/catalog/search?q=tidy+up", f"{API}?limit=20",
    "/.well-known/agent-skills/index.json", "/anthropic/v1/skills", "/openai/v1/skills", "/api/v1/skills", "/readyz",
)  # fmt: skip


@pytest.fixture
def address(home: Path, database_address: str) -> Iterator[str]:
    """A server of two processes, which says nothing of an error when it stops."""
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json", "--workers", "2"]
    environment = {**os.environ, "SKILLYARD_DATABASE_URL": database_address}
    with (
        (home / "server.log").open("w+") as log,
        preloaded.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home / "project", env=environment
        ) as process,
    ):
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["address"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        log.seek(0)
        assert "Traceback" not in log.read()


@pytest.mark.parametrize("database_address", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True)
@pytest.mark.parametrize("requests", [20, pytest.param(200, marks=pytest.mark.long)])
def test_under_mixed_load_no_answer_is_an_error_and_no_write_is_lost(address: str, pack: Pack, requests: int) -> None:
    def ask(number: int) -> dict[str, int]:
        """One in ten requests installs the next version of one of two skills; the rest read, also what was just installed."""
        chance, written = random.Random(number), dict[str, int]()
        with httpx.Client(base_url=address, timeout=60) as client:
            for turn in range(requests):
                name = f"of-{number}-{turn // 10 % 2}"
                if turn % 10 == 0:
                    data = pack(name, body=f"Text {turn}.")
                    answer = client.post(f"{API}/upload-create", files={"file": (f"{name}.zip", data)})
                    written[name] = turn
                elif name in written and chance.random() < 0.4:
                    answer = client.get(f"{API}/{name}/files/SKILL.md")
                    assert f"Text {written[name]}." in answer.text
                else:
                    answer = client.get(chance.choice(READS), headers={"Connection": chance.choice(("close", "keep-alive"))})
                assert answer.status_code == (201 if turn % 10 == 0 else 200), (answer.request.url, answer.text)
        return written

    with ThreadPoolExecutor(CLIENTS) as pool:
        written = [entry for reported in pool.map(ask, range(CLIENTS)) for entry in reported.items()]
    with httpx.Client(base_url=address, timeout=60) as client:
        for name, turn in written:
            found = re.search(r"Text (\d+)\.", client.get("/api/v1/catalog/file", params={"skill": f"installed:{name}"}).text)
            assert found
            assert int(found[1]) == turn
