"""`skillyard.lock` gives everybody on a project the same content, and says when somebody has other."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import ConsentRequired, DigestMismatch, InvalidConfiguration
from skillyard.packages import Source
from skillyard.registry import LockEntry, ProjectLock, Registry

LOCKED = {"source": {"kind": "folder", "address": "a"}, "digest": "sha256:" + "0" * 64}


@pytest.fixture
def lock(tmp_path: Path) -> ProjectLock:
    """The lock of an empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return ProjectLock(folder)


def test_the_file_is_sorted_has_no_times_and_says_source_and_digest(registry: Registry, lock: ProjectLock, write: Any) -> None:
    results = [registry.install(str(write(name))).results[0] for name in ("zeta", "alpha")]
    lock.record(tuple(results), registry)
    data = json.loads(lock.path.read_text("utf-8"))
    assert list(data["skills"]) == ["alpha", "zeta"]
    files = data["skills"]["zeta"].pop("files")
    assert files == {"SKILL.md": "f" + hashlib.sha256((write("zeta") / "SKILL.md").read_bytes()).hexdigest()}
    assert data["skills"]["zeta"] == {
        "digest": results[0].digest,
        "source": {"kind": "folder", "address": os.path.relpath(write("zeta"), lock.folder)},
    }
    before = lock.path.read_bytes()
    lock.record(tuple(results), registry)
    assert lock.path.read_bytes() == before
    assert [path.name for path in lock.folder.iterdir()] == ["skillyard.lock"]


def test_a_source_inside_the_project_is_written_relative_to_it(registry: Registry, lock: ProjectLock, write: Any) -> None:
    inside = write().rename(lock.folder / "tidy")
    lock.record(registry.install(str(inside)).results, registry)
    assert json.loads(lock.path.read_text("utf-8"))["skills"]["tidy"]["source"]["address"] == "tidy"
    assert lock.entries()[0].source == Source("folder", str(inside))


def test_a_git_source_is_pinned_to_its_commit(lock: ProjectLock) -> None:
    lock.write({"a": LockEntry("a", Source("git", "https://example.com/a.git", "a", "c" * 40), "sha256:" + "0" * 64)})
    assert lock.entries()[0].source.ref == "c" * 40


def test_sync_installs_what_is_missing_or_different_and_then_nothing(
    registry: Registry, lock: ProjectLock, write: Any, tmp_path: Path
) -> None:
    folder = write()
    lock.record(registry.install(str(folder)).results, registry)
    assert [state.state for state in lock.states(registry)] == ["ok"]
    other = Registry(str(tmp_path / "another"))
    assert [state.state for state in lock.states(other)] == ["missing"]
    assert [result.status for result in lock.sync(other)] == ["installed"]
    assert lock.sync(other) == ()
    assert [state.state for state in lock.states(other)] == ["ok"]
    different = write("elsewhere", header="").rename(tmp_path / "different")
    text = (different / "SKILL.md").read_text("utf-8").replace("name: elsewhere", "name: tidy")
    (different / "SKILL.md").write_text(text + "other\n", "utf-8")
    other.install(str(different), accept_source=True)
    assert [state.state for state in lock.states(other)] == ["changed"]
    assert [result.status for result in lock.sync(other, accept_source=True)] == ["updated"]
    other.close()


def test_a_source_that_no_longer_has_the_locked_content_is_refused(
    registry: Registry, lock: ProjectLock, write: Any, tmp_path: Path
) -> None:
    lock.record(registry.install(str(write())).results, registry)
    write(body="something else")
    other = Registry(str(tmp_path / "another"))
    with pytest.raises(DigestMismatch):
        lock.sync(other)
    assert other.installed.skills() == ()
    other.close()


def test_more_power_needs_consent_also_when_it_is_locked(
    registry: Registry, lock: ProjectLock, write: Any, tmp_path: Path
) -> None:
    other = Registry(str(tmp_path / "another"))
    other.install(str(write()))
    write(files={"scripts/new.py": "print(1)\n"})
    lock.record(registry.install(str(write())).results, registry)
    with pytest.raises(ConsentRequired):
        lock.sync(other)
    assert lock.sync(other, consent=lambda changes: True)[0].status == "updated"
    other.close()


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"lock_version": 99, "skills": {}}', '{"lock_version": 1, "skills": []}',
        '{"lock_version": 1, "skills": {"../../x": {"source": {"kind": "folder", "address": "a"}, "digest": "sha256:x"}}}',
        '{"lock_version": 1, "skills": {"x": {"source": {"kind": "ext", "address": "a"}, "digest": "sha256:x"}}}',
        '{"lock_version": 1, "skills": {"x": {"source": {"kind": "folder", "address": "a"}, "digest": 5}}}',
        "[" * 10_000, '<<<<<<< ours\n{"lock_version": 1, "skills": {}}\n',
        json.dumps({"lock_version": 1, "skills": {"x": LOCKED | {"digest": "sha256:" + "0" * 63}}}),
        json.dumps({"lock_version": 1, "skills": {"x": LOCKED | {"files": {"SKILL.md": "f" + "1" * 64}}}}),
        json.dumps({"lock_version": 1, "skills": {"x": LOCKED | {"files": {"SKILL.md": "f1"}}}}),
        json.dumps({"lock_version": 1, "skills": {"x": LOCKED | {"files": ["SKILL.md"]}}}),
    ],
)  # fmt: skip
def test_a_lock_that_cannot_be_understood_is_refused_and_kept(text: str, lock: ProjectLock) -> None:
    lock.path.write_text(text, "utf-8")
    with pytest.raises(InvalidConfiguration):
        lock.entries()
    with pytest.raises(InvalidConfiguration):
        lock.write({})
    assert lock.path.read_text("utf-8") == text


def test_many_who_write_one_lock_lose_nothing(lock: ProjectLock) -> None:
    def add(number: int) -> None:
        lock.write({f"s{number}": LockEntry(f"s{number}", Source("folder", f"/x/{number}"), "sha256:" + "0" * 64)})

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(lock.entries()) == 12
    lock.write({}, dropped=("s1", "s2"))
    assert len(lock.entries()) == 10


def test_verify_names_the_files_that_are_not_as_locked(registry: Registry, lock: ProjectLock, write: Any) -> None:
    lock.record(registry.install(str(write(files={"a.md": "a", "b.md": "b"}))).results, registry)
    registry.install(str(write("loose")))
    assert [(one.entry.skill_id, one.state) for one in lock.verify(registry)] == [("tidy", "ok"), ("loose", "ok")]
    _, tree = registry.current_folder("tidy")
    tree.joinpath("a.md").write_text("other")
    tree.joinpath("b.md").unlink()
    tree.joinpath("c.md").write_text("new")
    registry.current_folder("loose")[1].joinpath("SKILL.md").write_text("other")
    tidy, loose = lock.verify(registry)
    assert (tidy.changed_files, tidy.missing_files, tidy.extra_files) == (("a.md",), ("b.md",), ("c.md",))
    assert loose.state == "changed"
    assert tidy.to_dict()["missing_files"] == ["b.md"]
    assert "files" not in tidy.to_dict()
