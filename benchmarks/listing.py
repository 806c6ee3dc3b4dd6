"""How long it takes to list a collection of skills, as ratios within one run.

    python -m benchmarks.listing                  # 10,000 generated skills
    python -m benchmarks.listing ~/collections    # your own: any folder with SKILL.md files below it
    python -m benchmarks.listing --skills 1000 --rounds 5

Every figure is a whole process from start to end, with the page cache warm; the processes take turns, so that a busy machine
slows all of them. The floor is a loop in Python that scans and reads the first 4 KiB of each file and does nothing with them.
With `codex` (npm @openai/codex) on the PATH or named by CODEX, its `debug prompt-input` is measured on the same skills.
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
        times, peaks = measure(cases(collection, few, Path(scratch)), options.rounds)
    print_table(times, peaks, count)


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

    def __init__(self, command: list[str], home: Path, before: Callable[[], object] | None = None, folder: Path | None = None):
        self.command = command
        self.before = before
        self.folder = folder
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "SKILLYARD_HOME": str(home / "skillyard"),
            "CODEX_HOME": str(home / ".codex"),
        }

    def run(self) -> tuple[float, int]:
        """Seconds, and the peak of its memory in KiB."""
        if self.before:
            self.before()
        started = time.perf_counter()
        process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment, cwd=self.folder
        )
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(self.command)} ended with {process.returncode}")
        return took, usage.ru_maxrss


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
    if codex := os.environ.get("CODEX") or shutil.which("codex"):
        found["codex debug prompt-input"] = Case([codex, "debug", "prompt-input", "hello"], home, folder=work)
    return found


def measure(todo: dict[str, Case], rounds: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    times: dict[str, list[float]] = {name: [] for name in todo}
    peaks = dict.fromkeys(todo, 0)
    for round_number in range(rounds + 1):
        for name, case in todo.items():
            took, peak = case.run()
            peaks[name] = max(peaks[name], peak)
            if round_number:  # the first round warms the page cache and compiles
                times[name].append(took)
    return times, peaks


def print_table(times: dict[str, list[float]], peaks: dict[str, int], count: int) -> None:
    middle = {name: statistics.median(values) for name, values in times.items()}
    floor, flat, walk, *_ = middle.values()
    print(f"{count} skills, median of {len(next(iter(times.values())))} rounds\n")
    print(f"{'':32}{'ms':>7}{'best':>7}{'x floor':>9}{'x stat':>8}{'x walk':>8}{'peak MB':>9}")
    for name, value in middle.items():
        ratios = f"{value / floor:9.2f}{value / flat:8.2f}{value / walk:8.2f}"
        print(f"{name:32}{value * 1000:7.0f}{min(times[name]) * 1000:7.0f}{ratios}{peaks[name] / 1024:9.0f}")
    if codex := middle.get("codex debug prompt-input"):
        print(f"\nskillyard without cache takes {middle['skillyard list, no cache'] / codex:.2f} of codex's time")


if __name__ == "__main__":
    main()
