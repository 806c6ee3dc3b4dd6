"""How long it takes to list a collection of skills, and to search it for the first time, as ratios within one run.

    python -m benchmarks.listing                  # 10,000 generated skills
    python -m benchmarks.listing ~/collections    # your own: any folder with SKILL.md files below it
    python -m benchmarks.listing --skills 1000 --rounds 5

Every figure is a whole process from start to end, with the page cache warm; the processes take turns, so that a busy machine
slows all of them. The floor is a loop in Python that scans and reads the first 4 KiB of each file and does nothing with them.
With `codex` (npm @openai/codex) on the PATH or named by CODEX, its `debug prompt-input` is measured on the same skills.

Peak MB is that of the largest process, with all pages it has in memory, those of mapped files too. A list and a first search
fork a helper: "together" is the peak of all processes of one further run, each shared page once (`Pss`), looked at every 5 ms.
Goals are held against the best round, because other work on the machine only adds; those of memory against the worst.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures.goals import Goal, print_goals

FLOOR = """
import os, sys
for entry in os.scandir(sys.argv[1]):
    if entry.is_dir():
        try:
            with open(entry.path + "/SKILL.md", "rb") as stream: stream.read(4096)
        except OSError: pass
"""
STAT_WALK = """
import os, sys
def walk(folder):
    below = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "SKILL.md": os.stat(entry.path)
            elif entry.is_dir(): below.append(entry.path)
    for path in below: walk(path)
walk(sys.argv[1])
"""
STAT_FLAT = """
import os, sys
for entry in os.scandir(sys.argv[1]):
    if entry.is_dir():
        try: os.stat(entry.path + "/SKILL.md")
        except OSError: pass
"""
# fmt: off
WORDS = (
    "report", "extract", "table", "deploy", "review", "translate", "image", "sheet", "query", "index", "merge", "split",
    "chart", "convert", "check", "plan", "write", "test", "mail", "invoice", "calendar", "schema", "cluster", "pipeline",
    "layout", "search", "summary",
)
# fmt: on


def main() -> None:
    """Measure and print a table."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="listing-") as scratch:
        given = options.collection
        collection = (
            flat_copy(given.resolve(), Path(scratch), options.skills) if given else generated(Path(scratch), options.skills)
        )
        count = sum(1 for _ in collection.iterdir())
        few = few_skills(collection, Path(scratch))
        times, together = measure(cases(collection, few, Path(scratch)), options.rounds)
    print_table(times, together, count)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", nargs="?", type=Path, help="a folder with skills; left out, skills are generated")
    parser.add_argument("--skills", type=int, default=10_000, help="how many to generate, or to take at most (default: 10000)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each process runs (default: 9)")
    return parser.parse_args()


def flat_copy(collection: Path, scratch: Path, limit: int) -> Path:
    """The first SKILL.md files of a collection, each in a folder of its own: the same task for every reader."""
    target = scratch / "collection"
    target.mkdir()
    for number, file in enumerate(sorted(collection.rglob("SKILL.md"))):
        if number == limit:
            break
        folder = target / f"{number:05}-{file.parent.name}"
        folder.mkdir()
        shutil.copyfile(file, folder / "SKILL.md")
    return target


def generated(scratch: Path, count: int) -> Path:
    """`count` skills that look like real ones: 400 characters of description, 4 KiB of body, a few with more fields."""
    chance = random.Random(7)
    target = scratch / "collection"
    target.mkdir()
    for number in range(count):
        name = f"{chance.choice(WORDS)}-{chance.choice(WORDS)}-{number}"
        description = " ".join(chance.choices(WORDS, k=chance.randint(15, 90)))
        more = 'license: MIT\nmetadata:\n  version: "1.0"\n  author: someone\n' if number % 3 == 0 else ""
        body = "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(chance.randint(10, 80)))
        (target / name).mkdir()
        text = f"---\nname: {name}\ndescription: {description.capitalize()}.\n{more}---\n\n# {name}\n\n{body}\n"
        (target / name / "SKILL.md").write_text(text)
    return target


def few_skills(collection: Path, scratch: Path) -> Path:
    target = scratch / "few"
    target.mkdir()
    for folder in sorted(collection.iterdir())[:18]:
        (target / folder.name).symlink_to(folder)
    return target


class Case:
    """One process to measure; `before` is done first and not counted."""

    def __init__(
        self,
        command: list[str],
        home: Path,
        before: Callable[[], object] | None = None,
        folder: Path | None = None,
        *,
        codes: tuple[int, ...] = (0,),
    ):
        self.command = command
        self.codes = codes
        self.before = before
        self.folder = folder
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "SKILLYARD_HOME": str(home / "skillyard"),
            "CODEX_HOME": str(home / ".codex"),
        }

    def run(self) -> Measured:
        """The process from start to end."""
        started = time.perf_counter()
        process = self._start()
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        self._ended(process, status)
        return Measured(took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)

    def together(self) -> int:
        """The peak of the memory of the process and its children in KiB, a shared page once; 0 where nothing says it."""
        process, peak = self._start(), 0
        while True:
            peak = max(peak, sum(map(proportional, [process.pid, *children(process.pid)])))
            ended, status = os.waitpid(process.pid, os.WNOHANG)
            if ended:
                self._ended(process, status)
                return peak
            time.sleep(0.005)

    def _start(self) -> subprocess.Popen[bytes]:
        if self.before:
            self.before()
        return subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment, cwd=self.folder
        )

    def _ended(self, process: subprocess.Popen[bytes], status: int) -> None:
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in self.codes:
            raise SystemExit(f"{' '.join(self.command)} ended with {process.returncode}")


