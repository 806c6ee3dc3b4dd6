"""Snapshots: one folder at two machines by way of a store, of each kind; what is moved, what wins, what is never lost."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import ConversationBusy, FileTooLarge
from skillyard.packages import LocalStore, Store, digest_of, open_store
from skillyard.workspace import FolderSnapshots, SnapshotLimits
from skillyard.workspace.snapshot import join_entries
from skillyard.workspace.snapshot_tree import SnapshotEntry


class OneRecord:
    """A record in memory, which all machines share; `gone` is for one who may not save any more."""

    def __init__(self) -> None:
        self.manifest: bytes | None = None
        self.gone = False

    def current(self) -> str | None:
        return None if self.manifest is None else digest_of(self.manifest)

    def read(self) -> bytes | None:
        return self.manifest

    def replace(self, expected: str | None, manifest: bytes) -> bool:
        if self.gone:
            raise ConversationBusy("somebody else works here")
        if self.current() != expected:
            return False
        self.manifest = manifest
        return True


class Machine:
    """A folder at one machine, and its snapshots."""

    def __init__(self, folder: Path, store: Store, record: OneRecord, limits: SnapshotLimits | None) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.snapshots = FolderSnapshots(folder, store, record, limits)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text, "utf-8")

    def content(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.folder)): path.read_text("utf-8")
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }


MakeMachine = Callable[..., Machine]


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    return open_store(str(tmp_path / "store") if request.param == "local" else f"{request.getfixturevalue('bucket')}/files")


@pytest.fixture
def record() -> OneRecord:
    return OneRecord()


@pytest.fixture
def machine(tmp_path: Path, store: Store, record: OneRecord) -> MakeMachine:
    return lambda name, limits=None: Machine(tmp_path / name / "files", store, record, limits)


def test_files_modes_links_and_empty_folders_are_the_same_at_the_other_machine(machine: MakeMachine) -> None:
    one, two = machine("one"), machine("two")
    (one.folder / "a/b").mkdir(parents=True)
    (one.folder / "empty/deep").mkdir(parents=True)
    (one.folder / "a/b/run.sh").write_text("echo 1", "utf-8")
    (one.folder / "a/b/run.sh").chmod(0o750)
    os.utime(one.folder / "a/b/run.sh", ns=(1_000_000_000, 1_700_000_000_000_000_000))
    (one.folder / "empty.txt").touch()
    (one.folder / "link").symlink_to("/etc/shadow")
    strange = os.fsencode(one.folder) + b"/line\nbreak \xff\\ end"
    Path(os.fsdecode(strange)).write_bytes(b"strange")
    os.mkfifo(one.folder / "pipe")
    assert one.snapshots.save().saved == 3
    two.snapshots.restore()
    file = two.folder / "a/b/run.sh"
    assert (file.read_text("utf-8"), stat.S_IMODE(file.stat().st_mode)) == ("echo 1", 0o750)
    assert file.stat().st_mtime_ns == 1_700_000_000_000_000_000
    assert (two.folder / "empty/deep").is_dir()
    assert (two.folder / "link").readlink() == Path("/etc/shadow")
    assert Path(os.fsdecode(os.fsencode(two.folder) + b"/line\nbreak \xff\\ end")).read_bytes() == b"strange"
    assert sorted(os.listdir(two.folder)) == sorted(set(os.listdir(one.folder)) - {"pipe"})
    assert sorted(os.listdir(two.folder.parent)) == ["files", "files.lock", "files.snapshot"]


def test_only_what_was_changed_is_moved_and_what_was_deleted_is_gone(machine: MakeMachine, store: Store) -> None:
    one, two = machine("one"), machine("two")
    one.write(large="x" * 100_000, small="1", old="2")
    one.snapshots.save()
    assert one.snapshots.save().bytes == 0
    two.snapshots.restore()
    two.write(small="3")
    (two.folder / "old").unlink()
    assert two.snapshots.save().bytes == 1
    report = one.snapshots.restore()
    assert (report.brought, report.removed, report.bytes) == (("small",), ("old",), 1)
    assert one.content() == {"large": "x" * 100_000, "small": "3"}
    assert one.snapshots.restore().brought == ()


def test_a_file_larger_than_a_blob_comes_in_pieces_and_the_same_content_once(machine: MakeMachine, store: Store) -> None:
    one, two = machine("one"), machine("two")
    data = os.urandom(20_000_000)
    (one.folder / "large").write_bytes(data)
    (one.folder / "again").write_bytes(data)
    assert one.snapshots.save().bytes == len(data)
    assert len(list(store.list())) == 3
    two.snapshots.restore()
    assert ((two.folder / "large").read_bytes(), (two.folder / "again").read_bytes()) == (data, data)


def test_what_nobody_needs_any_more_leaves_the_store(machine: MakeMachine, store: Store) -> None:
    one, two = machine("one"), machine("two")
    for number in range(6):
        one.write(turning=str(number) * 1000, staying="s")
        one.snapshots.save()
    assert len(list(store.list())) <= 4
    two.snapshots.restore()
    assert two.content() == one.content()
    one.snapshots.remove()
    assert list(store.list()) == []


def test_two_who_save_at_once_are_joined_path_by_path(machine: MakeMachine) -> None:
    one, two = machine("one"), machine("two")
    one.write(a="1", b="1", c="1")
    one.snapshots.save()
    two.snapshots.restore()
    one.write(a="one", b="one", d="one")
    two.write(b="two", c="two", e="two")
    one.snapshots.save()
    two.snapshots.save()
    assert two.content() == {"a": "one", "b": "two", "c": "two", "d": "one", "e": "two"}
    one.snapshots.restore()
    assert one.content() == two.content()


def test_what_was_saved_elsewhere_wins_over_what_a_killed_machine_did_not_save(machine: MakeMachine) -> None:
    one, two = machine("one"), machine("two")
    one.write(a="1")
    one.snapshots.save()
    one.write(a="never saved", lost="never saved")
    two.snapshots.restore()
    two.write(a="2")
    two.snapshots.save()
    one.snapshots.restore()
    assert one.content() == {"a": "2", "lost": "never saved"}


def test_one_who_was_overtaken_saves_nothing(machine: MakeMachine, record: OneRecord) -> None:
    one, two = machine("one"), machine("two")
    one.write(a="1")
    one.snapshots.save()
    before = record.manifest
    record.gone = True
    one.write(a="2")
    with pytest.raises(ConversationBusy):
        one.snapshots.save()
    assert record.manifest == before
    two.snapshots.restore()
    assert two.content() == {"a": "1"}


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder(machine: MakeMachine) -> None:
    one, two = machine("one"), machine("two")
    one.write(a="1")
    (one.folder / "b").mkdir()
    (one.folder / "b/c").write_text("1", "utf-8")
    one.snapshots.save()
    two.snapshots.restore()
    (one.folder / "a").unlink()
    (one.folder / "a").mkdir()
    (one.folder / "a/d").write_text("2", "utf-8")
    shutil.rmtree(one.folder / "b")
    one.write(b="2")
    one.snapshots.save()
    two.write(e="3")
    two.snapshots.restore()
    assert two.content() == {"a/d": "2", "b": "2", "e": "3"}


@pytest.mark.abuse("I4")
def test_no_link_in_the_folder_leads_a_restored_file_out_of_it(machine: MakeMachine, tmp_path: Path) -> None:
    one, two = machine("one"), machine("two")
    (one.folder / "out").mkdir()
    (one.folder / "out/file").write_text("inside", "utf-8")
    one.snapshots.save()
    outside = tmp_path / "outside"
    outside.mkdir()
    (two.folder / "out").symlink_to(outside)
    two.snapshots.restore()
    assert list(outside.iterdir()) == []
    assert two.content() == {"out/file": "inside"}


def test_a_folder_over_the_limits_is_refused_and_what_was_saved_stays(machine: MakeMachine) -> None:
    one, two = machine("one", SnapshotLimits(entries=3, total=1000)), machine("two")
    one.write(a="1")
    one.snapshots.save()
    one.write(b="x" * 1000)
    with pytest.raises(FileTooLarge, match="too much in the workspace"):
        one.snapshots.save()
    one.write(b="", c="", d="")
    with pytest.raises(FileTooLarge):
        one.snapshots.save()
    two.snapshots.restore()
    assert two.content() == {"a": "1"}
    two.write(e="2")
    two.snapshots.save()
    one.snapshots.restore()
    assert one.content() == {"a": "1", "b": "", "c": "", "d": "", "e": "2"}, "what it cannot save takes nothing from it"


def test_a_content_that_the_store_has_lost_is_reported_and_the_rest_comes(machine: MakeMachine, store: Store) -> None:
    one, two = machine("one"), machine("two")
    one.write(a="lost")
    one.snapshots.save()
    (blob,) = store.list()
    one.write(b="here")
    one.snapshots.save()
    store.delete(blob)
    assert two.snapshots.restore().missing == ("a",)
    assert two.content() == {"b": "here"}
    two.write(c="on")
    two.snapshots.save()
    one.snapshots.restore()
    assert one.content() == {"b": "here", "c": "on"}


def test_records_that_know_nothing_of_it_delete_nothing(machine: MakeMachine, record: OneRecord, store: Store) -> None:
    one, two = machine("one"), machine("two")
    one.write(a="1")
    one.snapshots.save()
    record.manifest = None
    one.snapshots.restore()
    one.snapshots.save()
    assert one.content() == {"a": "1"}
    two.snapshots.restore()
    assert two.content() == {"a": "1"}


_PATHS = st.sampled_from(["a", "a/b", "a/b/c", "d", "e/f", "e/g"])


def _tree(paths: dict[str, str]) -> dict[str, SnapshotEntry]:
    """Entries of these paths; where one is a folder of another, only the deeper one."""
    return {
        path: SnapshotEntry("f", 0o644, 1, content)
        for path, content in paths.items()
        if not any(other.startswith(f"{path}/") for other in paths)
    }


_TREES = st.dictionaries(_PATHS, st.sampled_from("123")).map(_tree)


@given(base=_TREES, ours=_TREES, theirs=_TREES, ours_first=st.booleans())
def test_joining_loses_no_change_that_nobody_else_made_and_makes_a_possible_tree(
    base: dict[str, SnapshotEntry],
    ours: dict[str, SnapshotEntry],
    theirs: dict[str, SnapshotEntry],
    ours_first: bool,  # as drawn
) -> None:
    joined = join_entries(base, ours, theirs, ours_first=ours_first)
    assert not any(other.startswith(f"{path}/") for path in joined for other in joined)
    assert join_entries(base, ours, base, ours_first=ours_first) == ours
    assert join_entries(base, base, theirs, ours_first=ours_first) == theirs
    first = ours if ours_first else theirs
    for path, entry in first.items():
        if entry != base.get(path):
            assert joined[path] == entry


@given(
    turns=st.lists(
        st.tuples(st.booleans(), st.dictionaries(_PATHS, st.one_of(st.none(), st.binary(max_size=20)), max_size=4)), max_size=6
    )
)
def test_a_folder_that_wanders_between_two_machines_is_as_if_there_were_one(
    turns: list[tuple[bool, dict[str, bytes | None]]],
) -> None:
    with tempfile.TemporaryDirectory() as base:
        record, kept = OneRecord(), LocalStore(f"{base}/store")
        machines = [Machine(Path(base, name, "files"), kept, record, None) for name in ("one", "two")]
        alone = Path(base, "alone")
        alone.mkdir()
        for second, changes in turns:
            here = machines[second]
            here.snapshots.restore()
            for folder in (here.folder, alone):
                _change(folder, changes)
            here.snapshots.save()
        machines[0].snapshots.restore()
        assert _files(machines[0].folder) == _files(alone)


def _change(folder: Path, changes: dict[str, bytes | None]) -> None:
    for name, data in changes.items():
        path = folder / name
        if data is None:
            if path.is_file():
                path.unlink()
            continue
        for above in reversed(path.relative_to(folder).parents[:-1]):
            if (folder / above).is_file():
                (folder / above).unlink()
            (folder / above).mkdir(exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(data)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
