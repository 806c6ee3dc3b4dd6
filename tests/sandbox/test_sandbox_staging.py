"""The private copy of a skill: what is in it, what is not, and that it is what was approved."""

from __future__ import annotations

import importlib.util
import marshal
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import FileMissing, FileTooLarge, PathRefused, PermissionDenied
from skillyard.sandbox import GrantedEnvironment, Job, Policy, SandboxBackend, staging
from skillyard.sandbox.process_launch import can_reach, pick_identity
from skillyard.sandbox.processes import OrphanSweeper


@pytest.fixture
def tree(skill_tree: Path) -> Path:
    (skill_tree / "scripts").mkdir()
    (skill_tree / "scripts/main.py").write_text("print('hello')\n", encoding="ascii")
    (skill_tree / "scripts/tool.sh").write_text("true\n", encoding="ascii")
    (skill_tree / "scripts/tool.sh").chmod(0o4755)
    (skill_tree / "data.txt").write_text("data", encoding="ascii")
    return skill_tree


def copy(tree: Path, entry: str = "scripts/main.py", *, whole: bool = True, complete: bool = False) -> staging.StagedCopy:
    return staging.stage_skill(str(tree), entry, whole=whole, complete=complete, identity=pick_identity())


def test_a_copy_has_the_same_bytes_and_harmless_modes(tree: Path) -> None:
    made = copy(tree)
    try:
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(made.tree).rglob("*")}
        assert modes == {"scripts": 0o755, "main.py": 0o644, "tool.sh": 0o755, "data.txt": 0o644}
        assert Path(made.tree, "data.txt").read_text(encoding="ascii") == "data"
    finally:
        made.remove()
    assert not Path(made.base).exists()


def test_without_a_file_system_only_the_entry_is_copied(tree: Path) -> None:
    made = copy(tree, whole=False)
    try:
        assert [path.name for path in Path(made.tree).rglob("*") if path.is_file()] == ["main.py"]
    finally:
        made.remove()


def test_git_folders_and_caches_stay_outside_unless_the_whole_is_to_be_compared(tree: Path) -> None:
    for name in (".git", "scripts/__pycache__"):
        (tree / name).mkdir()
        (tree / name / "x").write_text("x", encoding="ascii")
    for complete in (False, True):
        made = copy(tree, complete=complete)
        try:
            assert Path(made.tree, ".git/x").exists() is complete
            assert Path(made.tree, "scripts/__pycache__/x").exists() is complete
        finally:
            made.remove()


@pytest.mark.parametrize(
    ("name", "value"), [("MAXIMUM_ENTRIES", 2), ("MAXIMUM_BYTES", 10), ("MAXIMUM_FILE_BYTES", 10), ("MAXIMUM_DEPTH", 1)]
)
def test_a_skill_over_the_caps_is_refused_and_leaves_nothing(
    tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: int
) -> None:
    monkeypatch.setattr(staging, name, value)
    monkeypatch.setattr(staging, "_parent", lambda _: str(tmp_path))
    with pytest.raises((FileTooLarge, PathRefused)):
        copy(tree)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_or_entry_is_said(tree: Path) -> None:
    with pytest.raises(FileMissing, match="nothing"):
        copy(tree, "nothing.py")
    with pytest.raises(FileMissing, match="no skill folder"):
        copy(tree / "absent")
    with pytest.raises(PathRefused):
        copy(tree, "scripts")


async def test_what_is_verified_is_what_runs(backend: SandboxBackend, tree: Path) -> None:
    seen: list[str] = []

    def verify(path: str) -> None:
        seen.append(Path(path, "scripts/main.py").read_text(encoding="ascii"))
        (tree / "scripts/main.py").write_text("print('changed after the check')\n", encoding="ascii")

    result = await backend.run(Job(str(tree), "scripts/main.py", verify=verify))
    assert (seen, result.stdout) == (["print('hello')\n"], b"hello\n")


@pytest.mark.parametrize("verify", [None, lambda tree: None])
async def test_compiled_python_is_never_loaded_by_a_run(backend: SandboxBackend, tree: Path, verify: Any) -> None:
    """Python loads the first without its source, and the second in place of a source that it does not look at."""
    unchecked = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    (tree / "scripts/__pycache__").mkdir()
    (tree / "scripts/helper.py").write_text("WORD = 'source'\n", encoding="ascii")
    tag = sys.implementation.cache_tag
    for name in ("scripts/bare.pyc", f"scripts/__pycache__/helper.{tag}.pyc"):
        (tree / name).write_bytes(unchecked + marshal.dumps(compile("WORD = 'compiled'", "helper.py", "exec")))
    program = "import helper\ntry:\n    import bare\nexcept ImportError:\n    print(helper.WORD)\nelse:\n    print(bare.WORD)\n"
    (tree / "scripts/main.py").write_text(program, encoding="ascii")
    result = await backend.run(Job(str(tree), "scripts/main.py", verify=verify))
    assert (result.stdout, result.stderr) == (b"source\n", b"")


