"""A database comes back as it was at a moment, by a base backup and the archived log: the way of docs/operating.md."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

_ARCHIVING = ("wal_level=replica", "archive_mode=on", "fsync=off")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of its own, whose log is archived beside it."""
    specification = spec_from_file_location("of_moments", Path(__file__).parents[1] / "postgresql.py")
    assert specification is not None
    assert specification.loader is not None
    postgresql = module_from_spec(specification)
    specification.loader.exec_module(postgresql)
    folder = Path(tempfile.mkdtemp(prefix="skillyard-pg-", dir="/tmp"))
    made = postgresql.Cluster(folder, *_ARCHIVING)
    made.make()
    archive = folder / "archive"
    archive.mkdir()
    shutil.chown(archive, folder.owner())
    settings = made.data / "postgresql.auto.conf"
    settings.write_text(settings.read_text() + f"archive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'\n")
    made.start()
    made.again = lambda: postgresql.Cluster(folder, *_ARCHIVING, data="restored")
    try:
        yield made
    finally:
        for one in (made, made.again()):
            if one.processes():
                one.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _skill(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Tidies up. Use when asked to.\n---\nDo it.\n")
    return str(folder / name)


def test_records_come_back_as_they_were_before_somebody_destroyed_them(
    cluster: Any, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    import psycopg

    def skillyard(*words: str, url: str, good: bool = True) -> Any:
        said = cli(url, *words, "--json")
        assert not good or said.code == 0, said
        return json.loads(said.out)

    home = tmp_path
    skillyard("install", _skill(home, "before"), url=cluster.url)
    cluster.call(
        "pg_basebackup", "-h", str(cluster.folder), "-U", "skillyard", "-D", str(cluster.folder / "base"), "-c", "fast",
        "-X", "none",
    )  # fmt: skip
    skillyard("install", _skill(home, "between"), url=cluster.url)
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        moment = connection.execute("SELECT clock_timestamp()").fetchone()
        assert moment is not None
        time.sleep(0.2)
        connection.execute("DELETE FROM skill_definitions")  # what must not have happened
        skillyard("install", _skill(home, "after"), url=cluster.url)
        connection.execute("SELECT pg_switch_wal()")
        end = time.monotonic() + 60
        while connection.execute("SELECT archived_count < 2 FROM pg_stat_archiver").fetchone() == (True,):
            assert time.monotonic() < end
            time.sleep(0.1)
    cluster.stop("fast")

    restored = cluster.again()
    shutil.copytree(cluster.folder / "base", restored.data, copy_function=shutil.copy2)
    with (restored.data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"restore_command = 'cp {cluster.folder}/archive/%f %p'\narchive_command = 'true'\n")
        settings.write(f"recovery_target_time = '{moment[0].isoformat()}'\nrecovery_target_action = 'promote'\n")
    (restored.data / "recovery.signal").touch()
    for path in (restored.data, *restored.data.rglob("*")):
        shutil.chown(path, cluster.folder.owner())
    restored.data.chmod(0o700)
    restored.start()

    assert skillyard("db", "status", url=restored.url)["current"] is True
    _until_it_can_be_written(restored.url)
    checks = skillyard("doctor", url=restored.url, good=False)
    assert [check for check in checks["checks"] if check["status"] == "error"] == []
    reported = skillyard("history", url=restored.url)["logs"]
    assert {log["skill_id"] for log in reported} == {"before", "between"}
    filled = skillyard("db", "backfill", url=restored.url)  # what was installed after the moment is on the disk
    assert [version for version in filled["added"] if version.startswith("after")]
    assert skillyard("versions", "after", url=restored.url)


def _until_it_can_be_written(url: str) -> None:
    """A restored cluster reads only until it is promoted."""
    import psycopg

    end = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            assert time.monotonic() < end
            time.sleep(0.1)
