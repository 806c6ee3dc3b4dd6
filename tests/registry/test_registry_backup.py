"""A backup holds everything at one moment, is never believed when it is not whole, and comes back into either database."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import signal
import tarfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from skillyard.database import ALL_TABLES, Database
from skillyard.errors import DigestMismatch, InstallProblem, InvalidInput, MalformedArchive, SkillyardError
from skillyard.packages import Source, tree_digest
from skillyard.registry import Registry
from skillyard.registry.backup import restore_backup, write_backup
from skillyard.registry.backup_archive import BackupHome, check_backup

KINDS = ("sqlite", "postgresql")
TRANSIENT = {"workers", "worker_pools", "queued_runs"}


@pytest.fixture
def place(tmp_path: Path, database_address: str) -> BackupHome:
    """A home with records of either kind."""
    return BackupHome("default", tmp_path / "home", database_address)


@pytest.fixture
def install(tmp_path: Path, make_skill: Any) -> Callable[..., None]:
    """Give a function that installs a version of a skill in a home."""

    def do(place: BackupHome, name: str, body: str = "Do it.") -> None:
        folder = make_skill(tmp_path / "sources", name, body=body, files={"deep/notes.md": body, "run.sh": "echo\n"})
        with contextlib.closing(registry(place)) as opened:
            opened.install(Source("folder", str(folder)))

    return do


def registry(place: BackupHome) -> Registry:
    return Registry.open(str(place.home), place.database_url)


def rows(place: BackupHome) -> dict[str, list[dict[str, Any]]]:
    """Everything in the records."""
    with contextlib.closing(place.database()) as database, database.read() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for table in ALL_TABLES.sorted_tables
            if table.name not in TRANSIENT
        }


def trees(place: BackupHome) -> dict[str, str]:
    """The digest of each version, and what serves."""
    versions = place.versions
    found = {
        f"{skill}@{version}": tree_digest(versions.path(skill, version))
        for skill in versions.skills()
        for version in versions.names(skill)
    }
    return found | {skill: versions.current(skill) or "" for skill in versions.skills()}


def without_places(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The records without where the files are on this machine."""
    for row in found["skill_versions"]:
        row.pop("package_path")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back_into_either_kind_of_database(
    place: BackupHome, install: Callable[..., None], tmp_path: Path, address_of: Callable[[str], str], kind: str
) -> None:
    install(place, "pdf")
    install(place, "pdf", "Do it better.")
    install(place, "weather")
    (place.home / "keys").mkdir()
    (place.home / "keys/mine.pem").write_text("a key")
    (place.home / "keys/mine.pem").chmod(0o600)
    (place.home / "settings.json").write_text("{}")
    (place.home / "environments.json").write_text('{"skills": {}}')
    lock = tmp_path / "skillyard.lock"
    lock.write_text("the lock")
    before = without_places(rows(place)), trees(place)
    report = write_backup([place], tmp_path / "backup", beside=[lock])
    assert (report.skills, report.versions, report.gone) == (2, 3, ())
    assert report.records == sum(len(found) for found in before[0].values())
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    url = address_of(kind) if kind == "postgresql" else f"sqlite:///{tmp_path}/other/skillyard.db"
    other = BackupHome("default", tmp_path / "other", url)
    (tmp_path / "project").mkdir()
    done = restore_backup(tmp_path / "backup", lambda name: other, project=tmp_path / "project")
    assert (done.versions, done.records) == (3, report.records)
    assert (without_places(rows(other)), trees(other)) == before
    assert all(row["package_path"].startswith(str(other.home)) for row in rows(other)["skill_versions"])
    assert (other.home / "keys/mine.pem").read_text() == "a key"
    assert (other.home / "keys/mine.pem").stat().st_mode & 0o777 == 0o600
    assert (other.home / "environments.json").read_text() == '{"skills": {}}'
    assert (tmp_path / "project/skillyard.lock").read_text() == "the lock"
    (tmp_path / "project/skillyard.lock").write_text("another lock")
    restore_backup(tmp_path / "backup", lambda name: other, project=tmp_path / "project", force=True)
    assert (tmp_path / "project/skillyard.lock").read_text() == "the lock"
    install(other, "pdf", "Do it best.")
    with contextlib.closing(registry(other)) as opened:
        opened.rollback("pdf")
        assert opened.installed.skill("pdf").current_version != opened.installed.versions("pdf")[0].version


