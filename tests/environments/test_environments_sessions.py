"""What a session needs so that skills find what they were granted: browsers, packages without variables, notes on grants."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillyard.environments import EnvironmentRequest, SkillGrant, session_hint
from skillyard.sandbox import NOTHING_GRANTED, GrantedEnvironment
from skillyard.workspace import Workspace, WorkspaceOptions

_BROWSERS = {"browsers": [
    {"name": "chromium", "revision": "1255"},
    {"name": "chromium-headless-shell", "revision": "1256"},
    {"name": "webkit", "revision": "7"},
    {"name": "chromium", "revision": "../../etc"},
    "chromium",
]}  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass through: what Landlock needs when the tests are root."""
    made = Path(tempfile.mkdtemp(prefix="skillyard-sessions-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


async def _environment(registry, *words: str) -> GrantedEnvironment:
    return await asyncio.to_thread(EnvironmentRequest(grant=SkillGrant.from_words(words), settings=registry.settings))


async def test_a_granted_playwright_finds_the_granted_chromium(registry, folder: Path) -> None:
    registry.add_npm("playwright-core", {"browsers.json": json.dumps(_BROWSERS)})
    environment = await _environment(registry, "npm:playwright-core", "program:chromium")
    workspace = Workspace(folder, options=WorkspaceOptions(environment=environment))
    try:
        found = await workspace.bash("cd $PLAYWRIGHT_BROWSERS_PATH && find . -type f | sort; grep -c chromium $CHROME_PATH")
        shell = "./chromium_headless_shell-1256/chrome-"
        assert found.text.split() == [
            "./chromium-1255/chrome-linux-arm64/chrome", "./chromium-1255/chrome-linux/chrome",
            "./chromium-1255/chrome-linux64/chrome", f"{shell}headless-shell-linux-arm64/chrome-headless-shell",
            f"{shell}headless-shell-linux64/chrome-headless-shell", f"{shell}linux/headless_shell", "1",
        ]  # fmt: skip
        page = "data:text/html,<p id=x>1<script>x.textContent=6*7</script>"
        place = "$PLAYWRIGHT_BROWSERS_PATH/chromium_headless_shell-1256/chrome-headless-shell-linux64/chrome-headless-shell"
        shown = await workspace.bash(f"{place} --headless --dump-dom '{page}' 2>/dev/null")
        assert '<p id="x">42' in shown.text
    finally:
        await workspace.close()


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
async def test_a_python_that_was_started_without_our_variables_finds_the_granted_packages(
    registry, folder: Path, backend: str
) -> None:
    registry.add_wheel("alpha", "1.0", "VALUE = 42")
    environment = await _environment(registry, "alpha")
    workspace = Workspace(folder, options=WorkspaceOptions(backend=backend, environment=environment))
    try:
        answer = await workspace.bash('env -i HOME="$HOME" PATH="$PATH" python3 -c "import alpha; print(alpha.VALUE)"')
        assert answer.text == "42"
    finally:
        await workspace.close()


async def test_a_command_that_cannot_install_or_import_says_which_grant_to_ask_for(registry, folder: Path) -> None:
    registry.add_wheel("alpha", "1.0", "VALUE = 42")
    registry.add_npm("gamma", {"index.js": ""})
    environment = await _environment(registry, "alpha", "npm:gamma")
    workspace = Workspace(folder, options=WorkspaceOptions(environment=environment))
    try:
        missing = await workspace.code_run("python", "import beta")
        assert missing.code == "command_failed"
        assert "Not granted here: beta. Ask the operator" in missing.text
        assert "skillyard environment allow SKILL --with beta" in missing.text
        refused = await workspace.bash("npm install -g gamma delta")
        assert refused.code == "command_failed"
        assert "Already here, import or require it: gamma. Not granted here: npm:delta." in refused.text
        assert "grant" not in (await workspace.bash("exit 3")).text
    finally:
        await workspace.close()


def test_the_note_names_each_package_once_and_nothing_that_is_none() -> None:
    note = session_hint("pip install -q 'beta>=2' beta>=2 ./local && npm i -g @scope/delta", "", NOTHING_GRANTED)
    assert note.startswith("Not granted here: beta>=2, npm:@scope/delta. ")
    assert "--with 'beta>=2' --with npm:@scope/delta" in note
    assert session_hint("echo pip", "sh: 1: no-such-program: command not found", NOTHING_GRANTED).startswith(
        "The program no-such-program is not on this machine"
    )
    assert session_hint("false", "", NOTHING_GRANTED) == ""
