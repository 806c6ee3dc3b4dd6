"""What the operator's table `[workspace]` says holds wherever a workspace is begun or described."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skillyard.conversations.conversation_tools import workspace_options
from skillyard.errors import SandboxUnavailable
from skillyard.library import Catalog
from skillyard.sandbox import GrantedEnvironment, Policy, Probe
from skillyard.sandbox.container_backend import ContainerBackend
from skillyard.workspace import Workspace, catalog_options

Asked = list[tuple[str, int]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The image of each container backend that was asked whether it holds, and the memory that was asked for, in MB."""
    made: Asked = []

    def supports(backend: ContainerBackend, policy: Policy) -> list[object]:
        made.append((backend.image, policy.memory_mb))
        return []

    monkeypatch.setattr(ContainerBackend, "supports", supports)
    monkeypatch.setattr(ContainerBackend, "probe", lambda _: Probe("container", ok=False, reason="not started here"))
    return made


def test_the_same_sandbox_is_chosen_wherever_a_workspace_asks_for_one(home: Path, tmp_path: Path, asked: Asked) -> None:
    (home / ".config/skillyard").mkdir(parents=True)
    table = '[workspace]\nbackend = "container"\ncontainer-image = "python:3"\n'
    (home / ".config/skillyard/skillyard.toml").write_text(table, "utf-8")
    catalog = Catalog.discover(home=home, cwd=tmp_path, cache=False)
    needing = GrantedEnvironment(needs={"memory_mb": 3000})
    options = catalog_options(catalog, catalog.rules(), environment=needing)
    workspace = Workspace(tmp_path, options=options)
    for ask in (lambda: workspace.path, lambda: options.mounts(str(tmp_path)), lambda: asyncio.run(workspace.ready())):
        with pytest.raises(SandboxUnavailable, match="not started here"):
            ask()
        assert asked.pop() == ("python:3", 3000)
        assert asked == []
    with pytest.raises(SandboxUnavailable, match="not started here"):
        workspace_options(catalog)
    assert asked == [("python:3", options.policy.memory_mb)], "nothing is granted before a skill is loaded"
