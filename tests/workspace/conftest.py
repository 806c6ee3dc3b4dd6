"""Workspaces to try, on each backend that this machine has."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from skillyard.sandbox import backends
from skillyard.workspace import Workspace, WorkspaceOptions

BACKENDS = ["bwrap", "landlock", pytest.param("container", marks=pytest.mark.long)]  # which is slow to start


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of each backend; each has to hold on this machine."""
    name: str = request.param
    probe = next(one for one in backends() if one.name == name).probe()
    assert probe.ok, probe.reason
    return name


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user may pass through: what Landlock needs when the tests are root."""
    made = Path(tempfile.mkdtemp(prefix="skillyard-workspaces-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


MakeWorkspace = Callable[..., Workspace]


@pytest.fixture
async def make_workspace(backend: str, reachable: Path) -> AsyncIterator[MakeWorkspace]:
    """Makes workspaces in the backend; all end with the test."""
    made: list[Workspace] = []

    def make(name: str = "files", **settings: object) -> Workspace:
        folder = reachable / name
        folder.mkdir(exist_ok=True)
        more = {key: settings.pop(key) for key in ("authorizer", "resumed") if key in settings}
        options = WorkspaceOptions(backend=backend, **settings)  # type: ignore[arg-type] # fields of the options
        made.append(Workspace(folder, options=options, **more))  # type: ignore[arg-type] # and of the workspace
        return made[-1]

    yield make
    for workspace in made:
        await workspace.close()


@pytest.fixture
def workspace(make_workspace: MakeWorkspace) -> Workspace:
    """One workspace with the usual options."""
    return make_workspace()
