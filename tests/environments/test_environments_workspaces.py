"""Commands in a workspace see the packages and programs that it is granted, in every sandbox, and cannot write to them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skillyard.environments import EnvironmentRequest, SkillGrant
from skillyard.sandbox import GrantedEnvironment, Policy
from skillyard.workspace import Workspace, WorkspaceOptions, options_from_settings

on_each_backend = pytest.mark.parametrize("backend", ["bwrap", "landlock"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass through: what Landlock needs when the tests are root."""
    made = Path(tempfile.mkdtemp(prefix="skillyard-granted-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def _program(folder: Path) -> GrantedEnvironment:
    """A program outside of what every sandbox sees, and a command that is made for the session."""
    tools = folder / "tools"
    tools.mkdir(mode=0o755)
    (tools / "measure").write_text("#!/bin/sh\necho three metres\n")
    (tools / "measure").chmod(0o755)
    commands = {"greet": "#!/bin/sh\necho good day\n"}
    return GrantedEnvironment(path=(str(tools),), mounts=(str(tools),), commands=commands, variables={"UNIT": "metre"})


@on_each_backend
async def test_commands_see_granted_packages_and_programs(registry, folder: Path, backend: str) -> None:
    registry.add_wheel("alpha", "1.0", "VALUE = 42")
    registry.add_npm("gamma", {"index.js": "module.exports = 'gamma at work'"}, main="index.js")
    grant = SkillGrant.from_words(["alpha", "npm:gamma", "program:qpdf"])
    packages = await asyncio.to_thread(EnvironmentRequest(grant=grant, settings=registry.settings))
    registry.close()
    granted = _program(folder)
    environment = replace(
        packages, path=granted.path, mounts=granted.mounts, commands=granted.commands, variables=granted.variables
    )
    (folder / "files").mkdir()
    workspace = Workspace(folder / "files", options=WorkspaceOptions(backend=backend, environment=environment))
    try:
        command = "python3 -c 'import alpha; print(alpha.VALUE)'; qpdf --version | head -1; measure; greet; echo $UNIT"
        answer = await workspace.bash(command)
        lines = answer.text.splitlines()
        assert lines[:1] + lines[2:] == ["42", "three metres", "good day", "metre"], answer.text
        assert lines[1].startswith("qpdf version")
        assert (await workspace.code_run("python", "import alpha\nprint(alpha.__file__)")).ok
        assert (await workspace.code_run("javascript", "console.log(require('gamma'))")).text == "gamma at work"
        written = await workspace.bash("echo x > $PYTHONPATH/alpha.py || echo y > $(dirname $(command -v measure))/measure")
        assert written.code == "command_failed"
    finally:
        await workspace.close()


async def test_commands_reach_the_granted_registry_inside_the_network_and_nothing_beside_it(registry, folder: Path) -> None:
    registry.add_npm("gamma", {"index.js": "module.exports = 'gamma at work'"}, main="index.js")
    environment = EnvironmentRequest(grant=SkillGrant(registries=True), settings=registry.settings)()
    options = WorkspaceOptions(backend="bwrap", environment=environment)
    workspace = Workspace(folder, options=options)
    try:
        ask = "curl -s --noproxy '' -o /dev/null -w '%{http_code} '"  # loopback would be the session's own
        answer = await workspace.bash(f"{ask} $npm_config_registry/gamma; {ask} http://127.0.0.1:9/; {ask} https://x.test/")
        assert answer.text.split()[:2] == ["200", "403"], answer.text
        assert registry.asked == ["/gamma"]
    finally:
        await workspace.close()


@on_each_backend
async def test_without_a_grant_there_are_no_packages(folder: Path, backend: str) -> None:
    (folder / "requirements.txt").write_text("alpha\n")  # what lies in a workspace is no skill's declaration
    workspace = Workspace(folder, options=WorkspaceOptions(backend=backend, environment=EnvironmentRequest()()))
    try:
        assert "ModuleNotFoundError" in (await workspace.bash("python3 -c 'import alpha' 2>&1")).text
    finally:
        await workspace.close()


def test_granted_programs_raise_the_limits_that_the_operator_has_not_set() -> None:
    browser = GrantedEnvironment(needs={"pids": 512, "memory_mb": 4096})
    options = replace(options_from_settings({"memory-mb": 512}), environment=browser)
    assert (options.session_policy.pids, options.session_policy.memory_mb) == (512, 512)
    usual = WorkspaceOptions(policy=Policy(), environment=browser)
    assert (usual.session_policy.pids, usual.session_policy.memory_mb) == (512, 4096)
