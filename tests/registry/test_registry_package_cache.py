"""Skills of the store on machines that never installed them: proven, bounded, and never taken from under a run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.catalog.skill import held_version, read_skill_folder
from skillyard.errors import DigestMismatch, PackageMissing
from skillyard.packages import LocalStore, pack, tree_digest
from skillyard.registry.package_cache import PackageCache

Put = Callable[..., tuple[str, str]]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """An empty store."""
    return LocalStore(tmp_path / "store")


@pytest.fixture
def put(store: LocalStore, tmp_path: Path) -> Put:
    """Give a function that puts a skill into the store: the digest of its content, and of its package."""

    def make(body: str, size: int = 10) -> tuple[str, str]:
        folder = tmp_path / "made" / body
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: one\ndescription: Does it. Use it.\n---\n{body}\n")
        (folder / "data.bin").write_bytes(os.urandom(size))
        archive = tmp_path / f"{body}.zip"
        pack(folder, archive, whole=True)
        return tree_digest(folder), store.put(archive.read_bytes())

    return make


def _kept(cache: PackageCache) -> set[str]:
    return {f"sha256:{entry.name}" for entry in cache.root.iterdir() if entry.name[0] != "."}


def _age(cache: PackageCache) -> None:
    for entry in cache.root.iterdir():
        if entry.name[0] != ".":
            os.utime(entry, (1, 1))


def test_a_package_is_unpacked_once_and_nobody_else_may_write_to_it(store: LocalStore, put: Put, tmp_path: Path) -> None:
    digest, package = put("a")
    cache = PackageCache(tmp_path / "cache", store)
    folder = cache.folder(digest, package, "one")
    assert tree_digest(folder) == digest
    assert (folder / "SKILL.md").stat().st_mode & 0o777 == 0o644
    store.delete(package)
    assert cache.folder(digest, package, "one") == folder
    with pytest.raises(PackageMissing):
        cache.folder("sha256:" + "0" * 64, package, "one")
    assert _kept(cache) == {digest}


def test_another_content_than_was_asked_for_is_refused(store: LocalStore, put: Put, tmp_path: Path) -> None:
    _, package = put("a")
    cache = PackageCache(tmp_path / "cache", store)
    with pytest.raises(DigestMismatch):
        cache.folder("sha256:" + "0" * 64, package, "one")
    assert _kept(cache) == set()


def test_a_foreign_file_in_the_cache_hinders_nothing(store: LocalStore, put: Put, tmp_path: Path) -> None:
    digest, package = put("a")
    cache = PackageCache(tmp_path / "cache", store)
    cache.root.mkdir(parents=True, exist_ok=True)
    (cache.root / "README").write_text("not ours")
    assert tree_digest(cache.folder(digest, package, "one")) == digest


def test_what_was_damaged_is_fetched_again(store: LocalStore, put: Put, tmp_path: Path) -> None:
    digest, package = put("a")
    cache = PackageCache(tmp_path / "cache", store)
    folder = cache.folder(digest, package, "one")
    (folder / "SKILL.md").chmod(0o644)
    (folder / "SKILL.md").write_text("changed")
    assert tree_digest(cache.folder(digest, package, "one")) == digest


def test_what_was_used_longest_ago_goes_first_and_what_is_in_use_stays(store: LocalStore, put: Put, tmp_path: Path) -> None:
    cache = PackageCache(tmp_path / "cache", store, limit=1_000_000)
    packages = {body: put(body, 200_000) for body in "abcd"}
    held = read_skill_folder(cache.folder(*packages["a"], "one"), "installed:one")
    with held_version(held) as skill:
        for body in "bc":
            _age(cache)
            cache.folder(*packages[body], "one")
        _age(cache)
        os.utime(cache.root / packages["c"][0].removeprefix("sha256:"), (9, 9))
        cache.folder(*packages["d"], "one")
        assert packages["a"][0] in _kept(cache)
        assert packages["b"][0] not in _kept(cache)
        assert skill.document().body.strip() == "a"
    _age(cache)
    cache.folder(*put("e", 300_000), "one")
    assert packages["a"][0] not in _kept(cache)


def test_many_who_want_the_same_package_at_once_all_get_it(store: LocalStore, put: Put, tmp_path: Path) -> None:
    digest, package = put("a")
    cache = PackageCache(tmp_path / "cache", store)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(tree_digest(cache.folder(digest, package, "one")))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [digest] * 8
    assert _kept(cache) == {digest}
