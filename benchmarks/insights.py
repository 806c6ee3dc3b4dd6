"""How long the views of the page take with very many skills, runs, turns and records of the trail, asked as the page asks.

    python -m benchmarks.insights                             # 10,000 skills, 100,000 runs, in SQLite
    python -m benchmarks.insights --runs 1000000
    python -m benchmarks.insights --runs 1000000 --postgresql # in a server of its own
    python -m benchmarks.insights --only insights --plans     # some of the addresses, and which tables are read from end to end

The runs are of 90 days and a tenth of the skills, some of them far more used than others, with three versions each, twenty
callers and four interfaces; to each ten runs comes a turn of a conversation with its skill, and a record of the audit log.
Figures are milliseconds of the best of some rounds; with SQLite those of the processor, which does all the work in this
process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from benchmarks.scaling.clusters import postgresql
from benchmarks.scaling.filling import analyse
from benchmarks.scaling.plans import plans_of
from benchmarks.server import collection
from skillyard.database import Database
from skillyard.insights import count_usage

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

DAYS = 90
BODY = "a line of what a script printed, as long as they are\n" * 10
NUMBERS = {
    "postgresql": "SELECT n::bigint AS n FROM generate_series(0, {most}) AS n",
    "sqlite": "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {most})"
    " SELECT n FROM numbers",
}
WORDS = {
    "postgresql": {"moment": "(cast('{now}' as timestamptz) - {ago} * interval '1 second')", "yes": "true", "no": "false"},
    "sqlite": {
        "moment": "(strftime('%Y-%m-%d %H:%M:%f', '{now}', '-' || ({ago}) || ' seconds') || '000')",
        "yes": "1",
        "no": "0",
    },
}
AGO = f"(({{most}} - n) * {DAYS * 86_400} / ({{most}} + 1))"  # as it is written: the oldest first
SKILL = "((n * 7919 % 1009) * (n * 7919 % 1009) * {used} / (1009 * 1009))"
RUNS = """
    INSERT INTO runs (id, skill_id, skill_name, kind, state, status, error_code, parameters, context, cache_hit, owner,
                      created_at, started_at, finished_at, duration_ms, version, interface, caller, agent, token_usage, stdout,
                      output, counted)
    SELECT 'run_' || n, 'user:skill-' || {skill}, 'skill-' || {skill}, 'direct',
           CASE WHEN n * 31 % 14 = 0 THEN 'failed' ELSE 'succeeded' END, CASE WHEN n * 31 % 14 = 0 THEN 'error' ELSE 'ok' END,
           CASE WHEN n * 31 % 14 = 0 THEN 'EXECUTION_ERROR' END, '{{}}', '{{}}', {no}, 'somebody', {moment}, {moment}, {moment},
           20 + n * 131 % 4000, '1.' || (n % 3) || '.0',
           CASE n % 4 WHEN 0 THEN 'cli' WHEN 1 THEN 'http' WHEN 2 THEN 'mcp' ELSE 'chat' END,
           'person-' || (n * 17 % 20), CASE WHEN n % 4 = 3 THEN 'agent-' || (n % 5) END,
           '{{"input_tokens": 900, "output_tokens": 120}}', :body, '1', {no} FROM ({numbers}) AS made
"""
CONVERSATIONS = """
    INSERT INTO conversations (id, owner, title, agent, model, settings, memory, created_at, updated_at)
    SELECT 'chat_' || n, 'person-' || (n % 20), 'about ' || n, 'agent-' || (n % 5), 'openai:gpt-5', '{{}}', '{{}}',
           {moment}, {moment}
    FROM ({numbers}) AS made
"""
TURNS = """
    INSERT INTO turns (id, conversation_id, number, state, replaced, request, answer, messages, events, model, usage,
                       stop_asked, process, created_at, finished_at, counted)
    SELECT 'turn_' || n, 'chat_' || n, 1, CASE WHEN n % 997 = 0 THEN 'waiting' ELSE 'done' END, {no}, 'do it', :body,
           '[]', '[]',
           'openai:gpt-5', '{{"input_tokens": 9000, "output_tokens": 700}}', {no}, 'somebody', {moment}, {moment}, {no}
    FROM ({numbers}) AS made
