"""docs/architecture.md says what is so: its picture has the layers of import-linter, and its table names what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_shows_the_layers_in_the_linter_s_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    drawn = re.findall(r"[┌├└]─ (.+?) ─+[┐┤┘]", (ROOT / "docs/architecture.md").read_text("utf-8"))
    assert [set(re.split(r" ─+ ", line)) for line in drawn] == layers


def test_where_to_look_names_modules_that_define_or_use_the_name_beside_them() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8").partition("## Where to look")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .+ \| `([\w/]+\.py)` \| `(\w+)` \|$", text, re.MULTILINE)
    assert len(rows) == 27
    for module, name in rows:
        assert re.search(rf"\b{name}\b", (ROOT / "src/skillyard" / module).read_text("utf-8")), (module, name)
