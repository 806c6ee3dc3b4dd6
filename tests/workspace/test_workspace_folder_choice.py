"""Which folders can be a workspace: a command that takes the current folder must not give a session more than a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard.errors import PathRefused
from skillyard.workspace import checked_folder


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user, with Skillyard's own folder in it."""
    made = tmp_path / "people" / "alice"
    (made / ".skillyard").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("/", "the system's"),
        ("/usr/share", "the system's"),
        ("/var/lib", "the system's"),
        ("/tmp", "directly below /"),
        ("~", "a home folder"),
        ("~/..", "records"),
        ("~/.skillyard", "records"),
        ("~/.ssh", "without anyone asking"),
        ("~/project/.git/hooks", "without anyone asking"),
        ("~/.config/systemd", "without anyone asking"),
        ("~/project/.vscode", "without anyone asking"),
        ("~/link", "a home folder"),
    ],
)
def test_a_folder_that_holds_more_than_a_project_is_refused(user: Path, folder: str, why: str) -> None:
    path = Path(folder.replace("~", str(user)))
    if folder == "~/link":
        path.symlink_to(user)
    path.mkdir(parents=True, exist_ok=True)
    with pytest.raises(PathRefused, match="cannot be a workspace") as refused:
        checked_folder(path, str(user / ".skillyard"))
    assert why in refused.value.message
    assert "--id NAME" in refused.value.hint


@pytest.mark.parametrize("folder", ["project", "project/.github", ".claude/skills/pdf", ".cursor/worktrees/a"])
def test_a_project_can_be_a_workspace(user: Path, folder: str) -> None:
    path = user / folder
    path.mkdir(parents=True)
    assert checked_folder(path, str(user / ".skillyard")) == str(path.resolve())
    assert checked_folder(user / ".skillyard" / ".." / folder, str(user / ".skillyard")) == str(path.resolve())


def test_a_folder_above_a_home_folder_is_refused(user: Path, tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="a home folder is in it"):
        checked_folder(user.parent, str(tmp_path / "elsewhere"))