"""
USAGE = """
    INSERT INTO skill_usage (conversation_id, turn_id, event, skill_id, ok, tokens, duration_ms, at, counted)
    SELECT 'chat_' || n, 'turn_' || n, '{event}', 'user:skill-' || {skill}, {yes}, 100, 10, {moment}, {no}
    FROM ({numbers}) AS made
"""
TRAIL = """
    INSERT INTO audit_events (id, at, actor, action, subject, outcome, organisation)
    SELECT 'event_' || n, {moment}, 'person-' || (n % 20),
           CASE n % 3 WHEN 0 THEN 'skill.install' WHEN 1 THEN 'run.start' ELSE 'key.make' END,
           'skill-' || {skill},
           CASE WHEN n % 50 = 0 THEN 'refused' ELSE 'success' END, 'default' FROM ({numbers}) AS made
"""


def fill(database: Database, *, skills: int, runs: int, now: datetime) -> None:
    """So many runs of a tenth of the skills, with their conversations and the trail."""
    with database.write() as connection:
        kind = connection.dialect.name
        words = dict(WORDS[kind])
        moment = words["moment"]
        words["skill"] = SKILL.format(used=max(1, skills // 10))
        tenth = max(1, runs // 10)
        tables = [(RUNS, runs, ""), (CONVERSATIONS, tenth, ""), (TURNS, tenth, ""), (TRAIL, tenth, "")]
        tables += [(USAGE, tenth, event) for event in ("offered", "loaded", "outcome")]
        for statement, many, event in tables:
            words["moment"] = moment.format(now=f"{now:%Y-%m-%d %H:%M:%S}", ago=AGO.format(most=many - 1))
            query = statement.format(numbers=NUMBERS[kind].format(most=many - 1), event=event, **words)
            connection.execute(text(query), {"body": BODY} if ":body" in query else {})
    analyse(database)


def addresses(now: datetime) -> Iterator[tuple[str, str]]:
    """What the page asks for, by a name."""
    since, until = (now - timedelta(days=13)).date(), now.date()
    before = f"since={since - timedelta(days=14)}&until={since - timedelta(days=1)}"
    days, quarter = f"since={since}&until={until}", f"since={until - timedelta(days=89)}&until={until}"
    for by in ("skill", "version", "agent", "caller", "interface", "model"):
        yield f"insights by {by}, 14 days", f"insights?by={by}&{days}"
        yield f"insights by {by}, 14 days together", f"insights?by={by}&{days}&period=all"
        yield f"insights by {by}, 90 days by week", f"insights?by={by}&{quarter}&period=week"
    yield "insights of a skill by version", f"insights?by=version&skill=user:skill-1&{quarter}&period=week"
    yield "insights never used", f"insights?by=skill&{days}&period=all&unused=true&limit=6"
    yield "insights before", f"insights?by=skill&{before}&period=all&limit=200"
    moment = f"since={until - timedelta(days=3)}T00:00:00Z"
    yield "home: how many runs", "runs?limit=1"
    yield "home: what failed", f"runs?state=failed&state=interrupted&{moment}&limit=100"
    yield "home: what succeeded", f"runs?state=succeeded&{moment}&limit=100"
    yield "home: schedules", "schedules"
    yield "runs", "runs?limit=50"
    yield "runs, page 100", "runs?limit=50&page=100"
    yield "runs, last page", "runs?limit=50&page=last"
    yield "runs of a skill", "runs?skill=skill-1&limit=50"
    yield "runs that failed", "runs?state=failed&limit=50"
    yield "runs that succeeded", "runs?state=succeeded&limit=50"
    yield "runs through an interface", "runs?interface=mcp&limit=50"
    yield "runs of a caller", "runs?caller=person-7&limit=50"
    yield "runs of nobody", "runs?caller=nobody&limit=50"
    yield "runs of an agent", "runs?agent=agent-3&limit=50"
    yield "runs of a version", "runs?version=1.2.0&skill=user:skill-1&limit=50"
    yield "runs of some days that failed", f"runs?state=failed&since={since}T00:00:00Z&until={until}T00:00:00Z&limit=50"
    yield "a run", "runs/run_4711"
    yield "audit", "audit?limit=100"
    yield "audit, words", "audit?text=person-7+install&limit=100"
    yield "audit, a word of none", "audit?text=nowhere&limit=100"
    yield "audit of a subject", "audit?subject=skill-3&limit=100"
    yield "audit of an action", "audit?action=key.make&limit=100"
    yield "audit, what was refused", f"audit?outcome=refused&since={since}T00:00:00Z&limit=100"
    yield "approvals of runs", "approvals/questions"
    yield "approvals of conversations", "chat/questions"
    yield "catalog", "catalog?limit=100"
    yield "catalog, page 90", "catalog?limit=100&page=90"
    yield "catalog, words", "catalog?limit=100&text=invoice"
    yield "catalog, facets", "catalog/facets"
    yield "catalog, search", "catalog/search?q=invoice+budget&limit=10"
    yield "catalog, a skill", "catalog/skill?skill=report-report-0"
    yield "conversations", "chat/conversations?limit=50"
    yield "funnel of conversations", "chat/trail/report"
    span = f"since={since}T00:00:00Z&until={until}T00:00:00Z"
    yield "turns that loaded a skill", f"chat/turns?skill=user:skill-1&stage=loaded&{span}"
    yield "turns that loaded any skill", f"chat/turns?stage=loaded&{span}"
    yield "turns of an agent", f"chat/turns?agent=agent-3&{span}"
    yield "turns that used a model and failed", f"chat/turns?model=openai:gpt-5&failed=true&{span}"


@contextmanager
def client(home: Path, url: str | None) -> Iterator[TestClient]:
    """The application over that home."""
    from fastapi.testclient import TestClient

    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    os.environ["SKILLYARD_HOME"] = str(home / "data")
    if url:
        os.environ["SKILLYARD_DATABASE_URL"] = url
    catalog = Catalog.discover(cwd=home, home=home, roots=[home / "skills"])
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as asked:
        yield asked


def main() -> None:
    """Fill the home, add up, ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="WORD", help="only what has this in its name")
    parser.add_argument("--plans", action="store_true", help="say which tables are read from end to end")
    parser.add_argument("--postgresql", action="store_true", help="in a server of its own (default: SQLite)")
    parser.add_argument("--home", type=Path, help="keep the home there, and use it again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = arguments.home or Path(temporary)
        if arguments.postgresql:
            with postgresql() as url:
                _measure(home, url, arguments)
        else:
            _measure(home, None, arguments)


def _measure(home: Path, url: str | None, arguments: argparse.Namespace) -> None:
    now = datetime.now(UTC)
    if not (home / "skills").exists():
        collection(home, arguments.skills)
    database = Database.open(str(home / "data"), url)
    with database.read() as connection:
        there = connection.execute(text("SELECT count(*) FROM runs")).scalar_one()
    if not there:
        fill(database, skills=arguments.skills, runs=arguments.runs, now=now)
        begun, used = time.perf_counter(), time.process_time()
        count_usage(database)
        spent = f"{time.perf_counter() - begun:.1f} s, {time.process_time() - used:.1f} s of this process"
        with database.read() as connection:
            rows = connection.execute(text("SELECT count(*) FROM usage_totals")).scalar_one()
        print(f"{arguments.runs:,} runs added up to {rows:,} rows: {spent}", flush=True)
        analyse(database)
    with client(home, url) as asked:
        clock = time.perf_counter if url else time.process_time
        taken: dict[str, float] = {}
        for name, address in addresses(now):
            if arguments.only in name:
                address = address.replace("page=last", f"page={arguments.runs // 50}")
                taken[name] = min(_ask(asked, address, clock) for _ in range(arguments.rounds + 1))
                whole = _whole(database, asked, address) if arguments.plans else ""
                print(f"{name:<34} {taken[name]:8.1f} ms  {whole}", flush=True)
    slow = [name for name, spent in taken.items() if spent > (300 if name.startswith("insights") else 200)]
    print(f"\n{len(taken) - len(slow)} of {len(taken)} within 200 ms (insights 300)" + "".join(f"\n  {name}" for name in slow))
    database.close()


def _ask(asked: TestClient, address: str, clock: Any) -> float:
    begun = clock()
    answer = asked.get(f"/api/v1/{address}")
    spent = (clock() - begun) * 1000
    if answer.status_code != 200:
        raise SystemExit(f"{address}: {answer.text[:500]}")
    return float(spent)


def _whole(database: Database, asked: TestClient, address: str) -> str:
    plans = plans_of(database, lambda _: asked.get(f"/api/v1/{address}"))
    return ", ".join(sorted({table for plan in plans for table in plan.whole}))


if __name__ == "__main__":
    main()
