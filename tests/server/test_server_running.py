"""A server in operation: several processes for one address, and leaving in order whatever is under way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx2
import preloaded
import pytest
from mcp import Client

from skillyard import Catalog

Pack = Callable[..., bytes]
SLEEPER = "import json, time\ntime.sleep({seconds})\nprint(json.dumps({{'output': 'rested'}}))\n"


def _named(process: Path) -> bytes:
    """How a process is called, by itself or by its command; nothing when it is gone."""
    with contextlib.suppress(OSError):
        return (process / "comm").read_bytes() + (process / "cmdline").read_bytes()
    return b""


class Served:
    """A server in a process of its own, and a client for it."""

    def __init__(self, home: Path, *options: str, begin: Any = preloaded.Popen) -> None:
        command = [sys.executable, "-W", "error", "-m", "skillyard", "serve", "--port", "0", "--json", *options]
        self.errors = (home / "server.log").open("w+")
        self.process = begin(command, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=home / "project")
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log()
        self.address = str(json.loads(line)["address"])
        self.client = httpx2.Client(base_url=self.address, trust_env=False, timeout=60)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def children(self) -> list[int]:
        """The processes that serve."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        folders = [Path("/proc", line) for line in found.stdout.split()]
        return [int(folder.name) for folder in folders if b"spawn_main" in _named(folder)]

    def log(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.errors.close()


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Served]]:
    """Give a function that starts a server with more options; all of them are ended."""
    with contextlib.ExitStack() as stack:

        def make(*options: str, **more: Any) -> Served:
            served = Served(home, *options, **more)
            stack.callback(served.close)
            return served

        yield make


@pytest.fixture
def sleeper(home: Path, make_skill: Any) -> Callable[[float], str]:
    """Give a function that makes a skill whose script sleeps so long."""

    def make(seconds: float) -> str:
        header = "name: sleeper\ndescription: Sleeps.\nresources: {entry: ./scripts/main.py}"
        files = {"scripts/main.py": SLEEPER.format(seconds=seconds)}
        make_skill(home / ".claude/skills", "sleeper", front_matter=header, files=files)
        return "sleeper"

    return make


def install(client: httpx2.Client, data: bytes) -> httpx2.Response:
    return client.post("/api/v1/skill-definitions/upload-create", files={"file": ("skill.zip", data)})


def until(holds: Callable[[], Any], seconds: float = 30) -> Any:
    """What `holds` gives as soon as it is true."""
    last = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < last, "it does not come"
        time.sleep(0.02)
    return found


def started(served: Served, skill: str, pool: ThreadPoolExecutor) -> Future[httpx2.Response]:
    """A run that is under way."""
    future = pool.submit(served.client.post, "/api/v1/runs", json={"skill": skill})
    until(lambda: future.done() or any(run["state"] == "running" for run in served.client.get("/api/v1/runs").json()["data"]))
    assert not future.done(), future.result().text
    return future


def states(home: Path) -> list[str]:
    """How the runs stand in the records, when nobody serves any more."""
    records = Catalog.discover(roots=(), cwd=home / "project").records()
    with contextlib.closing(records):
        return [run.state for run in records.journal.list(limit=10)]


def test_a_run_that_is_under_way_is_finished_before_the_server_leaves(
    start: Callable[..., Served], sleeper: Callable[[float], str]
) -> None:
    skill = sleeper(1.5)
    served = start()
    with ThreadPoolExecutor() as pool:
        answer = started(served, skill, pool)
        served.stop()
        assert answer.result().json()["data"]["output"] == "rested"


def test_a_run_that_takes_too_long_is_ended_and_recorded_as_cancelled(
    start: Callable[..., Served], sleeper: Callable[[float], str], home: Path
) -> None:
    skill = sleeper(600)
    served = start("--grace", "1")
    with ThreadPoolExecutor() as pool:
        answer = started(served, skill, pool)
        served.stop()
        with contextlib.suppress(httpx2.HTTPError):
            assert answer.result().status_code >= 500
    assert states(home) == ["cancelled"]
    assert not subprocess.run(["pgrep", "-f", f"{home}.*sleeper"], capture_output=True, check=False).stdout


