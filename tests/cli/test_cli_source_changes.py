"""Another source or signer at the terminal: asked there, refused where nobody is, accepted by its own option alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def namesakes(tmp_path: Path, make_skill: Call, call: Call) -> tuple[Path, Path]:
    """The installed skill `tidy`, and a stranger's of the same name."""
    mine, theirs = make_skill(tmp_path / "mine", "tidy"), make_skill(tmp_path / "theirs", "tidy", body="Other.\n")
    assert call("install", mine).code == 0
    return mine, theirs


@pytest.mark.abuse("F23")
def test_yes_is_no_answer_to_another_source(call: Call, namesakes: tuple[Path, Path]) -> None:
    for option in ("--yes", "--force", "--accept-signer"):
        refused = call("install", namesakes[1], option, "--json")
        assert (refused.code, refused.data["error"]["code"]) == (1, "source_changed")
        assert "--accept-source" in refused.data["error"]["hint"]
    accepted = call("install", namesakes[1], "--accept-source")
    assert accepted.code == 0
    assert f"it comes from {namesakes[1]}, and no longer from {namesakes[0]}" in accepted.err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1)])
def test_a_person_is_asked(answer: str, code: int, on_terminal: Call, namesakes: tuple[Path, Path]) -> None:
    ended, shown = on_terminal("install", namesakes[1], answer=answer)
    assert ended == code
    assert "Replace what is installed?" in shown
    assert "theirs/tidy" in shown.replace("\r\n", "")


@pytest.mark.abuse("F23")
def test_a_lock_is_held_to_the_same(
    call: Call, namesakes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SKILLYARD_HOME", str(home / "another"))
        assert call("install", namesakes[1], "--save").code == 0
    for command in (("sync", "--yes", "--force"), ("install", "--yes", "--force")):
        assert call(*command, "--json").data["error"]["code"] == "source_changed"
    assert call("sync", "--accept-source").code == 0


def test_a_rollback_is_held_to_the_same(call: Call, namesakes: tuple[Path, Path]) -> None:
    assert call("install", namesakes[1], "--accept-source").code == 0
    assert call("rollback", "tidy", "--json").data["error"]["code"] == "source_changed"
    assert call("rollback", "tidy", "--accept-source").code == 0
