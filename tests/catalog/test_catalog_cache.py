"""An unchanged tree opens no file, a changed one is seen, and a bad cache is as good as none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog, root_scan, summaries


@pytest.fixture
def old(skills_root: Path, make_skill: Any) -> Path:
    """Five skills that were written long before they are read."""
    for number in range(5):
        make_skill(skills_root, f"skill-{number}")
    age(skills_root)
    return skills_root


def age(root: Path) -> None:
    for path in root.rglob("SKILL.md"):
        os.utime(path, ns=(10**18, 10**18))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The SKILL.md files that were read."""
    names: list[str] = []
    read = summaries._summary

    def counted(descriptor: int, file: str, folder: str, profile: Any, size: int) -> Any:
        names.append(folder)
        return read(descriptor, file, folder, profile, size)

    monkeypatch.setattr(summaries, "_summary", counted)
    return names


def files(home: Path) -> list[Path]:
    return sorted((home / "skillyard/cache/catalog").iterdir())


def test_an_unchanged_tree_is_not_read_again(old: Path, opened: list[str]) -> None:
    first = SkillCatalog.discover(roots=[old])
    assert len(opened) == 5
    opened.clear()
    second = SkillCatalog.discover(roots=[old])
    assert opened == []
    assert second.to_json() == first.to_json()
    assert second.all() == first.all()
    assert [skill.description for skill in second] == [skill.description for skill in first]


def test_only_what_changed_is_read(old: Path, opened: list[str], make_skill: Any) -> None:
    SkillCatalog.discover(roots=[old])
    opened.clear()
    make_skill(old, "skill-2", description="Different.")
    make_skill(old, "skill-9")
    (old / "skill-3/SKILL.md").unlink()
    catalog = SkillCatalog.discover(roots=[old])
    assert sorted(opened) == ["skill-2", "skill-9"]
    assert catalog.get("skill-2").description == "Different."
    assert len(catalog) == 5


def test_a_file_of_the_same_size_and_time_but_another_inode_is_read(old: Path, opened: list[str]) -> None:
    SkillCatalog.discover(roots=[old])
    opened.clear()
    path = old / "skill-1/SKILL.md"
    new = old / "skill-1/new"
    new.write_text(path.read_text().replace("one thing", "two thing"))
    os.utime(new, ns=(10**18, 10**18))
    new.replace(path)
    assert "two thing" in SkillCatalog.discover(roots=[old]).get("skill-1").description
    assert opened == ["skill-1"]


def test_a_file_changed_in_the_same_instant_it_was_read_is_read_again(
    skills_root: Path, make_skill: Any, opened: list[str]
) -> None:
    folder = make_skill(skills_root, "fresh", description="aaa")
    SkillCatalog.discover(roots=[skills_root])
    status = (folder / "SKILL.md").stat()
    (folder / "SKILL.md").write_bytes((folder / "SKILL.md").read_bytes().replace(b"aaa", b"bbb"))
    os.utime(folder / "SKILL.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert SkillCatalog.discover(roots=[skills_root]).get("fresh").description == "bbb"


def test_the_cache_is_readable_by_its_owner_only_and_leaves_nothing_else(old: Path, home: Path) -> None:
    SkillCatalog.discover(roots=[old])
    (file,) = files(home)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert file.suffix == f".{sys.implementation.cache_tag}"


def test_each_root_and_profile_has_its_own_file(old: Path, home: Path, tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "b", "other")
    SkillCatalog.discover(roots=[old, tmp_path / "b"])
    SkillCatalog.discover(roots=[old], profile="spec")
    assert len(files(home)) == 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"SKYD" + b"\0" * 100),
        lambda file: file.write_bytes(file.read_bytes()[:-7]),
        lambda file: file.write_bytes(file.read_bytes()[:200] + b"\xff" + file.read_bytes()[201:]),
        lambda file: file.chmod(0o666),
        lambda file: (file.rename(file.with_name("moved")), file.symlink_to("moved")),
        lambda file: (file.unlink(), file.mkdir()),
    ],
)
def test_a_cache_that_cannot_be_trusted_is_ignored(spoil: Any, old: Path, home: Path, opened: list[str]) -> None:
    before = SkillCatalog.discover(roots=[old]).to_json()
    spoil(files(home)[0])
    opened.clear()
    assert SkillCatalog.discover(roots=[old]).to_json() == before
    assert len(opened) == 5


