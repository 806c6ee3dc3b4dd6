"""Packing and unpacking are each other's opposite, always the same, and agree with the tools everyone has."""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import ArchiveRefused, InvalidInput, NoSkillInside
from skillyard.packages import PackageLimits, choose_skills, extract, find_skills, pack, tree_digest

FORMATS = ("zip", "tar.gz", "skill")
_NAMES = st.text("ab.é日-_ ", min_size=1, max_size=6)


@pytest.fixture
def skill(skills_root: Path, make_skill) -> Path:
    folder: Path = make_skill(
        skills_root, "tidy", files={"scripts/run.sh": "echo hi\n", "references/é.md": "# x", "empty.txt": ""}
    )
    (folder / "scripts/run.sh").chmod(0o755)
    (folder / "assets").mkdir()
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_packed_comes_back_with_the_same_digest(skill: Path, tmp_path: Path, name: str) -> None:
    package = pack(skill, tmp_path / f"tidy.{name}")
    assert package.digest == tree_digest(skill)
    (found,) = find_skills(extract(package.path, tmp_path).tree)
    assert tree_digest(found.directory) == package.digest
    assert found.path == ("tidy" if name == "skill" else ".")
    assert os.access(found.directory / "scripts/run.sh", os.X_OK)
    assert (found.directory / "assets").is_dir()


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_tree_gives_the_same_bytes(skill: Path, tmp_path: Path, make_skill, name: str) -> None:
    other = tmp_path / "another-folder"
    for path in sorted(skill.rglob("*"), reverse=True):  # another order, other times
        target = other / path.relative_to(skill)
        (target if path.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
            target.chmod(0o700 if path.stat().st_mode & 0o111 else 0o600)
            os.utime(target, (1, 1))
    one, two = pack(skill, tmp_path / f"1.{name}"), pack(other, tmp_path / f"2.{name}")
    assert (one.digest, one.archive_sha256) == (two.digest, two.archive_sha256)
    assert one.path.read_bytes() == two.path.read_bytes()


def test_what_is_left_out_is_reported(skill: Path, tmp_path: Path) -> None:
    for name in (".git/config", "scripts/__pycache__/run.pyc", "node_modules/a/index.js"):
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).write_text("x")
    package = pack(skill, tmp_path / "a.zip")
    assert package.ignored == (".git", "node_modules", "scripts/__pycache__")
    assert not [name for name in package.entries if "git" in name or "node" in name]


def test_what_no_package_may_have_is_not_packed(skill: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.zip"
    for make, code in (
        (lambda path: path.symlink_to("/etc/passwd"), "link_not_allowed"),
        (os.mkfifo, "special_not_allowed"),
        (lambda path: path.write_bytes(b"x" * 1001), "archive_too_large"),
    ):
        make(skill / "bad")
        with pytest.raises(ArchiveRefused) as caught:
            pack(skill, target, limits=PackageLimits(file=1000))
        assert caught.value.code == code
        (skill / "bad").unlink()
    for name in ("aux.md", "skill.md", "e\u0301.md", "a:b"):
        (skill / name).write_text("x")
        with pytest.raises(ArchiveRefused):
            pack(skill, target)
        (skill / name).unlink()
    assert not target.exists()


def test_only_a_skill_is_packed_and_only_in_a_known_format(skill: Path, tmp_path: Path) -> None:
    with pytest.raises(NoSkillInside):
        pack(skill / "scripts", tmp_path / "a.zip")
    with pytest.raises(InvalidInput):
        pack(skill, tmp_path / "a.rar")


def test_the_tools_everyone_has_read_what_was_packed(skill: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pack(skill, tmp_path / "a.zip").path) as archive:
        assert archive.testzip() is None
        assert archive.read("scripts/run.sh") == b"echo hi\n"
    with tarfile.open(pack(skill, tmp_path / "a.tgz").path) as tar:
        assert stat.S_IMODE(tar.getmember("scripts/run.sh").mode) == 0o755


@given(
    st.dictionaries(st.lists(_NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=2000), max_size=6), st.booleans()
)
def test_an_archive_of_the_standard_library_is_refused_or_read_as_it_was_written(files: dict[str, bytes], as_zip: bool) -> None:
    buffer = io.BytesIO()
    if as_zip:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    with tempfile.TemporaryDirectory() as scratch:
        archive_file, staging = Path(scratch, "a"), Path(scratch, "s")
        archive_file.write_bytes(buffer.getvalue())
        staging.mkdir()
        try:
            extracted = extract(archive_file, staging)
        except ArchiveRefused:
            assert os.listdir(staging) == []
        else:
            assert {name: (extracted.tree / name).read_bytes() for name in extracted.files} == {
                posixpath.normpath(name): content for name, content in files.items()
            }


@given(st.data())
def test_a_damaged_archive_never_does_more_than_be_refused(data: st.DataObject) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SKILL.md", b"---\nname: a\n---\n" * 20)
        archive.writestr("scripts/run.py", b"print(1)\n")
    broken = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "a").write_bytes(broken)
        Path(scratch, "s").mkdir()
        try:
            extract(Path(scratch, "a"), Path(scratch, "s"))
        except ArchiveRefused:
            assert os.listdir(Path(scratch, "s")) == []


@pytest.mark.abuse("F16")
def test_skills_are_found_wherever_they_are(tmp_path: Path, make_skill) -> None:
    make_skill(tmp_path / "skills", "one")
    make_skill(tmp_path / "plugins/x/skills", "two")
    make_skill(tmp_path / "node_modules", "not-mine")
    make_skill(tmp_path / "skills/one/examples", "part-of-one")
    found = find_skills(tmp_path)
    assert [(skill.path, skill.name) for skill in found] == [("plugins/x/skills/two", "two"), ("skills/one", "one")]
    assert [skill.name for skill in choose_skills(found)] == ["two", "one"]
    assert [skill.name for skill in choose_skills(found, ["skills/one"])] == ["one"]
    with pytest.raises(NoSkillInside) as caught:
        choose_skills(found, ["three"])
    assert caught.value.details["candidates"] == ["one", "two"]


@pytest.mark.abuse("F16")
def test_a_skill_file_that_is_no_file_makes_no_skill(tmp_path: Path) -> None:
    (tmp_path / "a/SKILL.md").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b/SKILL.md")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/SKILL.md").symlink_to("/etc/passwd")
    with pytest.raises(NoSkillInside, match="no skill"):
        choose_skills(find_skills(tmp_path))