class Measured(NamedTuple):
    """What one process took: seconds, seconds of processor with its children, and the peak of its memory in KiB."""

    wall: float
    processor: float
    peak: int


def children(process: int) -> list[int]:
    """The processes that a process has started; none where the system does not say."""
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def proportional(process: int) -> int:
    """The memory of a process in KiB, of each page its share; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def cases(collection: Path, few: Path, scratch: Path) -> dict[str, Case]:
    home = scratch / "home"
    (home / ".agents").mkdir(parents=True)
    (home / ".codex").mkdir()
    (home / ".agents/skills").symlink_to(collection)
    work = scratch / "work"
    work.mkdir()
    python = sys.executable
    beside = Path(python).with_name("skillyard")
    skillyard = [str(beside)] if beside.exists() else [python, "-m", "skillyard"]
    listing = [*skillyard, "list", "--json", "--root"]

    def forget() -> None:
        shutil.rmtree(home / "skillyard", ignore_errors=True)

    found = {
        "floor: scan, read 4 KiB each": Case([python, "-c", FLOOR, str(collection)], home),
        "stat only: one folder deep": Case([python, "-c", STAT_FLAT, str(collection)], home),
        "stat only: recursive walk": Case([python, "-c", STAT_WALK, str(collection)], home),
        "skillyard list, no cache": Case([*listing, str(collection), "--no-cache"], home, folder=work),
        "skillyard list, first run": Case([*listing, str(collection)], home, forget, folder=work),
        "skillyard list, again": Case([*listing, str(collection)], home, folder=work),
        "skillyard list, 18 skills": Case([*listing, str(few), "--no-cache"], home, folder=work),
    }
    search = [*skillyard, "search", "merge tables into one report", "--json", "--root", str(collection)]
    found["skillyard search, first run"] = Case(search, home, forget, folder=work, codes=(0, 1))
    found["skillyard search, again"] = Case(search, home, folder=work, codes=(0, 1))
    if codex := os.environ.get("CODEX") or shutil.which("codex"):
        found["codex debug prompt-input"] = Case([codex, "debug", "prompt-input", "hello"], home, folder=work)
    return found


def measure(todo: dict[str, Case], rounds: int) -> tuple[dict[str, list[Measured]], dict[str, int]]:
    """What each process took in each round, and the peaks of all processes together."""
    times: dict[str, list[Measured]] = {name: [] for name in todo}
    for round_number in range(rounds + 1):
        for name, case in todo.items():
            measured = case.run()
            if round_number:  # the first round warms the page cache and compiles
                times[name].append(measured)
    return times, {name: case.together() for name, case in todo.items() if name.startswith("skillyard")}


def print_table(times: dict[str, list[Measured]], together: dict[str, int], count: int) -> None:
    """Each process as milliseconds, ratios and memory, then what was set as a goal."""
    middle = {name: statistics.median(one.wall for one in some) for name, some in times.items()}
    best = {name: min(one.wall for one in some) for name, some in times.items()}
    processor = {name: statistics.median(one.processor for one in some) for name, some in times.items()}
    peaks = {name: max(one.peak for one in some) / 1024 for name, some in times.items()}
    floor, flat, walk, *_ = middle.values()
    print(f"{count} skills, median of {len(next(iter(times.values())))} rounds\n")
    print(f"{'':32}{'ms':>7}{'best':>7}{'CPU ms':>8}{'x floor':>9}{'x stat':>8}{'x walk':>8}{'peak MB':>9}{'together':>10}")
    for name, value in middle.items():
        ratios = f"{value / floor:9.2f}{value / flat:8.2f}{value / walk:8.2f}"
        shared = f"{together[name] / 1024:10.0f}" if together.get(name) else ""
        figures = f"{value * 1000:7.0f}{best[name] * 1000:7.0f}{processor[name] * 1000:8.0f}"
        print(f"{name:32}{figures}{ratios}{peaks[name]:9.0f}{shared}")
    floor, flat, *_ = best.values()
    codex = best.get("codex debug prompt-input")
    bare, again, few = (best[f"skillyard list, {name}"] for name in ("no cache", "again", "18 skills"))
    first, warm = "skillyard search, first run", "skillyard search, again"
    least = min(one.processor for one in times[first])
    print_goals(
        [
            Goal("a list without a cache, against the floor", bare / floor, 2.5, " x"),
            Goal("a list without a cache, against codex", codex and bare / codex, 0.5, " x"),
            Goal("a list again, against stat only", again / flat, 1.5, " x"),
            Goal("18 skills", few, 0.15, " s"),
            Goal("memory of a first list, all processes", together["skillyard list, first run"] / 1024 or None, 150, " MB"),
            Goal("processor of a first search", least, 4, " s"),
            Goal("memory of a first search, largest process", peaks[first], 150, " MB"),
            Goal("memory of a first search, all processes", together[first] / 1024 or None, 150, " MB"),
            Goal("a search again", best[warm], 0.25, " s"),
        ]
    )


if __name__ == "__main__":
    main()
