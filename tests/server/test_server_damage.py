"""A damaged database is said at once, by every interface, with one code and what to do."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import preloaded
import pytest
from mcp import Client
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.cli import main
from skillyard.errors import DatabaseDamaged
from skillyard.mcp.mcp_server import create_server
from skillyard.tools import SkillTools

HINT = "skillyard db repair"


@pytest.fixture
def damaged(home: Path, make_skill: Any) -> Path:
    """A home with two tables that are damaged where they begin, which nothing that is asked may touch for long."""
    make_skill(home / "project/.agents/skills", "tidy", files={"scripts/execute.py": "print(1)"})
    catalog = Catalog.discover(cwd=home / "project", home=home)
    file = catalog.records().database.file
    catalog.records().close()
    assert file is not None
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()
        (other,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'skill_definitions'").fetchone()
    with file.open("r+b") as stream:
        for number in (page, other):
            stream.seek((number - 1) * 4096)
            stream.write(b"\xff" * 4096)
    return file


@pytest.fixture
def unreadable(damaged: Path) -> Path:
    """The same home, and now SQLite does not even take the file for a database."""
    with damaged.open("r+b") as stream:
        stream.write(b"x" * 100)
    return damaged


def _is_said(error: Any) -> None:
    assert error["code"] == "database_damaged"
    assert "is damaged" in (error.get("detail") or error["message"])
    assert HINT in error["hint"]


def test_over_http(unreadable: Path, client: TestClient) -> None:
    for path in ("/api/v1/runs", "/readyz", "/api/v1/skill-definitions"):
        answer = client.get(path)
        assert answer.status_code == 500
        _is_said(answer.json())
        assert "Retry-After" not in answer.headers
    answer = client.post("/api/v1/runs", json={"skill": "tidy", "parameters": {}, "wait": True})
    assert answer.status_code == 500
    _is_said(answer.json())
    assert client.get("/api/v1/catalog").status_code == 200


def test_in_the_library_and_for_tools(unreadable: Path, home: Path) -> None:
    catalog = Catalog.discover(cwd=home / "project", home=home)
    with pytest.raises(DatabaseDamaged) as refused:
        catalog.records().journal.list()
    assert HINT in str(refused.value.hint)
    import asyncio

    result = asyncio.run(SkillTools(catalog).call("run_skill", {"skill": "tidy"}))
    assert (result.ok, result.code) == (False, "database_damaged")


async def test_over_mcp(unreadable: Path, home: Path) -> None:
    catalog = Catalog.discover(cwd=home / "project", home=home)
    async with Client(create_server(SkillTools(catalog))) as client:
        result = await client.call_tool("run_skill", {"skill": "tidy"})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["code"] == "database_damaged"


@pytest.mark.parametrize("words", [["runs"], ["run", "tidy"], ["versions"], ["history"], ["backup", "all.tar.gz"]])
def test_on_the_command_line(unreadable: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json"]) == 1
    _is_said(json.loads(capsys.readouterr().out)["error"])


def test_check_and_doctor_name_it_and_repair_fixes_it(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "check"]) == 1
    said = capsys.readouterr()
    assert HINT in said.out + said.err
    assert main(["doctor", "--json"]) == 1
    (record,) = (check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "records")
    assert (record["status"], HINT in record["fix"]) == ("error", True)
    assert main(["db", "repair", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert Path(report["kept"]).is_file()
    assert main(["db", "check"]) == 0
    assert main(["db", "repair"]) == 0
    assert "no errors" in capsys.readouterr().out
    assert main(["runs", "--json"]) == 0
    assert len(list(damaged.parent.glob("skillyard.damaged-*.db"))) == 1


def test_what_there_is_not_is_not_checked_and_not_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("check", "repair"):
        assert main(["db", action, "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "record_not_found"
        assert main(["db", action, "--organisation", "no/name", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "record_not_found"
    assert not (home / "data/skillyard.db").exists()


def test_the_records_of_an_organisation_are_checked_by_its_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["organisations", "create", "clinic"]) == 0
    file = home / "data/organisations/clinic/skillyard.db"
    main(["schedule", "list", "--organisation", "clinic"])
    assert file.is_file()
    assert main(["db", "check", "--organisation", "clinic"]) == 0
    with file.open("r+b") as stream:
        stream.write(b"x" * 100)
    capsys.readouterr()
    assert main(["db", "check", "--organisation", "clinic", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["whole"] is False
    assert main(["db", "check"]) == 0
    assert main(["db", "repair", "--organisation", "clinic"]) == 0
    assert main(["db", "check", "--organisation", "clinic"]) == 0


def test_a_server_says_it_when_it_starts_and_keeps_a_repair_away(damaged: Path, home: Path) -> None:
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json"]
    with preloaded.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home / "project") as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = json.loads(process.stdout.readline())["address"]
            said = process.stderr.readline()
            while "database_damaged" not in said:
                said = process.stderr.readline()
                assert said
            assert HINT in process.stderr.readline()
            assert httpx.get(f"{address}/healthz", timeout=60).status_code == 200
            assert httpx.get(f"{address}/readyz", timeout=60).status_code == 200
            repair = [sys.executable, "-m", "skillyard", "db", "repair", "--json"]
            done = preloaded.run(repair, capture_output=True, text=True, timeout=60, cwd=home / "project")
            assert done.returncode == 1
            error = json.loads(done.stdout)["error"]
            assert (error["code"], "is in use" in error["message"]) == ("database_unavailable", True)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def test_postgresql_is_repaired_by_its_own_means(
    home: Path, address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from skillyard.database import Database, DatabaseCheck

    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False))
    assert main(["db", "check"]) == 0
    monkeypatch.setattr(Database, "check", lambda self: DatabaseCheck(self.name, ("invalid page in block 7",)))
    capsys.readouterr()
    assert main(["db", "repair", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], "PostgreSQL" in error["hint"]) == ("invalid_input", True)