async def test_a_check_that_fails_stops_the_run(backend: SandboxBackend, tree: Path) -> None:
    def verify(path: str) -> None:
        raise PermissionDenied("changed")

    with pytest.raises(PermissionDenied):
        await backend.run(Job(str(tree), "scripts/main.py", verify=verify))


@pytest.mark.abuse("A6")
async def test_a_folder_swapped_for_a_link_in_a_loop_never_shows_what_is_outside(tree: Path) -> None:
    outside = tree.parent / f"{tree.name}-outside"
    outside.mkdir()
    (outside / "main.py").write_text("print('outside')\n", encoding="ascii")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(tree / "scripts", tree / "aside")
            os.symlink(outside, tree / "scripts")
            os.unlink(tree / "scripts")
            os.rename(tree / "aside", tree / "scripts")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(200):
            try:
                made = copy(tree)
            except (PathRefused, FileMissing):
                continue
            try:
                assert Path(made.tree, "scripts/main.py").read_text(encoding="ascii") == "print('hello')\n"
            finally:
                made.remove()
    finally:
        stop.set()
        thread.join()
        (outside / "main.py").unlink()
        outside.rmdir()


def test_a_root_service_gives_each_run_a_user_that_owns_nothing() -> None:
    first, second = pick_identity(), pick_identity()
    if os.geteuid() != 0:
        assert first is second is None
    else:
        assert first is not None
        assert second is not None
        assert first.uid not in (0, 65_534)
        assert first.uid != second.uid


def test_what_other_users_can_reach_is_decided_on_every_folder_of_the_way(skill_tree: Path) -> None:
    inner = skill_tree / "a/b"
    inner.mkdir(parents=True)
    for folder, mode in ((skill_tree, 0o755), (skill_tree / "a", 0o700), (inner, 0o755)):
        folder.chmod(mode)
    assert not can_reach(str(inner), as_other=True)
    assert can_reach(str(inner), as_other=False)
    (skill_tree / "a").chmod(0o711)
    assert can_reach(str(inner), as_other=True)


async def test_a_skill_in_a_private_home_can_run(backend: SandboxBackend, tree: Path) -> None:
    tree.chmod(0o700)
    (tree / "scripts").chmod(0o700)
    (tree / "scripts/main.py").chmod(0o600)
    result = await backend.run(Job(str(tree), "scripts/main.py", policy=Policy()))
    assert (result.status, result.stdout) == ("ok", b"hello\n"), result.stderr


def test_what_a_killed_process_left_is_removed_and_what_others_use_is_not(tmp_path: Path) -> None:
    mine, foreign = (tmp_path / f"skillyard-run-{name}" for name in (f"{os.getpid()}-abc", "notes"))
    for folder in (mine, foreign, *(tmp_path / f"skillyard-{what}-999999999-abc" for what in ("run", "probe", "metrics"))):
        (folder / "skill").mkdir(parents=True)
    staging.SWEEPER.sweep(str(tmp_path), staging._delete_own)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, foreign.name])


def test_a_process_that_lives_long_clears_up_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((1000.0, 1030.0, 1061.0, 1062.0))
    monkeypatch.setattr("skillyard.sandbox.processes.time.monotonic", lambda: next(clock))
    sweeper = OrphanSweeper("made-")
    found: list[str] = []
    (tmp_path / "made-999999999-a").mkdir()
    for times in (1, 1, 2):
        sweeper.sweep(str(tmp_path), found.append)
        assert found == times * [str(tmp_path / "made-999999999-a")]
    sweeper.sweep(str(tmp_path / "absent"), found.append)


async def test_the_environment_is_chosen_by_looking_at_the_copy_that_was_verified(tree: Path, backend: SandboxBackend) -> None:
    seen: list[tuple[str, str]] = []

    def choose(copy: str) -> GrantedEnvironment:
        seen.append(("choose", Path(copy, "scripts/main.py").read_text("utf-8")))
        return GrantedEnvironment()

    def verify(copy: str) -> None:
        seen.append(("verify", copy))
        (tree / "scripts/main.py").write_text("print('changed')", encoding="ascii")  # too late

    result = await backend.run(Job(str(tree), "scripts/main.py", policy=Policy(), verify=verify, environment=choose))
    assert result.stdout == b"hello\n"
    assert [name for name, _ in seen] == ["verify", "choose"]
    assert "changed" not in seen[1][1]
