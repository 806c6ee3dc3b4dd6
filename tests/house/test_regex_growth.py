"""No pattern of the code takes time that grows faster than the text: strangers choose the text.

All patterns are visited: those that modules keep, those that are written where they are used, and, with samples, those that are
made while the program runs. A pattern made in a new place fails here until it has a sample.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from parsed import source_trees
from pattern_growth import Subject, super_linear

import skillyard
from skillyard.cli import language
from skillyard.permissions.permission_rules import glob
from skillyard.scanner import network_use
from skillyard.search import words

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
_SOURCE = Path(skillyard.__file__).parent
_CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"}
_PROGRAMS = {  # they run inside a sandbox, where strangers hold up only themselves; they cannot be imported
    "sandbox.canary", "sandbox.container_init",
    "sandbox.landlock_launcher", "sandbox.proxy_opener", "sandbox.python_runner", "workspace.session_agent",
    "workspace.session_code",
}  # fmt: skip
# Where functions make patterns of parts, and how many: `samples` has some of each, modules keep what the scanner makes.
_MADE = {
    "catalog/skill_catalog.py": 1, "cli/language.py": 1, "cli/screen.py": 1, "execution/abp_declaration.py": 2,
    "permissions/permission_rules.py": 2, "search/words.py": 2,
    "sandbox/processes.py": 1, "scanner/network_use.py": 2, "scanner/matching.py": 3,
    "workspace/session_files.py": 3,  # a model's own search, in the sandbox of its session
}  # fmt: skip
_OLD = (  # patterns that froze the process that serves, and others of their kind
    (r'"(?:[^"\\]|\\.)*"', re.DOTALL),
    (r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$", 0),
    (r"[A-Za-z0-9]+(?:[-_:][A-Za-z0-9]+)+", 0),
    (r"([\w.:-]*\w)[`\"'”]?\s*(?:\bskill\b|技能)", re.IGNORECASE),
    (r"https?://[^\s/?#]+[^\s]*$", re.IGNORECASE),
    (r"<[^>]+>", 0),
    (r"\s*(?:-->|\*/)\s*$", 0),
    (r"^\s*export\s+default", re.MULTILINE),
    (r"(\d+)\.(\d+)\.(\d+)", 0),
    (r"(?:a+)+b", 0),
    (r"(?:a|a)*b", 0),
    (r"x(?:[^|]{0,20000}\|){0,2}y", 0),
)


@dataclasses.dataclass(frozen=True)
class Calls:
    """The calls of `re` in a module: patterns that are written there, and how many are made of parts in functions."""

    written: list[tuple[str | bytes, int, str, int]]
    made: int


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages([str(_SOURCE)], "skillyard."):
        if not found.name.endswith("__main__") and found.name.removeprefix("skillyard.") not in _PROGRAMS:
            yield importlib.import_module(found.name)


def patterns_in(value: object, depth: int = 4) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """The compiled patterns in a value and in what it holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif not depth or isinstance(value, type | str | bytes):
        return
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from patterns_in(getattr(value, field.name, None), depth - 1)
    elif isinstance(value, dict | list | tuple | set | frozenset):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(inner, depth - 1)


def uses(tree: ast.Module) -> dict[str, set[str]]:
    """How a module uses each name: the methods called on it; `search` where it is handed on."""
    found: dict[str, set[str]] = {}
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.add(id(node.value))
            found.setdefault(node.value.id, set()).add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            found.setdefault(node.id, set()).add("search")
    return found


def use_of(methods: set[str]) -> str:
    methods = methods - {"pattern", "flags"}
    if methods and methods <= {"fullmatch", "match"}:
        return "fullmatch" if methods == {"fullmatch"} else "match"
    return "search"


@functools.cache
def calls_in(tree: ast.Module) -> Calls:
    """The patterns that are given to `re` as they are, and how many are made of parts within functions."""
    nodes = list(ast.walk(tree))
    inside = {id(node) for function in nodes if isinstance(function, ast.FunctionDef) for node in ast.walk(function)}
    found, made = [], 0
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        if isinstance(node.args[0], ast.Constant):
            text = ast.unparse(node)
            flags = sum(flag for flag in (re.IGNORECASE, re.MULTILINE, re.DOTALL, re.ASCII) if f"re.{flag.name}" in text)
            found.append((node.args[0].value, flags, use_of({node.func.attr}), node.lineno))
        elif id(node) in inside:
            made += 1
    return Calls(found, made)