def test_a_backup_that_is_made_while_skills_are_installed_fits_together(
    place: BackupHome, install: Callable[..., None], tmp_path: Path, address_of: Callable[[str], str]
) -> None:
    install(place, "pdf")
    stop = threading.Event()

    def go_on() -> None:
        number = 0
        while not stop.is_set() and number < 60:
            number += 1
            install(place, "pdf", f"Version {number}.")
            install(place, f"skill-{number}")

    working = threading.Thread(target=go_on)
    working.start()
    try:
        for number in range(4):
            write_backup([place], tmp_path / f"backup-{number}")
    finally:
        stop.set()
        working.join()
    for number in range(4):
        other = BackupHome("default", tmp_path / f"other-{number}", f"sqlite:///{tmp_path}/other-{number}/skillyard.db")
        restore_backup(tmp_path / f"backup-{number}", lambda name, other=other: other)  # type: ignore[misc]
        with contextlib.closing(registry(other)) as opened:
            for skill in opened.installed.skills():
                assert other.versions.current(skill.skill_id) == skill.current_version
                assert skill.current_version is not None
                digest = next(
                    one.digest for one in opened.installed.versions(skill.skill_id) if one.version == skill.current_version
                )
                assert tree_digest(other.versions.path(skill.skill_id, skill.current_version)) == digest


def test_what_is_there_is_only_replaced_when_it_is_said(
    place: BackupHome, install: Callable[..., None], tmp_path: Path
) -> None:
    install(place, "pdf")
    write_backup([place], tmp_path / "backup")
    with pytest.raises(InvalidInput):
        write_backup([place], tmp_path / "backup")
    saved = without_places(rows(place)), trees(place)
    install(place, "weather")
    install(place, "pdf", "Another one.")
    now = without_places(rows(place)), trees(place)
    with pytest.raises(InstallProblem):
        restore_backup(tmp_path / "backup", lambda name: place)
    assert (without_places(rows(place)), trees(place)) == now
    restore_backup(tmp_path / "backup", lambda name: place, force=True)
    assert (without_places(rows(place)), trees(place)) == saved
    assert not (place.home / ".restore").exists()


@pytest.fixture
def backup(tmp_path: Path, install: Callable[..., None]) -> Path:
    """A backup of one skill."""
    place = BackupHome("default", tmp_path / "small", f"sqlite:///{tmp_path}/small/skillyard.db")
    install(place, "pdf")
    write_backup([place], tmp_path / "backup")
    return tmp_path / "backup"


def packed(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for member, data in entries:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def unpacked(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(path) as tar:
        return [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr] # they are files


def test_a_backup_replaces_nothing_but_a_file(place: BackupHome, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="is not a file"):
        write_backup([place], tmp_path / "pipe", force=True)
    assert (tmp_path / "pipe").is_fifo()


def test_a_backup_that_was_cut_off_anywhere_is_refused(backup: Path, tmp_path: Path) -> None:
    data = backup.read_bytes()
    target = BackupHome("default", tmp_path / "target", f"sqlite:///{tmp_path}/target/skillyard.db")
    for length in sorted({0, 1, 10, *random.Random(1).sample(range(len(data) - 200), 20)}):
        backup.write_bytes(data[:length])
        with pytest.raises((MalformedArchive, DigestMismatch)):
            restore_backup(backup, lambda name: target)
    assert not target.home.exists()


def test_a_backup_in_which_a_byte_is_another_is_refused(backup: Path) -> None:
    plain = bytearray(gzip.decompress(backup.read_bytes()))
    places = random.Random(2).sample(range(len(plain)), 40)
    caught = 0
    for place in places:
        plain[place] ^= 0x55
        backup.write_bytes(gzip.compress(bytes(plain), 1))
        try:
            check_backup(backup)
        except SkillyardError:
            caught += 1
        plain[place] ^= 0x55
    headers = 512 * 2  # what nobody reads: padding, and fields of the tar's own heads
    assert caught >= len(places) * (len(plain) - headers * len(unpacked_names(bytes(plain)))) // len(plain) // 2


def unpacked_names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.getnames()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "default/../../evil", "default/files/../../evil"])
def test_no_name_in_a_backup_leads_out(backup: Path, tmp_path: Path, name: str) -> None:
    backup.write_bytes(packed([(tarfile.TarInfo(name), b"x"), *unpacked(backup)]))
    with pytest.raises((MalformedArchive, DigestMismatch)):
        check_backup(backup)
    assert not list(tmp_path.rglob("evil"))


