"""Who works on what, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.engine import WorkerRoster
from skillyard.registry import Registry
from skillyard.server import create_app


def test_without_postgresql_it_says_why_there_are_no_workers(client: TestClient) -> None:
    reported = client.get("/api/v1/workers").json()["data"]
    assert (reported["engine"], reported["pools"], reported["workers"]) == ("local", [], [])
    assert "PostgreSQL" in reported["reason"]


def test_pools_workers_and_what_they_run_are_reported(
    home: Path, address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False))
    monkeypatch.setenv("SKILLYARD_ENGINE", "procrastinate")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    WorkerRoster(catalog.records().database).join("w1", ["default", "gpu"], 4)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as client:
        reported = client.get("/api/v1/workers").json()["data"]
    assert (reported["engine"], reported["reason"]) == ("procrastinate", None)
    assert [(pool["name"], pool["workers"], pool["waiting"]) for pool in reported["pools"]] == [
        ("default", 1, 0),
        ("gpu", 1, 0),
    ]
    assert [(worker["id"], worker["state"], worker["concurrency"]) for worker in reported["workers"]] == [("w1", "idle", 4)]
