from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import FileMissing, FileTooLarge, PathRefused
from skillyard.paths import is_inside, open_inside, read_inside, relative_to, safe_relative, slug


@pytest.mark.row("D-2")
def test_a_neighbour_with_the_same_prefix_is_not_inside(tmp_path: Path) -> None:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf-evil").mkdir()
    assert is_inside(tmp_path / "pdf" / "x", tmp_path / "pdf")
    assert not is_inside(tmp_path / "pdf-evil", tmp_path / "pdf")


@pytest.mark.row("D-27")
def test_a_link_out_is_not_inside_and_a_folder_named_with_dots_is(tmp_path: Path) -> None:
    (tmp_path / "project" / "..x").mkdir(parents=True)
    (tmp_path / "project" / "out").symlink_to(tmp_path)
    assert is_inside(tmp_path / "project" / "..x", tmp_path / "project")
    assert not is_inside(tmp_path / "project" / "out" / "y", tmp_path / "project")


@pytest.mark.parametrize(
    "path", ["", " ", "/etc/passwd", "../x", "a/../../x", "~/.ssh/id", "a\0b", "a\\..\\b", "a\nb", "..", ".", "./", "a/.."]
)
def test_paths_that_leave_or_confuse_are_refused(path: str) -> None:
    with pytest.raises(PathRefused):
        safe_relative(path)


@given(st.text())
def test_a_safe_path_never_climbs(text: str) -> None:
    try:
        path = safe_relative(text)
    except PathRefused:
        return
    assert not path.startswith("/")
    assert not {"..", ".", ""} & set(path.split("/"))
    assert safe_relative(path) == path


def test_a_file_is_read_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "a.py").write_text("print(1)")
    assert read_inside(tmp_path, "./scripts//a.py", limit=100) == b"print(1)"


def test_a_link_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "skill").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("hunter2")
    (tmp_path / "skill" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "skill" / "file").symlink_to(tmp_path / "secret" / "key")
    for path in ("folder/key", "file"):
        with pytest.raises(PathRefused) as caught:
            read_inside(tmp_path / "skill", path, limit=100)
        assert "hunter2" not in str(caught.value)


def test_a_fifo_or_folder_is_refused_and_never_blocks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in ("pipe", "folder"):
        with pytest.raises(PathRefused):
            open_inside(tmp_path, path)


def test_a_missing_and_a_large_file_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(FileMissing):
        read_inside(tmp_path, "none", limit=10)
    with pytest.raises(FileTooLarge):
        read_inside(tmp_path, "large", limit=10)
    assert len(read_inside(tmp_path, "large", limit=11)) == 11


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("a/none", "none/x", "a"):
        with pytest.raises((FileMissing, PathRefused)):
            open_inside(tmp_path, path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.row("003-3", "D-3", "D-4")
@pytest.mark.parametrize(
    ("name", "folder", "expected"),
    [
        ("pdf", "", "pdf"),
        ("PDF Miner", "", "pdf-miner"),
        ("Cafés & Co", "", "cafes-co"),
        ("天气查询", "weather", "weather"),
        ("../../etc", "x", "etc"),
        ("a/b", "", "a-b"),
    ],
)
def test_a_slug_is_safe_as_a_folder_name(name: str, folder: str, expected: str) -> None:
    assert slug(name, folder) == expected


@pytest.mark.row("D-4")
def test_names_without_latin_letters_get_different_slugs() -> None:
    first, second = slug("天气", "天气"), slug("偏好", "偏好")
    assert first.startswith("skill-")
    assert first != second


@given(st.text(), st.text())
def test_every_slug_can_be_a_folder(name: str, folder: str) -> None:
    result = slug(name, folder)
    assert result
    assert set(result) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert result == result.strip("-")


@pytest.mark.parametrize(
    ("path", "folder", "shown"),
    [
        ("/srv/skills/pdf", "/srv", "skills/pdf"),
        ("/srv", "/srv/", "."),
        ("/srv-evil/pdf", "/srv", "/srv-evil/pdf"),
        ("/elsewhere", "/srv", "/elsewhere"),
    ],
)
def test_a_path_is_shown_relative_to_the_folder_it_is_below(path: str, folder: str, shown: str) -> None:
    assert relative_to(path, folder) == shown
