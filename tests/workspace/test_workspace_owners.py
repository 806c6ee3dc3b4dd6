"""A user's folder has its owners again when a session of a service that is root has ended, however it has ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.sandbox import folder_owners, give_back_folders
from skillyard.sandbox.bubblewrap import BubblewrapBackend
from skillyard.sandbox.folder_owners import lend_folder
from skillyard.workspace import Workspace, WorkspaceOptions

if TYPE_CHECKING:
    from tests.workspace.conftest import MakeWorkspace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only a service that is root gives folders away")
_ALICE = 4321

Owners = dict[str, tuple[int, int, int]]


def _owners(folder: Path) -> Owners:
    paths = [folder, *sorted(folder.rglob("*"))]
    states = {str(path.relative_to(folder)): path.lstat() for path in paths}
    return {name: (state.st_uid, state.st_gid, state.st_mode) for name, state in states.items()}


def _project(folder: Path, owner: int) -> Owners:
    """A project of a user in which not everything is that user's, with a link to a file outside."""
    outside = folder.parent / "outside.txt"
    outside.write_text("not in it")
    (folder / "src").mkdir(parents=True)
    for name in ("a.txt", "theirs.txt", "of-root.txt", "src/run.sh", "tool"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to(outside)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    os.chown(folder / "theirs.txt", _ALICE + 1, 77)
    os.chown(folder / "of-root.txt", 0, 42)
    os.chown(folder / "tool", 0, 0)
    (folder / "tool").chmod(0o4755)
    (folder / "src" / "run.sh").chmod(0o750)
    (folder / "src").chmod(0o2775)
    return _owners(folder)


@pytest.fixture
def home(reachable: Path) -> Path:
    """Skillyard's own folder, beside the project."""
    made = reachable / "home"
    made.mkdir()
    return made


@pytest.mark.parametrize("owner", [0, _ALICE])
async def test_a_users_folder_has_its_owners_again_after_a_session(
    make_workspace: MakeWorkspace, reachable: Path, home: Path, owner: int
) -> None:
    before = _project(reachable / "files", owner)
    workspace = make_workspace(home=str(home))
    answer = await workspace.bash("cat a.txt && echo new > new.txt && mkdir -p n/m && mv of-root.txt moved.txt && ls tool")
    assert answer.ok, answer.text
    assert _owners(reachable / "files")["a.txt"][0] != 0
    await workspace.close()
    after = _owners(reachable / "files")
    before["moved.txt"] = before.pop("of-root.txt")
    assert {name: after[name] for name in before} == before
    assert {after[name][:2] for name in after.keys() - before.keys()} == {(owner, owner)}
    assert (reachable / "outside.txt").stat().st_uid == 0
    assert not list((home / "folder-owners").glob("*.json"))


def test_two_sessions_share_a_folder_and_the_last_gives_it_back(reachable: Path, home: Path) -> None:
    before = _project(reachable / "files", 0)
    first, loan = lend_folder(str(reachable / "files"), str(home))
    second, below = lend_folder(str(reachable / "files" / "src"), str(home))
    assert first == second
    loan.give_back()
    assert (reachable / "files" / "src" / "run.sh").stat().st_uid == first.uid
    below.give_back()
    below.give_back()
    assert _owners(reachable / "files") == before


def _by_a_command(folder: Path, home: Path) -> None:
    give_back_folders(home)


def _by_the_next_session(folder: Path, home: Path) -> None:
    (folder.parent / "other").mkdir()
    lend_folder(str(folder.parent / "other"), str(home))[1].give_back()


@pytest.mark.parametrize("recover", [_by_a_command, _by_the_next_session])
def test_what_a_killed_process_has_left_is_given_back(
    reachable: Path, home: Path, recover: Callable[[Path, Path], None]
) -> None:
    folder = reachable / "files"
    before = _project(folder, 0)
    program = (
        "import os, signal, sys; from skillyard.sandbox.folder_owners import lend_folder;"
        "lend_folder(sys.argv[1], sys.argv[2]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(folder), str(home)], check=False).returncode == -9
    assert _owners(folder) != before
    recover(folder, home)
    assert _owners(folder) == before


def test_nothing_is_given_where_it_cannot_be_recorded(reachable: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _project(reachable / "files", 0)
    (home / "folder-owners").write_text("in the way")
    with pytest.raises(SandboxUnavailable, match="cannot be recorded") as refused:
        lend_folder(str(reachable / "files"), str(home))
    assert "SKILLYARD_HOME" in refused.value.hint
    (home / "folder-owners").unlink()
    (home / "folder-owners").mkdir(mode=0o777)
    (home / "folder-owners").chmod(0o777)
    with pytest.raises(SandboxUnavailable, match="another user can write it"):
        lend_folder(str(reachable / "files"), str(home))
    (home / "folder-owners").rmdir()
    monkeypatch.setattr(folder_owners, "_MOST_ENTRIES", 3)
    with pytest.raises(InvalidInput, match="has over 3 files"):
        lend_folder(str(reachable / "files"), str(home))
    assert _owners(reachable / "files") == before


def test_a_file_with_a_name_outside_of_the_folder_stays_whose_it_is(reachable: Path, home: Path) -> None:
    folder, outside = reachable / "files", reachable / "store.txt"
    folder.mkdir()
    outside.write_text("of many projects")
    (folder / "shared.txt").hardlink_to(outside)
    (folder / "one.txt").write_text("twice in here")
    (folder / "two.txt").hardlink_to(folder / "one.txt")
    identity, loan = lend_folder(str(folder), str(home))
    assert [path.stat().st_uid for path in (outside, folder / "one.txt")] == [0, identity.uid]
    loan.give_back()
    assert {path.stat().st_uid for path in (outside, *folder.iterdir())} == {0}


def test_a_new_file_with_the_inode_of_an_old_one_is_the_owners(reachable: Path, home: Path) -> None:
    folder = reachable / "files"
    _project(folder, 0)
    identity, loan = lend_folder(str(folder), str(home))
    record = next((home / "folder-owners").glob("*.json"))
    (folder / "new.txt").write_text("new")
    os.chown(folder / "new.txt", identity.uid, identity.gid)
    theirs = json.loads(record.read_text("ascii"))
    theirs["others"]["theirs.txt"][0] = (folder / "new.txt").stat().st_ino
    record.write_text(json.dumps(theirs), "ascii")
    loan.give_back()
    assert (folder / "new.txt").stat().st_uid == 0


def test_owners_of_a_folder_that_is_away_are_kept_for_a_month(reachable: Path, home: Path) -> None:
    folder = reachable / "files"
    before = _project(folder, 0)
    lend_folder(str(folder), str(home))[1].give_back()
    loan = lend_folder(str(folder), str(home))[1]
    folder.rename(reachable / "away")
    loan.give_back()
    (reachable / "away").rename(folder)
    give_back_folders(home)
    assert _owners(folder) == before
    loan = lend_folder(str(folder), str(home))[1]
    folder.rename(reachable / "away")
    os.utime(next((home / "folder-owners").glob("*.json")), (0, 0))
    loan.give_back()
    assert not list((home / "folder-owners").glob("*.json"))


def test_another_folder_that_has_the_name_now_is_left_alone(reachable: Path, home: Path) -> None:
    folder = reachable / "files"
    _project(folder, 0)
    identity, loan = lend_folder(str(folder), str(home))
    folder.rename(reachable / "renamed")
    other = reachable / "elsewhere"
    other.mkdir()
    (other / "b.txt").write_text("b")
    os.chown(other / "b.txt", identity.uid, identity.gid)
    folder.symlink_to(other)
    loan.give_back()
    assert (other / "b.txt").stat().st_uid == identity.uid


async def test_a_session_takes_the_mounts_of_the_machine_as_they_are_when_it_starts(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bwrap gives up when a mount goes while it takes them over, and those that are shared go with the machine's."""
    seen, program, shared = reachable / "seen", reachable / "bwrap", reachable / "shared"
    program.write_text(f'#!/bin/sh\n[ -e {seen} ] || cat /proc/self/mountinfo > {seen}\nexec /usr/bin/bwrap "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(WorkspaceOptions, "backend_here", lambda _: BubblewrapBackend(str(program)))
    (reachable / "closed").mkdir(mode=0o700)
    shared.mkdir()
    subprocess.run(["mount", "--bind", shared, shared], check=True)
    try:
        subprocess.run(["mount", "--make-shared", shared], check=True)
        assert re.search(rf" {shared} .* shared:", Path("/proc/self/mountinfo").read_text())
        (reachable / "closed/files").mkdir()
        async with Workspace(reachable / "closed/files") as workspace:
            assert (await workspace.bash("echo here")).text == "here"
    finally:
        subprocess.run(["umount", shared], check=True)
    assert f" {shared} " in seen.read_text()
    assert not re.search(" (shared|master):", seen.read_text())
