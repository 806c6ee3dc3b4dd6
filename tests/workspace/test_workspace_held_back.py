"""What programs outside of the sandbox act on unasked is not written by a session over a user's project."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.coding_agents import coding_agents
from skillyard.errors import InvalidConfiguration
from skillyard.workspace import options_from_settings
from skillyard.workspace.answers import WorkspaceAnswer
from skillyard.workspace.folder import WorkspaceFolder
from skillyard.workspace.held_back import HELD_BACK, HeldPlaces, PlaceMark, check_writable, held_part
from skillyard.workspace.held_guard import HeldGuard

if TYPE_CHECKING:
    from tests.workspace.conftest import MakeWorkspace

_ALONE = "export GIT_CONFIG_NOSYSTEM=1"  # Landlock does not show the system's
_AUTHOR = "git -c user.name=A -c user.email=a@example.com"


def _project(folder: Path) -> Path:
    """A repository of a user with an editor's settings."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env={"PATH": os.environ["PATH"]})
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "tasks.json").write_text("{}")
    (folder / "a.txt").write_text("a\n")
    return folder


async def test_a_session_commits_but_writes_nothing_that_git_or_an_editor_executes(
    make_workspace: MakeWorkspace, reachable: Path
) -> None:
    project = _project(reachable / "files")
    config = (project / ".git" / "config").read_text()
    workspace = make_workspace()
    safe = f"{_AUTHOR} -c safe.directory='*'"
    committed = await workspace.bash(f"{_ALONE}; {safe} add a.txt && {safe} commit -qm first && {safe} log --oneline | wc -l")
    assert (committed.text, committed.ok) == ("1", True)
    attempts = {
        "git -c safe.directory='*' config core.fsmonitor 'touch /tmp/x'": ".git/config",
        "printf '[core]\\nfsmonitor = evil\\n' > c; mv c .git/config; cp c .git/config; true": ".git/config",
        "mv .git/hooks .git/h; mkdir .git/hooks; echo evil > .git/hooks/pre-commit; true": ".git/hooks/pre-commit",
        "echo evil > .vscode/tasks.json; mv .vscode v; mkdir .vscode; cp a.txt .vscode/tasks.json; true": ".vscode/tasks.json",
    }
    for command, place in attempts.items():
        await workspace.bash(command)
        written = (project / place).read_text() if (project / place).exists() else ""
        assert "evil" not in written, command
        assert "fsmonitor" not in written, command
    await workspace.close()
    assert (project / ".git" / "config").read_text() == config
    assert (project / ".vscode" / "tasks.json").read_text() == "{}"
    assert not (project / ".git" / "hooks" / "pre-commit").exists()


async def test_what_appears_is_set_aside_and_the_answer_says_so(make_workspace: MakeWorkspace, reachable: Path) -> None:
    project = _project(reachable / "files")
    workspace = make_workspace()
    answer = await workspace.bash("mkdir -p sub/.Claude; echo evil > sub/.Claude/settings.json; echo evil > .envrc; echo done")
    assert (answer.ok, answer.code, answer.exit_code) == (False, "held_back", 0)
    assert answer.text.startswith("done\n[Held back: ")
    assert sorted(answer.data["held_back"]) == [".envrc", "sub/.Claude"]
    bare = await workspace.bash(f"{_ALONE}; git init -q --bare tools; git init -q deep/er; echo '../evil' > .git/commondir")
    assert sorted(bare.data["held_back"]) == [".git/commondir", "deep/er/.git", "tools/HEAD"]
    linked = await workspace.bash("mkdir evil; ln -s evil .idea; ln -s . again; echo x > again/.mcp.json")
    assert sorted(linked.data["held_back"]) == [".idea", ".mcp.json"]
    assert (project / "evil").is_dir()  # only what links led to before the session is held
    moved = await workspace.bash("mv .git old; git init -q . ; true")
    assert moved.code == "held_back"
    assert (await workspace.bash("echo fine > AGENTS.md; echo all: > Makefile")).ok
    await workspace.close()
    left = HeldPlaces(str(project), frozenset()).look()
    assert {".git", ".vscode"} <= left.keys()
    assert not {".envrc", "sub/.Claude", ".idea", ".mcp.json", "deep/er/.git", "tools/HEAD", ".git/commondir"} & left.keys()
    assert (project / "AGENTS.md").read_text() == "fine\n"
    assert (project / ".git" / "objects").is_dir()


