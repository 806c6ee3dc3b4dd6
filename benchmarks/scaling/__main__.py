"""`python -m benchmarks.scaling`: hot queries at 1,000,000 skills on PostgreSQL and 200,000 on SQLite, and the first wall."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping

from benchmarks.scaling.clusters import postgresql
from benchmarks.scaling.filling import fill
from benchmarks.scaling.plans import plans_of
from benchmarks.scaling.queries import HOT, READING_ALL
from benchmarks.scaling.rates import rates
from benchmarks.scaling.walls import SITES, parts, waits
from skillyard.database import Database

KNOWN = {
    "connections": 500,  # taken: what one PostgreSQL of a few processors carries well
    "connections of a server": 18,  # at the most, benchmarks/scaling/processes.py; 3 at rest
    "connections of a worker": 5,  # benchmarks/scaling/processes.py, with 4 turns and with 16
    "runs at once of a worker": 4,  # taken: --concurrency
    "requests of a server": 280,  # benchmarks/scaling/processes.py: a list of the records, two processors in use by others too
    "memory of a server": 2 << 30,  # taken: so much may be given to one
    "memory of a skill": 8_400,  # benchmarks/scaling/processes.py, after a search
}


def main() -> int:
    """Measure, and tell; ends with 1 when a hot query reads a whole table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", type=int, default=1_000_000, metavar="N", help="skills there (default: %(default)s)")
    parser.add_argument("--sqlite", type=int, default=200_000, metavar="N", help="skills there (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=0, metavar="N", help="runs in each (default: as many as skills)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = _measure("SQLite", Database.open(folder), options.sqlite, options.runs)
    with postgresql() as url:
        database = Database.open("", url)
        bad += _measure("PostgreSQL", database, options.postgresql, options.runs)
        measured = rates(database)
        database.close()
    print()
    for name, many in measured.items():
        print(f"{name}: {many:,.0f} a second, four at once")
    _walls({**KNOWN, **measured})
    return min(1, bad)


def _measure(kind: str, database: Database, skills: int, runs: int) -> int:
    begun = time.monotonic()
    fill(database, skills=skills, runs=runs or skills)
    print(f"\n{kind}: {skills:,} skills and {runs or skills:,} runs, made in {time.monotonic() - begun:.0f} s\n")
    print("| Query | median ms | slowest of 20 | reads all of |\n|---|---|---|---|")
    bad = 0
    for name, call in {**HOT, **READING_ALL}.items():
        whole = sorted({table for plan in plans_of(database, call) for table in plan.whole})
        taken = sorted(_timed(database, call) for _ in range(20))
        bad += bool(whole) and name in HOT
        print(f"| {name} | {statistics.median(taken):.1f} | {taken[-1]:.1f} | {', '.join(whole)} |", flush=True)
    return bad


def _timed(database: Database, call: Callable[[Database], object]) -> float:
    begun = time.perf_counter()
    call(database)
    return (time.perf_counter() - begun) * 1000


def _walls(measured: Mapping[str, float]) -> None:
    print(
        "\nHow busy each part is at three sizes (1 is the wall; in brackets how many times its own time one waits before it):\n"
    )
    print(f"| Part | most | {' | '.join(SITES)} | what moves it |\n|---|---|{'---|' * len(SITES)}---|")
    for part in parts(measured):
        shares = [part.share(site) for site in SITES.values()]
        reported = " | ".join(f"{share:.2f} ({waits(share):.1f})" for share in shares)
        print(f"| {part.name} | {part.most:,.0f} {part.unit} | {reported} | {part.moved_by} |")


if __name__ == "__main__":
    raise SystemExit(main())
