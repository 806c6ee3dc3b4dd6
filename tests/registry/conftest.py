"""A registry on every database, skills to install, and processes that may be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from skillyard.registry import Registry

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process has written is in the kernel: the disk only matters when power is lost, which no test here does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Skillyard's own folder."""
    return tmp_path / "data"


@pytest.fixture
def registry(data: Path) -> Iterator[Registry]:
    """A registry over SQLite, for what does not depend on the database."""
    made = Registry(str(data))
    yield made
    made.close()


@pytest.fixture
def any_registry(data: Path, database_address: str) -> Iterator[Registry]:
    """A registry over each database."""
    made = Registry(str(data), database_address)
    yield made
    made.close()


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Give a function that writes (or writes again) the skill `name` and returns its folder."""

    def make(name: str = "tidy", *, body: str = "Do it.", header: str = "", files: dict[str, str] | None = None) -> Path:
        folder = tmp_path / "sources" / name
        folder.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: Tidies up. Use when a test needs a skill.\n{header}---\n{body}\n"
        (folder / "SKILL.md").write_text(text, "utf-8")
        for path, content in (files or {}).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, "utf-8")
        return folder

    return make


@pytest.fixture
def folder_server() -> Callable[[Path], AbstractContextManager[str]]:
    """Give a function that gives out a folder over HTTP on loopback while its block runs, and the address of it."""

    @contextmanager
    def serve(folder: Path) -> Iterator[str]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    return serve


class Processes:
    """Children of one process that has everything imported already."""

    def __init__(self) -> None:
        self._zygote = subprocess.Popen([sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, orders: Sequence[dict[str, Any]]) -> list[int]:
        """Start one child for each order; give their numbers."""
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(json.dumps(list(orders)) + "\n")
        self._zygote.stdin.flush()
        return self._line()

    def wait(self) -> list[int]:
        """The statuses of the children, as `os.waitpid` tells them."""
        return self._line()

    def run(self, *orders: dict[str, Any]) -> list[int]:
        """Start and wait."""
        self.start(orders)
        return self.wait()

    def close(self) -> None:
        """End the process."""
        self._zygote.communicate(timeout=60)

    def _line(self) -> list[int]:
        assert self._zygote.stdout is not None
        found: list[int] = json.loads(self._zygote.stdout.readline())
        return found


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Real processes, forked from one that has done the imports."""
    made = Processes()
    yield made
    made.close()
