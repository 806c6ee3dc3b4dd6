"""`skillyard db copy`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillyard.cli import main
from skillyard.packages import open_store


def test_records_move_and_the_command_says_what_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SKILLYARD_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up. Use when asked to.\n---\nDo it.\n")
    assert main(["install", str(folder)]) == 0
    there = f"sqlite:///{tmp_path}/other.db"
    assert main(["db", "copy", "--to", there, "--check"]) == 1
    assert main(["db", "copy", "--to", there]) == 0
    assert main(["db", "copy", "--to", there, "--check"]) == 0
    capsys.readouterr()
    assert main(["--json", "db", "copy", "--to", there]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert {"table": "skill_versions", "rows": 1, "new": 0, "extra": 0} in reported["tables"]


def test_copying_nowhere_or_onto_itself_is_a_mistake_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SKILLYARD_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["db", "copy"]) == 2
    assert main(["db", "copy", "--to", f"sqlite:///{tmp_path}/home/skillyard.db"]) == 2
    assert main(["db", "copy", "--to", "mysql://x/y"]) == 1
    assert "PostgreSQL" in capsys.readouterr().err


def test_a_password_in_the_address_is_not_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "postgresql://user:hunter2@127.0.0.1:1/skillyard"
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address)
    monkeypatch.chdir(tmp_path)
    assert main(["db", "copy", "--to", address]) == 2
    assert main(["db", "copy", "--to", address.replace("/skillyard", "/other")]) == 1
    said = capsys.readouterr()
    assert "127.0.0.1:1" in said.err
    assert "hunter2" not in said.err + said.out


def test_packages_move_into_another_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bucket: str
) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("SKILLYARD_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up. Use when asked to.\n---\nDo it.\n")
    assert main(["install", str(folder)]) == 0
    assert main(["db", "copy", "--to-store", bucket, "--check"]) == 1
    assert main(["db", "copy", "--to-store", bucket]) == 0
    assert main(["db", "copy", "--to-store", bucket, "--check"]) == 0
    there = f"sqlite:///{tmp_path}/other.db"
    capsys.readouterr()
    assert main(["--json", "db", "copy", "--to", there, "--to-store", bucket]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["packages"], reported["organisations"]) == ({"packages": 1, "new": 0}, [])
    assert list(open_store(bucket).list()) == list(open_store(str(tmp_path / "store")).list())


def test_packages_do_not_move_from_nowhere_or_onto_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SKILLYARD_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["db", "copy", "--to-store", str(tmp_path / "there")]) == 2
    assert "backfill" in capsys.readouterr().err
    monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "store"))
    assert main(["db", "copy", "--to-store", str(tmp_path / "store")]) == 2