def test_a_cache_of_another_version_is_ignored(old: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    SkillCatalog.discover(roots=[old])
    monkeypatch.setattr(root_scan, "__version__", "99")
    opened.clear()
    SkillCatalog.discover(roots=[old])
    assert len(opened) == 5


def test_a_cache_that_cannot_be_written_is_done_without(old: Path, home: Path) -> None:
    (home / "skillyard").write_text("a file where the folder should be")
    data = home / "elsewhere"
    catalog = SkillCatalog.discover(roots=[old], environ={"HOME": str(home), "SKILLYARD_HOME": str(data / "\0".strip("\0"))})
    assert len(catalog) == 5
    blocked = home / "blocked"
    blocked.mkdir()
    (blocked / "cache").write_text("")
    assert len(SkillCatalog.discover(roots=[old], environ={"HOME": str(home), "SKILLYARD_HOME": str(blocked)})) == 5


def test_without_cache_nothing_is_written(old: Path, home: Path) -> None:
    SkillCatalog.discover(roots=[old], cache=False)
    assert not (home / "skillyard").exists()


@pytest.mark.row("000-6")
def test_legacy_metadata_that_appears_or_changes_is_seen(skills_root: Path, make_skill: Any) -> None:
    folder = make_skill(skills_root, "old", raw=b"# Body\n")
    age(skills_root)
    assert SkillCatalog.discover(roots=[skills_root]).get("old").status == "broken"
    for text in ("One.", "Two."):
        (folder / "METADATA.yml").write_text(f"name: old\ndescription: {text}\n")
        assert SkillCatalog.discover(roots=[skills_root]).get("old").description == text


def test_many_processes_may_write_at_once(old: Path, home: Path) -> None:
    script = f"from skillyard.catalog import SkillCatalog; print(len(SkillCatalog.discover(roots=[{str(old)!r}])))"
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate()[0].strip() for process in running] == [b"5"] * 4
    assert len(files(home)) == 1
    assert root_scan.load_snapshot(str(home / "skillyard/cache/catalog"), str(old), "standard") is not None


def test_a_refresh_reports_what_is_added_changed_and_removed(old: Path, make_skill: Any) -> None:
    catalog = SkillCatalog.discover(roots=[old])
    assert not catalog.refresh().any
    make_skill(old, "skill-0", description="Different.")
    make_skill(old, "skill-7")
    (old / "skill-4/SKILL.md").unlink()
    changes = catalog.refresh()
    assert changes == (("config:skill-7",), ("config:skill-0",), ("config:skill-4",), None)
    assert changes.any
    assert catalog.get("skill-0").description == "Different."


@pytest.mark.row("001-21")
def test_a_refresh_that_fails_keeps_the_last_good_list(tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / ".claude/skills", "kept")
    (tmp_path / ".git").mkdir()
    catalog = SkillCatalog.discover(cwd=tmp_path)
    (tmp_path / "skillyard.toml").write_text("[skills")
    changes = catalog.refresh()
    assert "is not TOML" in (changes.problem or "")
    assert not changes.any
    assert catalog.get("kept").status == "ok"


def test_a_root_that_cannot_be_read_any_more_keeps_its_skills(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = SkillCatalog.discover(roots=[old])
    walk = root_scan.walk
    monkeypatch.setattr(
        root_scan, "walk", lambda *a, **k: walk(*a, **k)._replace(stamps=[], status="unreadable", reason="disk on fire")
    )
    assert not catalog.refresh().any
    assert len(catalog) == 5
    assert catalog.roots[0].status == "unreadable"
    assert catalog.roots[0].to_dict()["reason"] == "disk on fire"


def test_a_refresh_keeps_the_unchanged_skills_and_reads_the_others_alone(
    old: Path, opened: list[str], make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SkillCatalog.discover(roots=[old]).with_statuses({"config:skill-1": ("denied", "not for you")})
    before = catalog.all()
    monkeypatch.setattr(root_scan, "load_snapshot", None)  # what this process has read itself is not read from the disk
    catalog.refresh()
    assert list(map(id, catalog.all())) == list(map(id, before))
    assert catalog.all() is not before  # who keeps something of them looks again
    make_skill(old, "skill-3", description="Different.")
    make_skill(old, "skill-1-b")
    opened.clear()
    catalog.refresh()
    after = catalog.all()
    assert sorted(opened) == ["skill-1-b", "skill-3"]
    assert [skill.slug for skill in after if skill not in before] == ["skill-1-b", "skill-3"]
    assert all(any(skill is other for other in after) for skill in before if skill.slug != "skill-3")
    assert [skill.status for skill in after] == ["ok", "denied", "ok", "ok", "ok", "ok"]


def test_a_refresh_reads_a_file_again_that_was_written_when_it_was_read(skills_root: Path, make_skill: Any) -> None:
    file = make_skill(skills_root, "new", description="One way.") / "SKILL.md"
    catalog = SkillCatalog.discover(roots=[skills_root])
    written = file.stat().st_mtime_ns
    file.write_text(file.read_text().replace("One", "Two"))
    os.utime(file, ns=(written, written))
    catalog.refresh()
    assert catalog.get("new").description == "Two way."


def test_a_few_changes_of_many_are_left_for_others_to_write(
    old: Path, opened: list[str], make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_scan, "_FEW_OF", 2)
    saved: list[str] = []
    real = root_scan.save_snapshot

    def save(folder: str, root: str, snapshot: root_scan.Snapshot) -> None:
        saved.append(root)
        real(folder, root, snapshot)

    monkeypatch.setattr(root_scan, "save_snapshot", save)
    catalog = SkillCatalog.discover(roots=[old])
    for number, writes in ((0, 1), (1, 1), (2, 2), (3, 2)):
        make_skill(old, f"skill-{number}", description=f"Version {number}.")
        age(old)
        assert catalog.refresh().changed == (f"config:skill-{number}",)
        assert len(saved) == writes
    opened.clear()
    assert SkillCatalog.discover(roots=[old]).get("skill-3").description == "Version 3."
    assert opened == ["skill-3"]
