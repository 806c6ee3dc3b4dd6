"""Every recipe of the documentation, run as a reader would, against a model server that checks what it gets.

Those of the frameworks that take longest to import are run in `make test-long`.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Say, Seen

ROOT = Path(__file__).resolve().parents[2]
_AS_STARTED = dict(os.environ)
_RECIPE = re.compile(r"^```python recipe ([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _recipes(page: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _RECIPE.finditer((ROOT / page).read_text("utf-8"))]


FRAMEWORKS = {
    "agno": ("agno==3.1.10", "openai==3.54.0"),
    "llama-index": ("llama-index-core==0.14.25", "llama-index-llms-openai==0.8.3"),
    "smolagents": ("smolagents[openai]==1.26.0",),
    "strands": ("strands-agents[openai]==1.62.0",),
    "autogen": ("autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5"),
    "crewai": ("crewai==1.15.30",),
    "agent-framework": ("agent-framework-core==1.23.0", "agent-framework-openai==1.17.0"),
}
"""Frameworks whose packages are not among the locked ones, since others need them in other versions, and what is installed."""
RECIPES = [(name, code) for name, code in _recipes("docs/agents.md") if name not in FRAMEWORKS]
APART = {name: code for name, code in _recipes("docs/agents.md") if name in FRAMEWORKS}
IN_WORKSPACES = _recipes("docs/workspaces.md")
_TELL_USERS_APART = {"langchain", "deepagents", "agents"}
_SLOW_TO_IMPORT = {"deepagents", "adk"}


def _parameters(recipes: list[tuple[str, str]], ids: list[str]) -> list[Any]:
    return [
        pytest.param(name, code, id=known, marks=[pytest.mark.long] if name in _SLOW_TO_IMPORT else [])
        for (name, code), known in zip(recipes, ids, strict=True)
    ]


_IMPORTING = """
import ast, gc, importlib, json, os, sys, threading, traceback
sys.argv = ["-c"]
for line in sys.stdin:
    told = json.loads(line)
    os.environ.clear()
    os.environ.update(told["environment"])
    for one in ast.walk(ast.parse(told["code"])):
        if isinstance(one, ast.ImportFrom):
            module = importlib.import_module(one.module)
            [getattr(module, name.name) for name in one.names]
    gc.freeze()  # a fork need not look at, and so copy, what it will keep
    assert threading.active_count() == 1, "a fork has only one thread"
    if (pid := os.fork()) == 0:
        status = 1
        try:
            os.chdir(told["folder"])
            for number, name in ((1, "out"), (2, "errors")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            exec(compile(told["code"], "<string>", "exec"), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Recipes:
    """Runs recipes as forks of one process, which imports what each needs and what is loaded already once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, code: str, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
        """The exit status, and what was written to stdout and stderr."""
        if self._process is None:
            command = [sys.executable, "-c", _IMPORTING]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen(command, env=environment, text=True, **pipes)  # type: ignore[call-overload]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps({"code": code, "folder": str(folder), "environment": environment}), file=self._process.stdin, flush=True
        )
        assert select.select([self._process.stdout], [], [], 120)[0], "it takes more than two minutes"
        status = int(self._process.stdout.readline())
        return status, (folder / "out").read_text("utf-8"), (folder / "errors").read_text("utf-8")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def recipes() -> Iterator[Recipes]:
    """What runs the recipes of this module."""
    made = Recipes()
    yield made
    made.close()


def _alone(code: str, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """A recipe in a process of its own, as a reader runs it."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def _count_words(seen: Seen) -> Say | Call:
    """A model that loads the skill, runs it, and says what came out."""
    if not seen.results:
        return Call("skill", {"skill": "text-statistics"})
    if len(seen.results) == 1:
        return Call("run_skill", {"skill": "text-statistics", "input": {"text": "One fish. Two fish."}})
    return Say(f"There are {re.search(r'words[^0-9]+([0-9]+)', seen.last)[1]} words.")  # type: ignore[index]


@pytest.mark.row("004-14")
@pytest.mark.parametrize(("name", "code"), _parameters(RECIPES, [f"{at}-{name}" for at, (name, _) in enumerate(RECIPES)]))
def test_a_recipe_loads_a_skill_runs_it_and_answers(
    name: str, code: str, models: Any, recipes: Recipes, tmp_path: Path, home: Path
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    models.answer_with(_count_words)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = _alone if name == "openai" else recipes.run
    status, out, errors = run(code, tmp_path, os.environ | {"PATH": path, "NO_COLOR": "1"})
    assert status == 0, errors
    assert models.faults == []
    if name != "mcp":
        models.seen[0].check_open("run_skill", {"skill": "text-statistics", "input": {"text": "One fish.", "more": [1]}})
    if name == "chat":
        assert "Load skill: text-statistics" in out
        assert "There are 4 words." in out
        return
    if name == "mcp":
        assert "run_skill" in out
        assert '"words": 4' in out
        return
    if name in _TELL_USERS_APART:
        check_kept_apart(models, out)
    assert "There are 4 words." in out
    assert any("text-statistics" in seen.system for seen in models.seen)
    assert {"skill", "run_skill", "read_skill_file"} <= set(models.seen[0].tools)


def check_kept_apart(models: Any, out: str) -> None:
    """Two users were answered, and each was given the whole skill: in both requests behind its loading."""
    for user in ("ada", "bob"):
        assert f"{user} There are 4 words." in out
    shown = [json.dumps(seen.body) for seen in models.seen]
    assert sum("# Skill: text-statistics" in text for text in shown) == 4
    assert not any("already loaded" in text for text in shown)


@pytest.fixture(scope="module")
def environment_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the interpreter of a new environment with Skillyard and the packages of a framework."""

    def make(name: str) -> Path:
        folder, uv = tmp_path_factory.mktemp("frameworks") / name, str(Path(sys.executable).with_name("uv"))
        python = folder / "bin/python"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, env=_AS_STARTED)
        install = [uv, "pip", "install", "--quiet", "--python", str(python), "--editable", str(ROOT), *FRAMEWORKS[name]]
        subprocess.run(install, check=True, env=_AS_STARTED | {"SKILLYARD_WITHOUT_PAGE": "1"})
        return python

    return make


def _count_words_anywhere(seen: Seen) -> Say | Call:
    """The same for models whose framework puts results of tools into messages of the user, or wants texts or a last call."""
    if "final_answer" in seen.tools:  # smolagents
        results = tuple(("", text) for text in seen.user if "Observation" in text)
        answer = _count_words(replace(seen, results=results))
        return Call("final_answer", {"answer": answer.text}) if isinstance(answer, Say) else answer
    answer = _count_words(seen)
    as_text = seen.tools and seen.schemas["run_skill"]["properties"]["input"]["type"] == "string"
    if isinstance(answer, Call) and answer.name == "run_skill" and as_text:  # crewAI
        arguments = json.loads(answer.written)
        return Call("run_skill", arguments | {"input": json.dumps(arguments["input"])})
    return answer


@pytest.mark.long
@pytest.mark.row("004-14")
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_in_an_environment_of_its_own_keeps_users_apart(
    name: str, environment_of: Callable[[str], Path], models: Any, tmp_path: Path, home: Path
) -> None:
    python = environment_of(name)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    models.answer_with(_count_words_anywhere)
    places = {"OPENAI_API_BASE": models.environment["OPENAI_BASE_URL"], "CREWAI_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        [str(python), "-c", APART[name]],
        cwd=tmp_path,
        env=os.environ | places | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert models.faults == []
    check_kept_apart(models, done.stdout)
    assert "text-statistics" in models.seen[0].system
    assert {"skill", "run_skill", "read_skill_file"} <= set(models.seen[0].tools)
    if name != "crewai":
        models.seen[0].check_open("run_skill", {"skill": "text-statistics", "input": {"text": "One fish.", "more": [1]}})


def test_every_framework_that_is_installed_apart_has_a_recipe() -> None:
    assert APART.keys() == FRAMEWORKS.keys()


def _write_and_count(seen: Seen) -> Say | Call:
    """A model that writes a file in the shell, and says what came out."""
    if not seen.results:
        return Call("bash", {"command": "echo 'One fish. Two fish.' > fish.txt; echo words: $(wc -w < fish.txt)"})
    return Say(f"It has {re.search(r'words: ([0-9]+)', seen.last)[1]} words.")  # type: ignore[index]


@pytest.mark.parametrize(("name", "code"), _parameters(IN_WORKSPACES, [name for name, _ in IN_WORKSPACES]))
def test_a_recipe_works_in_a_workspace(name: str, code: str, models: Any, recipes: Recipes, tmp_path: Path, home: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "project").mkdir()
    models.answer_with(_write_and_count)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    status, out, errors = recipes.run(code, tmp_path, os.environ | {"PATH": path, "NO_COLOR": "1"})
    assert status == 0, errors
    assert models.faults == []
    assert "It has 4 words." in out
    assert {"skill", "run_skill", "bash", "code_run", "file_read"} <= set(models.seen[0].tools)
    models.seen[0].check_open("bash", {"command": "ls", "timeout": 1000})
    everywhere = [*tmp_path.rglob("fish.txt"), *home.rglob("fish.txt")]
    assert [file.read_text("utf-8") for file in dict.fromkeys(everywhere)] == ["One fish. Two fish.\n"]
    kept = everywhere[0].relative_to(tmp_path if name not in ("openai-chat", "adk") else home)
    assert kept.parts[:1] == ("project",) or "workspaces" in kept.parts


def test_every_framework_has_a_recipe_with_a_workspace() -> None:
    without = {"chat", "mcp"}  # a chat has its own, and MCP is configured, not programmed
    assert {name for name, _ in IN_WORKSPACES} == {name for name, _ in RECIPES} - without
