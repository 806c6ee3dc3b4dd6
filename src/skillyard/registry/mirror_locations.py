"""Where a mirror is (a folder, an S3 bucket, a web address), and the fetcher that installs from one.

A mirror holds the index, and packages by the digest of their bytes. A mirror folder may be served by any web server as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urljoin

from skillyard.errors import DigestMismatch, FileTooLarge, InvalidConfiguration, InvalidInput, InvalidSource
from skillyard.packages import Origin, PackageLimits, Source, Store, extract, open_store, shown_address, tree_digest
from skillyard.packages.digest import check_content, digest_hex
from skillyard.registry.fetcher import FetchedTree
from skillyard.registry.mirror_index import INDEX_FILE, INDEX_LIMIT, MirroredSkill, MirrorIndex

_PACKAGES: Final = "packages"
_TOKEN: Final = "SKILLYARD_MIRROR_TOKEN"  # noqa: S105 # the name of a variable
Download = Callable[[str, int], bytes]
"""What is at an address, at most so many bytes."""


class MirrorSource(Protocol):
    """A mirror that can be read."""

    def index(self) -> MirrorIndex:
        """What it holds.

        Raises:
            InvalidSource: it is not a mirror.
            StoreFailed, NetworkFailed, NetworkRefused: it cannot be read.
        """

    def package(self, digest: str) -> bytes:
        """The package with this digest, verified.

        Raises:
            PackageMissing, DigestMismatch: it is not there, or is another.
            StoreFailed, NetworkFailed, NetworkRefused: it cannot be read.
        """


class StoredMirror:
    """A mirror in a folder or a bucket, given by its address: a path, or `s3://bucket/prefix`.

    Raises:
        StoreFailed: it cannot be read or written.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._packages: Store = open_store(f"{self.address}/{_PACKAGES}")
        self._files: Store = open_store(self.address)

    def index(self) -> MirrorIndex:
        """As `MirrorSource.index`."""
        index = self.find()
        if index is None:
            raise InvalidSource(
                f"{shown_address(self.address)} is not a mirror: it has no {INDEX_FILE}",
                hint="`skillyard mirror export` makes one",
            )
        return index

    def find(self) -> MirrorIndex | None:
        """As `index`; None when there is no mirror yet."""
        try:
            data = self._files.read_file(INDEX_FILE, INDEX_LIMIT)
        except FileTooLarge as error:
            raise InvalidSource(
                f"{shown_address(self.address)} is not a mirror: {error.message}", hint="check the path"
            ) from None
        return None if data is None else MirrorIndex.read(data, shown_address(self.address))

    def package(self, digest: str) -> bytes:
        """As `MirrorSource.package`."""
        return self._packages.get(digest)

    def has(self, digest: str) -> bool:
        """Whether there is a package with this digest."""
        return self._packages.has(digest)

    def put(self, digest: str, data: bytes) -> None:
        """Keep a package."""
        self._packages.put(data, digest)

    def write_index(self, index: MirrorIndex) -> None:
        """Write what it holds, in one step."""
        self._files.write_file(INDEX_FILE, index.to_bytes())


class WebMirror:
    """A mirror that a web server gives out below `address`; `open_mirror` gives it the token of its host."""

    def __init__(self, address: str, download: Download) -> None:
        self.address = address.rstrip("/") + "/"
        self._download = download

    def index(self) -> MirrorIndex:
        """As `MirrorSource.index`."""
        return MirrorIndex.read(self._download(urljoin(self.address, INDEX_FILE), INDEX_LIMIT), shown_address(self.address))

    def package(self, digest: str) -> bytes:
        """As `MirrorSource.package`."""
        name = digest_hex(digest)
        data = self._download(urljoin(self.address, f"{_PACKAGES}/{name[:2]}/{name[2:]}"), PackageLimits().total)
        check_content(data, digest)
        return data


def open_mirror(address: str, *, allow_private: bool = False) -> MirrorSource:
    """The mirror at a path, at `s3://…` or at an address of the web.

    To an address of the web the token that `$SKILLYARD_MIRROR_TOKEN` names for its host is sent as a bearer token.

    Raises:
        InvalidConfiguration: it is another kind of address, or the variable names a token without its host.
    """
    if address.startswith(("https://", "http://")):
        from skillyard.registry.source_host_policy import download

        token = _token_of(address, os.environ.get(_TOKEN, ""))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return WebMirror(address, lambda url, limit: download(url, limit=limit, allow_private=allow_private, headers=headers))
    return StoredMirror(address)


def open_mirror_target(address: str) -> StoredMirror:
    """The mirror at a path or at `s3://…`, to be written. Raises InvalidSource: nothing can be written there."""
    if address.startswith(("https://", "http://")):
        raise InvalidSource(f"nothing can be written to {shown_address(address)}", hint="name a folder, or s3://bucket/prefix")
    return StoredMirror(address)


def _token_of(address: str, tokens: str) -> str | None:
    """The token for the host of `address`, of those in `tokens`: `HOST[:PORT]=TOKEN`, separated by blanks.

    Requests to a host use https; `http://HOST:PORT=TOKEN` sends a token without encryption.

    Raises:
        InvalidConfiguration: a token has no host; the message does not repeat it.
    """
    from skillyard.network.messages import read_destination

    destination = read_destination(address)
    match = None
    for entry in tokens.split():
        host, _, token = entry.partition("=")
        try:
            given = read_destination(host if "://" in host else f"https://{host}")
        except InvalidInput:
            given = None
        if given is None or given.target != "/" or not token or not (token.isascii() and token.isprintable()):
            raise InvalidConfiguration(
                f"{_TOKEN} has a token that names no host", hint=f"{_TOKEN}=HOST=TOKEN, several separated by blanks"
            )
        if (given.scheme, given.authority) == (destination.scheme, destination.authority):
            match = token
    return match


@dataclass(frozen=True, slots=True)
class MirrorFetcher:
    """Fetches from mirrors: `address` is the mirror's, `path` one skill's id, `ref` a version, else the current one."""

    open: Callable[[str], MirrorSource]
    limits: PackageLimits

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """As `Fetcher.fetch`; of several skills each is a folder of the tree, named by its id."""
        mirror = self.open(source.address)
        names = (source.path,) if source.path else source.names
        skills = mirror.index().select(names)
        tree = into / f"mirror-{os.urandom(4).hex()}"
        tree.mkdir()
        for skill in skills.skills if names else skills.serving():
            self._unpack(mirror, skill, source.ref, tree / skill.skill_id, into)
        chosen = tree / source.path if source.path else tree
        return FetchedTree(
            chosen, Origin("mirror", source.address, path=source.path, version=source.ref), owned=True, chosen=True
        )

    def _unpack(self, source: MirrorSource, skill: MirroredSkill, version: str, target: Path, into: Path) -> None:
        listed = skill.version(version)
        archive = into / f"{target.name}.package.zip"
        archive.write_bytes(source.package(listed.package))
        tree = Path(extract(archive, into, self.limits).tree)
        archive.unlink()
        digest = tree_digest(tree) if (tree / "SKILL.md").is_file() else None
        if digest is None:
            raise InvalidSource(f"the package of {skill.skill_id} in the mirror is not a skill", hint="make the mirror again")
        if digest != listed.digest:
            raise DigestMismatch(
                f"{skill.skill_id} {listed.version} is not what the mirror lists",
                hint="make the mirror again; `skillyard mirror export` checks what is there",
                expected=listed.digest,
                found=digest,
            )
        tree.rename(target)
