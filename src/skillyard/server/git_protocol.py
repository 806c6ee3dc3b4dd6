"""The side of git's smart HTTP protocol that a repository of one commit needs to be cloned from, shallow or not.

Version 0 of the protocol, which every client understands: a list of references, then for what the client wants a pack file
(gitprotocol-pack, gitprotocol-http).
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from typing import Final

from skillyard.errors import InvalidInput
from skillyard.server.git_objects import Commit

__all__ = ["ADVERTISED", "RESULT", "advertisement", "answer", "unpacked", "wanted"]

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


def wanted(request: bytes) -> str:
    """The id of the commit that a client wants.

    Raises:
        InvalidInput: it is no such request, or wants several.
    """
    ids = {line[5:45].decode("latin-1") for line in _lines(request) if line.startswith(b"want ")}
    if len(ids) != 1:
        raise InvalidInput("that is no request for one commit", hint="fetch with git")
    return ids.pop()


def answer(commit: Commit, request: bytes) -> bytes:
    """What a client gets that sends `request` and wants `commit`.

    A shallow clone is whole here: the commit has no parents. Such a client first asks without being done, to hear that.
    """
    lines = list(_lines(request))
    shallow = _FLUSH if any(line.startswith(b"deepen") for line in lines) else b""
    if not any(line.strip() == b"done" for line in lines):
        return shallow or _line("NAK\n")
    return shallow + _line("NAK\n") + commit.pack


def unpacked(body: bytes, encoding: str) -> bytes:
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
