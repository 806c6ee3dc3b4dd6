"""How long a report of insights takes with very many runs, beside the plainest query over the runs themselves.

    python -m benchmarks.insights                             # 100,000 runs in SQLite
    python -m benchmarks.insights --runs 1000000 --database postgresql://…
    python -m benchmarks.insights --rounds 20

The runs of 90 days, of 50 skills with three versions each, five callers and four interfaces, are added up once; then reports
and the plain query take turns. The plain query counts by skill and day, and knows no percentile, tokens or cost.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import String, cast, func, insert, select

from skillyard.database import Database, runs
from skillyard.insights import Insights, count_usage

_SKILLS, _DAYS, _BATCH = 50, 90, 5_000


def _rows(count: int, seed: int, now: datetime) -> Iterator[dict[str, object]]:
    chance = random.Random(seed)
    for number in range(count):
        moment = now - timedelta(seconds=chance.random() * _DAYS * 86_400)
        skill = min(int(chance.expovariate(0.1)), _SKILLS - 1)
        failed = chance.random() < 0.07
        yield {
            "id": f"run_{number:09}", "skill_id": f"user:skill-{skill}", "skill_name": f"skill-{skill}", "kind": "direct",
            "state": "failed" if failed else "succeeded", "error_code": "EXECUTION_ERROR" if failed else None,
            "parameters": {}, "context": {}, "cache_hit": False, "owner": "benchmark", "created_at": moment,
            "finished_at": moment, "duration_ms": int(chance.lognormvariate(5.5, 1)), "version": f"1.{chance.randrange(3)}.0",
            "interface": chance.choice(("cli", "http", "mcp", "chat")), "caller": f"person-{chance.randrange(5)}",
            "token_usage": {"input_tokens": 900, "output_tokens": 120},
        }  # fmt: skip


def _fill(database: Database, count: int, now: datetime) -> None:
    rows = _rows(count, 2026, now)
    for _ in range(0, count, _BATCH):
        with database.write() as connection:
            connection.execute(insert(runs), [row for _, row in zip(range(_BATCH), rows, strict=False)])


def _plain(database: Database, since: datetime) -> None:
    day = func.substr(cast(runs.c.created_at, String), 1, 10)
    query = select(runs.c.skill_id, day, func.count()).where(runs.c.created_at >= since).group_by(runs.c.skill_id, day)
    with database.read() as connection:
        connection.execute(query).all()


def main() -> None:
    """Fill the database, add up, measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--database", metavar="URL", help="an empty database (default: SQLite in a temporary folder)")
    arguments = parser.parse_args()
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(folder, arguments.database)
        _fill(database, arguments.runs, now)
        begun = time.perf_counter()
        count_usage(database)
        print(f"adding up {arguments.runs:,} runs, once: {time.perf_counter() - begun:.1f} s")
        insights, today = Insights(database), now.date()
        ways: dict[str, Callable[[], object]] = {
            "plain query, 14 days": lambda: _plain(database, now - timedelta(days=14)),
            **{f"by {by}, 14 days": (lambda by=by: insights.report(by)) for by in ("skill", "version", "caller")},  # type: ignore[misc]
            "by skill, 90 days": lambda: insights.report("skill", since=today - timedelta(days=_DAYS - 1)),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                begun = time.perf_counter()
                way()
                times[name].append(time.perf_counter() - begun)
        floor = statistics.median(times["plain query, 14 days"])
        for name, taken in times.items():
            middle = statistics.median(taken)
            print(f"{name:<24} {middle * 1000:8.1f} ms  {middle / floor:6.2f} x")
        database.close()


if __name__ == "__main__":
    main()