def subjects() -> list[Subject]:
    """Every pattern of the code, each once for each way in which it is used."""
    found: dict[tuple[str | bytes, int, str], Subject] = {}
    written = {path: uses(tree) for path, tree in source_trees().items()}
    everywhere: dict[str, set[str]] = {}
    for names in written.values():
        for name, methods in names.items():
            everywhere.setdefault(name, set()).update(methods)
    for module in modules():
        path = Path(str(module.__file__)).relative_to(_SOURCE).as_posix()
        for name, value in vars(module).items():
            own = written[path].get(name, set()) if name.startswith("_") else everywhere.get(name, set())
            use = use_of(own) if isinstance(value, re.Pattern) else "search"
            for pattern in patterns_in(value):
                key = (pattern.pattern, pattern.flags, use)
                found.setdefault(key, Subject(f"{path}: {name}", *key))
    for path, tree in source_trees().items():
        for pattern, flags, use, line in calls_in(tree).written:
            if use != "search" or not any(key[0] == pattern for key in found):  # kept patterns are there already
                found.setdefault((pattern, flags, use), Subject(f"{path}:{line}", pattern, flags, use))
    for place, pattern, use in samples():
        found[pattern.pattern, pattern.flags, use] = Subject(place, pattern.pattern, pattern.flags, use)
    return list(found.values())


def samples() -> Iterator[tuple[str, re.Pattern[str], str]]:
    """What functions make of parts."""
    for text in ("*", "a*b*c*d", "*a?b*", "?*?*", "a*" * 20 + "b", "**a**"):
        yield "permissions/permission_rules.py", glob(text), "fullmatch"
    for name in ("a", "a" * 60, "$" * 20):
        for prefix in (r"\$\{?", r"(?<![\w$.'\"])"):
            yield "scanner/network_use.py", network_use._uses({name, "b"}, prefix), "search"
        yield "scanner/network_use.py", network_use._runs(name), "search"
    yield "catalog/skill_catalog.py", re.compile(r"(?:/a/a/a|/a/a|/a)(?![\w-])"), "search"
    yield "sandbox/processes.py", re.compile(r"run-(\d+)-.+"), "match"
    yield "execution/abp_declaration.py", re.compile(rf"\b{'a ' * 20}a(?:s|es)?\b"), "search"
    yield "search/words.py", words._run(), "search"
    yield "search/words.py", words._wide_run(), "match"
    yield "cli/screen.py", re.compile(re.escape("a" * 20), re.IGNORECASE), "search"
    for _, pattern, _ in sorted(language._answers(), key=lambda answer: -answer[1].groups)[:4]:  # with the most values
        yield "cli/language.py", pattern, "fullmatch"


def test_patterns_that_froze_are_found() -> None:
    old = [Subject(str(number), *one) for number, one in enumerate(_OLD)]
    found = {growth.place for growth in super_linear(old, seconds=0.1)}  # nearly all take as long as they may
    assert found == {str(number) for number in range(len(_OLD))}


def test_patterns_that_are_linear_pass() -> None:
    linear = (
        r"[a-z0-9]+(?:-[a-z0-9]+)*",
        r'"(?>[^"\\]+|\\.)*+(?:"|\\?\Z)',
        r"(?<!\w)\w++\s*+:",
        r"#[^\n]{0,400}x",
        r"\d{1,9}\.\d{1,9}",
    )
    assert super_linear([Subject(text, text, re.DOTALL, "search") for text in linear]) == []


@pytest.mark.long
def test_no_pattern_takes_time_that_grows_faster_than_a_text_of_any_end() -> None:
    assert [growth._asdict() for growth in super_linear(subjects(), every_end=True)] == []


@pytest.mark.abuse("G22")
def test_no_pattern_takes_time_that_grows_faster_than_the_text() -> None:
    visited = subjects()
    assert len(visited) > 320
    assert {subject.use for subject in visited} == {"search", "match", "fullmatch"}
    assert [growth._asdict() for growth in super_linear(visited)] == []


def test_a_pattern_that_is_made_of_parts_has_a_sample() -> None:
    made = {path: calls.made for path, tree in source_trees().items() if (calls := calls_in(tree)).made}
    assert made == _MADE
    assert sys.modules["re"] is re  # what is counted is the module of this name, under this name:
    others = [
        path for path, tree in source_trees().items() for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == "re")
        or (isinstance(node, ast.Import) and any(name.name == "re" and name.asname for name in node.names))
    ]  # fmt: skip
    assert others == []
