"""The picture in docs/architecture.md is the list that import-linter holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_shows_the_floors_in_the_linter_s_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    floors = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    drawn = re.findall(r"[┌├└]─ (.+?) ─+[┐┤┘]", (ROOT / "docs/architecture.md").read_text("utf-8"))
    assert [set(re.split(r" ─+ ", line)) for line in drawn] == floors
