"""`skillyard schedule`: add, list, show, pause, remove, and run what is due where no server does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from skillyard import Catalog
from skillyard.cli import main
from skillyard.database import schedules

SCRIPT = "import json, sys\nprint(json.dumps({'output': json.load(sys.stdin)['input']}))\n"


@pytest.fixture
def root(skills_root: Path, make_skill: Any) -> str:
    """A folder with one skill."""
    make_skill(skills_root, "report", files={"scripts/execute.py": SCRIPT})
    return str(skills_root)


def call(*words: str) -> int:
    return main(["schedule", *words])


def test_a_schedule_from_its_making_to_its_end(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("add", "nightly", "report", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--root", root) == 0
    assert "nightly added; next" in capsys.readouterr().out
    assert call("list", "--root", root) == 0
    assert "0 3 * * *" in capsys.readouterr().out
    assert call("show", "nightly", "--root", root, "--json") == 0
    assert json.loads(capsys.readouterr().out)["time_zone"] == "Europe/Berlin"
    assert call("pause", "nightly", "--root", root) == 0
    assert capsys.readouterr().out == "nightly paused\n"
    assert call("resume", "nightly", "--root", root) == call("remove", "nightly", "--root", root) == 0
    capsys.readouterr()
    assert call("--root", root, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"schedules": []}


def test_what_is_due_is_run_where_no_server_does(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("due", "--root", root) == 0
    assert "no schedule is due" in capsys.readouterr().out
    call("add", "once", "report", "--at", "2040-01-01T08:00", "--input", '{"a": 1}', "--root", root)
    catalog = Catalog.discover(roots=[root], cache=False)
    with catalog.records().database.write() as connection:
        connection.execute(update(schedules).values(next_at=datetime.now(UTC)))
    capsys.readouterr()
    assert call("due", "--root", root, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"begun": 1, "succeeded": 1}
    (record,) = catalog.records().journal.list()
    assert (record.schedule, catalog.records().journal.get(record.id).output) == ("once", {"a": 1})
    assert main(["runs", "--schedule", "once", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
    catalog.records().close()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["add", "a"], 2),
        (["add", "a", "report"], 2),
        (["add", "a", "report", "--at", "soon"], 2),
        (["list", "a"], 2),
        (["remove"], 2),
        (["add", "a", "report", "--cron", "whenever"], 1),
        (["add", "A b", "report", "--cron", "* * * * *"], 1),
        (["add", "a", "report", "--cron", "* * * * *", "--zone", "Mars"], 1),
        (["add", "a", "nothing", "--cron", "* * * * *"], 1),
        (["show", "nothing"], 1),
    ],
)
def test_what_cannot_be_meant_says_what_and_how_to_mend_it(
    root: str, words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words, "--root", root) == code
    reported = capsys.readouterr().err
    assert reported.startswith("error:")
    assert "hint:" in reported
    assert "Traceback" not in reported


@pytest.mark.row("000-13")
def test_an_event_runs_what_waits_for_it_and_says_so(
    skills_root: Path, make_skill: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    header = "name: greeter\ndescription: Greets. Use in a test.\ntriggers: {event_types: ['door.*']}"
    make_skill(skills_root, "greeter", front_matter=header, files={"scripts/execute.py": SCRIPT})
    root = ["--root", str(skills_root)]
    assert main(["event", *root]) == 0
    assert "door.*" in capsys.readouterr().out
    assert main(["event", "door.opened", "--dry-run", *root]) == 0
    assert capsys.readouterr().out.startswith("door.opened would run ")
    words = ["event", "door.opened", "--data", '{"who": "Ada"}', "--id", "one", "--json", *root]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert [(run["state"], run["status"]) for run in first["runs"]] == [("begun", "ok")]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["state"] == "repeated"
    assert main(["event", "window.opened", *root]) == 0
    assert "no skill subscribes to window.opened" in capsys.readouterr().err
    assert main(["event", "a b", *root]) == 1


def test_a_schedule_is_changed_and_what_is_not_named_stays(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    call("add", "nightly", "report", "--cron", "0 3 * * *", "--input", '{"a": 1}', "--priority", "5", "--root", root)
    assert call("edit", "nightly", "--cron", "30 4 * * *", "--zone", "Asia/Shanghai", "--root", root) == 0
    assert "nightly changed; next" in capsys.readouterr().out
    call("edit", "nightly", "--missed", "skip", "--root", root)
    call("show", "nightly", "--root", root, "--json")
    shown = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert (shown["cron"], shown["time_zone"], shown["missed"]) == ("30 4 * * *", "Asia/Shanghai", "skip")
    assert (shown["parameters"], shown["priority"]) == ({"a": 1}, 5)
    assert call("edit", "nightly", "--root", root) == 2
    assert "what is to be changed?" in capsys.readouterr().err
    assert call("edit", "nightly", "--skill-version", "1.0.0", "--root", root) == 1
    assert "not installed" in capsys.readouterr().err


def test_a_schedule_is_run_now_beside_its_times(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    call("add", "nightly", "report", "--cron", "0 3 * * *", "--input", '{"a": 1}', "--root", root)
    capsys.readouterr()
    assert call("run", "nightly", "--root", root, "--json") == 0
    begun = json.loads(capsys.readouterr().out)
    assert (begun["begun"], begun["ok"]) == (1, True)
    call("show", "nightly", "--root", root, "--json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["last_run"], shown["next_at"] is None) == (begun["run_id"], False)
    assert main(["runs", "--schedule", "nightly", "--json"]) == 0
    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)["runs"]] == [begun["run_id"]]
