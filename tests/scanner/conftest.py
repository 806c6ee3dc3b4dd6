"""Skills made for a test: a SKILL.md and whatever files it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.scanner import Report, scan_skill

Make = Callable[..., Path]
Scan = Callable[..., Report]
_HEAD = "---\nname: tidy\ndescription: Tidies folders.\n---\n"


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Give a function that writes a skill: the text below its front matter, and other files by name."""

    def write(body: str = "# Tidy\n", *, head: str = _HEAD, **files: str | bytes) -> Path:
        folder = tmp_path / "tidy"
        folder.mkdir(exist_ok=True)
        (folder / "SKILL.md").write_text(head + body, "utf-8")
        for name, content in files.items():
            path = folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return write


@pytest.fixture
def scan(make: Make) -> Scan:
    """Give a function that writes a skill and scans it."""

    def run(body: str = "# Tidy\n", **more: str | bytes) -> Report:
        return scan_skill(make(body, **more))

    return run
