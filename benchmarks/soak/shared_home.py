"""One home that a server, its schedules and many commands use at once, some of them killed with -9: nothing may be lost.

`python -m benchmarks.soak.shared_home --seconds 60` ends with 1 when the database is damaged, an acknowledged record is not
there, the write-ahead log was deleted under a user, or anything but SQLite opened a database file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.soak.home_commands import Commands, HomeCommands, Promised
from benchmarks.soak.parts import free_port, skillyard

__all__ = ["HomeReport", "soak_home"]

_EXAMPLES: Final = Path(__file__).parents[2] / "examples/skills"
_QUICK: Final = """---
name: quick
description: Answers at once. Use in a soak.
---
It answers.
"""
_RECORDS: Final[Mapping[str, str]] = {
    "run": "SELECT id FROM runs",
    "memory": "SELECT content FROM memories",
    "skill": "SELECT skill_id FROM skill_definitions WHERE is_active",
    "schedule": "SELECT name FROM schedules",
    "agent": "SELECT name FROM agents",
    "key": "SELECT name FROM api_keys",
}


@dataclass(frozen=True, slots=True)
class HomeReport:
    """What was done, how many records were promised, and what was wrong; the last five should be empty."""

    seed: int
    seconds: float
    done: Mapping[str, int]
    promised: int
    integrity: list[str]
    lost: list[str]
    deleted_logs: list[str]
    opened: list[str]
    strange: list[str]

    @property
    def good(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.integrity or self.lost or self.deleted_logs or self.opened or self.strange)

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        return {**asdict(self), "good": self.good}

    def text(self) -> str:
        """For people."""
        lines = [f"{sum(self.done.values())} commands and requests in {self.seconds:.0f} s, {self.promised} records promised"]
        lines += [f"  {number:6}  {name}" for name, number in sorted(self.done.items())]
        for title in ("integrity", "lost", "deleted_logs", "opened", "strange"):
            found: list[str] = getattr(self, title)
            lines.append(f"{title}: {len(found)}")
            lines += [f"  {sentence}" for sentence in found[:20]]
        return "\n".join([*lines, f"{'good' if self.good else 'NOT GOOD'}; the same again: --seed {self.seed}"])


def soak_home(
    folder: Path,
    *,
    seconds: float,
    seed: int,
    workers: int = 2,
    kills: float = 0.15,
    turns: int = 0,
    start: Callable[..., Any] = subprocess.Popen,
    pace: float = 1.0,
) -> HomeReport:
    """Use one home in the empty `folder` for so long, and until each worker had so many `turns`, one for each kind of command.

    `kills` is the share of commands that are killed; the server is killed once at least. `start` starts a command as
    `subprocess.Popen` does; where that takes a tenth of the time, a `pace` of 0.1 kills as early in what it does.
    """  # fmt: skip
    environment = _prepared(folder)
    promised, stop, deleted = Promised(), threading.Event(), _Deleted()
    chance = random.Random(seed)
    began = time.monotonic()
    with _serving(folder, environment, promised, deleted, start) as server:
        commands = Commands(folder, environment, start, pace)
        loops = [HomeCommands(number, commands, promised, seed, kills) for number in range(workers)]
        threads = [threading.Thread(target=loop.go_on, args=(stop,)) for loop in loops]
        threads.append(threading.Thread(target=_ask, args=(server.port, promised, stop)))
        for thread in threads:
            thread.start()
        while time.monotonic() < began + seconds or any(loop.turns < turns for loop in loops):
            stop.wait(chance.uniform(4, 10) * pace)
            if chance.random() < 0.5 or not promised.done["server, killed"]:
                server.kill_and_start()
                promised.count("server, killed")
        stop.set()
        for thread in threads:
            thread.join()
    opened = (folder / "opens.log").read_text().splitlines() if (folder / "opens.log").exists() else []
    integrity, lost = _counted(folder / "home/skillyard.db", promised)
    return HomeReport(
        seed, round(time.monotonic() - began, 1), dict(promised.done), len(promised.records), integrity, lost, deleted.found,
        opened, promised.strange,
    )  # fmt: skip


def _prepared(folder: Path) -> dict[str, str]:
    """The skills and the project, and the environment of everything that is started."""
    for name in ("home", "project", "skills"):
        (folder / name).mkdir(parents=True)
    (folder / "home").chmod(0o700)
    for name in ("quick", *(f"other-{number}" for number in range(8))):
        (folder / "skills" / name / "scripts").mkdir(parents=True)
        (folder / "skills" / name / "SKILL.md").write_text(_QUICK.replace("quick", name))
        (folder / "skills" / name / "scripts/execute.py").write_text("import sys\nprint(sys.stdin.read())\n")
    shutil.copytree(_EXAMPLES / "preference-recorder", folder / "skills/preference-recorder")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SKILLYARD_", "XDG_"))}
    hook = str(Path(__file__).parent / "open_hook")
    return {
        **kept, "HOME": str(folder), "SKILLYARD_HOME": str(folder / "home"), "PYTHONPATH": hook,
        "SKILLYARD_OPENS_LOG": str(folder / "opens.log"), "NO_PROXY": "127.0.0.1",
    }  # fmt: skip


class _Deleted:
    """Looks whether a file of the database was deleted while a process had it open."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def look(self, process: int) -> None:
        """Note what the process has open and nobody else can open any more."""
        with suppress(OSError):
            for link in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    target = os.readlink(link)  # noqa: PTH115 # with what Linux says behind it
                    if "skillyard.db" in target and target.endswith(" (deleted)"):
                        reported = f"process {process} has {Path(target).name}"
                        if reported not in self.found:
                            self.found.append(reported)


