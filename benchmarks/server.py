"""What the HTTP service adds: a page of ten thousand skills, a file, a search, each against the least that could answer it.

`python benchmarks/server.py [--skills 10000] [--rounds 2000]`. One process serves, this one asks over one connection, and the
ways take turns in one run; read the ratios. The page is compared with a route of the same application that takes the same and
answers constant bytes, the file with Starlette's static files in it, the search with the same questions to the index alone.
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

from figures.goals import Goal, print_goals

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
LIMITS = "[server.limits]\nread = 1000000\nwrite = 1000000\ndownload = 1000000\n"
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


def serving(skills: Path) -> None:
    """Serve the collection, with the least that could answer beside it, until this process is ended."""
    import uvicorn
    from starlette.responses import Response
    from starlette.staticfiles import StaticFiles

    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app
    from skillyard.server.callers import needs
    from skillyard.server.entries import Narrowed
    from skillyard.server.service import Served

    catalog = Catalog.discover(roots=[skills])
    app = create_app(catalog, Registry.of(catalog))
    known = json.dumps({"success": True, "data": [skill.to_dict() for skill in catalog.all()[:20]]}).encode()

    async def constant(service: Served, narrowed: Narrowed, page: int = 1, limit: int = 20) -> Response:
        """As the route is declared, with an answer that is known before."""
        return Response(known, media_type="application/json")

    constant.__annotations__ |= {"service": Served, "narrowed": Narrowed, "page": int, "limit": int}
    app.add_api_route("/constant", constant, response_class=Response, response_model=None, dependencies=[needs("skills:read")])
    app.mount("/static-files", StaticFiles(directory=skills))
    app.router.routes.insert(0, app.router.routes.pop())  # the page answers what no route does
    app.router.routes.insert(0, app.router.routes.pop())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=600)).run(
            sockets=[listening]
        )


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
def server(skills: Path) -> Iterator[Asker]:
    command = [sys.executable, __file__, "--serve", str(skills)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Asker(int(process.stdout.readline()))
        finally:
            process.terminate()


def in_turns(asker: Asker, rounds: int) -> dict[str, list[float]]:
    first = f"{WORDS[0]}-{WORDS[0]}-0"
    paths = {
        "constant bytes": "/constant?page=3&limit=20",
        "page of skills": "/api/v1/catalog?page=3&limit=20",
        "static file": f"/static-files/{first}/reference.md",
        "file of a skill": f"/api/v1/catalog/file?skill=config:{first}&path=reference.md",
        "nothing but the way": "/healthz",
    }
    for path in paths.values():
        for _ in range(50):
            asker.ask(path)
    times: dict[str, list[float]] = {name: [] for name in paths}
    for _ in range(rounds):
        for name, path in paths.items():
            times[name].append(asker.ask(path))
    return times


def searches(asker: Asker, skills: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each question, over HTTP and to the index itself, in turns of twenty."""
    from skillyard import Catalog

    catalog = Catalog.discover(roots=[skills])
    served: list[float] = []
    bare: list[float] = []
    for begin in range(0, rounds + 20, 20):
        questions = [QUESTIONS[number % len(QUESTIONS)] for number in range(begin, begin + 20)]
        served += [asker.ask(f"/api/v1/catalog/search?q={question.replace(' ', '+')}") for question in questions]
        for question in questions:
            started = time.perf_counter()
            catalog.search(question, 10)
            bare.append((time.perf_counter() - started) * 1000)
    return served[20:], bare[20:]


def at(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serving(options.serve)
        return
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"HOME": scratch, "SKILLYARD_HOME": f"{scratch}/home", "XDG_CONFIG_HOME": f"{scratch}/.config"}
        Path(scratch, ".config/skillyard").mkdir(parents=True)
        Path(scratch, ".config/skillyard/skillyard.toml").write_text(LIMITS)
        skills = collection(Path(scratch), options.skills)
        with server(skills) as asker:
            times = in_turns(asker, options.rounds)
            served, bare = searches(asker, skills, min(options.rounds, 400))
    print(f"{options.skills:,} skills, {options.rounds:,} rounds; milliseconds\n{'':24} {'p50':>8} {'p95':>8}")
    for name, spent in {**times, "search over HTTP": served, "search of the index": bare}.items():
        print(f"{name:24} {statistics.median(spent):8.3f} {at(spent, 0.95):8.3f}")
    medians = {name: statistics.median(spent) for name, spent in times.items()}
    print_goals(
        (
            Goal("a page of the list ÷ constant bytes, p50", medians["page of skills"] / medians["constant bytes"], 2),
            Goal("a file ÷ a static file, p50", medians["file of a skill"] / medians["static file"], 1.5),
            Goal("a search ÷ the index alone, p95", at(served, 0.95) / at(bare, 0.95), 3),
        )
    )


if __name__ == "__main__":
    main()
