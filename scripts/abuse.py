"""The catalogue of attacks: its cases, the tests that make them, and the table of both in `docs/security.md`."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/security.md"
CHINESE_PAGE = ROOT / "docs/zh/security.md"
_PART = re.compile(r"(?<=<!-- table of attacks -->\n).*?(?=<!-- end of the table -->)", re.DOTALL)
_CASE = re.compile(r"[A-I]\d+")
_EACH = ("bwrap", "landlock", "container")


@dataclass(frozen=True)
class Shown:
    """A test that makes an attack; `backends` are the sandboxes it makes it in."""

    file: Path
    name: str
    backends: tuple[str, ...]
    function: ast.FunctionDef | ast.AsyncFunctionDef


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """The tables of `abuse.toml`."""
    return tomllib.loads(Path(__file__).with_name("abuse.toml").read_text("utf-8"))


def titles() -> dict[str, str]:
    """The letter and title of each group of cases."""
    return {letter: table["title"] for letter, table in catalogue().items() if len(letter) == 1}


def cases() -> dict[str, str]:
    """Every case that has something to attack: id to sentence."""
    groups = (table for letter, table in catalogue().items() if len(letter) == 1)
    return {case: words for table in groups for case, words in table.items() if _CASE.fullmatch(case)}


@cache
def marked() -> dict[str, list[Shown]]:
    """The cases that tests are marked with."""
    found: dict[str, list[Shown]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text("utf-8")
        if "mark.abuse(" in text:
            tree = ast.parse(text)
            functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
            own = [name for node in functions if node.name == "backend" for name in _of(node)]
            fixture = _EACH if {"sandbox", "workspace"} & set(file.parts) else ()
            for node in tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for case, backends in _marks(node, tuple(own) or fixture):
                        found.setdefault(case, []).append(Shown(file, node.name, backends, node))
    return found


def _of(fixture: ast.FunctionDef) -> list[str]:
    """The sandboxes that a module's own fixture goes through."""
    text = " ".join(map(ast.unparse, fixture.decorator_list))
    return [name for name in _EACH if repr(name) in text]


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef, fixture: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """The cases on a test, each with its backends: those of the fixtures it takes, or those it names with `on`."""
    takes = {argument.arg for argument in node.args.args} & {
        "backend",
        "make_workspace",
        "run_script",
        "workspace",
    }
    marks = []
    for call in node.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.abuse"):
            named = [str(ast.literal_eval(word.value)) for word in call.keywords if word.arg == "on"]
            backends = tuple(named[0].split(", ")) if named else fixture if takes else ()
            marks += [(str(ast.literal_eval(case)), backends) for case in call.args]
    return marks


def table(chinese: Mapping[str, str] | None = None) -> str:
    """The table: case, attack, the files of its tests, the sandboxes they use; in the words of `chinese` where it has them."""
    said = chinese or {}
    columns = " | ".join(said.get(column, column) for column in ("Attack", "Shown in", "Sandboxes"))
    lines, tests, letter = [], marked(), ""
    titled = titles()
    for case, words in {**cases(), **catalogue()["nothing_to_attack"]}.items():
        if case[0] != letter and case in cases():
            letter = case[0]
            title = titled[letter]
            lines += ["", f"### {said.get(title, title)}", "", f"| | {columns} |", "|---|---|---|---|"]
        if case in cases():
            shown = tests.get(case, [])
            files = ", ".join(f"`{name}`" for name in sorted({one.file.name for one in shown}))
            backends = ", ".join(name for name in _EACH if any(name in one.backends for one in shown))
            lines.append(f"| {case} | {said.get(words, words)} | {files} | {backends or '-'} |")
    end = "。" if chinese else "."
    missing = [f"- **{case}** {said.get(words, words)}{end}" for case, words in catalogue()["nothing_to_attack"].items()]
    return "\n".join([*lines, "", f"### {said.get('Nothing to attack', 'Nothing to attack')}", "", *missing, "", ""])


def written(page: str, chinese: Mapping[str, str] | None = None) -> str:
    """The page with the table as it is today."""
    return _PART.sub(lambda _: table(chinese), page)
