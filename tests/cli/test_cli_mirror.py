"""`skillyard mirror`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillyard.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that makes the next commands work in another home."""

    def go(name: str) -> None:
        monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / name))

    monkeypatch.chdir(tmp_path)
    return go


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    """A skill to carry."""
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up. Use when asked to.\n---\nDo it.\n")
    return folder


def test_skills_are_carried_from_home_to_home(home: Any, skill: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home("one")
    assert main(["install", str(skill)]) == 0
    assert main(["mirror", "export", "stick", "--check"]) == 1
    assert main(["mirror", "export", "stick"]) == 0
    assert main(["mirror", "export", "stick", "--check"]) == 0
    assert main(["mirror", "sync", "stick", "copy"]) == 0
    home("two")
    assert main(["mirror", "import", "copy", "--check"]) == 1
    capsys.readouterr()
    assert main(["mirror", "import", "copy"]) == 0
    assert capsys.readouterr().out.startswith("installed tidy")
    assert main(["mirror", "import", "copy"]) == 0
    assert "everything of the mirror is here" in capsys.readouterr().out
    assert main(["mirror", "list", "copy"]) == 0
    assert "tidy" in capsys.readouterr().out
    assert main(["--json", "mirror", "import", "copy", "--check"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True


def test_an_action_has_a_help_and_takes_the_common_options(home: Any, capsys: pytest.CaptureFixture[str]) -> None:
    home("one")
    for action in ("export", "import", "sync", "list"):
        assert main(["mirror", action, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"usage: skillyard mirror {action}" in shown
        assert "--skill NAME" in shown
    assert main(["mirror", "list", "nowhere", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "invalid_source"
    assert main(["--json", "mirror", "list", "nowhere"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "invalid_source"


def test_what_is_no_mirror_is_reported_with_a_way_out(home: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home("one")
    assert main(["mirror", "import", "nowhere"]) == 1
    reported = capsys.readouterr().err
    assert "is not a mirror" in reported
    assert "skillyard mirror export" in reported
    assert main(["mirror", "sync", "nowhere", "https://example.com/x"]) == 1
    assert "nothing can be written" in capsys.readouterr().err
