"""A hostile skill in one line: write its script, run it in each backend, look at what came back."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from skillyard.sandbox import (
    NOTHING_GRANTED,
    GrantedEnvironment,
    Job,
    Policy,
    SandboxBackend,
    SandboxResult,
    backends,
    preparation,
)
from skillyard.sandbox.container_backend import ContainerBackend
from skillyard.sandbox.seccomp import this_machine

PRELUDE = (
    f"""
CALLS = {dict(this_machine().calls)}  # the numbers of this machine
"""
    + """
import ctypes, errno, json, os, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
HERE = os.path.dirname(os.path.abspath(__file__))

def attempt(call, *values):
    try:
        call(*values)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        return type(error).__name__
    return "done"

def system_call(number, *values):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *values)
    return "done" if answer >= 0 else errno.errorcode[ctypes.get_errno()]

def write(path, data="x"):
    with open(path, "w") as file:
        file.write(data)

def read(path):
    with open(path) as file:
        return file.read()

def answer(value):
    with os.fdopen(3, "w") as pipe:
        json.dump(value, pipe)
"""
)


class RunScript(Protocol):
    """Runs the text of a Python script as a skill."""

    async def __call__(
        self,
        source: str,
        *,
        policy: Policy = ...,
        files: Mapping[str, str] = ...,
        stdin: bytes = ...,
        arguments: tuple[str, ...] = ...,
        entry: str = ...,
        environment: GrantedEnvironment = ...,
        workspace: str = ...,
    ) -> SandboxResult: ...


@pytest.fixture(params=["bwrap", "landlock", pytest.param("container", marks=pytest.mark.long)])
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    """Each backend in turn; all must hold on the machine that runs the tests. A container takes long to start."""
    found = next(item for item in backends() if item.name == request.param)
    probe = found.probe()
    assert probe.ok, probe.reason
    return found


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where no cgroup can be made, neither here nor by what starts containers."""
    monkeypatch.setattr(preparation, "make_cgroup", lambda **_: None)
    found = ContainerBackend.found_engine
    monkeypatch.setattr(ContainerBackend, "found_engine", lambda self: replace(found(self), counts=False))


@pytest.fixture(params=["counted", "uncounted"])
def counting(request: pytest.FixtureRequest) -> str:
    """With cgroups where there are some, and as on a machine where none can be made."""
    if request.param == "uncounted":
        request.getfixturevalue("uncounted")
    return str(request.param)


@pytest.fixture
def skill_tree() -> Iterator[Path]:
    """A skill's folder outside pytest's own private folders."""
    folder = Path(tempfile.mkdtemp(prefix="skill-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def folders_of_runs() -> Callable[[], Awaitable[list[str]]]:
    """Give a function that says which copies are left, after those threads that delete them had their time."""

    async def left() -> list[str]:
        prefix = f"skillyard-run-{os.getpid()}-"
        for _ in range(3000):
            if not (found := [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(prefix)]):
                break
            await asyncio.sleep(0.01)
        return found

    return left


@pytest.fixture
def run_script(backend: SandboxBackend, skill_tree: Path) -> RunScript:
    """Give a function that runs a script in the backend of this test."""

    async def run(
        source: str,
        *,
        policy: Policy | None = None,
        files: Mapping[str, str] | None = None,
        stdin: bytes = b"{}",
        arguments: tuple[str, ...] = (),
        entry: str = "scripts/main.py",
        environment: GrantedEnvironment = NOTHING_GRANTED,
        workspace: str = "",
    ) -> SandboxResult:
        text = textwrap.dedent(source)
        for relative, content in {entry: PRELUDE + text if entry.endswith(".py") else text, **(files or {})}.items():
            target = skill_tree / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        policy = policy or Policy(timeout_ms=10_000)
        job = Job(str(skill_tree), entry, stdin, policy, arguments, environment=environment, workspace=workspace)
        return await backend.run(job)

    return run


def living(marker: str) -> list[int]:
    """The processes that have `marker` on their command line, on the whole machine."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(int(folder.name))
    return found


@pytest.fixture
def survivors() -> object:
    """Give the function that lists processes by a word on their command line."""
    return living
