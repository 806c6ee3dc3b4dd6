"""Fixtures every room's tests share: a private home and a maker of skill folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest


class MakeSkill(Protocol):
    """Writes one skill folder and returns it."""

    def __call__(
        self,
        root: Path,
        name: str,
        *,
        description: str = ...,
        body: str = ...,
        front_matter: str | None = ...,
        raw: bytes | None = ...,
        files: Mapping[str, str | bytes] = ...,
    ) -> Path: ...


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, so that no test sees or touches the skills of the person who runs it."""
    folder = tmp_path_factory.mktemp("home")
    for name, path in {
        "HOME": folder,
        "XDG_DATA_HOME": folder / ".local/share",
        "XDG_CONFIG_HOME": folder / ".config",
        "XDG_CACHE_HOME": folder / ".cache",
        "SKILLYARD_HOME": folder / "skillyard",
    }.items():
        monkeypatch.setenv(name, str(path))
    monkeypatch.delenv("CLAUDE_SKILLS_DIR", raising=False)
    return folder


@pytest.fixture
def skills_root(tmp_path: Path) -> Path:
    """An empty folder to put skills into."""
    root = tmp_path / "skills"
    root.mkdir()
    return root


@pytest.fixture
def make_skill() -> MakeSkill:
    """Give a function that writes `root/name/SKILL.md` and any other files."""

    def make(
        root: Path,
        name: str,
        *,
        description: str = "Does one thing well. Use when a test needs a skill.",
        body: str = "# Steps\n\n1. Do it.\n",
        front_matter: str | None = None,
        raw: bytes | None = None,
        files: Mapping[str, str | bytes] | None = None,
    ) -> Path:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        header = front_matter if front_matter is not None else f"name: {name}\ndescription: {description}"
        data = raw if raw is not None else f"---\n{header}\n---\n\n{body}".encode()
        (folder / "SKILL.md").write_bytes(data)
        for relative, content in (files or {}).items():
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return make
