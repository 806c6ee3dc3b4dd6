"""Every recipe of docs/agents.md, run as a reader would, against a model server that checks what it gets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Say, Seen

ROOT = Path(__file__).resolve().parents[2]
_RECIPE = re.compile(r"^```python recipe ([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPES = [(match[1], match[2]) for match in _RECIPE.finditer((ROOT / "docs/agents.md").read_text("utf-8"))]


def _count_words(seen: Seen) -> Say | Call:
    """A model that loads the skill, runs it, and says what came out."""
    if not seen.results:
        return Call("skill", {"skill": "text-statistics"})
    if len(seen.results) == 1:
        return Call("run_skill", {"name": "text-statistics", "input": {"text": "One fish. Two fish."}})
    return Say(f"There are {re.search(r'words[^0-9]+([0-9]+)', seen.last)[1]} words.")  # type: ignore[index]


@pytest.mark.row("004-14", "004-15")
@pytest.mark.parametrize(("name", "code"), RECIPES, ids=[f"{at}-{name}" for at, (name, _) in enumerate(RECIPES)])
def test_a_recipe_loads_a_skill_runs_it_and_answers(
    name: str, code: str, models: Any, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    models.answer_with(_count_words)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert models.faults == []
    if name != "mcp":
        models.seen[0].check_open("run_skill", {"name": "text-statistics", "input": {"text": "One fish.", "more": [1]}})
    if name == "chat":
        assert "Load skill: text-statistics" in done.stdout
        assert "There are 4 words." in done.stdout
        return
    if name == "mcp":
        assert "run_skill" in done.stdout
        assert '"words": 4' in done.stdout
        return
    assert "There are 4 words." in done.stdout
    assert any("text-statistics" in seen.system for seen in models.seen)
    assert {"skill", "run_skill", "read_skill_file"} <= set(models.seen[0].tools)