async def test_file_tools_and_code_obey_the_same_table(make_workspace: MakeWorkspace, reachable: Path) -> None:
    _project(reachable / "files")
    workspace = make_workspace()
    for path in (".git/hooks/post-checkout", "x/../.vscode/tasks.json", ".CURSOR/mcp.json", "skillyard.toml"):
        refused = await workspace.file_write(path, "evil")
        assert (refused.ok, refused.code) == (False, "held_back"), path
    assert (await workspace.file_edit(".vscode/tasks.json", "{}", "evil")).code == "held_back"
    assert (await workspace.file_read(".vscode/tasks.json")).ok
    code = await workspace.code_run("python", "open('.envrc', 'w').write('evil')")
    assert (code.code, (reachable / "files" / ".envrc").exists()) == ("held_back", False)


async def test_a_background_process_is_watched(make_workspace: MakeWorkspace, reachable: Path) -> None:
    project = _project(reachable / "files")
    workspace = make_workspace()
    await workspace.bash("sleep 0.2; echo evil > .envrc; sleep 60", background=True)
    async with asyncio.timeout(20):
        while not list(project.glob(".skillyard/held-back/*/.envrc.held")):
            await asyncio.sleep(0.05)
    assert not (project / ".envrc").exists()


async def test_names_that_are_allowed_and_folders_of_our_own_are_written(
    make_workspace: MakeWorkspace, reachable: Path
) -> None:
    allowed = make_workspace("allowed", writable=options_from_settings({"writable": [".vscode"]}).writable)
    assert (await allowed.bash("mkdir .vscode; echo '{}' > .vscode/tasks.json")).ok
    assert (await allowed.file_write(".envrc", "x")).code == "held_back"
    own = make_workspace("own", held_back=False)
    assert (await own.bash(f"{_ALONE}; git init -q . && echo x > .envrc")).ok
    assert (await own.file_write(".vscode/tasks.json", "{}")).ok
    assert check_writable([".IDEA/"]) == {".idea"}
    for name, problem, hint in (
        (".bash", r"nothing of the name '\.bash' is held back", r"did you mean \.bashrc"),
        ("/etc", "'/etc' is a path", "the name alone"),
        ("src/.vscode", "'src/.vscode' is a path", r"did you mean \.vscode\?"),
    ):
        with pytest.raises(InvalidConfiguration, match=problem) as refused:
            options_from_settings({"writable": [name]})
        assert re.search(hint, refused.value.hint)


async def test_what_a_person_changes_meanwhile_is_theirs(make_workspace: MakeWorkspace, reachable: Path, backend: str) -> None:
    project = _project(reachable / "files")
    workspace = make_workspace()
    assert (await workspace.bash("true")).ok
    if backend == "container":  # no processes are seen there: whoever changes it, it is put back
        (project / ".envrc").write_text("mine")
        await workspace.close()
        assert not (project / ".envrc").exists()
        return

    async def idle() -> None:
        async with asyncio.timeout(20):
            while not workspace._idle_since_settled:  # nothing of the session is at work
                await asyncio.sleep(0.02)

    await idle()
    (project / ".envrc").write_text("mine")
    seen = await workspace.bash("cat .envrc; echo theirs > .envrc")
    if workspace.path == "/workspace" or seen.code == "held_back":
        assert "mine" in seen.text
    await idle()
    (project / ".mise.toml").write_text("mine")
    await workspace.close()
    assert (project / ".envrc").read_text() == "mine"
    assert (project / ".mise.toml").read_text() == "mine"


