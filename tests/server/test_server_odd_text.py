"""Text that no answer can carry as it is: halves of surrogate pairs, file names that are no UTF-8. Nothing breaks on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

HALF = '{"skill": "echo", "parameters": {"a\\ud800": "b\\udfff"}}'
JSON = {"Content-Type": "application/json"}
SCRIPT = "def execute(parameters):\n    return {'output': len(parameters)}\n"


@pytest.fixture
def echo(client: TestClient, home: Path, make_skill: Any) -> str:
    make_skill(home / "project/.claude/skills", "echo", files={"scripts/execute.py": SCRIPT})
    client.post("/api/v1/catalog/refresh")
    return "echo"


@pytest.mark.abuse("H12")
def test_parameters_that_no_answer_can_carry_break_no_list_of_runs_or_schedules(client: TestClient, echo: str) -> None:
    made = client.post("/api/v1/runs", content=HALF, headers=JSON)
    assert (made.status_code, made.json()["data"]["state"]) == (201, "failed"), "they are no JSON that a script could read"
    kept = HALF.replace('"skill"', '"name": "odd", "cron": "0 3 1 1 *", "skill"')
    assert client.post("/api/v1/schedules", content=kept, headers=JSON).status_code == 201
    for path in ("/api/v1/schedules", "/api/v1/runs", f"/api/v1/runs/{made.json()['data']['run_id']}"):
        assert client.get(path).status_code == 200, path


@pytest.mark.abuse("H12")
@pytest.mark.parametrize("value", [r'"a \uD800 b"', r'"a \0 b"', r'"a \e]0;own\a \n FORGED"'])
def test_a_skill_of_odd_text_and_odd_names_can_be_looked_at(
    client: TestClient, home: Path, make_skill: Any, value: str
) -> None:
    header = f"name: odd\ndescription: {value}\nhomepage: {value}\nmetadata:\n  {value}: {value}\n"
    folder = make_skill(home / "project/.claude/skills", "odd", front_matter=header)
    for name in (b"\xff\xfe.md", b"a\x1b[2J\nFORGED.md"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("x")
    client.post("/api/v1/catalog/refresh")
    for path in (
        "",
        "/facets",
        "/search?q=odd",
        "/skill?skill=odd",
        "/scan?skill=odd",
        "/clients?skill=odd",
        "/file?skill=odd",
    ):
        answer = client.get(f"/api/v1/catalog{path}")
        assert answer.status_code < 500, (path, answer.text)


@pytest.mark.abuse("H12")
def test_a_folder_whose_name_is_no_utf8_hides_no_other_skill(
    client: TestClient, home: Path, make_skill: Any, echo: str
) -> None:
    folder = make_skill(home / "project/.claude/skills", "odd")
    folder.rename(os.fsdecode(os.fsencode(folder) + b"\xff\xfe"))
    client.post("/api/v1/catalog/refresh")
    listed = client.get("/api/v1/catalog").json()["data"]
    assert {skill["name"]: skill["directory"] for skill in listed}["odd"] == f"{folder}??"
    assert echo in {skill["name"] for skill in listed}
    found = client.get("/api/v1/catalog/search?q=odd").json()["data"]
    assert found[0]["skill"]["directory"] == client.get("/api/v1/catalog/folder?skill=odd").json()["data"] == f"{folder}??"
    switched = client.put("/api/v1/catalog/state", json={"skill": "odd", "state": "pinned"})
    assert (switched.status_code, switched.json()["data"]["state"]) == (200, "pinned")
