"""Where packages are kept: by the digest of their bytes, written once, never changed; and copies from one store to another.

A `Store` gives back exactly what was put in, or raises. `LocalStore` is a folder; `S3Store` a bucket of S3, or of anything that
speaks its protocol and knows conditional puts.

Credentials, region and endpoint of a bucket come from where every tool for S3 takes them: `AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, … Faults of the network are tried again for half a minute. A request
and its whole answer may take as long, also when nothing comes or a byte at a time; `AWS_TIMEOUT` (`2 minutes`) changes that.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

from skillyard.errors import DigestMismatch, FileMissing, FileTooLarge, InvalidConfiguration, PackageMissing, StoreFailed
from skillyard.files import replace_file, sync_folder
from skillyard.packages.archive_entries import PackageLimits
from skillyard.packages.digest import DIGEST_PATTERN, check_content, check_size, digest_hex, digest_of
from skillyard.packages.package_source import shown_address
from skillyard.paths import CLOEXEC, NOFOLLOW, NONBLOCK, read_inside
from skillyard.wire import WireForm

_READ: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC


class Store(Protocol):
    """Keeps bytes by `sha256:<64 hex digits>` of them; every method may be called from any thread and process at once."""

    def put(self, data: bytes, digest: str | None = None) -> str:
        """Keep `data` and return its digest; what already exists stays as it is.

        Raises:
            DigestMismatch: `digest` is given and is not that of `data`.
            StoreFailed: it cannot be written.
        """

    def get(self, digest: str) -> bytes:
        """The bytes with this digest, verified.

        Raises:
            PackageMissing: there are none.
            DigestMismatch: what is kept there has become something else.
            StoreFailed: it cannot be read.
        """

    def has(self, digest: str) -> bool:
        """Whether something is kept under this digest."""

    def list(self) -> Iterator[str]:
        """Every digest, sorted."""

    def delete(self, digest: str) -> bool:
        """Delete it; False when it was not there."""

    def read_file(self, name: str, limit: int) -> bytes | None:
        """The bytes of the file `name` beside the packages; None when there is none."""

    def write_file(self, name: str, data: bytes) -> None:
        """Write the file `name` beside the packages, over what was there."""


def open_store(address: str) -> Store:
    """The store at `s3://bucket/prefix`, or in the folder with that path.

    Raises:
        InvalidConfiguration: it is another kind of address, or cannot be used.
    """
    if address.startswith("s3://"):
        return S3Store(address)
    if "://" in address:
        raise InvalidConfiguration(f"{shown_address(address)!r} is not a store", hint="a folder, or s3://bucket/prefix")
    return LocalStore(Path(address).expanduser().absolute())


class LocalStore:
    """A store in the folder `root`: `ab/cdef…`, files that nobody may write, each moved into place in one step."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def put(self, data: bytes, digest: str | None = None) -> str:
        """As `Store.put`; the file and its folder have reached the disk."""
        digest = check_content(data, digest)
        path = self._path(digest)
        with _failures(f"write to {self.root}"):
            if self._is_whole(path, digest):
                return digest
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, data, mode=0o400)  # another writer's file is the same
            sync_folder(path.parent)
            sync_folder(path.parent.parent)
        return digest

    def get(self, digest: str) -> bytes:
        """As `Store.get`."""
        with _failures(f"read {self.root}"):
            try:
                check_size(self._path(digest).lstat().st_size, digest)
                data = _read(self._path(digest))
            except FileNotFoundError:
                raise PackageMissing(f"there is no package {digest}", hint="install or put it again") from None
        check_content(data, digest)
        return data

    def has(self, digest: str) -> bool:
        """As `Store.has`."""
        return self._path(digest).is_file()

    def list(self) -> Iterator[str]:
        """As `Store.list`."""
        names = (path.parent.name + path.name for path in self.root.glob("[0-9a-f][0-9a-f]/*"))
        yield from sorted(digest for name in names if DIGEST_PATTERN.fullmatch(digest := f"sha256:{name}"))

    def delete(self, digest: str) -> bool:
        """As `Store.delete`."""
        with _failures(f"write to {self.root}"):
            try:
                self._path(digest).unlink()
            except FileNotFoundError:
                return False
        return True

    def read_file(self, name: str, limit: int) -> bytes | None:
        """The bytes of the file `name` beside the packages; None when there is none.

        Raises:
            FileTooLarge: it is longer than `limit`.
            StoreFailed: it cannot be read.
        """
        with _failures(f"read {self.root}"):
            try:
                return read_inside(self.root, name, limit=limit)
            except (FileMissing, FileNotFoundError):
                return None

    def write_file(self, name: str, data: bytes) -> None:
        """Write the file `name` beside the packages, over what was there.

        Raises:
            StoreFailed: it cannot be written.
        """
        with _failures(f"write to {self.root}"):
            self.root.mkdir(parents=True, exist_ok=True)
            replace_file(self.root / name, data, mode=0o644)

    def _path(self, digest: str) -> Path:
        name = digest_hex(digest)
        return self.root / name[:2] / name[2:]

    def _is_whole(self, path: Path, digest: str) -> bool:
        """Whether it is there and undamaged; a damaged one is put again."""
        try:
            return path.lstat().st_size <= PackageLimits().archive and digest_of(_read(path)) == digest
        except OSError:
            return False


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, _READ), "rb") as file:
        return file.read()