async def test_a_program_that_writes_at_once_what_was_put_back_gains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks, copy = tmp_path / "folder/.githooks", tmp_path / "copy"
    for one in (hooks, copy):
        one.mkdir(parents=True)
        (one / "pre-commit").write_text("mine")
    guard = HeldGuard(str(tmp_path / "folder"), frozenset())
    await guard.accept_current()
    guard.begin({".githooks": str(copy)}, mounted=False)
    put_exactly = WorkspaceFolder.put_exactly

    def put_and_write(folder: WorkspaceFolder, path: str, data: bytes, *, executable: bool) -> None:
        put_exactly(folder, path, data, executable=executable)
        (hooks / "post-commit").write_text("evil")

    (hooks / "pre-commit").write_text("evil")
    with monkeypatch.context() as racing:
        racing.setattr(WorkspaceFolder, "put_exactly", put_and_write)
        await guard.settle()
    assert (hooks / "post-commit").exists()
    await guard.settle()
    assert {path.name: path.read_text() for path in hooks.iterdir()} == {"pre-commit": "mine"}
    status = (hooks / "pre-commit").stat()
    monkeypatch.setattr(guard, "_differs", lambda *_: False)  # within one tick of the clock of files
    (hooks / "pre-commit").write_text("evil")
    assert status.st_size == (hooks / "pre-commit").stat().st_size
    await guard.finish()
    assert {path.name: path.read_text() for path in hooks.iterdir()} == {"pre-commit": "mine"}


async def test_what_is_changed_after_a_session_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    place, copy = tmp_path / "folder/.envrc", tmp_path / "copy"
    place.write_text("mine")
    copy.write_text("mine")
    guard = HeldGuard(str(tmp_path / "folder"), frozenset())
    await guard.accept_current()
    guard.begin({".envrc": str(copy)}, mounted=False)
    place.write_text("theirs")
    await guard.finish()
    reported = await guard.check(WorkspaceAnswer("bash", ""))
    assert (place.read_text(), reported.data["held_back"]) == ("mine", [".envrc"])
    copy.unlink()  # with the session
    place.write_text("mine, later")
    reported = await guard.check(WorkspaceAnswer("bash", ""))  # a call that was ended with the session
    assert (place.read_text(), reported.ok) == ("mine, later", True)


def test_where_coding_agents_look_is_held_back_in_a_project_and_in_a_home() -> None:
    home = Path("/home/anyone")
    free = []
    for agent in coding_agents({"HOME": str(home)}).values():
        files = dict(agent.mcp.files) if agent.mcp else {}
        of_user = [agent.user_skills, *([files["user"]] if "user" in files else [])]
        of_project = [agent.project_skills, *([files["project"]] if "project" in files else [])]
        places = [str(Path(path).relative_to(home)) for path in of_user] + of_project
        free += [path for path in places if held_part(path) is None]
    assert free == []


_PARTS = sorted({part for name in HELD_BACK for part in name.split("/")})


@given(st.lists(st.sampled_from([*_PARTS, "src", ".", "a.git", "hooks", "config", "objects", "modules"]), max_size=5))
def test_a_path_is_held_back_by_the_first_part_that_is(parts: list[str]) -> None:
    held = held_part("/".join(parts))
    kept = [part for part in parts if part != "."]
    if held is not None:
        named = held.split("/")
        assert kept[: len(named)] == named
        assert {named[-1], "/".join(named[-2:])} & HELD_BACK
    else:
        pairs = {"/".join(pair) for pair in pairwise(kept)}
        assert not ({*kept, *pairs} & HELD_BACK) - {".git"}


async def test_a_read_only_session_writes_nothing(make_workspace: MakeWorkspace, reachable: Path) -> None:
    (reachable / "files").mkdir()
    (reachable / "files" / "a.txt").write_text("a")
    workspace = make_workspace(held_back=False, read_only=True)
    assert not (await workspace.bash("echo x > new; rm -f a.txt; test -e new -o ! -e a.txt")).ok
    assert (await workspace.file_write("new", "x")).code == "path_refused"
    assert sorted(path.name for path in (reachable / "files").iterdir()) == ["a.txt"]


_HIDDEN = {
    "the folder itself": "mkdir -p objects refs/heads; echo 'ref: refs/heads/main' > HEAD; printf '[core]\\n' > config",
    "two halves": "mkdir -p x y/objects y/refs/heads; echo 'ref: refs/heads/a' > x/HEAD; echo ../y > x/commondir",
    "deep": f"mkdir -p {'d/' * 70}; git init -q {'d/' * 70}; ln -s {'d/' * 70} short",
    "unreadable": "mkdir unread; git init -q unread; chmod 311 unread",
    "a submodule with an odd name": "mkdir -p .git/modules/logs/hooks; echo x > .git/modules/logs/hooks/post-checkout",
}


