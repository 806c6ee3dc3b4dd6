"""Packages in a bucket of S3, or of anything that speaks its protocol and knows conditional puts.

Credentials, region and endpoint come from where every tool for S3 takes them: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_REGION`, `AWS_ENDPOINT_URL`, … Faults of the network are tried again for half a minute. A request and its whole answer may
take as long, also when nothing comes or a byte at a time; `AWS_TIMEOUT` (`2 minutes`) changes that.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from skillyard.errors import DigestMismatch, FileTooLarge, InvalidConfiguration, PackageMissing, StoreFailed
from skillyard.packages.digest import check_content, check_size, digest_hex
from skillyard.packages.source import shown_address

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
