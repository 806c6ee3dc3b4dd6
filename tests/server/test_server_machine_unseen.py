"""An organisation on a shared server learns nothing of the machine it is on: no folder, no database, no name of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from skillyard.engine import Roster

EVERYTHING = ("skills:read", "skills:write", "runs:execute", "admin")
HEADER = "type: direct\nresources:\n  entry: ./scripts/add.py\n"
BREAKS = "def execute(parameters):\n    raise ValueError('no')\n"


@pytest.fixture
def guest(keyed: Any) -> TestClient:
    """An admin of an organisation that is not the server's own."""
    client: TestClient = keyed.client(*EVERYTHING, organisation="acme", name="ada")
    return client


@pytest.fixture
def used(guest: TestClient, home: Path, make_skill: Any, pack: Callable[..., bytes]) -> Iterator[dict[str, str]]:
    """What its organisation has: an installed skill, one of its own, one of the server, one that is broken, runs."""
    make_skill(home / "project/.claude/skills", "shared")
    make_skill(home / "project/.claude/skills", "broken", front_matter="name: [")
    archive = pack("tidy", header=HEADER, files={"scripts/add.py": BREAKS, "b.txt": "b"})
    guest.post("/api/v1/skill-definitions/upload-create", files={"file": ("tidy.zip", archive)})
    guest.post("/api/v1/catalog", json={"name": "private", "description": "Says: nothing."})
    guest.post("/api/v1/catalog/refresh")
    run = guest.post("/api/v1/runs", json={"skill": "tidy"}).json()["data"]["run_id"]
    guest.post("/api/v1/runs", json={"skill": "shared"})
    guest.post("/api/v1/schedules", json={"name": "nightly", "skill": "tidy", "cron": "0 3 * * *"})
    version = guest.get("/api/v1/skill-definitions/tidy/versions").json()["data"][0]["version"]
    yield {"id": "tidy", "run_id": run, "name": "tidy", "slug": "tidy", "version": version, "skill": "tidy", "path": "b.txt"}


@pytest.mark.abuse("H3")
def test_no_answer_names_the_machine(keyed: Any, guest: TestClient, used: dict[str, str], home: Path) -> None:
    words = (str(home), str(home.parent), socket.gethostname(), "skillyard.db", "postgresql:")
    told: list[str] = []
    for route in keyed.app.routes:
        for flat in getattr(route, "routes", [route]):
            if isinstance(flat, APIRoute) and "GET" in (flat.methods or ()) and not flat.path.endswith("/events"):
                for skill in ("tidy", "installed:tidy", "shared", "broken", "private", "nightly"):
                    names = used | {"id": skill, "name": skill}
                    address = flat.path.replace(":path}", "}").format_map(_Named(names))
                    answer = guest.get(address, params={"skill": skill, "slug": skill, "q": skill, "name": skill})
                    said = answer.text + str(answer.headers)
                    told += [f"{address}?{skill}: {word}" for word in words if word in said]
    assert told == []


class _Named(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "tidy"


@pytest.mark.abuse("H3")
def test_workers_are_told_without_their_machine(keyed: Any, guest: TestClient) -> None:
    admin = keyed.client()
    told = guest.get("/api/v1/workers").json()["data"]
    if told["reason"] is not None:  # no worker pools on SQLite
        assert told["reason"] == "this server keeps no worker pools"
        assert "skillyard.db" in admin.get("/api/v1/workers").json()["data"]["reason"]
        return
    organisations = keyed.app.state.homes.organisations
    database = organisations.catalog("acme", keyed.app.state.homes.main.catalog).records().database
    Roster(database).join(f"{socket.gethostname()}-17-abc", ["default"], 4)
    (worker,) = guest.get("/api/v1/workers").json()["data"]["workers"]
    assert (worker["host"], worker["process"], worker["id"][:7]) == (None, None, "worker-")
    Roster(keyed.app.state.homes.database()).join("w1", ["default"], 4)
    (worker,) = admin.get("/api/v1/workers").json()["data"]["workers"]
    assert (worker["host"], worker["id"]) == (socket.gethostname(), "w1")
