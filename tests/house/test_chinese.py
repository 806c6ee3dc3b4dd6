"""The page says in Chinese what every stable code of the server means, and nothing else."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from parsed import parsed

from skillyard import scanner
from skillyard.document import RULES
from skillyard.registry.dependencies import RequiredSkill
from skillyard.registry.powers import NO_POWERS, POWER_LISTS, Powers
from skillyard.server import responses

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
ROOT = Path(__file__).parents[2]
TABLES = ROOT / "web/src/chinese"
_RUNS = re.compile(r'"([A-Z]{3,}(?:_[A-Z]+)*|kind_unavailable)"')
_CHECKS = re.compile(r'(?:Check|_runs|_program)\(\s*f?"([^"]+)"')


def table(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(TABLES.joinpath(f"{name}.json").read_text("utf-8"))
    return found


def given_codes(module: Path) -> Iterator[str]:
    """The `code` of each class of errors that a module defines: an argument of the class, of the root an attribute."""
    for kind in ast.walk(parsed(module)):
        for line in kind.body if isinstance(kind, ast.ClassDef) else ():
            named = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
            value = getattr(line, "value", None)
            if any(isinstance(name, ast.Name) and name.id == "code" for name in named) and isinstance(value, ast.Constant):
                yield from [value.value] if isinstance(value.value, str) else []
        for keyword in kind.keywords if isinstance(kind, ast.ClassDef) else ():
            if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)


def codes_of_errors() -> set[str]:
    """Every code that an answer may carry: of the tree, wherever its leaves stand, and of requests that fit no route."""
    found = {code for module in ROOT.joinpath("src").rglob("*.py") for code in given_codes(module)}
    return found - {"usage"} | set(responses._CODES.values())  # wrong usage is of the command line only


def codes_of_runs() -> set[str]:
    """What a run that did not succeed is given: every `RunError`, and those that are passed on to it."""
    found: set[str] = set()
    for component in ("execution", "engine", "library", "server"):
        for module in ROOT.joinpath("src/skillyard", component).glob("*.py"):
            lines = module.read_text("utf-8").splitlines()
            reported = [
                line for line in lines if re.search(r"RunError\(|refused\(|failed\(|_CODES|_BY_ERROR|\"\),?$|_ERROR\"", line)
            ]
            found |= {code for line in reported for code in _RUNS.findall(line)}
    return {code for code in found if code.endswith(("_ERROR", "_FAILED", "_FOR", "_INCOMPLETE", "_unavailable", "ED"))}


def names_of_checks() -> set[str]:
    """What the doctor looks at; of names that end in a value, such as `root {source}`, the word before it."""
    names = _CHECKS.findall(ROOT.joinpath("src/skillyard/doctor.py").read_text("utf-8"))
    languages = {f"{name} skills" for name in names if name in ("python", "shell", "javascript", "typescript")}
    cut = {name.partition(" {")[0] for name in names if " {" in name}
    plain = {name for name in names if "{" not in name and name.partition(" ")[0] not in cut}
    plain -= {"shell", "javascript", "typescript"}
    return plain | languages | cut | {"permissions", "sandbox settings"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("errors", lambda: codes_of_errors() | codes_of_runs()),
        ("rules", lambda: set(RULES)),
        ("checks", names_of_checks),
        ("findings", lambda: set(scanner.RULES)),
    ],
)
def test_every_code_has_its_chinese_title_and_way_out(name: str, wanted: object) -> None:
    assert callable(wanted)
    words = table(name)
    assert set(words) == wanted()
    for code, (title, fix, *why) in words.items():
        assert len(why) == (name == "findings"), code
        assert all(re.search(r"[\u4e00-\u9fff]", text) for text in (fix, *why)), code
        assert re.search(r"[\u4e00-\u9fff]|^(Python|Skillyard|Git)$", title), code
        assert not title.endswith("。"), code
        assert fix.endswith("。"), code
    assert list(words) == list(dict.fromkeys(words))


def test_every_sentence_about_what_a_skill_may_do_has_chinese_words() -> None:
    """Those of everything a skill could do, alone and beside what it did before, fit the gaps of the table one by one."""
    some = Powers(**dict.fromkeys(POWER_LISTS, ("it",)), filesystem="read-write", timeout_ms=60_000, memory_mb=512)
    none = replace(NO_POWERS, timeout_ms=1, memory_mb=1)
    kinds = [replace(one, filesystem=files) for one in (some, none) for files in ("none", "read-only", "read-write")]
    pairs = list(product(kinds, kinds))
    reason = str(RequiredSkill("report", "tables >=1.2"))  # of a skill that comes along
    said = {reason} | {sentence for one, other in pairs for sentence in (*one.added_since(other), *other.lost_since(one))}
    words = table("powers")
    ways = {english: re.compile(english.replace("{}", "(.+?)")) for english in words}
    used = {sentence: [english for english, way in ways.items() if way.fullmatch(sentence)][:1] for sentence in said}
    assert [sentence for sentence, found in used.items() if not found] == []
    assert {found[0] for found in used.values()} == set(words)
    for english, (chinese,) in words.items():
        assert chinese.count("{}") == english.count("{}")
        assert re.fullmatch(r"[A-Za-z{}, -]+", english), "the page searches with it as it is"
