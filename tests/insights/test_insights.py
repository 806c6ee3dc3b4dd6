"""What becomes of skills by day: counted once, on both databases, and as percentiles and cost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, insert, select

from benchmarks.scaling.filling import analyse
from benchmarks.scaling.plans import plans_of
from skillyard.catalog import Configuration
from skillyard.conversations import ChatSettings
from skillyard.conversations.conversation import Conversation
from skillyard.conversations.conversation_store import ConversationStore
from skillyard.conversations.skill_usage import SkillUsageEvent, SkillUsageLog
from skillyard.database import Database, runs, skill_usage, turns, usage_by_dimension
from skillyard.errors import InvalidConfiguration, InvalidInput
from skillyard.insights import (
    BUCKET_BOUNDS_MS,
    DIMENSIONS,
    Dimension,
    InsightReport,
    Insights,
    InsightSettings,
    ModelPrice,
    SkillUse,
    count_usage,
    read_uses,
)
from skillyard.insights.report import _times, percentile

TODAY = date(2026, 5, 20)
NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)


def _run(number: int, **values: object) -> dict[str, object]:
    usual = {
        "id": f"run_{number:04}", "skill_id": "user:pdf", "skill_name": "pdf", "kind": "direct", "state": "succeeded",
        "parameters": {}, "context": {}, "cache_hit": False, "owner": "o", "created_at": NOON, "finished_at": NOON,
        "duration_ms": 100, "interface": "cli", "caller": "ada", "agent": None, "version": "1.0.0", "error_code": None,
        "token_usage": None,
    }  # fmt: skip
    return usual | values


def _add(database: Database, *rows: dict[str, object]) -> None:
    with database.write() as connection:
        connection.execute(insert(runs), rows)


def _report(database: Database, by: Dimension = "skill", days: int = 3, **more: object) -> InsightReport:
    since = TODAY - timedelta(days=days - 1)
    return Insights(database).report(by, since=since, until=TODAY, **more)  # type: ignore[arg-type]


def test_runs_are_counted_by_how_they_ended_and_where_they_came_from(database: Database) -> None:
    _add(
        database,
        _run(1),
        _run(2, state="failed", error_code="EXECUTION_ERROR", version="1.1.0", interface="http", caller="bob"),
        _run(3, state="failed", error_code="PERMISSION_DENIED", duration_ms=None, interface="chat", agent="clerk"),
        _run(4, cache_hit=True, duration_ms=0),
        _run(5, state="cancelled", duration_ms=None, finished_at=NOON - timedelta(days=1)),
        _run(6, state="running", finished_at=None, duration_ms=None),
        _run(7, skill_id="user:docx", token_usage={"input_tokens": 5, "output_tokens": 7}),
        _run(8, finished_at=NOON - timedelta(days=9)),
    )
    report = _report(database)
    assert report.complete
    assert report.periods == (date(2026, 5, 18), date(2026, 5, 19), TODAY)
    pdf, docx = report.rows
    assert (pdf.key, docx.key) == ("user:pdf", "user:docx")
    figures = pdf.figures
    assert (figures.runs, figures.runs_succeeded, figures.runs_failed, figures.runs_cancelled) == (5, 2, 1, 1)
    assert (figures.refused, figures.runs_cached) == (1, 1)
    assert [period.runs for period in pdf.periods] == [0, 1, 4]
    assert (docx.figures.input_tokens, docx.figures.output_tokens) == (5, 7)
    assert report.total.figures.runs == 6

    by = {
        name: {row.key: row.figures.runs for row in _report(database, name).rows} for name in ("caller", "interface", "agent")
    }
    assert by["caller"] == {"ada": 5, "bob": 1}
    assert by["interface"] == {"cli": 4, "http": 1, "chat": 1}
    assert by["agent"] == {"": 5, "clerk": 1}
    versions = {(row.skill, row.key): row.figures.runs_failed for row in _report(database, "version").rows}
    assert versions == {("user:pdf", "1.0.0"): 0, ("user:pdf", "1.1.0"): 1, ("user:docx", "1.0.0"): 0}
    assert [row.key for row in _report(database, skill="user:docx").rows] == ["user:docx"]
    whole = _report(database, days=14, period="all")
    assert (whole.rows[0].figures.runs, whole.periods, whole.rows[0].periods) == (6, (), ())
    assert [period.runs for period in _report(database, days=14, period="week").rows[0].periods] == [1, 5]


def test_how_long_few_runs_took_is_exact_in_every_report(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = {"created_at": NOON - timedelta(days=1), "finished_at": NOON - timedelta(days=1)}
    unstarted = {"state": "failed", "error_code": "INVALID_PARAMETERS", "duration_ms": 0}  # its script never ran
    others = {"cache_hit": True}, {"state": "cancelled"}, {"error_code": "PERMISSION_DENIED"}, {"interface": "test"}, unstarted
    _add(
        database,
        _run(1, duration_ms=140, agent="clerk"),
        *(_run(number, duration_ms=10 * number, skill_id="user:docx", **yesterday) for number in range(2, 22)),
        *(_run(90 + number, **{"duration_ms": 7} | other) for number, other in enumerate(others)),
    )
    report = _report(database)
    docx, pdf = report.rows
    assert (pdf.figures.p50_ms, pdf.figures.p95_ms) == (140, 140)
    assert (docx.figures.p50_ms, docx.figures.p95_ms) == (110, 200)
    assert [(one.p50_ms, one.p95_ms) for one in report.total.periods] == [(None, None), (110, 200), (140, 140)]
    assert (report.total.figures.p50_ms, report.total.figures.p95_ms) == (120, 200)
    for by in DIMENSIONS:
        assert {row.figures.p95_ms for row in _report(database, by, skill="user:pdf").rows} - {None} == {140}, by
    monkeypatch.setattr("skillyard.insights.report._FEW", 10)
    assert [row.figures.p50_ms for row in _report(database).rows] == [114, 140]


def test_the_times_of_a_version_are_not_read_from_other_skills_with_a_version_of_that_name(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def remember(*arguments: object) -> object:
        asked.append(_times(*arguments))  # type: ignore[arg-type]
        return asked[-1]

    monkeypatch.setattr("skillyard.insights.report._FEW", 3)
    monkeypatch.setattr("skillyard.insights.report._times", remember)
    _add(
        database,
        *(_run(number, duration_ms=10) for number in range(20)),
        *(_run(30 + number, version="1.1.0") for number in range(2)),
        *(_run(40 + number, skill_id="user:docx", duration_ms=70 + 10 * number) for number in range(3)),
        _run(50, skill_id="user:docx", version=None, duration_ms=7),
    )
    rows = {(row.skill, row.key): row.figures.p50_ms for row in _report(database, "version").rows}
    assert rows == {("user:pdf", "1.0.0"): 10, ("user:pdf", "1.1.0"): 100, ("user:docx", "1.0.0"): 80, ("user:docx", ""): 7}
    with database.read() as connection:
        assert [len(connection.execute(query).all()) for query in asked] == [2 + 3 + 1]


@pytest.mark.parametrize("by", ["skill", "version"])
def test_the_most_used_of_all_skills_are_found_in_an_index_alone(database: Database, by: Dimension) -> None:
    _add(database, *(_run(number, skill_id=f"user:skill-{number}") for number in range(200)))
    count_usage(database)
    analyse(database)
    plans = plans_of(database, lambda database: Insights(database).report(by, since=TODAY - timedelta(days=90), until=TODAY))
    (most_used,) = (plan for plan in plans if "ORDER BY sum" in plan.statement)
    found = [step for step in most_used.steps if "usage_by_dimension" in step]
    # PostgreSQL goes by how much of a table is settled, which is not for a test to say.
    if database.address.get_backend_name() == "sqlite":
        assert all("USING COVERING INDEX ix_usage_by_dimension_use" in step for step in found), most_used
    assert most_used.whole == ()


def test_a_test_of_a_skill_is_no_run_of_it(database: Database) -> None:
    failed = {"state": "failed", "error_code": "TESTS_FAILED"}
    _add(database, _run(1), _run(2, interface="test", **failed), _run(3, interface="test", skill_id="user:docx", **failed))
    report = _report(database)
    assert [(row.key, row.figures.runs, row.figures.runs_failed) for row in report.rows] == [("user:pdf", 1, 0)]
    by = _report(database, "interface")
    assert ([row.key for row in by.rows], by.total.figures.runs, by.total.figures.runs_failed) == (["cli"], 1, 0)
    assert [row.figures.runs for row in _report(database, "version").rows] == [1]


def test_every_run_is_counted_once_however_late_and_by_whoever(database: Database) -> None:
    _add(database, *(_run(number) for number in range(30)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: count_usage(database), range(4)))
    _add(database, _run(99, finished_at=NOON - timedelta(days=1)))  # written late
    for _ in range(2):
        assert _report(database).total.figures.runs == 31


def test_what_cannot_be_added_in_time_is_said_and_added_later(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillyard.insights.totals._BATCH", 5)
    _add(database, *(_run(number) for number in range(20)))
    assert not _report(database, seconds=0).complete
    report = _report(database, seconds=None)
    assert (report.complete, report.total.figures.runs) == (True, 20)


def test_what_is_offered_and_never_used_is_found(database: Database) -> None:
    store, log = ConversationStore(lambda: database), SkillUsageLog(lambda: database)
    steps = [("c1", "offered", f"user:{name}") for name in ("pdf", "docx", "csv", "xlsx")]
    steps += [("c1", "loaded", "user:pdf"), ("c2", "offered", "user:docx")]
    for name in ("c1", "c2"):
        store.begin(Conversation(name, "ada", "", None, None, ChatSettings()))
    log.add([SkillUsageEvent(conversation, "t", event, skill, ok=True, at=NOON) for conversation, event, skill in steps])
    _add(database, _run(1, skill_id="user:xlsx", skill_name="xlsx"), _run(2, skill_id="user:never", skill_name="never"))
    report = _report(database, unused=True)
    assert [(row.key, row.figures.offered) for row in report.rows] == [("user:docx", 2), ("user:csv", 1)]
    assert [row.key for row in _report(database, unused=True, limit=1).rows] == ["user:docx"]


def test_a_conversation_counts_once_for_each_stage_and_outlives_its_deletion(database: Database) -> None:
    store, log = ConversationStore(lambda: database), SkillUsageLog(lambda: database)
    for name in ("chat_1", "chat_2"):
        store.begin(Conversation(name, "ada", "", "clerk", "openai:big", ChatSettings()))
    for _ in range(2):  # in two batches: what came before is remembered
        log.add(
            [
                SkillUsageEvent(conversation, "t", event, "user:pdf", ok=ok, at=NOON)
                for conversation, event, ok in (
                    ("chat_1", "offered", True), ("chat_2", "offered", True), ("chat_1", "loaded", True),
                    ("chat_1", "run", False), ("chat_1", "read", True), ("chat_1", "outcome", True), ("chat_1", "ruled", False),
                )
            ]
        )  # fmt: skip
        report = _report(database, "agent")
    with database.write() as connection:
        values = {
            "number": 1,
            "replaced": False,
            "request": "",
            "answer": "",
            "messages": [],
            "events": [],
            "stop_asked": False,
        }
        values |= {
            "id": "t",
            "conversation_id": "chat_1",
            "state": "done",
            "process": "p",
            "created_at": NOON,
            "finished_at": NOON,
        }
        connection.execute(insert(turns), values | {"usage": {"input_tokens": 1_000_000, "output_tokens": 100_000}})
    prices = InsightSettings("EUR", {"openai:big": ModelPrice(2, 10)})
    report = Insights(database, prices).report("agent", since=TODAY, until=TODAY)
    clerk = report.rows[0]
    assert (clerk.key, clerk.figures.turns, clerk.figures.cost, report.currency) == ("clerk", 1, 3.0, "EUR")
    funnel = (
        clerk.figures.offered,
        clerk.figures.loaded,
        clerk.figures.followed,
        clerk.figures.succeeded,
        clerk.figures.refused,
    )
    assert funnel == (2, 1, 1, 1, 2)
    for name in ("chat_1", "chat_2"):
        store.delete(name)
    assert Insights(database, prices).report("agent", since=TODAY, until=TODAY).rows == report.rows


def test_what_was_never_reported_outlives_its_conversation_and_its_runs(database: Database) -> None:
    store, log = ConversationStore(lambda: database), SkillUsageLog(lambda: database)
    for name in ("chat_1", "chat_2"):
        store.begin(Conversation(name, "ada", "", "clerk", None, ChatSettings()))
        log.add([SkillUsageEvent(name, "t", "offered", "user:pdf", ok=True, at=NOON)])
    store.delete("chat_1")
    assert _uncounted(database) == 1  # those of others wait for a report
    _add(database, _run(1), _run(2))
    assert _report(database).total.figures.runs == 2
    with database.write() as connection:
        connection.execute(delete(runs).where(runs.c.id == "run_0001"))
    figures = _report(database).rows[0].figures
    assert (figures.offered, figures.runs) == (2, 2)


def _uncounted(database: Database) -> int:
    with database.read() as connection:
        query = select(func.count()).select_from(skill_usage).where(skill_usage.c.counted.is_(False))
        return int(connection.execute(query).scalar_one())


def test_a_report_of_one_skill_by_another_dimension_has_only_its_use(database: Database) -> None:
    _add(
        database,
        *(_run(number, caller="ada" if number % 3 else "bob") for number in range(6)),
        *(_run(number, caller="eve", skill_id="user:docx") for number in range(10, 13)),
    )
    found = {name: _report(database, name, skill="user:pdf") for name in DIMENSIONS}
    assert [(row.key, row.figures.runs) for row in found["caller"].rows] == [("ada", 4), ("bob", 2)]
    assert [(row.key, row.figures.runs) for row in found["model"].rows] == [("", 6)]
    assert {name: report.total.figures.runs for name, report in found.items()} == dict.fromkeys(DIMENSIONS, 6)
    everything = {name: _report(database, name) for name in DIMENSIONS}
    assert {name: sum(row.figures.runs for row in report.rows) for name, report in everything.items()} == dict.fromkeys(
        DIMENSIONS, 9
    )


@pytest.mark.parametrize("by", DIMENSIONS)
def test_a_report_reads_no_more_rows_with_more_runs(database: Database, by: Dimension) -> None:
    def read() -> int:
        count_usage(database)
        with database.read() as connection:
            query = select(func.count()).select_from(usage_by_dimension).where(usage_by_dimension.c.dimension == by)
            return int(connection.execute(query).scalar_one())

    _add(database, *(_run(number, caller=f"c{number % 3}", version=f"{number % 3}") for number in range(12)))
    before = read()
    _add(database, *(_run(number, caller=f"c{number % 3}", version=f"{number % 3}") for number in range(100, 160)))
    assert read() == before
    for plan in plans_of(database, lambda database: Insights(database).report(by, since=TODAY, until=TODAY)):
        assert plan.whole == (), plan


@given(st.lists(st.integers(0, 400_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.95]))
def test_a_percentile_is_in_the_bucket_of_the_exact_one(times: list[int], share: float) -> None:
    from bisect import bisect_left
    from math import ceil

    buckets = [0] * (len(BUCKET_BOUNDS_MS) + 1)
    for time in times:
        buckets[bisect_left(BUCKET_BOUNDS_MS, time)] += 1
    exact = sorted(times)[ceil(share * len(times)) - 1]
    found = percentile(buckets, share)
    assert found is not None
    bounds = (0, *BUCKET_BOUNDS_MS, 2 * BUCKET_BOUNDS_MS[-1])
    at = bisect_left(BUCKET_BOUNDS_MS, exact)
    assert bounds[at] <= found <= bounds[at + 1]


def test_a_span_or_dimension_that_is_none_is_refused(database: Database) -> None:
    insights = Insights(database)
    for days in (-1, 366):
        with pytest.raises(InvalidInput, match="is not a span of days"):
            insights.report(since=TODAY - timedelta(days=days), until=TODAY)
    with pytest.raises(InvalidInput, match="no report by 'colour'"):
        insights.report("colour")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "price", [{"input": -1, "output": 1}, {"input": 1}, {"input": "1", "output": 1}, {"input": True, "output": 0}]
)
def test_a_price_that_is_none_is_named(price: dict[str, object]) -> None:
    with pytest.raises(InvalidConfiguration, match=r'insights\.prices\."big" must be a table with `input` and `output`'):
        InsightSettings.of(Configuration(insights={"prices": {"big": price}}))


def test_prices_are_for_a_million_tokens() -> None:
    settings = InsightSettings.of(Configuration(insights={"currency": "EUR", "prices": {"big": {"input": 1, "output": 2.5}}}))
    assert (settings.currency, settings.prices["big"].cost(2_000_000, 1_000_000)) == ("EUR", 4.5)


def test_a_list_learns_how_often_skills_were_used_in_30_days_and_when_last_in_a_year(database: Database) -> None:
    def ago(number: int, days: int, skill: str, **more: object) -> dict[str, object]:
        moment = NOON - timedelta(days=days)
        return _run(number, skill_id=skill, created_at=moment, finished_at=moment, **more)

    _add(
        database,
        ago(1, 0, "user:pdf"), ago(2, 29, "user:pdf"), ago(3, 30, "user:pdf"), ago(4, 40, "user:docx"), ago(5, 366, "user:old"),
        ago(6, 0, "user:tried", interface="test"),
    )  # fmt: skip
    ConversationStore(lambda: database).begin(Conversation("one", "ada", "", None, None, ChatSettings()))
    steps = [("offered", "user:idle"), ("loaded", "user:pdf")]
    SkillUsageLog(lambda: database).add([SkillUsageEvent("one", "t", event, skill, ok=True, at=NOON) for event, skill in steps])
    uses = read_uses(database, today=TODAY)
    assert uses == {
        "user:pdf": SkillUse("user:pdf", 3, TODAY),
        "user:docx": SkillUse("user:docx", 0, TODAY - timedelta(days=40)),
    }
    assert read_uses(database, ["user:docx", "user:idle"], today=TODAY) == {"user:docx": uses["user:docx"]}
