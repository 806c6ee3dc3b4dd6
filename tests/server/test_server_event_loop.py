"""A watchdog of the event loop: nothing that a request or a skill says holds it for more than 50 ms.

A beat every few milliseconds runs on the loop of a real server. What lies between two beats counts only as far as this process
used a processor meanwhile: on a busy machine everybody waits, and that is nobody's fault. What is judged is asked three times
and the best time counts, so that one slice of another thread decides nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from skillyard import Catalog
from skillyard.packages import Source
from skillyard.registry import Registry
from skillyard.registry.registry_values import FetchedTree
from skillyard.registry.source_fetcher import GitFetcher, SourceFetcher
from skillyard.server import create_app

HELD_S = 0.05
BEAT_S = 0.005
API = "/api/v1/skill-definitions"
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
JSON = {"Content-Type": "application/json"}
CHAT = "/api/v1/chat/conversations"
MODEL = "openai-chat:gpt-5"
Attack = Callable[[], httpx.Response]


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
        self.session: dict[str, str] = {}

    def install(self, name: str, files: Mapping[str, str | bytes] = {}, **parts: str) -> None:  # only read
        """Install a skill of these files, or its next version."""
        data = archive(name, files, **parts)
        answer = self.client.post(f"{API}/upload-create?force=true", files={"file": (f"{name}.zip", data)})
        assert answer.status_code == 201, answer.text

    def inspect(self, data: bytes) -> Attack:
        """Look at an archive."""
        return lambda: self.client.post(f"{API}/inspect", files={"file": ("x.zip", data)})

    def send(self, path: str, content: object, headers: Mapping[str, str] = JSON) -> Attack:
        """Send JSON, which is written beforehand."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return lambda: self.client.post(path, content=body, headers={**JSON, **headers})

    def call(self, method: str, **params: object) -> Attack:
        """A call of MCP."""
        return self.send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, MCP | self.session)

    def open_session(self) -> None:
        """Begin to speak MCP."""
        client = {
            "protocolVersion": MCP["MCP-Protocol-Version"],
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        answer = self.call("initialize", **client)()
        assert answer.status_code == 200, answer.text
        self.session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        self.send("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, MCP | self.session)()

    def get(self, path: str, **params: str) -> Attack:
        """Ask for something."""
        return lambda: self.client.get(path, params=params)

    def held(self, attack: Attack) -> tuple[float, httpx.Response]:
        """The shortest of three times that the loop was held by one request, and its last answer."""
        times = []
        for _ in range(3):
            self.watchdog.reset()
            answer = attack()
            seen, end = self.watchdog.beats, time.monotonic() + 60
            while self.watchdog.beats < seen + 2:  # the beat that comes after it
                assert time.monotonic() < end
                time.sleep(BEAT_S)
            times.append(self.watchdog.longest)
            if times[-1] <= HELD_S:
                break
        return min(times), answer


@contextmanager
def watching(app: FastAPI) -> Iterator[Watched]:
    """The application on a port of this machine, with a watchdog on its loop."""
    watchdog = Watchdog()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))

    async def serve() -> None:
        beating = asyncio.ensure_future(watchdog.watch())
        await server.serve()
        beating.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=300, trust_env=False) as client:
            client.get(f"{API}?isActive=true")  # what is loaded by a first request is no attack
            yield Watched(client, watchdog)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def watched(app: FastAPI) -> Iterator[Watched]:
    with watching(app) as served:
        yield served


def archive(
    name: str,
    files: Mapping[str, str | bytes] = {},  # only read
    *,
    header: str = "",
    body: str = "Do it.",
    description: str = "Tidies up. Use when a test needs a skill.",
) -> bytes:
    stream = io.BytesIO()
    text = f"---\nname: {name}\ndescription: {description}\n{header}---\n{body}\n"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for path, content in {"SKILL.md": text, **files}.items():
            made.writestr(f"{name}/{path}", content)
    return stream.getvalue()


