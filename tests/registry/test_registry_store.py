"""With a store the package of every version is kept, and a version whose files are gone comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.errors import DigestMismatch, InvalidConfiguration, PackageMissing, StoreFailed, VersionUnusable
from skillyard.packages import LocalStore, Store, open_store, tree_digest
from skillyard.registry import Registry


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store") if request.param == "local" else request.getfixturevalue("bucket"))


def test_a_version_that_was_pruned_comes_back_from_the_store(store: Store, data: Path, write: Any) -> None:
    registry = Registry(str(data), store=store, keep=1)
    folder = write(body="one", files={"scripts/run.sh": "true\n", "data/é.txt": "x"})
    (folder / "scripts/run.sh").chmod(0o755)
    first = registry.install(str(folder)).results[0]
    write(body="two")
    registry.install(str(folder))
    assert [version.removed for version in registry.installed.versions("tidy")] == [False, True]
    assert len(list(store.list())) == 2
    back = registry.rollback("tidy", first.version)
    assert tree_digest(registry.storage.versions.path("tidy", str(back.version))) == first.digest
    assert registry.installed.current("tidy").version == first.version
    assert not registry.installed.versions("tidy")[1].removed
    registry.close()


def test_an_uninstalled_skill_without_files_comes_back_too(store: Store, data: Path, write: Any) -> None:
    registry = Registry(str(data), store=store)
    first = registry.install(str(write())).results[0]
    registry.uninstall("tidy", prune=True)
    assert registry.rollback("tidy").digest == first.digest
    registry.close()


def test_a_package_that_is_not_what_was_installed_never_serves(data: Path, write: Any, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    registry = Registry(str(data), store=store)
    registry.install(str(write()))
    registry.uninstall("tidy", prune=True)
    (digest,) = store.list()
    path = store.root / digest[7:9] / digest[9:]
    path.chmod(0o600)
    path.write_bytes(b"other")
    with pytest.raises(DigestMismatch):
        registry.rollback("tidy")
    store.delete(digest)
    with pytest.raises(PackageMissing):
        registry.rollback("tidy")
    assert registry.installed.skills() == ()
    assert registry.storage.versions.names("tidy") == []
    registry.close()


def test_without_a_store_what_is_gone_is_gone(registry: Registry, write: Any) -> None:
    version = registry.install(str(write())).results[0].version
    registry.uninstall("tidy", prune=True)
    with pytest.raises(VersionUnusable):
        registry.rollback("tidy", version)


def test_what_is_in_a_store_that_is_no_longer_configured_says_so(data: Path, write: Any, tmp_path: Path) -> None:
    before = Registry(str(data), store=LocalStore(tmp_path / "store"))
    version = before.install(str(write())).results[0].version
    before.uninstall("tidy", prune=True)
    before.close()
    registry = Registry(str(data))
    with pytest.raises(VersionUnusable, match="no store is configured") as caught:
        registry.rollback("tidy", version)
    assert "SKILLYARD_STORE" in (caught.value.hint or "")
    registry.close()


def test_as_many_versions_stay_as_the_user_says(home: Path, tmp_path: Path, write: Any) -> None:
    settings = home / ".config/skillyard/skillyard.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[packages]\nkeep = 2\n")
    registry = Registry.of(Catalog.discover(roots=(), cwd=tmp_path, cache=False))
    for number in range(4):
        registry.install(str(write(body=f"number {number}")))
    assert [version.removed for version in registry.installed.versions("tidy")] == [False, False, True, True]
    registry.close()
    for wrong in ("0", "true", '"two"'):
        settings.write_text(f"[packages]\nkeep = {wrong}\n")
        with pytest.raises(InvalidConfiguration, match=r"packages\.keep must be a whole number above 0"):
            Catalog.discover(roots=(), cwd=tmp_path, cache=False)


def test_a_store_that_cannot_be_written_installs_nothing(data: Path, write: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    registry = Registry(str(data), store=LocalStore(tmp_path / "file"))
    with pytest.raises(StoreFailed):
        registry.install(str(write()))
    assert registry.installed.skills() == ()
    registry.close()


def test_the_store_is_configured_by_the_user_or_the_environment_and_by_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any
) -> None:
    monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "kept"))
    Registry.of(Catalog.discover(roots=(), cwd=tmp_path, cache=False)).install(str(write()))
    assert len(list(LocalStore(tmp_path / "kept").list())) == 1
    (tmp_path / "skillyard.toml").write_text('[packages]\nstore = "s3://theirs"\n')
    with pytest.raises(Exception, match="may not choose where packages"):
        Catalog.discover(roots=(), cwd=tmp_path, cache=False)


def test_packages_of_versions_that_were_there_before_the_store_are_put_there(store: Store, data: Path, write: Any) -> None:
    without = Registry(str(data))
    without.install(str(write()))
    without.close()
    registry = Registry(str(data), store=store)
    assert registry.installed.current("tidy").package_digest is None
    assert registry.backfill().problems == ()
    digest = registry.installed.current("tidy").package_digest
    assert digest is not None
    assert store.has(digest)
    registry.backfill()
    assert registry.installed.current("tidy").package_digest == digest
    registry.close()
