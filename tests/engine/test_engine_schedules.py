"""Schedules: each moment is one run, however many servers look, and what was missed is made up for as the schedule says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from skillyard import Catalog
from skillyard.database import schedules as table
from skillyard.engine import LocalEngine, Records, RunFilter, Schedule, Scheduler, Schedules
from skillyard.engine.schedules import check_cron, next_occurrence, zone_of
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound
from skillyard.execution import RunRequest

SCRIPT = "import json, sys\nprint(json.dumps({'output': json.load(sys.stdin)['input']}))\n"
BERLIN = zone_of("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def moments(cron: str, after: str, number: int) -> list[str]:
    found, moment = [], at(after)
    for _ in range(number):
        moment = next_occurrence(cron, BERLIN, moment)
        found.append(f"{moment:%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 8 * * mon-fri", "2026-11-20T12:00", ["11-23 07:00", "11-24 07:00"]),
        ("30 2 * * *", "2026-03-28T12:00", ["03-29 01:30", "03-30 00:30"]),  # 02:30 does not exist on the 29th
        ("30 2 * * *", "2026-10-24T12:00", ["10-25 00:30", "10-26 01:30"]),  # and comes twice on the 25th
        ("*/30 * * * *", "2026-10-24T23:45", ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]),
        ("0 0 29 2 *", "2026-11-20T12:00", ["02-28 23:00", "02-28 23:00"]),
    ],
)
def test_moments_are_those_of_the_time_zone(cron: str, after: str, expected: list[str]) -> None:
    assert moments(cron, after, len(expected)) == expected


_CRONS = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "15 3 * * *", "0 2 * * sun", "30 2 1 * *", "0 */5 * * *", "59 23 31 12 *"]
)
_ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"])


@given(_CRONS, _ZONES, st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)))
def test_the_next_moment_is_always_later(cron: str, zone: str, after: datetime) -> None:
    start = after.replace(tzinfo=UTC)
    first = next_occurrence(cron, zone_of(zone), start)
    assert start < first < next_occurrence(cron, zone_of(zone), first)


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "@reboot", "a b c d e", "* " * 300, "R R * * *"]
)
def test_what_is_no_cron_expression_is_refused_with_an_example(cron: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_cron(cron)
    assert "weekday" in str(refused.value.hint)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "a" * 500, "Europe"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        zone_of(zone)


@pytest.fixture
def book(records: Records) -> Schedules:
    return Schedules(lambda: records.database)


def test_a_schedule_is_kept_paused_and_removed(book: Schedules) -> None:
    kept = book.add(Schedule("nightly", "user:report", {"n": 1}, cron="0  3 * * *", time_zone="Europe/Berlin", priority=3))
    assert kept.cron == "0 3 * * *"
    assert book.get("nightly") == kept
    assert book.all() == (kept,)
    assert book.next_at() == kept.next_at
    with pytest.raises(RecordExists):
        book.add(Schedule("nightly", "user:report", cron="0 3 * * *"))
    assert book.pause("nightly", paused=True).paused
    assert book.next_at() is None
    assert book.pause("nightly", paused=False).next_at is not None
    book.remove("nightly")
    for gone in (book.get, book.remove):
        with pytest.raises(RecordNotFound):
            gone("nightly")


@pytest.mark.parametrize(
    ("change", "moment"),
    [
        ({"name": "Nightly Report"}, None),
        ({"name": "-a"}, None),
        ({"cron": "never"}, None),
        ({"time_zone": "Mars"}, None),
        ({"missed": "sometimes"}, None),
        ({"priority": 1000}, None),
        ({"cron": None}, None),
        ({}, datetime(2030, 1, 1, tzinfo=UTC)),
        ({"cron": None}, datetime(2020, 1, 1, tzinfo=UTC)),
        ({"cron": None}, datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14)))),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_refused(book: Schedules, change: dict[str, Any], moment: datetime | None) -> None:
    with pytest.raises(InvalidInput):
        book.add(Schedule(**{"name": "a", "skill": "user:x", "cron": "* * * * *"} | change), at=moment)
    assert book.all() == ()


def test_a_moment_without_a_zone_is_meant_in_that_of_the_schedule(book: Schedules) -> None:
    kept = book.add(Schedule("once", "user:x", time_zone="Asia/Tokyo"), at=datetime(2040, 1, 1, 9))
    assert kept.next_at == at("2040-01-01T00:00")


@pytest.mark.parametrize(
    ("missed", "expected"), [("skip", ["08:00"]), ("once", ["08:00"]), ("all", ["06:00", "07:00", "08:00"])]
)
def test_what_was_missed_is_made_up_for_as_the_schedule_says(missed: Any, expected: list[str]) -> None:
    schedule = Schedule("a", "x", cron="0 * * * *", missed=missed, next_at=at("2026-01-01T06:00"))
    assert [f"{moment:%H:%M}" for moment in schedule.due(at("2026-01-01T08:00:30"))] == expected
    late = schedule.due(at("2026-01-01T08:30"))
    assert [f"{moment:%H:%M}" for moment in late] == ([] if missed == "skip" else expected)


def test_of_years_of_minutes_the_last_hundred_are_made_up_for() -> None:
    schedule = Schedule("a", "x", cron="0 0 * * *", missed="all", next_at=at("2020-01-01"))
    found = schedule.due(at("2026-01-01T00:00:10"))
    assert (len(found), found[-1]) == (100, at("2026-01-01"))


async def test_each_moment_is_one_run_however_many_look(
    engine: LocalEngine, records: Records, skills_root: Path, make_skill: Any
) -> None:
    make_skill(skills_root, "report", files={"scripts/execute.py": SCRIPT})
    catalog = Catalog.discover(roots=[skills_root], cache=False)
    book = Schedules(lambda: records.database)
    book.add(Schedule("hourly", "report", {"n": 1}, cron="0 * * * *", missed="all", priority=7))
    now = at("2026-01-01T08:00:05")
    with records.database.write() as connection:
        connection.execute(update(table).values(next_at=at("2026-01-01T06:00")))

    async def begin(schedule: Schedule, run_id: str) -> Any:
        skill = catalog.get(schedule.skill)
        request = RunRequest(skill, schedule.parameters, run_id=run_id, schedule=schedule.name, priority=schedule.priority)
        return (await engine.begin(request),)

    lookers = [Scheduler(book, lambda: records.journal, begin) for _ in range(4)]
    begun = [one for found in await asyncio.gather(*(looker.begin_due(now) for looker in lookers)) for one in found]
    await asyncio.gather(*(one.ended for one in begun))
    assert len(begun) == 3
    found = records.journal.list()
    assert [(record.schedule, record.state, record.priority) for record in found] == [("hourly", "succeeded", 7)] * 3
    assert records.journal.get(found[0].id).parameters == {"n": 1}
    kept = book.get("hourly")
    assert (kept.last_at, kept.next_at, kept.last_run) == (
        at("2026-01-01T08:00"),
        at("2026-01-01T09:00"),
        max(one.run_id for one in begun),
    )
    assert await lookers[0].begin_due(now) == ()
    assert [record.id for record in records.journal.list(RunFilter(schedule="hourly"), limit=1)] == [found[0].id]


async def test_who_dies_between_the_run_and_moving_on_leaves_nothing_doubled(records: Records) -> None:
    book = Schedules(lambda: records.database)
    kept = book.add(Schedule("once", "gone"), at=datetime.now(UTC) + timedelta(hours=1))
    assert kept.next_at is not None

    async def begin(schedule: Schedule, run_id: str) -> Any:
        raise RecordExists("somebody has")

    now = kept.next_at + timedelta(seconds=1)
    assert await Scheduler(book, lambda: records.journal, begin).begin_due(now) == ()
    assert (book.get("once").next_at, book.get("once").last_run) == (None, kept.run_id(kept.next_at))


async def test_a_skill_that_is_gone_is_a_run_that_failed(
    skills_root: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", records.database.name)
    if records.database.conninfo is not None:
        monkeypatch.setenv("SKILLYARD_DATABASE_URL", records.database.conninfo)
    catalog = Catalog.discover(roots=[skills_root], cache=False)
    book = catalog.schedules()
    kept = book.add(Schedule("once", "user:gone", {"a": 1}), at=datetime.now(UTC) + timedelta(hours=1))
    assert kept.next_at is not None
    assert await catalog.scheduler().begin_due(kept.next_at) == ()
    (record,) = records.journal.list()
    assert (record.state, record.error_code, record.schedule) == ("failed", "skill_not_found", "once")
    catalog.records().close()


async def test_a_schedule_that_never_comes_due_again_is_over_and_holds_up_no_other(records: Records) -> None:
    book = Schedules(lambda: records.database)
    for name in ("last", "lost", "next"):
        book.add(Schedule(name, "gone", cron="* * * * *"))
    changes: dict[str, dict[str, Any]] = {
        "last": {"next_at": at("2026-11-21T13:09"), "cron": "9 13 21 11 sat#3"},  # the next such Saturday is in 2037
        "lost": {"next_at": at("2026-11-21T13:10"), "time_zone": "Nowhere/Known"},
        "next": {"next_at": at("2026-11-21T13:11")},
    }
    with records.database.write() as connection:
        for name, values in changes.items():
            connection.execute(update(table).where(table.c.name == name).values(values))
    seen: list[str] = []

    async def begin(schedule: Schedule, run_id: str) -> Any:
        seen.append(schedule.name)
        raise RecordExists("somebody has")

    now = at("2026-11-21T13:11:30")
    await Scheduler(book, lambda: records.journal, begin).begin_due(now)
    assert seen == ["last", "next"]
    assert book.get("last").next_at is None
    assert book.get("next").next_at == at("2026-11-21T13:12")
    assert book.get("lost").next_at == at("2026-11-21T13:10")


def test_what_people_see_of_a_schedule_is_without_its_secrets(book: Schedules) -> None:
    kept = book.add(Schedule("nightly", "user:x", {"password": "hunter2", "n": 1}, cron="0 3 * * *"))
    assert kept.to_dict()["parameters"] == {"password": "[redacted]", "n": 1}
    assert book.get("nightly").parameters == {"password": "hunter2", "n": 1}


def test_there_are_at_most_a_thousand_schedules(book: Schedules, records: Records) -> None:
    book.add(Schedule("first", "user:x", cron="0 3 * * *"))
    with records.database.write() as connection:
        row = dict(connection.execute(table.select()).mappings().one())
        connection.execute(table.insert(), [row | {"name": f"n{number}"} for number in range(999)])
    with pytest.raises(InvalidInput, match="1,000"):
        book.add(Schedule("last", "user:x", cron="0 3 * * *"))
