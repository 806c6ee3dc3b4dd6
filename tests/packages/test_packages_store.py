"""What a store promises, on every implementation."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillyard.errors import DigestMismatch, InvalidConfiguration, InvalidInput, PackageMissing, StoreFailed
from skillyard.packages import LocalStore, PackageLimits, S3Store, Store, digest_of, open_store


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    return open_store(str(tmp_path / "store") if request.param == "local" else request.getfixturevalue("bucket"))


def test_what_was_put_comes_back_until_it_is_deleted(store: Store) -> None:
    digest = store.put(b"one")
    assert digest == digest_of(b"one") == store.put(b"one", digest)
    assert (store.get(digest), store.has(digest)) == (b"one", True)
    other = store.put(b"")
    assert list(store.list()) == sorted([digest, other])
    assert (store.delete(digest), store.delete(digest), store.has(digest)) == (True, False, False)
    with pytest.raises(PackageMissing):
        store.get(digest)


def test_bytes_that_are_not_the_promised_ones_are_refused(store: Store) -> None:
    with pytest.raises(DigestMismatch):
        store.put(b"one", digest_of(b"two"))
    assert list(store.list()) == []


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "sha256:ab", "sha256:" + "A" * 64, "md5:" + "a" * 64])
def test_what_is_no_digest_is_refused(store: Store, digest: str) -> None:
    for method in (store.get, store.has, store.delete):
        with pytest.raises(InvalidInput):
            method(digest)


def test_many_writers_of_the_same_and_of_others_lose_nothing(store: Store) -> None:
    contents = [bytes([number % 8]) * 10_000 for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        digests = list(pool.map(store.put, contents))
    assert list(store.list()) == sorted(set(digests))
    assert all(store.get(digest) == content for digest, content in zip(digests, contents, strict=True))


def test_damage_is_seen_and_mended_by_putting_it_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    digest = store.put(b"one")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    path.chmod(0o600)
    path.write_bytes(b"two")
    with pytest.raises(DigestMismatch):
        store.get(digest)
    store.put(b"one")
    assert store.get(digest) == b"one"


def test_what_is_larger_than_any_package_is_not_read_into_memory(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.put(b"one")
    monkeypatch.setattr("skillyard.packages.digest.PackageLimits", lambda: PackageLimits(archive=2))
    with pytest.raises(DigestMismatch, match="more than any package"):
        store.get(digest)


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFailed) as caught:
        LocalStore(tmp_path / "file").put(b"one")
    assert caught.value.hint
    assert os.listdir(tmp_path) == ["file"]


def test_damage_in_a_bucket_is_seen_and_mended_by_putting_it_again(bucket: str) -> None:
    import obstore

    store = S3Store(bucket)
    digest = store.put(b"one")
    path = f"{digest[7:9]}/{digest[9:]}"
    obstore.put(store._bucket, path, b"two")
    obstore.put(store._bucket, "notes/readme.txt", b"somebody else's")
    with pytest.raises(DigestMismatch):
        store.get(digest)
    store.put(b"one")
    assert store.get(digest) == b"one"
    assert list(store.list()) == [digest]


def test_two_prefixes_of_one_bucket_are_two_stores(bucket: str) -> None:
    one, two = S3Store(f"{bucket}/one"), S3Store(f"{bucket}/two")
    digest = one.put(b"x")
    assert not two.has(digest)
    assert list(two.list()) == []


def test_a_bucket_that_is_not_there_says_so(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreFailed, match="nowhere"):
        S3Store("s3://nowhere").put(b"x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("skillyard.packages.package_store._TRIES", 1)
    with pytest.raises(StoreFailed) as refused:
        S3Store(bucket).put(b"x")
    assert "Debug" not in refused.value.message
    assert "AWS_" in refused.value.hint


@pytest.mark.parametrize("address", ["https://example.com/bucket", "s3://", "gs://bucket"])
def test_what_is_no_store_is_refused(address: str) -> None:
    with pytest.raises(InvalidConfiguration):
        open_store(address)
