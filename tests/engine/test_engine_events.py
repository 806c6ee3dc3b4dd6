"""Events: what waits for one runs, in the order of priority, once for each event, and the audit log says what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.access import AuditLog
from skillyard.engine import Event, RunFilter, Schedule, waiting_skills
from skillyard.errors import InvalidInput

SCRIPT = "def execute(parameters, context):\n    return {'output': [parameters, context['event']['type']]}\n"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLYARD_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for name, header in (
        ("later", "event_types: [calendar.reminder], priority: 0.2}"),
        ("first", "event_types: ['calendar.*'], priority: 0.9}"),
        ("asked", "event_types: ['calendar.*'], priority: 0.5}"),
        ("other", "event_types: [mail.new]}"),
        ("quiet", "event_types: ['calendar.*'], priority: 0.1}\ntype: internal"),
        ("words", "event_types: ['calendar.*'], priority: 0.05}"),
    ):
        folder = tmp_path / ".claude/skills" / name
        (folder / "scripts").mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Does {name}. Use in a test.\ntriggers: {{{header}\n---\nDo it.\n"
        (folder / "SKILL.md").write_text(text)
        if name != "words":
            (folder / "scripts/execute.py").write_text(SCRIPT)
    (tmp_path / "skillyard.toml").write_text("[permissions.skills]\nasked = 'ask'\n")
    return Catalog.discover()


@pytest.mark.row("000-13", "D-16")
async def test_an_event_runs_what_waits_for_it_by_priority_and_once(catalog: Catalog) -> None:
    event = Event("calendar.reminder", {"title": "tea"}, id="reminder-1", source="test")
    fired = await catalog.events().fire(event)
    assert [(run.skill, run.state, run.status) for run in fired.runs] == [
        ("project:first", "begun", "ok"),
        ("project:asked", "needs_approval", None),
        ("project:later", "begun", "ok"),
        ("project:quiet", "begun", "ok"),
        ("project:words", "refused", None),
    ]
    assert fired.runs[0].declared == "calendar.*"
    assert not fired.ok
    record = catalog.records().journal.get(fired.runs[0].run_id)
    assert record.output == [{"title": "tea"}, "calendar.reminder"]
    again = await catalog.events().fire(event)
    assert [run.state for run in again.runs] == ["repeated", "needs_approval", "repeated", "repeated", "refused"]
    assert len(catalog.records().journal.list(RunFilter())) == 3
    written = AuditLog(lambda: catalog.records().database).events(action="events.fire")
    assert [one.subject for one in written] == ["calendar.reminder", "calendar.reminder"]
    details: Any = written[-1].details
    assert (details["id"], details["source"], details["runs"][0]["state"]) == ("reminder-1", "test", "begun")


@pytest.mark.row("000-13")
async def test_nobody_waits_for_an_event_of_another_type(catalog: Catalog) -> None:
    assert (await catalog.events().fire(Event("calendarx.reminder"))).runs == ()
    assert (await catalog.events().fire(Event("calendar"))).runs == ()
    assert [match.skill.name for match in waiting_skills(catalog.all(), "mail.new")] == ["other"]


async def test_nobody_uses_up_the_ids_of_others_or_of_another_type(catalog: Catalog) -> None:
    event = Event("mail.new", id="1")
    for user, state in (("ada", "begun"), ("eve", "begun"), ("ada", "repeated")):
        fired = await catalog.events().fire(event, context={"userId": user})
        assert [run.state for run in fired.runs] == [state]
    (match,) = waiting_skills(catalog.all(), "mail.new")
    assert event.run_id(match.skill, "ada") != Event("mail.old", id="1").run_id(match.skill, "ada")


async def test_a_schedule_can_fire_an_event_once_for_each_moment(catalog: Catalog) -> None:
    schedule = catalog.schedules().add(Schedule("tea", "event:mail.new", {"from": "a"}, cron="0 8 * * *"))
    assert schedule.next_at is not None
    begun = await catalog.scheduler().begin_due(schedule.next_at)
    assert [(await one.ended).output for one in begun] == [[{"from": "a"}, "mail.new"]]
    (record,) = catalog.records().journal.list(RunFilter())
    assert record.skill_id == "project:other"
    for wrong in (Schedule("b", "event:no type", cron="0 8 * * *"), Schedule("b", "event:a", entry="x.py", cron="0 8 * * *")):
        with pytest.raises(InvalidInput):
            catalog.schedules().add(wrong)


@pytest.mark.parametrize("kind", ["", "calendar.*", "a b", "a..b", ".a", "a" * 201, "a\n"])
def test_what_is_no_type_of_an_event_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput, match="not a type of an event"):
        Event(kind)


@pytest.mark.parametrize("event_id", ["", " ", "a b", "a\n", "é", "a" * 201])
def test_what_is_no_id_of_an_event_is_refused(event_id: str) -> None:
    with pytest.raises(InvalidInput, match="id of an event"):
        Event("a", id=event_id)
