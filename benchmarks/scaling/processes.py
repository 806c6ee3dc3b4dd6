"""What one process takes: connections of PostgreSQL, memory for its catalog, and how many requests a second it answers.

`python -m benchmarks.scaling.processes` measures servers and workers as anybody starts them, and prints what the table of walls
stands on. `wrk` asks the server; it is a package of Debian.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.scaling.clusters import postgresql

__all__ = ["connections", "memory", "requests"]

_CLIENTS = 16
_LOOKS = 20
_SKILL = (
    "---\nname: {name}\ndescription: Does the thing number {number} well. Use when asked for thing {number}.\n---\n\n{body}"
)
_BODY = "Do it step by step, and look at the result before you tell anybody. " * 20
_COUNT = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def main() -> int:
    """Measure each, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skills", type=int, nargs="+", default=[0, 1_000, 10_000], metavar="N", help="(default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=5, help="of each load (default: %(default)s)")
    options = parser.parse_args()
    with postgresql() as url:
        for name, (idle, busy) in connections(url, options.seconds).items():
            print(f"connections of {name}: {idle} at rest, at most {busy} at work", flush=True)
    for many in options.skills:
        found = memory(many)
        reported = ", ".join(f"{size >> 20:,} MiB {when}" for when, size in found.items())
        print(f"memory of a server with {many:,} skills: {reported}", flush=True)
    for name, rate in requests(options.seconds).items():
        print(f"{name}: {rate:,.0f} requests a second", flush=True)
    return 0


def connections(url: str, seconds: int) -> Mapping[str, tuple[int, int]]:
    """How many a server and a worker hold when nobody asks, and at the most while sixteen clients do."""
    import psycopg

    found = {}
    with tempfile.TemporaryDirectory() as folder, psycopg.connect(url, autocommit=True) as counting:

        def look() -> int:
            row = counting.execute(_COUNT).fetchone()
            return int(row[0]) if row else 0

        with _serving(Path(folder), url) as (_, address):
            _settled(look)
            idle = look()
            with _wrk(address, "/api/v1/skill-definitions", seconds):
                busy = max(look() for _ in _moments(seconds))
            found["a server"] = (idle, max(idle, busy))
        for turns in (4, 16):
            with _program(Path(folder), url, "worker", "--pool", "walls", "--concurrency", str(turns), "--json"):
                _settled(look)
                looks = [look() for _ in _moments(seconds)]
                found[f"a worker with {turns} turns"] = (int(median(looks)), max(looks))
    return found


def memory(skills: int) -> Mapping[str, int]:
    """Bytes of a server that is not shared with others, after its list and after a search over so many skills of a project."""
    import httpx2

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, ".claude/skills")
        for number in range(skills):
            place = root / f"thing-{number}"
            place.mkdir(parents=True)
            (place / "SKILL.md").write_text(_SKILL.format(name=place.name, number=number, body=_BODY))
        with (
            _serving(Path(folder)) as (process, address),
            httpx2.Client(base_url=address, trust_env=False, timeout=600) as client,
        ):
            sizes = {"at the start": _private(process.pid)}
            for when, path in (("listed", "/api/v1/catalog"), ("searched", "/api/v1/catalog/search?q=thing+number+42")):
                client.get(path).raise_for_status()
                sizes[when] = _private(process.pid)
    return sizes


def requests(seconds: int) -> Mapping[str, float]:
    """How many a second one process answers, for what costs nothing and for a list of the records."""
    paths = {"liveness": "/healthz", "a list of skill definitions": "/api/v1/skill-definitions"}
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder)) as (_, address):
        rates = {}
        for name, path in paths.items():
            with _wrk(address, path, seconds) as done:
                text, _ = done.communicate()
            if "Non-2xx" in text:
                raise RuntimeError(f"{path} was refused: {text}")
            rates[name] = float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])
    return rates


def _moments(seconds: float) -> Iterator[None]:
    for _ in range(_LOOKS):
        yield
        time.sleep(seconds / _LOOKS)


def _settled(look: Callable[[], int]) -> None:
    """Wait until the number has been the same for two seconds, half a minute at the most."""
    last: list[int] = []
    for _ in range(60):
        last = [*last[-3:], look()]
        if len(last) == 4 and last[0] and len(set(last)) == 1:
            return
        time.sleep(0.5)


def _private(process: int) -> int:
    """The memory that ends with the process."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"(?m)^Private_(?:Clean|Dirty):\s+(\d+) kB", rollup)) * 1024


@contextmanager
def _wrk(address: str, path: str, seconds: int) -> Iterator[subprocess.Popen[str]]:
    command = ["wrk", f"-d{seconds}s", f"-c{_CLIENTS}", "-t2", f"{address}{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process


@contextmanager
def _serving(home: Path, url: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    with _program(home, url, "serve", "--port", "0", "--json") as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["address"]


@contextmanager
def _program(home: Path, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    settings = {"HOME": str(home), "SKILLYARD_HOME": f"{home}/data", "SKILLYARD_DATABASE_URL": url}
    with subprocess.Popen(
        [sys.executable, "-m", "skillyard", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=home, env={**os.environ, **settings},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


if __name__ == "__main__":
    raise SystemExit(main())
