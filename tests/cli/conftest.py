"""Runs the command line inside the test's process, or as a process of its own where that is what is tested."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
import pytest

from skillyard.cli import main


@dataclass(frozen=True)
class Answer:
    """What one call said and returned."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]
Process = Callable[..., subprocess.CompletedProcess[str]]
OnTerminal = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project as the working folder."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SKILLYARD_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Give a function that calls `skillyard` with the arguments and returns code, output and errors."""

    def run(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Answer(code, said.out, said.err)

    return run


@pytest.fixture
def examples() -> Path:
    """The folder of example skills."""
    return Path(__file__).resolve().parents[2] / "examples" / "skills"


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Process:
    """Give a function that runs a command in another process, with pipes: one of its own where its start is tried,
    or where what it imports is not there, a fork of one that has it loaded for those of what a command does.
    """
    alone = request.path.name == "test_cli_program.py"

    def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        others = options.get("env", os.environ).get("PYTHONPATH") != os.environ.get("PYTHONPATH")
        start = subprocess.run if alone or others else preloaded.run
        command = [sys.executable, "-m", "skillyard", *map(str, arguments)]
        done: subprocess.CompletedProcess[str] = start(command, capture_output=True, text=True, timeout=60, **options)
        return done

    return run


@pytest.fixture
def on_terminal(request: pytest.FixtureRequest) -> OnTerminal:
    """Give a function that runs a command, as `process` does, on a terminal of 100 columns, with what a person types."""
    start = subprocess.Popen if request.path.name == "test_cli_program.py" else preloaded.Popen

    def run(*arguments: str | Path, answer: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
        master, slave = pty.openpty()
        command = [sys.executable, "-m", "skillyard", *map(str, arguments)]
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | (env or {})
        started = start(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        os.write(master, answer.encode())
        shown = b"".join(_pieces(master))
        os.close(master)
        return started.wait(timeout=60), shown.decode()

    return run


def _pieces(master: int) -> Iterator[bytes]:
    """What the terminal shows until the other side is closed."""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece
