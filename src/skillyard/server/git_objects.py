"""A folder as git sees it: one commit of one tree, the same bytes for the same content, and the pack that carries it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Commit", "commit_of"]

_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}
_WHO: Final = "Skillyard <skillyard@localhost>"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit without parents: its id in hex, and a pack file with all its objects."""

    id: str
    pack: bytes = field(repr=False)


@dataclass(slots=True)
class _Objects:
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


def commit_of(files: Iterable[tuple[str, bytes, bool]], *, message: str, seconds: int) -> Commit:
    """The commit of some files (path, content, whether it is executable), made `seconds` after 1970."""
    objects = _Objects()
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


def _tree(objects: _Objects, folder: Mapping[str, object]) -> bytes:
    """Write a folder and those below it; entries are sorted as if folders ended in a slash."""
    return objects.add("tree", b"".join(entry for _, entry in sorted(_entries(objects, folder))))


def _entries(objects: _Objects, folder: Mapping[str, object]) -> Iterator[tuple[bytes, bytes]]:
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
