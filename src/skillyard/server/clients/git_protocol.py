"""The side of git's smart HTTP protocol that a repository of one commit needs to be cloned from, and its objects.

Version 0 of the protocol, which every client understands: a list of references, then for what the client wants a pack file
(gitprotocol-pack, gitprotocol-http). The same content is always the same commit, byte by byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from skillyard.errors import InvalidInput

_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}
_WHO: Final = "Skillyard <skillyard@localhost>"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit without parents: its id in hex, and a pack file with all its objects."""

    id: str
    pack: bytes = field(repr=False)


@dataclass(slots=True)
class _ObjectStore:
    """The objects of a repository, each once, by id."""

    known: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)

    def add(self, kind: str, data: bytes) -> bytes:
        """Take an object in; its id."""
        name = hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).digest()
        self.known[name] = kind, data
        return name

    def pack(self) -> bytes:
        """All of them as a pack file of version 2."""
        body = b"PACK" + (2).to_bytes(4, "big") + len(self.known).to_bytes(4, "big")
        body += b"".join(_header(kind, len(data)) + zlib.compress(data, 6) for kind, data in self.known.values())
        return body + hashlib.sha1(body, usedforsecurity=False).digest()


def build_commit(files: Iterable[tuple[str, bytes, bool]], *, message: str, seconds: int) -> Commit:
    """The commit of some files (path, content, whether it is executable), made `seconds` after 1970."""
    objects = _ObjectStore()
    top: dict[str, object] = {}
    for path, data, executable in files:
        *folders, name = path.split("/")
        place = top
        for folder in folders:
            below = place.setdefault(folder, {})
            assert isinstance(below, dict)  # noqa: S101 # paths of one skill do not collide
            place = below
        place[name] = (b"100755" if executable else b"100644", objects.add("blob", data))
    text = f"tree {_tree(objects, top).hex()}\nauthor {_WHO} {seconds} +0000\ncommitter {_WHO} {seconds} +0000\n\n{message}\n"
    return Commit(objects.add("commit", text.encode()).hex(), objects.pack())


def _tree(objects: _ObjectStore, folder: Mapping[str, object]) -> bytes:
    """Write a folder and those below it; entries are sorted as if folders ended in a slash."""
    return objects.add("tree", b"".join(entry for _, entry in sorted(_entries(objects, folder))))


def _entries(objects: _ObjectStore, folder: Mapping[str, object]) -> Iterator[tuple[bytes, bytes]]:
    for name, item in folder.items():
        written = name.encode()
        if isinstance(item, dict):
            yield written + b"/", b"40000 " + written + b"\0" + _tree(objects, item)
        elif isinstance(item, tuple):
            mode, blob = item
            yield written, mode + b" " + written + b"\0" + blob


def _header(kind: str, size: int) -> bytes:
    """Type and size of a packed object: four bits of the size first, then seven at a time."""
    byte, size = _KINDS[kind] << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(byte | 128)
        byte, size = size & 127, size >> 7
    header.append(byte)
    return bytes(header)


ADVERTISED: Final = "application/x-git-upload-pack-advertisement"
RESULT: Final = "application/x-git-upload-pack-result"
_BRANCH: Final = "refs/heads/main"
_ABILITIES: Final = " ".join((
    f"symref=HEAD:{_BRANCH}", "shallow", "no-progress", "allow-tip-sha1-in-want", "allow-reachable-sha1-in-want",
    "object-format=sha1", "agent=skillyard",
))  # fmt: skip
_FLUSH: Final = b"0000"
_LENGTH: Final = re.compile(rb"[0-9a-fA-F]{4}")
_LARGEST: Final = 256 * 1024
"""Of a request: it names one commit, and what the client has."""


def advertisement(commit_id: str) -> bytes:
    """What there is to fetch: the one branch."""
    lines = (f"{commit_id} HEAD\0{_ABILITIES}\n", f"{commit_id} {_BRANCH}\n")
    return _line("# service=git-upload-pack\n") + _FLUSH + b"".join(map(_line, lines)) + _FLUSH


def wanted_commit(request: bytes) -> str:
    """The id of the commit that a client wants.

    Raises:
        InvalidInput: it is no such request, or wants several.
    """
    ids = {line[5:45].decode("latin-1") for line in _lines(request) if line.startswith(b"want ")}
    if len(ids) != 1:
        raise InvalidInput("that is no request for one commit", hint="fetch with git")
    return ids.pop()


def upload_pack_result(commit: Commit, request: bytes) -> bytes:
    """What a client gets that sends `request` and wants `commit`.

    A shallow clone is whole here: the commit has no parents. Such a client first asks without being done, to hear that.
    """
    lines = list(_lines(request))
    shallow = _FLUSH if any(line.startswith(b"deepen") for line in lines) else b""
    if not any(line.strip() == b"done" for line in lines):
        return shallow or _line("NAK\n")
    return shallow + _line("NAK\n") + commit.pack


def decompressed_body(body: bytes, encoding: str) -> bytes:
    """The body of a request, which git may have compressed.

    Raises:
        InvalidInput: it cannot be read, or is too long.
    """
    if encoding not in ("gzip", "x-gzip"):
        return body
    try:
        with gzip.open(io.BytesIO(body)) as stream:
            found = stream.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error):
        raise InvalidInput("the request is not compressed as it says", hint="fetch with git") from None
    if len(found) > _LARGEST:
        raise InvalidInput("the request is too long", hint="fetch with git")
    return found


def _line(text: str) -> bytes:
    """A line as git sends it: its length in four hex digits, these included, before it."""
    return f"{len(text) + 4:04x}{text}".encode("ascii")


def _lines(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        length = data[place : place + 4]
        size = int(length, 16) if _LENGTH.fullmatch(length) else 1  # int() alone would read -004 too, and go back for ever
        if 0 < size < 4 or place + size > len(data):
            raise InvalidInput("that is no request of git", hint="fetch with git")
        if size:
            yield data[place + 4 : place + size]
        place += size or 4
