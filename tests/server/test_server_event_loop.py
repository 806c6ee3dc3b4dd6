"""A watchdog of the event loop: nothing that a request or a skill says holds it for more than 50 ms.

A beat every few milliseconds runs on the loop of a real server. What lies between two beats counts only as far as this process
used a processor meanwhile: on a busy machine everybody waits, and that is nobody's fault. What is judged is asked three times
and the best time counts, so that one slice of another thread decides nothing.
"""

from __future__ import annotations

import asyncio
import io
import random
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

HELD_S = 0.05
BEAT_S = 0.005
API = "/api/v1/skill-definitions"
Attack = Callable[[Any], httpx.Response]


class Watchdog:
    """The longest time that the loop was held, in seconds of processor time of this process, since `reset`."""

    def __init__(self) -> None:
        self.longest, self.beats = 0.0, 0

    def reset(self) -> None:
        """Begin anew."""
        self.longest, self.beats = 0.0, 0

    async def watch(self) -> None:
        """Beat until it is cancelled."""
        while True:
            wall, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(BEAT_S)
            late = time.perf_counter() - wall - BEAT_S
            self.longest = max(self.longest, min(late, time.process_time() - used))
            self.beats += 1


class Watched:
    """A server with its watchdog, and a client for it."""

    def __init__(self, client: httpx.Client, watchdog: Watchdog) -> None:
        self.client, self.watchdog = client, watchdog

    def install(self, name: str, files: dict[str, str]) -> None:
        """Install a skill of these files, or its next version."""
        answer = self.client.post(f"{API}/upload-create?force=true", files={"file": (f"{name}.zip", archive(name, files))})
        assert answer.status_code == 201, answer.text

    def held(self, attack: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
        """The shortest of three times that the loop was held by one request, and its last answer."""
        times = []
        for _ in range(3):
            self.watchdog.reset()
            answer = attack()
            time.sleep(3 * BEAT_S)  # the beat that comes after it
            assert self.watchdog.beats > 0
            times.append(self.watchdog.longest)
            if times[-1] <= HELD_S:
                break
        return min(times), answer


@pytest.fixture
def watched(app: FastAPI) -> Iterator[Watched]:
    watchdog, started = Watchdog(), threading.Event()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))

    async def serve() -> None:
        beating = asyncio.ensure_future(watchdog.watch())
        started.set()
        await server.serve()
        beating.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    with httpx.Client(base_url=address, timeout=300) as client:
        client.get(f"{API}?isActive=true")  # what is loaded by a first request is no attack
        yield Watched(client, watchdog)
    server.should_exit = True
    thread.join()


def archive(name: str, files: dict[str, str], header: str = "", body: str = "Do it.") -> bytes:
    stream = io.BytesIO()
    text = f"---\nname: {name}\ndescription: Tidies up. Use when a test needs a skill.\n{header}---\n{body}\n"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for path, content in {"SKILL.md": text, **files}.items():
            made.writestr(f"{name}/{path}", content)
    return stream.getvalue()


def inspect(watched: Watched, data: bytes) -> httpx.Response:
    return watched.client.post(f"{API}/inspect", files={"file": ("x.zip", data)})


def deep(watched: Watched) -> httpx.Response:
    return watched.client.post(f"{API}/inspect", content=b"[" * 500_000, headers={"Content-Type": "application/json"})


def post(path: str, begin: bytes, each: bytes, end: bytes, count: int) -> Attack:
    """A request of JSON with `count` times `each`, in which `%d` is its number."""
    numbered = (each % number if b"%d" in each else each for number in range(count))
    content = begin + b",".join(numbered) + end
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return lambda watched: watched.client.post(path, content=content, headers=headers)


def search(watched: Watched, query: str) -> httpx.Response:
    return watched.client.get("/api/v1/catalog/search", params={"q": query})


def numbers(seed: int) -> str:
    return "\n".join(str(random.Random(seed).randrange(1, 120) * n % 121) for n in range(4_900))


def test_the_watchdog_sees_a_loop_that_is_held(watched: Watched, app: FastAPI) -> None:
    async def hold() -> dict[str, str]:
        ends = time.process_time() + 3 * HELD_S
        while time.process_time() < ends:
            pass
        return {}

    app.router.routes.insert(0, app.router.route_class("/hold", hold))
    held, answer = watched.held(lambda: watched.client.get("/hold"))
    assert answer.status_code == 200
    assert held > HELD_S


def _inspected(**more: Any) -> Attack:
    return lambda watched: inspect(watched, archive("x", more.get("files", {}), more.get("header", ""), more.get("body", "x")))


@pytest.mark.abuse("H13")
@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(_inspected(files={"scripts/a.py": "# /// script\n" + "#\n" * 150_000}), id="a block without an end"),
        pytest.param(_inspected(files={"scripts/a.sh": "curl " * 200_000}), id="a command over a megabyte"),
        pytest.param(_inspected(header="x: " + "a" * 60_000 + "\n"), id="a long line of front matter"),
        pytest.param(_inspected(header="x: " + "[" * 20_000 + "]" * 20_000 + "\n"), id="deep front matter"),
        pytest.param(_inspected(header="".join(f"k{n}: v\n" for n in range(5_000))), id="many fields"),
        pytest.param(_inspected(body="# a\n" * 50_000), id="many sections"),
        pytest.param(_inspected(body="`" * 200_000), id="signs of code"),
        pytest.param(
            lambda watched: watched.client.get("/api/v1/catalog/search", params={"q": "a " * 10_000}), id="a long query"
        ),
        pytest.param(deep, id="deep JSON"),
        pytest.param(post("/api/v1/runs", b'{"skill": "x", ', b'"%d": 1', b"}", 300_000), id="keys that nobody asked for"),
        pytest.param(post("/api/v1/runs", b'{"skill": "x", ', b'"%d": 1', b"}", 9_900), id="as many keys as are taken"),
        pytest.param(
            post("/api/v1/runs", b'{"skill": "x", "parameters": {"a": [', b"[]", b"]}}", 1_200_000), id="values of an input"
        ),
        pytest.param(post("/mcp", b"[", b"[]", b"]", 1_200_000), id="many messages over MCP"),
        pytest.param(post("/mcp", b"[", b"[]", b"]", 24_000), id="as many messages as are taken"),
    ],
)
def test_no_request_holds_the_loop(watched: Watched, attack: Attack) -> None:
    held, answer = watched.held(lambda: attack(watched))
    assert answer.status_code < 500, answer.text
    assert held <= HELD_S


@pytest.mark.abuse("H13")
def test_comparing_and_scanning_hostile_versions_do_not_hold_the_loop(watched: Watched) -> None:
    watched.install("x", {"a.txt": numbers(1), "scripts/a.sh": "curl " * 100_000})
    watched.install("x", {"a.txt": numbers(2), "scripts/a.sh": "curl  " * 100_000})
    versions = [one["version"] for one in watched.client.get(f"{API}/x/versions").json()["data"]]
    assert len(versions) == 2
    for path in (f"{API}/x/versions/{versions[1]}/diff/{versions[0]}", f"{API}/x/scan"):
        held, answer = watched.held(lambda path=path: watched.client.get(path))  # type: ignore[misc]
        assert answer.status_code == 200, answer.text
        assert held <= HELD_S, path
