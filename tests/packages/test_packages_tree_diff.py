"""What is different between two folders, reported within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.packages import compare_trees


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Two empty folders."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    return before, after


def test_the_right_to_execute_is_content(both: tuple[Path, Path]) -> None:
    for folder in both:
        (folder / "a.sh").write_text("x\n")
    (both[1] / "a.sh").chmod(0o755)
    (only,) = compare_trees(*both).files
    assert (only.change, only.lines, only.unshown) == ("changed", "", "only the right to execute it is another")


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\0", "it is not text"), (b"\xff", "it is not text"), (b"x" * 300_000, "it is over 256 kB"), (b"a\n" * 6000, "lines")],
)
def test_what_cannot_be_shown_says_why(both: tuple[Path, Path], data: bytes, reason: str) -> None:
    (both[1] / "a").write_bytes(data)
    (only,) = compare_trees(*both).files
    assert only.lines == ""
    assert reason in (only.unshown or "")


def test_many_changes_are_bounded(both: tuple[Path, Path]) -> None:
    for number in range(40):
        (both[1] / f"{number}.txt").write_text("some line of text\n" * 2000)
    reported = compare_trees(*both)
    assert len(reported.files) == 40
    assert sum(len(file.lines) for file in reported.files) <= 512 * 1024
    assert reported.files[-1].unshown == "there are more lines; read the files themselves"


def test_a_large_change_is_compared_in_a_helper_and_the_same(both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, ending in zip(both, ("old", "new"), strict=True):
        for number in range(5):
            (folder / f"{number}.txt").write_text(f"a line\n{ending}\n" * 2_000)
    there = compare_trees(*both)
    monkeypatch.setattr("skillyard.packages.tree_diff._INLINE_LIMIT", 1 << 30)
    assert compare_trees(*both) == there
    assert sum(len(file.lines) for file in there.files) > 100_000


@pytest.mark.abuse("F30")
def test_a_comparison_that_takes_too_long_says_so_of_each_file(
    both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, ending in zip(both, ("old", "new"), strict=True):
        (folder / "a.txt").write_text(ending * 30_000)
        (folder / "same.txt").write_text("x")
    monkeypatch.setattr("skillyard.packages.tree_diff._SECONDS", 0.0)
    reported = compare_trees(*both)
    assert reported.unchanged == 1
    assert [(file.path, file.change, file.lines) for file in reported.files] == [("a.txt", "changed", "")]
    assert "took too long" in (reported.files[0].unshown or "")


_FILES = st.dictionaries(st.sampled_from("abcdef"), st.binary(max_size=6))


@given(old=_FILES, new=_FILES)
def test_every_file_is_the_same_or_reported(
    tmp_path_factory: pytest.TempPathFactory, old: dict[str, bytes], new: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("trees")
    for name, files in (("old", old), ("new", new)):
        (root / name).mkdir()
        for path, data in files.items():
            (root / name / path).write_bytes(data)
    reported = compare_trees(root / "old", root / "new")
    assert reported.unchanged == sum(new.get(path) == data for path, data in old.items())
    assert {file.path for file in reported.files} == {
        path for path in old.keys() | new.keys() if old.get(path) != new.get(path)
    }
