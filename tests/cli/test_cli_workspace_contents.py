"""What conversations' workspaces have in a store moves with `db copy`, and with `backup` and `restore`, on both databases."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skillyard.cli import main
from skillyard.conversations import ChatSettings, Conversation, ConversationStore
from skillyard.conversations.conversation_store import SqlSnapshotRecord
from skillyard.database import Database
from skillyard.workspace import FolderSnapshots, snapshot_store

FILES = {"report.txt": b"One fish. " * 100, "deep/data.bin": bytes(range(256)) * 50, ".hidden/settings": b"x"}


@pytest.fixture
def saved(tmp_path: Path, database_address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a conversation that was saved in a store; the configuration names the records and the store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
    monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "store"))
    folder = tmp_path / "home" / "conversations" / "chat_1" / "files"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    with closing(Database.open(str(tmp_path / "home"), database_address)) as database:
        ConversationStore(lambda: database).begin(Conversation("chat_1", "ada", "", None, None, ChatSettings()))
        snapshots(folder, str(tmp_path / "store"), database).save()
    return folder


def snapshots(folder: Path, store: str, database: Database) -> FolderSnapshots:
    record = SqlSnapshotRecord(lambda: database, "chat_1")
    return FolderSnapshots(str(folder), snapshot_store(store, "chat_1"), record)


def restored(tmp_path: Path, store: str, address: str) -> dict[str, bytes]:
    """What a machine that has nothing brings from a store and records."""
    folder = tmp_path / "fresh" / "files"
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.parent.mkdir()
    with closing(Database.open(str(tmp_path / "elsewhere"), address)) as database:
        snapshots(folder, store, database).restore()
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reported(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main(["--json", *arguments]) == code
    return json.loads(capsys.readouterr().out)


def test_a_copy_brings_the_contents_of_workspaces_into_the_other_store(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], bucket: str
) -> None:
    there = f"sqlite:///{tmp_path}/there/skillyard.db"
    copy = ("db", "copy", "--to", there, "--to-store", bucket)
    counted = {"workspaces": 1, "blobs": 1, "new": 1, "missing": []}
    assert reported(capsys, *copy, "--check", code=1)["workspaces"] == counted
    assert reported(capsys, *copy)["workspaces"] == counted
    assert reported(capsys, *copy, "--check")["workspaces"] == {**counted, "new": 0}
    assert restored(tmp_path, bucket, there) == FILES
    assert main(["db", "copy", "--to", there]) == 0
    assert f"workspaces stay in {tmp_path}/store" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "store" / "workspaces")
    assert main(["db", "copy", "--to-store", str(tmp_path / "other")]) == 1
    assert "chat_1: files of its workspace are not in the store any more" in capsys.readouterr().out


def test_a_backup_holds_the_contents_of_workspaces_and_says_what_is_missing(
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = reported(capsys, "backup", "backup.tar.gz")
    assert (made["contents"], made["missing"], made["contents_in"]) == (1, [], "")
    there = f"sqlite:///{tmp_path}/there/skillyard.db"
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", there)
    monkeypatch.delenv("SKILLYARD_STORE")
    done = reported(capsys, "restore", "backup.tar.gz")
    assert (done["contents"], done["unplaced"]) == (0, 1)
    monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "other"))
    done = reported(capsys, "restore", "backup.tar.gz", "--force")
    assert (done["contents"], done["unplaced"]) == (1, 0)
    came_back = tmp_path / "elsewhere" / "conversations" / "chat_1" / "files"
    assert (came_back / "report.txt").read_bytes() == FILES["report.txt"]
    with closing(Database.open(str(tmp_path / "elsewhere"), there)) as database:
        snapshots(came_back, str(tmp_path / "other"), database).restore()
        snapshots(came_back, str(tmp_path / "other"), database).save()
    assert (came_back / ".hidden/settings").read_bytes() == b"x"
    assert restored(tmp_path, str(tmp_path / "other"), there) == FILES
    (blob,) = (path for path in (tmp_path / "other" / "workspaces").rglob("*") if path.is_file())
    blob.chmod(0o600)
    blob.write_bytes(b"damaged")
    assert reported(capsys, "backup", "again.tar.gz")["missing"] == ["chat_1"]
    assert main(["backup", "again.tar.gz", "--force"]) == 0
    assert "chat_1: files of its workspace are not in the store any more" in capsys.readouterr().out


def test_a_backup_names_the_bucket_where_contents_stay(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    assert main(["db", "copy", "--to-store", bucket]) == 0
    monkeypatch.setenv("SKILLYARD_STORE", bucket)
    made = reported(capsys, "backup", "backup.tar.gz")
    assert (made["contents"], made["missing"], made["contents_in"]) == (0, [], bucket)
    assert reported(capsys, "restore", "backup.tar.gz", "--force")["contents_in"] == bucket
    assert main(["backup", "backup.tar.gz", "--force"]) == 0
    assert f"they stay in {bucket}" in capsys.readouterr().out
