"""Coding agents, as npm has them, use the skills over MCP: `skillyard connect` writes our server into their configuration."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripted_models import Call, Say, Seen

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


class Program(NamedTuple):
    """A coding agent: what npm installs, its command, and `prepare`, which writes whom it asks and gives its environment."""

    package: str
    command: tuple[str, ...]
    prepare: Callable[[Path, str], dict[str, str]]


def _codex(home: Path, models: str) -> dict[str, str]:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "local"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
        f'[model_providers.local]\nname = "local"\nbase_url = "{models}/v1"\nwire_api = "responses"\n'
        'env_key = "OPENAI_API_KEY"\n'
    )
    return {}


def _claude(home: Path, models: str) -> dict[str, str]:
    return {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}


def _opencode(home: Path, models: str) -> dict[str, str]:
    options = {"baseURL": f"{models}/v1", "apiKey": "x"}
    scripted = {"name": "scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Local", "options": options, "models": {"scripted": scripted}}
    (home / ".config/opencode").mkdir(parents=True)
    settings = {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"}, "provider": {"local": provider}}
    models_of = {"model": "local/scripted", "small_model": "local/scripted"}
    (home / ".config/opencode/opencode.json").write_text(json.dumps(settings | models_of))
    return {"OPENAI_API_KEY": ""}


def _gemini(home: Path, models: str) -> dict[str, str]:
    (home / ".gemini").mkdir()
    security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
    (home / ".gemini/settings.json").write_text(json.dumps({"security": security, **quiet}))
    return {"GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


ASKED = "How many words are in: One fish. Two fish."
PROGRAMS = {
    "codex": Program("@openai/codex@0.169.0", ("codex", "exec", "--skip-git-repo-check", ASKED), _codex),
    "claude": Program(
        "@anthropic-ai/claude-code@2.1.330", ("claude", "-p", ASKED, "--allowedTools", "mcp__skillyard Bash"), _claude
    ),
    "opencode": Program("opencode-ai@1.18.33", ("opencode", "run", ASKED), _opencode),
    "gemini": Program("@google/gemini-cli@0.61.0", ("gemini", "-y", "-m", "gemini-2.5-flash", "-p", ASKED), _gemini),
}
STEPS = (
    ("skills_list", {}, "weather-query"),
    ("skill", {"skill": "text-statistics"}, "# Skill: text-statistics"),
    ("read_skill_file", {"skill_name": "text-statistics", "file_path": "SKILL.md"}, "Models are poor at counting"),
    ("run_skill", {"name": "text-statistics", "input": {"text": "One fish. Two fish."}}, '"words":4'),
    ("run_skill", {"name": "text-statistics", "input": {}}, "is a required property"),
    ("read_skill_file", {"skill_name": "text-statistics", "file_path": "../x"}, "without '..'"),
)
"""What the model calls, and what it must be shown of the answer."""


MOST_WAITS = 10


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder with the command of an agent, which is installed for the tests of this module."""
    folder = tmp_path_factory.mktemp("agents")
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def install(name: str) -> Path:
        place = folder / name
        if not place.is_dir():
            command = ["npm", "install", "--prefix", str(place), "--no-audit", "--no-fund", "--loglevel", "error"]
            subprocess.run([*command, PROGRAMS[name].package], check=True, env=environment, timeout=600)
        return place / "node_modules/.bin"

    return install


WAITING = {"exec_command": "cmd", "Bash": "command", "bash": "command", "run_shell_command": "command"}
"""The shells of the agents, and how they name a command."""


def _answers(seen: Seen) -> list[str]:
    """What the model was shown of its steps."""
    waited = {call for call, name, _ in seen.calls if name in WAITING}
    return [text for call, text in seen.results if call not in waited]


def _work(seen: Seen) -> Say | Call:
    """A model that makes every step, whatever the agent has put before the names; asked beside that it says little.

    Agents begin while their servers are still starting: until our tools are there it waits, as a model that does other things.
    """
    at, name = len(_answers(seen)), next((name for name in seen.tools if name.endswith("run_skill")), None)
    if name is not None and at < len(STEPS):
        tool, arguments, _ = STEPS[at]
        return Call(name.removesuffix("run_skill") + tool, arguments)
    shell = next((name for name in seen.tools if name in WAITING), None)
    if at == len(STEPS) or shell is None or len(seen.results) >= MOST_WAITS:
        return Say("done")
    return Call(shell, {WAITING[shell]: "sleep 2", "description": "wait"})


@pytest.mark.long
@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_coding_agent_lists_loads_reads_runs_and_reads_what_went_wrong(
    name: str, over: str, installed: Callable[[str], Path], models: Any, home: Path, request: pytest.FixtureRequest
) -> None:
    program, commands = PROGRAMS[name], installed(name)
    shutil.copytree(ROOT / "examples/skills", home / ".claude/skills")
    environment = os.environ | program.prepare(home, models.address)
    environment |= {"HOME": str(home), "PATH": f"{commands}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"}
    address = ["--url", f"{request.getfixturevalue('address')}/mcp"] if over == "http" else []
    connect = ["skillyard", "connect", name, "--yes", *address]
    subprocess.run(connect, check=True, env=environment, cwd=home, timeout=60)
    models.answer_with(_work)
    work = home / "work"
    work.mkdir()
    done = subprocess.run(
        program.command, env=environment, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240
    )
    most = max(models.seen, key=lambda seen: len(seen.results), default=None)
    assert most is not None, done.stdout + done.stderr
    shown = [text.replace("\\", "").replace('": ', '":') for text in _answers(most)]
    assert len(shown) == len(STEPS), (
        [seen.tools for seen in models.seen],
        models.faults,
        done.stdout[-2000:],
        done.stderr[-2000:],
    )
    for (_, _, expected), text in zip(STEPS, shown, strict=True):
        assert expected in text
    assert done.returncode == 0, done.stderr