def doubled(levels: int) -> dict[str, Any]:
    """A schema that is twice as large with each level, by two references to the one below."""
    parts: dict[str, Any] = {"a0": {"type": "string"}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/$defs/a{level - 1}"}
        parts[f"a{level}"] = {"anyOf": [below, below]}
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/a{levels}"}}, "$defs": parts}


def skills(count: int) -> bytes:
    """An archive of that many skills."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(count):
            made.writestr(f"s{number}/SKILL.md", f"---\nname: s{number}\ndescription: Does {number}.\n---\nx\n")
    return stream.getvalue()


def numbers(seed: int) -> str:
    """23 kB of lines in which a comparison finds no beginning."""
    return "\n".join(str(random.Random(seed).randrange(1, 120) * n % 121) for n in range(8_000))


BLOCKS: Final = "# /// script\n" * 8_000
ALIASES: Final = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 10)}]\n" for n in range(10))
INSPECTED: Final[dict[str, dict[str, Any]]] = {
    "script blocks in 700 bytes": {"files": {"scripts/a.py": BLOCKS}},
    "a block without an end": {"files": {"scripts/a.py": "# /// script\n" + "#\n" * 150_000}},
    "a command over 8 MiB": {"files": {f"scripts/a{n}.sh": "curl " * 200_000 for n in range(8)}},
    "a line of a megabyte in a reference": {"files": {"references/a.md": "a" * 1_000_000}},
    "links": {"files": {"references/a.md": "[" * 500_000, "references/b.md": "![a](" * 200_000}},
    "many files": {"files": {f"references/{n}.md": "x" for n in range(1_900)}},
    "a long line of front matter": {"header": "x: " + "a" * 60_000 + "\n"},
    "deep front matter": {"header": "x: " + "[" * 20_000 + "]" * 20_000 + "\n"},
    "aliases": {"header": ALIASES},
    "many fields": {"header": "".join(f"k{n}: v\n" for n in range(5_000))},
    "one field of a megabyte": {"header": "k: [" + "a," * 500_000 + "]\n"},
    "many sections": {"body": "# a\n" * 50_000},
    "signs of code": {"body": "`" * 200_000},
    "a body of a megabyte": {"body": "[a](b) `c` <d> *e* $f\n" * 40_000},
    "a description of a megabyte": {"description": "a b " * 250_000},
    "allowed tools without an end": {"header": "allowed-tools: " + "Bash(a:* " * 20_000 + "\n"},
    "many allowed tools": {"header": "allowed-tools: " + "Bash(git:*), " * 20_000 + "Read\n"},
    "a doubled schema": {"header": f"input_schema: {json.dumps(doubled(30))}\n"},
    "a wide schema": {"header": f"input_schema: {json.dumps({'properties': {f'p{n}': {} for n in range(20_000)}})}\n"},
}
WRITER: Final = """\
import os, pathlib
data = (pathlib.Path(__file__).parent / "data").read_bytes()
while data:
    data = data[os.write(int(os.environ["SKILL_RESULT_FD"]), data):]
"""
RESULTS: Final = {
    "escapes": b'"' + b"[" * 65 + b'\\"' * 32_700,
    "brackets": b"[" * 65_000,
    "keys": b"{" + b",".join(b'"%d":[]' % n for n in range(6_000)) + b"}",
    "digits": b"[" + b"9" * 64_000 + b"]",
}
WORDS: Final = {
    "one word": "a" * 20_000,
    "a word with hyphens": "a-" * 10_000,
    "short words": "a " * 10_000,
    "Chinese": "合" * 6_000,
}


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


def judge(watched: Watched, attacks: Mapping[str, tuple[int, Attack]], visited: int) -> None:
    """Carry each attack out; each gets the status it should get, and none holds the loop."""
    held, statuses = {}, {}
    for name, (_, attack) in attacks.items():
        held[name], answer = watched.held(attack)
        statuses[name] = answer.status_code
    assert len(held) == visited
    assert statuses == {name: status for name, (status, _) in attacks.items()}
    assert {name: f"{seconds * 1000:.0f} ms" for name, seconds in held.items() if seconds > HELD_S} == {}


@pytest.mark.abuse("H13")
def test_no_archive_holds_the_loop(watched: Watched) -> None:
    archives = {name: archive("x", **parts) for name, parts in INSPECTED.items()}
    assert len(archives["script blocks in 700 bytes"]) < 700
    attacks = {name: (200, watched.inspect(data)) for name, data in archives.items()}
    attacks |= {
        "a file of 8 MiB": (413, watched.inspect(archive("x", {"scripts/a.sh": "curl " * 1_600_000}))),
        "a body of 8 MiB": (413, watched.inspect(archive("x", body="[a](b) `c` <d> *e* $f\n" * 360_000))),
        "many skills": (200, watched.inspect(skills(100))),
        "thousands of skills": (413, watched.inspect(skills(10_000))),
    }
    judge(watched, attacks, 23)


@pytest.mark.abuse("H13")
def test_no_words_that_are_searched_for_hold_the_loop(watched: Watched) -> None:
    watched.open_session()
    for number in range(20):
        watched.install(f"s{number}")
    attacks: dict[str, tuple[int, Attack]] = {}
    for name, words in WORDS.items():
        call = {"name": "search_skills", "arguments": {"query": words}}
        attacks |= {
            f"a long search, {name}": (400, watched.get("/api/v1/catalog/search", q=words)),
            f"a search, {name}": (200, watched.get("/api/v1/catalog/search", q=words[:2_000])),
            f"a public search, {name}": (200, watched.get("/api/search", q=words[:2_000])),
            f"a prompt, {name}": (200, watched.get("/api/v1/prompt", request=words[:2_000])),
            f"a tool, {name}": (200, watched.send("/api/v1/tools/call", call)),
            f"MCP, {name}": (200, watched.call("tools/call", **call)),
            f"memories, {name}": (200, watched.get("/api/v1/memories/recall", q=words[:2_000])),
        }
    judge(watched, attacks, 28)


@pytest.mark.abuse("H13")
def test_no_body_of_a_request_holds_the_loop(watched: Watched, models: Any) -> None:
    watched.open_session()
    watched.install("x")
    wide = {"query": "x", "a": [[]] * 900_000}
    within = {"query": "x", "a": [[]] * 12_000}
    texts = {"query": "x", "a": ["", ","] * 12_000}
    numbers = {"query": "x", "a": [int("9" * 300)] * 12_000}
    attacks = {
        "deep JSON": (400, watched.send(f"{API}/inspect", b"[" * 500_000)),
        "deep JSON of a run": (413, watched.send("/api/v1/runs", b'{"skill":"x","parameters":{"a":' + b"[" * 50_000)),
        "deep JSON within bounds": (400, watched.send("/api/v1/runs", b'{"skill":"x","parameters":{"a":' + b"[" * 24_000)),
        "one number": (413, watched.send("/api/v1/runs", b'{"skill":"x","parameters":{"a":' + b"9" * 4_000_000 + b"}}")),
        "what is no JSON": (413, watched.send("/api/v1/runs", b"\\[" * 1_000_000)),
        "texts without an end": (400, watched.send("/api/v1/runs", b'"' * 4_000_000)),
        "arguments as text": (200, watched.send("/api/v1/tools/call", {"name": "search_skills", "arguments": "[" * 300_000})),
        "wrong arguments as text": (
            200,
            watched.send("/api/v1/tools/call", {"name": "x", "arguments": json.dumps(wide)[:390_000]}),
        ),
        "a conversation": (201, watched.send(CHAT, {"model": MODEL, "settings": {"permissions": {"*" * 100_000: "allow"}}})),
        "many rules": (
            201,
            watched.send(CHAT, {"model": MODEL, "settings": {"permissions": dict.fromkeys(map(str, range(24_000)), "ask")}}),
        ),
        "many wrong rules": (
            400,
            watched.send(CHAT, {"model": MODEL, "settings": {"permissions": dict.fromkeys(map(str, range(24_000)), "x")}}),
        ),
        "unknown fields": (400, watched.send("/api/v1/runs", dict.fromkeys(map(str, range(24_000)), 1))),
        "a memory": (201, watched.send("/api/v1/memories", {"content": "合" * 4_000})),
        "a long memory": (400, watched.send("/api/v1/memories", {"content": "合" * 400_000})),
        "a cookie": (200, lambda: watched.client.get(API, headers={"Cookie": "a;" * 20_000})),
        "a query of many fields": (400, lambda: watched.client.get(API + "?" + "a&" * 20_000)),
        "a query of fewer fields": (200, lambda: watched.client.get(API + "?" + "a&" * 999)),
    }
    for name, arguments, status in (
        ("long numbers", {"query": "x", "a": [int("9" * 4_000)] * 900}, 413),
        ("wide", wide, 413),
        ("texts", texts, 200),
        ("numbers", numbers, 200),
        ("within", within, 200),
    ):
        attacks |= {
            f"a run, {name}": (
                413 if status == 413 else 422,
                watched.send("/api/v1/runs", {"skill": "x", "parameters": arguments}),
            ),
            f"a tool, {name}": (status, watched.send("/api/v1/tools/call", {"name": "search_skills", "arguments": arguments})),
            f"MCP, {name}": (status, watched.call("tools/call", name="search_skills", arguments=arguments)),
            f"no object, {name}": (413 if status == 413 else 400, watched.send("/api/v1/schedules", arguments["a"])),
        }
    judge(watched, attacks, 37)


def _said(watched: Watched, text: str) -> Attack:
    """Say something in a new conversation, and wait until its turn has ended."""

    def say() -> httpx.Response:
        begun = watched.client.post(CHAT, json={"model": MODEL}).json()["data"]["id"]
        answer = watched.client.post(f"{CHAT}/{begun}/messages", content=body, headers=JSON)
        if answer.status_code == 201:
            turn = answer.json()["data"]["id"]
            assert "event: end" in watched.client.get(f"{CHAT}/{begun}/turns/{turn}/events").text
        return answer

    body = json.dumps({"text": text}).encode()
    return say


@pytest.mark.abuse("H13")
def test_no_message_of_a_conversation_holds_the_loop(watched: Watched, models: Any) -> None:
    watched.install("x")
    attacks = {}
    for name, (status, text) in {
        "a megabyte": (400, "a " * 500_000),
        "one word": (201, "a" * 400_000),
        "signs": (201, "/x " + "[](`" * 90_000),
        "Chinese": (201, "合" * 400_000),
    }.items():
        attacks[name] = (status, _said(watched, text))
    judge(watched, attacks, 4)


@pytest.mark.abuse("H13")
def test_no_skill_that_runs_or_is_offered_as_a_tool_holds_the_loop(watched: Watched) -> None:
    watched.open_session()
    runs = "type: direct\nresources:\n  entry: ./scripts/a.py\n"
    attacks: dict[str, tuple[int, Attack]] = {}
    for number, (name, result) in enumerate(RESULTS.items()):
        watched.install(f"r{number}", {"scripts/a.py": WRITER, "scripts/data": result}, header=runs)
        attacks[f"a result of {name}"] = (201, watched.send("/api/v1/runs", {"skill": f"r{number}", "fresh": True}))
    schema = f"input_schema: {json.dumps(doubled(30))}\n"
    assert len(schema) < 2_500
    watched.install("doubled", {"scripts/a.py": "print({})\n"}, header=runs + schema)
    watched.install("declares", {"scripts/execute.py": "print({})\n"}, header=f"protocol: abp\n{schema}")
    run = {"skill": "doubled", "parameters": {"x": 1}, "fresh": True}
    attacks |= {
        "a run with a doubled schema": (201, watched.send("/api/v1/runs", run)),
        "a tool that runs it": (
            200,
            watched.send("/api/v1/tools/call", {"name": "run_skill", "arguments": {"skill": "doubled"}}),
        ),
        "tools with a doubled schema": (200, watched.get("/api/v1/tool-definitions", abp_tools="true")),
        "the tools of MCP": (200, watched.call("tools/list")),
        "the prompts of MCP": (200, watched.call("prompts/list")),
        "a prompt": (200, watched.get("/api/v1/prompt")),
        "a portrait": (200, watched.get("/api/v1/catalog/skill", skill="doubled")),
    }
    judge(watched, attacks, 11)


@pytest.mark.abuse("H13")
def test_no_comparison_or_scan_of_hostile_versions_holds_the_loop(watched: Watched) -> None:
    watched.install("x", {"a.txt": numbers(1), "scripts/a.sh": "curl " * 100_000})
    watched.install("x", {"a.txt": numbers(2), "scripts/a.sh": "curl  " * 100_000})
    old, new = [one["version"] for one in watched.client.get(f"{API}/x/versions").json()["data"]]
    paths = (f"versions/{old}/diff/{new}", f"versions/{new}/diff/{old}", "scan", "compatibility")
    judge(watched, {path: (200, watched.get(f"{API}/x/{path}")) for path in paths}, 4)


class _Local:
    """Fetches from a repository of this machine, whatever address it is asked for."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """As `Fetcher.fetch`."""
        return GitFetcher(local=True).fetch(Source("git", str(self._repository)), into)


def git(repository: Path, *arguments: str, text: str = "") -> str:
    """What git says."""
    who = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    command = ["git", "-C", str(repository), *who, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.abuse("F28", "H13")
def test_no_trees_of_git_that_name_each_other_hold_the_loop(home: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet", "--bare", "--initial-branch=main")
    skill = git(repository, "hash-object", "-w", "--stdin", text="---\nname: x\ndescription: d\n---\n")
    tree = git(repository, "mktree", text=f"100644 blob {skill}\tf\n")
    for _ in range(9):
        tree = git(repository, "mktree", text="".join(f"040000 tree {tree}\td{n}\n" for n in range(10)))
    tree = git(repository, "mktree", text=f"100644 blob {skill}\tSKILL.md\n040000 tree {tree}\td\n")
    git(repository, "update-ref", "refs/heads/main", git(repository, "commit-tree", tree, "-m", "x"))
    objects = [file for file in (repository / "objects").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in objects) < 24 * 1024
    catalog = Catalog.discover(cwd=home / "project", home=home)
    fetcher = SourceFetcher(others={"git": _Local(repository)})
    registry = Registry(catalog.data_directory, catalog.configuration.database_url, fetcher=fetcher)
    with watching(create_app(catalog, registry)) as watched:
        body = {"address": "https://host.example/a/b.git"}
        attacks = {
            "an inspection": (413, watched.send(f"{API}/inspect", body)),
            "an install": (413, watched.send(f"{API}/install/address", body)),
        }
        judge(watched, attacks, 2)
