"""What the HTTP service adds: a page of ten thousand skills, a file, a search, each against the least that could answer it.

`python -m benchmarks.server [--skills 10000] [--rounds 2000]`. One process is `skillyard serve` as everybody starts it, with
its log; another one answers constants by FastAPI and the same files by Starlette, with nothing before them. This one asks over
one connection to each, and the ways take turns in one run; read the ratios. A search is compared with the same questions to
the index alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures.goals import Goal, print_goals

if TYPE_CHECKING:
    from skillyard import Catalog

WORDS = [
    "report",
    "table",
    "chart",
    "invoice",
    "letter",
    "release",
    "weather",
    "photo",
    "audio",
    "budget",
    "meeting",
    "travel",
    "recipe",
    "garden",
    "music",
    "code",
]
QUESTIONS = [f"{first} {second}" for first in WORDS for second in WORDS if first != second]


def collection(folder: Path, count: int) -> Path:
    """So many small skills, in words that repeat."""
    for number in range(count):
        first, second = WORDS[number % len(WORDS)], WORDS[number // len(WORDS) % len(WORDS)]
        skill = folder / f"skills/{first}-{second}-{number}"
        skill.mkdir(parents=True)
        text = f"Works on a {first} with a {second}, the {number}th way. Use it when somebody asks for that."
        (skill / "SKILL.md").write_text(f"---\nname: {skill.name}\ndescription: {text}\n---\n# Steps\n\n1. Take the {first}.\n")
        if number == 0:
            (skill / "reference.md").write_text(("some words of a reference, " * 40 + "\n") * 8)
    return folder / "skills"


def bare(skills: Path) -> None:
    """Serve the least that could answer, until this process is ended: constants by FastAPI, the files by Starlette, no more."""
    import uvicorn
    from fastapi import FastAPI, Response
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    from skillyard import Catalog
    from skillyard.server.shapes.catalog_shapes import ListedSkill

    catalog = Catalog.discover(roots=[skills])
    rules = catalog.rules()
    data = {"success": True, "data": [ListedSkill.of(skill, rules).to_dict() for skill in catalog.all()[:20]]}
    known = json.dumps(data).encode()
    constants = FastAPI()

    @constants.get("/bytes", response_model=None)
    async def constant_bytes(page: int = 1, limit: int = 20) -> Any:
        return Response(known, media_type="application/json")

    @constants.get("/values")
    async def constant_values(page: int = 1, limit: int = 20) -> dict[str, object]:
        return data

    files = Starlette(routes=[Mount("/files", StaticFiles(directory=skills))])

    async def either(scope: Any, receive: Any, send: Any) -> None:
        await (files if scope.get("path", "").startswith("/files") else constants)(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(json.dumps({"address": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
        uvicorn.Server(uvicorn.Config(either, log_level="warning", access_log=False)).run(sockets=[listening])


class Asker:
    """One connection, and the milliseconds each answer took."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"127.0.0.1:{port}"

    def ask(self, path: str) -> float:
        """Milliseconds until the whole answer is there."""
        request = f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode()
        started = time.perf_counter()
        self._connection.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._received()
        head, _, body = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        missing = int(fields.get(b"content-length", b"0")) - len(body)
        while missing > 0:
            missing -= len(self._received())
        spent = (time.perf_counter() - started) * 1000
        status = head.split(b" ", 2)[1]
        assert status in (b"200", b"304"), data[:500]
        return spent

    def _received(self) -> bytes:
        data = self._connection.recv(65536)
        assert data, "the server closed the connection"
        return data


@contextlib.contextmanager
def answering(*command: str) -> Iterator[Asker]:
    """A server as a process of its own, and a connection to it."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield Asker(int(json.loads(process.stdout.readline())["address"].rpartition(":")[2]))
        finally:
            process.terminate()


def in_turns(ways: dict[str, tuple[Asker, str]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each way, which take turns of five; the first of five wakes the other process, and does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds // 4 + 20):
        for name, (asker, path) in ways.items():
            times[name] += [asker.ask(path) for _ in range(5)][1:]
    return {name: spent[80:] for name, spent in times.items()}


def searches(asker: Asker, catalog: Catalog, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each question, over HTTP and to the index itself, in turns of twenty."""
    served: list[float] = []
    alone: list[float] = []
    for begin in range(0, rounds + 20, 20):
        questions = [QUESTIONS[number % len(QUESTIONS)] for number in range(begin, begin + 20)]
        served += [asker.ask(f"/api/v1/catalog/search?q={question.replace(' ', '+')}") for question in questions]
        for question in questions:
            started = time.perf_counter()
            catalog.search(question, 10)
            alone.append((time.perf_counter() - started) * 1000)
    return {"search over HTTP": served[20:], "search of the index": alone[20:]}


def at(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def measured(skills: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every way to ask."""
    from skillyard import Catalog

    catalog = Catalog.discover(roots=[skills])
    catalog.search("a report", 10)
    first = f"{WORDS[0]}-{WORDS[0]}-0"
    serve = ("-m", "skillyard", "serve", "--root", str(skills), "--port", "0", "--json")
    with answering("-m", "benchmarks.server", "--bare", str(skills)) as bare, answering(*serve) as asker:
        ways = {
            "constant bytes": (bare, "/bytes?page=3&limit=20"),
            "constant values": (bare, "/values?page=3&limit=20"),
            "page of skills": (asker, "/api/v1/catalog?page=3&limit=20"),
            "static file": (bare, f"/files/{first}/reference.md"),
            "file of a skill": (asker, f"/api/v1/catalog/file?skill=config:{first}&path=reference.md"),
            "nothing but the way": (asker, "/healthz"),
        }
        return in_turns(ways, rounds) | searches(asker, catalog, min(rounds, 400))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare(options.bare)
        return
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "SKILLYARD_HOME": f"{scratch}/home", "XDG_CONFIG_HOME": f"{scratch}/.config"}
        times = measured(collection(Path(scratch), options.skills), options.rounds)
    print(f"{options.skills:,} skills, {options.rounds:,} rounds; milliseconds\n{'':24} {'p50':>8} {'p95':>8}")
    for name, spent in times.items():
        print(f"{name:24} {statistics.median(spent):8.3f} {at(spent, 0.95):8.3f}")
    median = {name: statistics.median(spent) for name, spent in times.items()}
    slow = {name: at(spent, 0.95) for name, spent in times.items()}
    print_goals(
        (
            Goal("a page of the list ÷ constant bytes, p50", median["page of skills"] / median["constant bytes"], 2),
            Goal("a file ÷ a static file, p50", median["file of a skill"] / median["static file"], 1.5),
            Goal("a search ÷ the index alone, p95", slow["search over HTTP"] / slow["search of the index"], 3),
        )
    )


if __name__ == "__main__":
    main()