def test_links_in_the_tar_itself_are_refused(backup: Path) -> None:
    link = tarfile.TarInfo("default/skills")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    backup.write_bytes(packed([(link, b""), *unpacked(backup)]))
    with pytest.raises(MalformedArchive):
        check_backup(backup)


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", gzip.compress(b"nonsense"), packed([])], ids=["nothing", "words", "compressed words", "no files"]
)
def test_rubbish_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rubbish").write_bytes(data)
    with pytest.raises(MalformedArchive):
        check_backup(tmp_path / "rubbish")


def kill_after(seconds: float, processes: Any, do: str, place: BackupHome, file: Path) -> None:
    """Let another process back up or restore, and kill it; it may have ended before."""
    (child,) = processes.start([{"do": do, "data": str(place.home), "url": place.database_url, "file": str(file)}])
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    processes.wait()


@pytest.mark.parametrize("instants", [(0.06, 0.12), pytest.param([0.03 * n for n in range(12)], marks=pytest.mark.long)])
def test_a_killed_backup_leaves_the_one_before(
    place: BackupHome, install: Callable[..., None], tmp_path: Path, processes: Any, instants: Sequence[float]
) -> None:
    for number in range(6):
        install(place, f"skill-{number}")
    target = tmp_path / "backup"
    write_backup([place], target)
    for seconds in instants:
        kill_after(seconds, processes, "backup", place, target)
        check_backup(target)


@pytest.mark.parametrize("instants", [(0.1, 0.25), pytest.param([0.03 * n for n in range(16)], marks=pytest.mark.long)])
def test_a_killed_restore_is_repeated_and_loses_nothing(
    place: BackupHome, install: Callable[..., None], tmp_path: Path, processes: Any, instants: Sequence[float]
) -> None:
    for number in range(6):
        install(place, f"skill-{number}")
    target = tmp_path / "backup"
    write_backup([place], target)
    saved = without_places(rows(place)), trees(place)
    for number, seconds in enumerate(instants):
        install(place, "later", f"Version {number}.")
        kill_after(seconds, processes, "restore", place, target)
        restore_backup(target, lambda name: place, force=True)
        assert (without_places(rows(place)), trees(place)) == saved
        assert not (place.home / ".restore").exists()


def test_a_version_that_is_gone_is_reported_and_marked(place: BackupHome, install: Callable[..., None], tmp_path: Path) -> None:
    install(place, "pdf")
    install(place, "pdf", "Another one.")
    first = place.versions.names("pdf")[0]
    place.versions.remove("pdf", first, tmp_path)
    report = write_backup([place], tmp_path / "backup")
    assert report.gone == (f"pdf@{first}",)
    restore_backup(tmp_path / "backup", lambda name: place, force=True)
    marked = {row["version"]: row["removed_at"] for row in rows(place)["skill_versions"]}
    assert marked[first] is not None
    assert len([moment for moment in marked.values() if moment is None]) == 1


def test_an_open_database_sees_the_restored_records(backup: Path, tmp_path: Path) -> None:
    """A connection that was open all the time: the records changed under it in one step."""
    place = BackupHome("default", tmp_path / "small", f"sqlite:///{tmp_path}/small/skillyard.db")
    with contextlib.closing(Database.open(str(place.home), place.database_url)) as database:
        restore_backup(backup, lambda name: place, force=True)
        with database.read() as connection:
            assert connection.execute(select(ALL_TABLES.tables["skill_definitions"])).mappings().one()["skill_id"] == "pdf"


def test_records_under_another_name_are_neither_copied_as_a_file_nor_replaced_by_one(tmp_path: Path) -> None:
    """Only their rows go into a backup, whatever the file is called; nobody but SQLite opens or replaces it."""
    home = tmp_path / "home"
    own = BackupHome("default", home, f"sqlite:///{home}/records.sqlite")
    with contextlib.closing(own.database()) as kept:
        kept.status()
        assert "records.sqlite" not in dict(own.files())
        assert not any(name.startswith("records.sqlite-") for name, _ in own.files())
    elsewhere = BackupHome("default", tmp_path / "elsewhere")
    with contextlib.closing(elsewhere.database()):
        (elsewhere.home / "records.sqlite").write_text("an ordinary file")
    write_backup([elsewhere], tmp_path / "backup")
    restore_backup(tmp_path / "backup", lambda name: own, force=True)
    with contextlib.closing(own.database()) as restored:
        assert restored.check().whole