class _Server:
    """`skillyard serve` over the home, started anew after each kill."""

    def __init__(self, folder: Path, environment: Mapping[str, str], deleted: _Deleted, begin: Callable[..., Any]) -> None:
        self.port = free_port()
        self._folder, self._environment, self._deleted, self._begin = folder, environment, deleted, begin
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._start()
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()

    def _start(self) -> None:
        options = ["--port", str(self.port), "--root", str(self._folder / "skills"), "--grace", "10"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = self._begin(
                skillyard("serve", *options), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(self._environment),
                cwd=self._folder / "project",
            )  # fmt: skip
        for _ in range(1200):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError((self._folder / "server.log").read_text(errors="replace")[-2000:])

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self._deleted.look(self._process.pid)

    def kill_and_start(self) -> None:
        with self._lock:
            self._deleted.look(self._process.pid)
            self._process.kill()
            self._process.wait()
            self._start()

    def end(self) -> None:
        self._deleted.look(self._process.pid)
        self._over.set()
        self._watching.join()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


@contextmanager
def _serving(
    folder: Path, environment: Mapping[str, str], promised: Promised, deleted: _Deleted, start: Callable[..., Any]
) -> Iterator[_Server]:
    server = _Server(folder, environment, deleted, start)
    try:
        yield server
    finally:
        server.end()
        log = (folder / "server.log").read_text(errors="replace")
        promised.strange += [line[:400] for line in log.splitlines() if "malformed" in line or "database_damaged" in line]


def _ask(port: int, promised: Promised, stop: threading.Event) -> None:
    """Ask the server for runs; one that it said has succeeded must be in the records for ever."""
    number = 0
    while not stop.wait(0.05):
        number += 1
        order = json.dumps({"skill": "quick", "parameters": {"number": number}, "wait": True}).encode()
        url = f"http://127.0.0.1:{port}/api/v1/runs"
        request = urllib.request.Request(url, order, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                promised.keep("run", str(json.loads(answer.read())["data"]["run_id"]))
                promised.count("server, run")
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            promised.count(f"server, {error.code}")
            if error.code == 500 or "database_" in said:
                promised.strange.append(f"the server answered {error.code}: {said[:400]}")
        except (OSError, ValueError):
            promised.count("server, no answer")
            stop.wait(0.5)


def _counted(file: Path, promised: Promised) -> tuple[list[str], list[str]]:
    """What SQLite says of the file, and which promises do not hold."""
    with closing(sqlite3.connect(file)) as connection:
        try:
            rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            there = {kind: {str(row[0]) for row in connection.execute(query)} for kind, query in _RECORDS.items()}
        except sqlite3.DatabaseError as error:
            return [str(error)], []
    said = "\n".join(there["memory"])
    lost = []
    for (kind, name), wanted in promised.records.items():
        found = name in said if kind == "memory" else name in there[kind]
        if found != wanted:
            lost.append(f"{kind} {name} is {'not there' if wanted else 'there, and was taken away'}")
    return [row for row in rows if row != "ok"], lost


def main() -> int:
    """Soak, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="the same faults as a soak before (default: a new one)")
    parser.add_argument("--workers", type=int, default=3, help="who call commands at once, at most 8 (default: %(default)s)")
    parser.add_argument("--report", metavar="FILE", help="write the report there, as JSON")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="skillyard-home-", dir="/tmp") as folder:
        report = soak_home(Path(folder), seconds=options.seconds, seed=seed, workers=min(8, options.workers))
    if options.report:
        Path(options.report).write_text(json.dumps(report.to_dict(), indent=1) + "\n")
    print(report.text())
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
