"""Name the exact content of a skill's folder, so that an approval of it ends when anything in it changes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from skillyard.reserved_files import is_reserved

__all__ = ["file_digests", "folded", "tree_digest"]

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CHUNK: Final = 1024 * 1024


def tree_digest(directory: str | os.PathLike[str], *, without: str | None = None) -> str:
    """`sha256:` and 64 hex digits over every file below `directory`, hidden ones included, but for the one path `without`.

    For each path in bytewise order: a letter for its kind (`f` file, `x` executable file, `l` link, `d` empty folder, `o`
    other, such as records in use), the length of the path, the path, and the SHA-256 of the bytes (of a link: its target).
    Links are never followed, so what they lead to is not part of the skill.
    """
    root = os.fsencode(directory)
    left_out = None if without is None else os.fsencode(without)
    return folded((path, *_content(root + b"/" + path)) for path in sorted(_paths(root)) if path != left_out)


def file_digests(directory: str | os.PathLike[str]) -> dict[str, str]:
    """For each path below `directory` what its content is: the letter and SHA-256 that `tree_digest` takes.

    Names that are no UTF-8 have their bytes as the surrogates of `os.fsdecode`.
    """
    root = os.fsencode(directory)
    found = ((path, *_content(root + b"/" + path)) for path in sorted(_paths(root)))
    return {os.fsdecode(path): kind.decode("ascii") + content.hex() for path, kind, content in found if kind != b"d"}


def folded(entries: Iterable[tuple[bytes, bytes, bytes]]) -> str:
    """The digest of a tree from path, letter and SHA-256 of each entry, sorted bytewise by path."""
    digest = hashlib.sha256(b"skillyard tree 1\n")
    for path, kind, content in entries:
        digest.update(kind + len(path).to_bytes(8, "big") + path + content)
    return f"sha256:{digest.hexdigest()}"


def _paths(root: bytes) -> Iterator[bytes]:
    waiting = [b""]
    for prefix in waiting:  # grows while it runs
        with os.scandir(root + b"/" + prefix) as entries:
            found = list(entries)
        if not found and prefix:
            yield prefix[:-1]
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(prefix + entry.name + b"/")
            else:
                yield prefix + entry.name


def _content(path: bytes) -> tuple[bytes, bytes]:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return b"l", hashlib.sha256(os.readlink(path)).digest()  # noqa: PTH115 # bytes
    if not stat.S_ISREG(mode) or is_reserved(path):
        return b"d" if stat.S_ISDIR(mode) else b"o", hashlib.sha256().digest()
    digest = hashlib.sha256()
    descriptor = os.open(path, _FLAGS)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
    finally:
        os.close(descriptor)
    return b"x" if mode & 0o111 else b"f", digest.digest()