@contextlib.contextmanager
def _failures(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFailed(
            f"cannot {what}: {error.strerror}", hint="check the folder, its permissions and the free space"
        ) from None


@dataclass(frozen=True, slots=True)
class PackageCopyReport(WireForm):
    """How many packages the first store has, and how many of them were new to the second one."""

    packages: int
    new: int


def copy_packages(source: Store, target: Store, *, check: bool = False) -> PackageCopyReport:
    """Put every package of `source` into `target`; with `check` only count what `target` lacks.

    Raises:
        DigestMismatch: a package has become something else where it was kept.
        StoreFailed: one of the two cannot be used; what was put stays.
    """
    there, count, new = set(target.list()), 0, 0
    for digest in source.list():
        count += 1
        if digest not in there:
            new += 1
            if not check:
                target.put(source.get(digest), digest)
    return PackageCopyReport(count, new)


_PATH: Final = re.compile(r"([0-9a-f]{2})/([0-9a-f]{62})")
_TRIES: Final = 4
_RETRY_TIMEOUT: Final = timedelta(seconds=30)


class S3Store:
    """A store in the bucket and below the prefix of `address`: `s3://bucket/prefix`.

    Raises:
        InvalidConfiguration: it is no such address, or the package obstore is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            from obstore.store import S3Store as Bucket
        except ImportError:
            raise InvalidConfiguration(
                "the package obstore, which stores in S3 need, is not installed", hint="pip install 'obstore>=0.6'"
            ) from None
        self.address = address
        try:
            self._bucket = Bucket.from_url(address, retry_config={"max_retries": _TRIES, "retry_timeout": _RETRY_TIMEOUT})
        except Exception as error:  # its own kinds, and some of Python's
            raise InvalidConfiguration(
                f"{shown_address(address)} cannot be used: {_short_message(error)}", hint="as in s3://bucket/prefix"
            ) from None

    def put(self, data: bytes, digest: str | None = None) -> str:
        """As `Store.put`: only written when nothing is there, and again when what is there was damaged."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError

        digest = check_content(data, digest)
        with self._failures("write to"):
            try:
                put(self._bucket, _path(digest), data, mode="create")
            except AlreadyExistsError:
                if not self._is_whole(digest):
                    put(self._bucket, _path(digest), data, mode="overwrite")
        return digest

    def get(self, digest: str) -> bytes:
        """As `Store.get`."""
        from obstore import get

        path = _path(digest)
        with self._failures("read"):
            try:
                response = get(self._bucket, path)
                check_size(response.meta["size"], digest)
                data = bytes(response.bytes())
            except FileNotFoundError:
                raise PackageMissing(f"there is no package {digest}", hint="install or put it again") from None
        check_content(data, digest)
        return data

    def has(self, digest: str) -> bool:
        """As `Store.has`."""
        from obstore import head

        path = _path(digest)
        with self._failures("read"):
            try:
                head(self._bucket, path)
            except FileNotFoundError:
                return False
        return True

    def list(self) -> Iterator[str]:
        """As `Store.list`."""
        from obstore import list as entries

        with self._failures("read"):
            paths = sorted(entry["path"] for batch in entries(self._bucket) for entry in batch)
        yield from (f"sha256:{match[1]}{match[2]}" for path in paths if (match := _PATH.fullmatch(path)))

    def delete(self, digest: str) -> bool:
        """As `Store.delete`."""
        from obstore import delete

        if not self.has(digest):
            return False
        with self._failures("write to"):
            delete(self._bucket, _path(digest))
        return True

    def read_file(self, name: str, limit: int) -> bytes | None:
        """As `Store.read_file`."""
        from obstore import get

        with self._failures("read"):
            try:
                response = get(self._bucket, name)
                if response.meta["size"] > limit:
                    raise FileTooLarge(f"{name!r} is over {limit} bytes", hint="check the address")
                return bytes(response.bytes())
            except FileNotFoundError:
                return None

    def write_file(self, name: str, data: bytes) -> None:
        """As `Store.write_file`."""
        from obstore import put

        with self._failures("write to"):
            put(self._bucket, name, data, mode="overwrite")

    def _is_whole(self, digest: str) -> bool:
        try:
            self.get(digest)
        except (DigestMismatch, PackageMissing):
            return False
        return True

    @contextlib.contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError) as error:
            raise StoreFailed(
                f"cannot {what} {shown_address(self.address)}: {_short_message(error)}",
                hint="check the bucket, the credentials (AWS_…) and the network",
            ) from None


def _path(digest: str) -> str:
    name = digest_hex(digest)
    return f"{name[:2]}/{name[2:]}"


def _short_message(error: Exception) -> str:
    """What happened, without the library's dump of its own state."""
    if "169.254.169.254" in str(error):  # where machines of a cloud get them, when no variable names any
        return "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return " ".join(str(error).partition("Debug source:")[0].split())[:300]