def _refuses(host: str, port: int) -> bool:
    """Whether nobody takes connections there any more."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, port), timeout=60):
        return False
    return True


def test_an_upload_that_has_begun_is_installed_before_the_server_leaves(start: Callable[..., Served], pack: Pack) -> None:
    served = start()
    data, edge = pack("tidy"), b"----x"
    body = b"--" + edge + b'\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n' + data
    body += b"\r\n--" + edge + b"--\r\n"
    host, port = served.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST /api/v1/skill-definitions/upload-create HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
        head += f"Content-Type: multipart/form-data; boundary={edge.decode()}\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(head.encode() + b"Expect: 100-continue\r\n\r\n" + body[:40])
        with connection.makefile("rb") as answers:
            assert [answers.readline(), answers.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]  # it is read
            served.process.send_signal(signal.SIGTERM)
            until(lambda: _refuses(host, int(port)))
            connection.sendall(body[40:])
            answer = answers.read()
    assert answer.startswith(b"HTTP/1.1 201"), answer[:500]
    served.process.wait(60)
    assert start().client.get("/api/v1/skill-definitions/tidy").json()["data"]["isActive"] is True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_stream_of_events_does_not_hold_the_server_up(start: Callable[..., Served], mode: str) -> None:
    served = start("--grace", "60")
    with anyio.fail_after(30):
        with contextlib.suppress(Exception):  # the client may be told that its connection is gone
            async with Client(f"{served.address}/mcp", mode=mode) as client:
                await client.list_prompts()
                if mode == "auto":
                    async with client.listen(prompts_list_changed=True):
                        await anyio.to_thread.run_sync(served.stop)
                await anyio.to_thread.run_sync(served.stop)
        await anyio.to_thread.run_sync(served.process.wait)
    assert "Traceback" not in served.log()


def test_a_server_that_stops_says_so_before_it_refuses(start: Callable[..., Served]) -> None:
    served = start("--drain", "3")
    assert served.client.get("/readyz").json() == {"status": "ok"}
    served.process.send_signal(signal.SIGTERM)
    answer = until(lambda: (found := served.client.get("/readyz")).status_code != 200 and found)
    assert (answer.status_code, answer.json()["code"]) == (503, "server_stopping")
    assert served.client.get("/api/v1/catalog").status_code == 200
    assert served.client.get("/healthz").status_code == 200
    assert served.process.wait(60) in (0, -signal.SIGTERM)


def test_what_one_process_installs_every_other_shows_at_once(
    start: Callable[..., Served], database_address: str, pack: Pack
) -> None:
    served = start("--workers", "2", "--database-url", database_address)
    until(lambda: len(served.children()) == 2)

    def ask(number: int) -> None:
        """Each request by a connection of its own: the kernel gives it to either process."""
        name = f"skill-{number}"
        with httpx2.Client(base_url=served.address, trust_env=False, timeout=60) as client:
            assert install(client, pack(name)).status_code == 201
        for _ in range(8):
            with httpx2.Client(base_url=served.address, trust_env=False, timeout=60) as client:
                assert client.get("/api/v1/catalog/file", params={"skill": name}).status_code == 200
                assert client.get(f"/api/v1/skill-definitions/{name}").status_code == 200

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(8)))
    text = served.client.get("/metrics").text
    assert 'skillyard_skill_operations_total{operation="install",outcome="success"} 8.0' in text
    assert 'route="/api/v1/catalog/file",status="200"} 64.0' in text
    assert len(served.client.get("/api/v1/skill-definitions?limit=200").json()["data"]) == 8
    assert served.stop() == 0
    assert "Traceback" not in served.log()


def test_a_process_that_is_killed_is_replaced(start: Callable[..., Served]) -> None:
    served = start("--workers", "2")
    first = until(lambda: len(found := served.children()) == 2 and found)
    served.client.get("/healthz")
    os.kill(first[0], signal.SIGKILL)
    until(lambda: len(found := served.children()) == 2 and first[0] not in found)
    for _ in range(4):
        with httpx2.Client(base_url=served.address, trust_env=False, timeout=60) as client:
            assert client.get("/readyz").status_code == 200
    assert served.stop() == 0


def test_no_process_stays_behind_when_the_first_one_is_killed(start: Callable[..., Served]) -> None:
    served = start("--workers", "2", begin=subprocess.Popen)  # the command itself, and the processes that it executes
    children = until(lambda: len(found := served.children()) == 2 and found)
    served.client.get("/readyz")
    served.process.kill()
    served.process.wait()
    until(lambda: not any(Path(f"/proc/{child}").exists() and _lives(child) for child in children))


def _lives(process: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_older_clients_of_mcp_need_no_session_where_several_processes_answer(
    start: Callable[..., Served], make_skill: Any, home: Path
) -> None:
    make_skill(home / ".claude/skills", "weather", description="Tells the weather.")
    served = start("--workers", "2")
    until(lambda: len(served.children()) == 2)

    async def ask() -> None:
        async with Client(f"{served.address}/mcp", mode="legacy") as client:
            for _ in range(8):
                assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["weather"]

    for _ in range(3):
        anyio.run(ask)


def test_the_store_that_is_named_keeps_the_packages(start: Callable[..., Served], home: Path, pack: Pack) -> None:
    served = start("--store", str(home / "packages"))
    assert install(served.client, pack("tidy")).status_code == 201
    assert [path for path in (home / "packages").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("option", "code"),
    [(("--workers", "0"), 2), (("--workers", "1000"), 1), (("--grace", "-1"), 2), (("--log-format", "xml"), 2)],
)
def test_options_that_cannot_be_meant_are_refused(home: Path, option: tuple[str, str], code: int) -> None:
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", *option]
    done = preloaded.run(command, capture_output=True, text=True, cwd=home / "project", timeout=60)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_threads_and_connections_that_are_idle_hold_nobody_up(start: Callable[..., Served]) -> None:
    served = start()
    served.client.get("/healthz")  # the connection is kept
    waiting = threading.Thread(target=served.stop)
    waiting.start()
    waiting.join(20)
    assert not waiting.is_alive()