@pytest.mark.parametrize("attack", _HIDDEN)
async def test_a_repository_is_not_hidden(make_workspace: MakeWorkspace, reachable: Path, attack: str) -> None:
    project = _project(reachable / "files") if "submodule" in attack else reachable / "files"
    workspace = make_workspace()
    answer = await workspace.bash(f"{_ALONE}; {_HIDDEN[attack]}; true")
    assert answer.code == "held_back", answer.text
    await workspace.close()
    left = [path for path in HeldPlaces(str(project), frozenset()).look() if not path.startswith((".vscode", ".git"))]
    assert left == []
    assert not list(project.glob(".git/modules/*/hooks/*"))


async def test_what_is_executed_elsewhere_in_the_folder_is_held_too(make_workspace: MakeWorkspace, reachable: Path) -> None:
    project = _project(reachable / "files")
    for folder in ("tools/hooks", "scripts"):
        (project / folder).mkdir(parents=True)
    (project / "scripts" / "pre-commit.sh").write_text("fine")
    (project / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/pre-commit.sh")
    subprocess.run(["git", "config", "core.hooksPath", "tools/hooks"], cwd=project, check=True)
    workspace = make_workspace()
    await workspace.bash("echo evil > scripts/pre-commit.sh; echo evil > tools/hooks/post-checkout; true")
    await workspace.close()
    assert (project / "scripts" / "pre-commit.sh").read_text() == "fine"
    assert not (project / "tools" / "hooks" / "post-checkout").exists()


async def test_a_change_is_seen_although_it_has_the_time_of_before(make_workspace: MakeWorkspace, reachable: Path) -> None:
    project = _project(reachable / "files")
    (project / ".envrc").write_text("export A=1")
    workspace = make_workspace()
    for path, text in ((".envrc", "export B=1"), (".vscode/tasks.json", "[]")):
        await workspace.bash(f"T=$(stat -c %y {path}); printf %s '{text}' > {path}; touch -d \"$T\" {path}; true")
    await workspace.close()
    assert (project / ".envrc").read_text() == "export A=1"
    assert (project / ".vscode" / "tasks.json").read_text() == "{}"


def _let_time_pass(folder: Path) -> None:
    """Wait for the next tick of the clock that changes are written down with, some milliseconds."""
    probe = folder / "probe"
    probe.write_text("")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.chmod(0o644)


def test_a_folder_that_was_changed_is_listed_again_and_no_other(tmp_path: Path) -> None:
    project = _project(tmp_path / "project")
    (project / "src" / "deep").mkdir(parents=True)
    (project / "b").mkdir()
    later = time.time_ns() + 10**10  # all that was written till now is settled
    now = [later]
    finder, listed = HeldPlaces(str(project), clock=lambda: now[0]), []
    finder.look()

    def look() -> dict[str, PlaceMark]:
        _let_time_pass(tmp_path)
        with pytest.MonkeyPatch.context() as watched:
            scan = os.scandir
            watched.setattr(os, "scandir", lambda path: listed.append(os.path.relpath(path, project)) or scan(path))
            return finder.look()

    look()
    assert set(listed) & {".", "src", "src/deep", "b"} == set()
    _let_time_pass(tmp_path)
    (project / "src" / "deep" / ".envrc").write_text("x")
    assert "src/deep/.envrc" in look()
    assert set(listed) & {".", "src", "src/deep", "b"} == {"src/deep"}
    (project / "src" / "deep").rename(project / "b" / "moved")
    os.utime(project / "b", ns=(0, 0))  # a time that a program can set tells nothing
    found = look()
    assert "b/moved/.envrc" in found
    assert "src/deep/.envrc" not in found
    assert found == HeldPlaces(str(project), frozenset()).look()
    (project / ".vscode" / "tasks.json").write_text("{ }")
    assert look()[".vscode"] != found[".vscode"]
    now[0] = 0  # what is changed in the same moment as it is listed may have the same time then
    for _ in range(2):
        (project / "b" / "new").mkdir()
        listed.clear()
        look()
        assert "b" in listed
        (project / "b" / "new").rmdir()
        look()
    listed.clear()
    look()
    assert "b" in listed
