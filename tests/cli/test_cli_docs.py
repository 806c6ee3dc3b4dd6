"""The page about the command line shows each command's help as it is today."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from skillyard.cli.program import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/cli.md").read_text("utf-8")


def script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look for their module there
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def generator() -> ModuleType:
    return script("generate_docs")


def laid_out(page: str) -> str:
    """The page as it is; its letters only on a newer Python, which sets columns otherwise and writes `-o, --output FILE`."""
    return (
        page
        if sys.version_info < (3, 12)
        else re.sub(r"(-\S+) [A-Z]+, (?=--)", r"\1, ", " ".join(page.split())).replace(" ", "")
    )


def test_every_help_on_the_page_is_todays(generator: ModuleType) -> None:
    assert laid_out(generator.generated(PAGE)) == laid_out(PAGE), "run `make docs`"


def test_every_help_on_the_chinese_page_is_todays(generator: ModuleType) -> None:
    page = generator.CHINESE_PAGE.read_text("utf-8")
    assert re.findall(r"<!-- skillyard .*", page) == re.findall(r"<!-- skillyard .*", PAGE)
    assert laid_out(generator.generated(page, "zh")) == laid_out(page), "run `make docs`"


def test_a_help_that_changed_would_be_noticed(generator: ModuleType) -> None:
    changed = PAGE.replace("usage: skillyard list", "usage: skillyard lost")
    assert laid_out(changed) != laid_out(PAGE)
    assert laid_out(generator.generated(changed)) == laid_out(PAGE)


def test_what_the_rules_of_check_find_on_the_page_is_todays(generator: ModuleType) -> None:
    page, chinese = (name.read_text("utf-8") for name in (generator.RULES_PAGE, generator.CHINESE_RULES_PAGE))
    texts = json.loads(generator.CHINESE_RULES.read_text("utf-8"))
    assert generator.with_document_rules(page) == page, "run `make docs`"
    assert generator.with_document_rules(chinese, texts) == chinese, "run `make docs`"
    changed = page.replace("error (unusable) in all profiles", "info in spec").replace(
        "**Fix:** save the file as UTF-8.", "**Fix:** x."
    )
    assert changed != page
    assert generator.with_document_rules(changed) == page


def test_the_rules_of_the_scanner_on_the_page_are_todays(generator: ModuleType) -> None:
    page, chinese = (name.read_text("utf-8") for name in (generator.SCANNING, generator.CHINESE_SCANNING))
    texts = script("chinese_docs").texts("scanner")
    assert generator.with_scanner_rules(page) == page, "run `make docs`"
    assert generator.with_scanner_rules(chinese, texts) == chinese, "run `make docs`"
    assert generator.with_scanner_rules(page.replace("`fork-bomb`", "`fork-bombe`")) == page


def test_the_coding_agents_on_the_page_are_todays(generator: ModuleType) -> None:
    page, chinese = (name.read_text("utf-8") for name in (generator.CODING_AGENTS, generator.CHINESE_CODING_AGENTS))
    texts = json.loads((ROOT / "scripts/chinese.json").read_text("utf-8"))["coding agents"]
    assert generator.with_coding_agents(page) == page, "run `make docs`"
    assert generator.with_coding_agents(chinese, texts) == chinese, "run `make docs`"
    assert generator.with_coding_agents(page.replace("| `codex` |", "| `codecks` |")) == page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_on_the_page(name: str) -> None:
    assert f"<!-- skillyard {name} --help -->" in PAGE


def test_the_shapes_that_programs_rely_on_are_on_the_page() -> None:
    words = " ".join(PAGE.split())
    for shape in (
        '{"skills": [{"id", "name", "description", "source", "directory", "status", "reason", "state", "diagnostics"}], '
        '"roots":',
        '{"rule", "severity", "message", "file", "line", "fix"}',
        '{"files": [{"path", "ok", "diagnostics"}], "summary": {"files", "ok", "errors", "warnings"}}',
        '{"text", "tokens", "kept", "shortened", "omitted": [{"id", "reason"}]}',
        '{"matches": [{"id", "name", "confidence", "matched", "duplicates"?, "reasons"?}], "more"}',
        '{"run_id", "status", "output", "error": {"code", "message"} | null, "steps", "memory_writes", '
        '"limits", "isolation", "contacts"}',
    ):
        assert shape in words
