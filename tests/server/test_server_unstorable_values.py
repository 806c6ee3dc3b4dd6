"""Values that the records do not take: refused as what they are, and nobody is asked to try again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.database import install_logs, steps
from skillyard.registry import Registry
from skillyard.server import create_app
from skillyard.times import utc_now

pytestmark = pytest.mark.both_databases
_LOG = {"id": "log_1", "operation_id": "op_1", "operation": "install", "status": "pending", "progress": 0, "steps": []}
_STEP = {"run_id": "nobody", "position": 0, "step_id": "a", "step_name": "a", "duration": 1.0}


@pytest.fixture
def client(home: Path, database_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A server over each kind of database, with an endpoint through which its records are given whatever comes."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog))
    database = catalog.records().database

    @app.post("/logs")
    def log(row: dict[str, Any]) -> None:
        with database.write() as connection:
            connection.execute(insert(install_logs).values(_LOG | {"started_at": utc_now()} | row))

    @app.post("/steps")
    def step(row: dict[str, Any]) -> None:
        with database.write() as connection:
            connection.execute(insert(steps).values(_STEP | row))

    with TestClient(app, base_url="http://127.0.0.1:8787") as made:
        yield made


@pytest.mark.parametrize(
    ("endpoint", "row"),
    [("/logs", {"progress": 2**63}), ("/logs", {"progress": -(10**40)}), ("/logs", {"status": None}), ("/steps", {})],
    ids=["over 64 bits", "far over them", "nothing where something must be", "of a run that is not there"],
)
def test_a_value_that_the_records_refuse_is_the_callers_to_change(
    client: TestClient, endpoint: str, row: dict[str, Any]
) -> None:
    answer = client.post(endpoint, json=row)
    assert (answer.status_code, answer.json()["code"]) == (422, "value_refused"), answer.text
    assert answer.json()["hint"]
    assert "Retry-After" not in answer.headers


def test_a_place_that_is_taken_is_a_conflict(client: TestClient) -> None:
    assert client.post("/logs", json={}).status_code == 200
    answer = client.post("/logs", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "record_exists")
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 100_000, "9" * 400], ids=["NUL", "half a pair", "long", "digits"])
def test_names_that_no_record_can_have_are_the_callers_to_change(client: TestClient, name: str) -> None:
    tried = [
        client.post("/api/v1/agents", content=json.dumps({"name": name})),
        client.post("/api/v1/schedules", content=json.dumps({"name": name, "skill": name, "cron": "* * * * *", "priority": 0})),
        client.get("/api/v1/runs", params={"limit": 10**40, "skill": name.encode("utf-8", "replace").decode()[:2000]}),
    ]
    for answer in tried:
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.json()["code"]
        assert "Retry-After" not in answer.headers
