"""An application over a home of its own, a client for it, and archives to send."""

from __future__ import annotations

import io
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import create_app

Pack = Callable[..., bytes]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, and Skillyard's own in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SKILLYARD_DATABASE_URL", raising=False)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return tmp_path


@pytest.fixture
def app(home: Path) -> FastAPI:
    """The application, empty."""
    catalog = Catalog.discover(cwd=home / "project", home=home)
    return create_app(catalog, Registry.of(catalog))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """A program of the local user."""
    with TestClient(app, base_url="http://127.0.0.1:8787") as made:
        yield made


@pytest.fixture
def address(app: FastAPI) -> Iterator[str]:
    """The application on a port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def pack() -> Pack:
    """Give a function that makes the archive of one skill."""

    def make(name: str = "tidy", *, body: str = "Do it.", header: str = "", files: dict[str, str] | None = None) -> bytes:
        text = f"---\nname: {name}\ndescription: Tidies up. Use when a test needs a skill.\n{header}---\n{body}\n"
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for path, content in {"SKILL.md": text, **(files or {})}.items():
                archive.writestr(f"{name}/{path}", content)
        return stream.getvalue()

    return make


@pytest.fixture
def script(home: Path) -> Callable[..., Path]:
    """Give a function that writes a skill of the project with a script, and returns its folder."""

    def write(body: str, name: str = "adder", header: str = "") -> Path:
        folder = home / "project/.claude/skills" / name
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        said = f"name: {name}\ndescription: Adds.\ntype: direct\nresources:\n  entry: ./scripts/add.py\n{header}"
        (folder / "SKILL.md").write_text(f"---\n{said}---\n", "utf-8")
        (folder / "scripts/add.py").write_text(body, "utf-8")
        return folder

    return write


@pytest.fixture
def live(app: FastAPI) -> Iterator[httpx.Client]:
    """A client of the application behind a real socket, so that answers come while they are made."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
            yield client
        server.should_exit = True
        thread.join()
