"""The digest of a skill changes when anything in its folder does, and only then."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.packages import digest as digest_module
from skillyard.packages.digest import tree_digest, tree_entries, tree_size


@pytest.fixture
def folder(skills_root: Path, make_skill: Any) -> Path:
    """One skill with a script, a hidden file and a link."""
    made: Path = make_skill(skills_root, "one", files={"scripts/run.sh": "true\n", ".hidden": "h", "ab": "c"})
    (made / "link").symlink_to("ab")
    return made


def test_a_copy_has_the_same_digest(folder: Path, tmp_path: Path) -> None:
    digest = tree_digest(str(folder))
    assert digest.startswith("sha256:")
    assert len(digest) == len("sha256:") + 64
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, symlinks=True)
    os.utime(copy / "ab")
    assert tree_digest(str(copy)) == digest


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda folder: (folder / "ab").write_text("d"),
    "a hidden file": lambda folder: (folder / ".hidden").write_text("H"),
    "the executable bit": lambda folder: (folder / "scripts/run.sh").chmod(0o755),
    "a new file": lambda folder: (folder / "new").write_text(""),
    "a new empty folder": lambda folder: (folder / "new").mkdir(),
    "a name": lambda folder: (folder / "ab").rename(folder / "ac"),
    "bytes moved between name and content": lambda folder: ((folder / "ab").unlink(), (folder / "a").write_text("bc")),
    "a removed file": lambda folder: (folder / "ab").unlink(),
    "the target of a link": lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to(".hidden")),
    "a link become a file": lambda folder: ((folder / "link").unlink(), (folder / "link").write_text("ab")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_gives_another_digest(change: str, folder: Path) -> None:
    before = tree_digest(str(folder))
    CHANGES[change](folder)
    assert tree_digest(str(folder)) != before


@given(
    trees=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "ab", "c/a", "c/b"]), st.binary(max_size=3), max_size=4),
        min_size=2,
        max_size=2,
    )
)
def test_two_trees_have_one_digest_only_when_they_are_the_same(
    trees: list[dict[str, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    digests = []
    for tree in trees:
        root = tmp_path_factory.mktemp("tree")
        for name, data in tree.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(data)
        digests.append(tree_digest(str(root)))
    assert (digests[0] == digests[1]) == (trees[0] == trees[1])


def test_folders_nested_deeper_than_a_call_stack_have_a_digest(tmp_path: Path) -> None:
    folders = [os.open(tmp_path, os.O_RDONLY)]
    try:
        for _ in range(500):
            os.mkdir("a", dir_fd=folders[-1])
            folders.append(os.open("a", os.O_RDONLY, dir_fd=folders[-1]))
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(400)
        try:
            assert tree_digest(str(tmp_path)).startswith("sha256:")
        finally:
            sys.setrecursionlimit(limit)
    finally:
        os.close(folders.pop())
        for folder in reversed(folders):  # pytest cannot delete what is so deep
            os.rmdir("a", dir_fd=folder)
            os.close(folder)


def test_the_path_that_a_digest_leaves_out_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    content = digest_module._content
    monkeypatch.setattr(digest_module, "_content", lambda path, kind: (read.append(path), content(path, kind))[1])
    with_all = tree_digest(folder)
    assert tree_digest(folder, without="ab") != with_all
    assert [path.rpartition("/")[2] for path in read].count("ab") == 1


def test_a_folder_that_cannot_be_listed_is_an_error_or_has_no_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if "scripts" in path:
            raise PermissionError(path)
        return scandir(path)

    monkeypatch.setattr(digest_module.os, "scandir", refusing)
    with pytest.raises(PermissionError):
        list(tree_entries(folder))
    assert {entry.path for entry in tree_entries(folder, lenient=True)} == {"SKILL.md", ".hidden", "ab", "link", "scripts"}
    assert tree_size(folder / "ab", lenient=True) == 0
