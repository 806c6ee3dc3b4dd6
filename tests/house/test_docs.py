"""The documents tell the truth: their code blocks run, their commands exist, their links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
import pytest
import yaml

from skillyard import Catalog
from skillyard.cli import main

ROOT = Path(__file__).resolve().parents[2]
EVERY = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# the blocks of Chinese pages are those of the English ones, which test_chinese_docs holds: none runs twice
PAGES = [page for page in EVERY if page.parent.name != "zh" and page.name != "README.zh-CN.md"]
README = ROOT / "README.md"  # its commands are started as a reader starts them, those of other pages as forks
_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPERATORS = set("();<>|&")
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    options: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_skill(self) -> bool:
        """Whether it is a skill's script; the input to run it with follows on its first line."""
        return self.options.startswith(" skill ")


def _blocks(*languages: str, skills: bool = False) -> list[Block]:
    """The blocks in these languages; with `skills` only those that are the script of a skill, otherwise only the others."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, match[1], match[2], match[3]))
    found = [block for block in found if not block.options.startswith(" recipe ")]  # tests/agent runs them with a model
    return [block for block in found if block.language in languages and block.is_skill == skills]


@pytest.fixture
def desk(tmp_path: Path, home: Path) -> Path:
    """A folder like a reader's: the example skills beside it, the command on PATH."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}


_ENTRIES = {"python": "execute.py", "javascript": "execute.mjs", "typescript": "execute.ts", "bash": "execute.sh"}


@pytest.mark.parametrize("block", _blocks(*_ENTRIES, skills=True), ids=lambda block: block.name)
async def test_a_script_of_a_skill_runs_as_one(block: Block, desk: Path) -> None:
    folder = desk / "mine/example"
    folder.joinpath("scripts").mkdir(parents=True)
    folder.joinpath("SKILL.md").write_text("---\nname: example\ndescription: From the documents.\n---\n# Example\n", "utf-8")
    folder.joinpath("scripts", _ENTRIES[block.language]).write_text(block.text, "utf-8")
    catalog = Catalog.discover(roots=[desk / "mine"], cache=False)
    run = await catalog.run("example", json.loads(block.options.removeprefix(" skill ")))
    assert run.error is None, run.stderr
    assert isinstance(run.output, dict)


@pytest.mark.parametrize("page", sorted({block.page for block in _blocks("python")}), ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run(page: Path, desk: Path) -> None:
    """Each with names of its own, one after the other in one process, as modules are loaded once then.

    That is a process of its own for README.md, a fork for the other pages: it has more modules loaded, but blocks import by
    `from`, which finds no module that they do not name.
    """
    blocks = [(block.name, block.text) for block in _blocks("python") if block.page == page]
    assert not [name for name, text in blocks if re.search(r"^\s*import skillyard", text, re.MULTILINE)]
    program = f"for name, text in {blocks!r}:\n    exec(compile(text, name, 'exec'), {{'__name__': '__main__'}})"
    run = subprocess.run if page == README else preloaded.run
    command = [sys.executable, "-W", "error", "-c", program]
    done = run(command, cwd=desk, env=_environment(), capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr  # the traceback begins with the name of the block


@pytest.mark.parametrize("block", _blocks("console"), ids=lambda block: block.name)
def test_a_console_block_prints_what_it_shows(block: Block, desk: Path) -> None:
    for command, shown in _sessions(block.text):
        printed = _printed(block.page, command, desk)
        assert _matches(shown, printed), f"{block.name}: {command}\n--- shown\n{shown}\n--- printed\n{printed}"


def _printed(page: Path, command: str, desk: Path) -> str:
    """What a command line prints; a shell reads it where it is more than one command, and for README.md."""
    options: dict[str, Any] = {
        "cwd": desk, "env": _environment(), "capture_output": True, "text": True, "timeout": 60, "stdin": subprocess.DEVNULL,
    }  # fmt: skip
    words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    if page == README or words[0] != "skillyard" or any(set(word) <= _OPERATORS for word in words if word):
        done = subprocess.run(command, shell=True, **options)
    else:
        program = [sys.executable, "-m", "skillyard", *shlex.split(command)[1:]]
        done = preloaded.run(program, **options)
    return str(done.stdout + done.stderr)


def _sessions(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    pairs = (part.replace("\\\n", " ").partition("\n") for part in parts)
    return [(command.partition("  #")[0], shown) for command, _, shown in pairs]


def _matches(shown: str, printed: str) -> bool:
    """Whether `printed` is `shown`, where `...` stands for anything and runs of spaces are one."""
    pattern = ".*".join(re.escape(" ".join(piece.split())) for piece in shown.split("..."))
    return re.fullmatch(rf"\s*{pattern}\s*", " ".join(printed.split()), re.DOTALL) is not None or not shown.strip()


def test_every_shell_block_names_commands_that_exist() -> None:
    blocks = _blocks("sh", "bash")
    assert len(blocks) > 20
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    installers = {"pip", "uv", "pipx", "npx"}
    programs = installers | {"git", "cd", "export", "sudo", "python", "claude", "codex", "opentelemetry-instrument"}
    lines = [(block.name, line, shlex.split(line, comments=True)) for block in blocks for line in block.text.splitlines()]
    wrong = []
    for name, line, words in lines:
        match words:
            case []:
                continue
            case ["make", target, *_]:
                exists = target in targets
            case ["skillyard", command, *_]:
                exists = main([command, "--help"]) == 0
            case [program, *_]:
                exists = program in programs
            case _:
                exists = False
        if not exists:
            wrong.append((name, line))
    assert wrong == []


def test_every_standard_names_its_version_a_way_in_and_tests_that_use_it() -> None:
    page = (ROOT / "docs/clients.md").read_text("utf-8")
    table = page.partition("## Standards")[2].partition("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| [")]
    assert len(rows) == 11
    for standard, version, here, held in rows:
        assert version, standard
        tests = [ROOT / "tests" / name for name in re.findall(r"`(\w+/test_\w+\.py)`", held)]
        assert tests, standard
        texts = "".join(test.read_text("utf-8") for test in tests)
        for way in re.findall(r"`([^`]+)`", here):
            if way.startswith("skillyard "):
                assert main([way.split()[1], "--help"]) == 0, (standard, way)
            else:
                assert way in texts, (standard, way)


@pytest.mark.parametrize("language", ["json", "toml", "yaml"])
def test_every_data_block_parses(language: str) -> None:
    blocks = _blocks(language)
    assert blocks
    wrong = []
    for block in blocks:
        try:
            match language:
                case "json":
                    json.loads(block.text)
                case "toml":
                    tomllib.loads(block.text)
                case _:
                    list(yaml.safe_load_all(block.text))
        except (ValueError, yaml.YAMLError) as error:
            wrong.append(f"{block.name}: {error}")
    assert wrong == []


def test_every_page_links_only_to_what_is_there() -> None:
    links = [(page, target) for page in EVERY for target in _LINK.findall(page.read_text("utf-8"))]
    assert len(links) > 100
    assert [(str(page.relative_to(ROOT)), target) for page, target in links if not (page.parent / target).exists()] == []


def test_every_block_has_a_language_the_tests_know() -> None:
    known = {"python", "console", "sh", "bash", "json", "toml", "yaml", "text", "markdown", "xml", "javascript", "typescript"}
    blocks = [(page.name, match) for page in PAGES for match in _BLOCK.finditer(page.read_text("utf-8"))]
    assert len(blocks) > 100
    for page, match in blocks:
        assert match[1] in known, f"{page}: {match[0][:60]}"
