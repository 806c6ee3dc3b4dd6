"""`skills` from npm, as it is, finds and installs what is published here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard.registry import ProjectLock, Registry

Pack = Callable[..., bytes]
Program = Callable[..., str]
FILES = {"references/deep/a b.md": "text", "scripts/run.sh": "true"}


def _install(address: str, data: bytes) -> None:
    url = f"{address}/api/v1/skill-definitions/upload-create"
    assert httpx2.post(url, files={"file": ("skill.zip", data)}).status_code == 201


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Where the client puts skills for Claude Code."""
    return tmp_path / "of-the-client/.claude/skills"


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def test_it_adds_every_skill_of_the_server(program: Program, address: str, pack: Pack, installed: Path) -> None:
    _install(address, pack("tidy", files=FILES))
    _install(address, pack("other"))
    program("skills", "add", address, "--yes", "--agent", "claude-code", "--copy")
    assert {folder.name for folder in installed.iterdir()} == {"tidy", "other"}
    found = _files(installed / "tidy")
    assert found.pop("SKILL.md").startswith("---\nname: tidy")
    assert found == FILES


def test_what_it_finds_is_what_it_adds(program: Program, address: str, pack: Pack, installed: Path) -> None:
    _install(address, pack("tidy"))
    _install(address, pack("other"))
    reported = program("skills", "find", "tidy", SKILLS_API_URL=address)
    source = f"{address}/@tidy"
    assert source in reported
    program("skills", "add", source, "--yes", "--agent", "claude-code", "--copy")
    assert {folder.name for folder in installed.iterdir()} == {"tidy"}


def test_it_updates_what_it_added(program: Program, address: str, pack: Pack, installed: Path) -> None:
    _install(address, pack("tidy", body="One."))
    program("skills", "add", address, "--yes", "--agent", "claude-code", "--copy")
    _install(address, pack("tidy", body="Two."))
    program("skills", "update", "--yes")
    assert "Two." in (installed / "tidy/SKILL.md").read_text("utf-8")


def test_its_lock_is_held_to_and_written_so_that_it_restores_from_it(program: Program, tmp_path: Path) -> None:
    for name in ("tidy", "other"):
        (tmp_path / name / "references").mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Tidies up.\n---\nDo it.\n")
        (tmp_path / name / "references/A b.md").write_text("text")
    program("skills", "add", str(tmp_path / "tidy"), "--yes", "--agent", "claude-code", "--copy")
    lock, registry = ProjectLock(tmp_path / "of-the-client"), Registry(str(tmp_path / "data"))
    assert [(result.skill_id, result.status) for result in lock.sync(registry)] == [("tidy", "installed")]
    lock.record(registry.install(str(tmp_path / "other")).results, registry)
    assert [state.state for state in lock.states(registry)] == ["ok", "ok"]
    registry.close()
    program("skills", "experimental_install")
    restored = tmp_path / "of-the-client/.agents/skills"
    assert {folder.name for folder in restored.iterdir()} == {"tidy", "other"}


@pytest.fixture
def old_address(app: FastAPI) -> Iterator[str]:
    """The application as a server that knows only the first discovery index."""

    async def without(scope: Any, receive: Any, send: Any) -> None:
        if "/agent-skills/" in scope.get("path", ""):
            scope = {**scope, "path": "/nowhere", "raw_path": b"/nowhere"}
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(without, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_first_index_is_enough(program: Program, old_address: str, pack: Pack, installed: Path) -> None:
    _install(old_address, pack("tidy", files=FILES))
    program("skills", "add", old_address, "--yes", "--agent", "claude-code", "--copy")
    assert set(_files(installed / "tidy")) == {"SKILL.md", *FILES}


def test_the_first_index_leads_to_each_file_and_no_other(client: TestClient, pack: Pack) -> None:
    for name, files in (("tidy", FILES), ("odd", {"a..b.md": ""})):
        archive = {"file": ("skill.zip", pack(name, files=files))}
        assert client.post("/api/v1/skill-definitions/upload-create", files=archive).status_code == 201
    (entry,) = client.get("/.well-known/skills/index.json").json()["skills"]
    assert (entry["name"], sorted(entry["files"])) == ("tidy", sorted(["SKILL.md", *FILES]))
    for path in entry["files"]:
        assert client.get(f"/.well-known/skills/tidy/{path}").status_code == 200
    assert client.get("/.well-known/skills/tidy/missing.md").status_code == 404
    assert client.get("/.well-known/skills/tidy/..%2f..%2fx").status_code == 403
