"""Walk a skill's folder, and name its exact content, so that an approval of it ends when anything in it changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from skillyard.errors import DigestMismatch, InvalidInput
from skillyard.packages.entries import PackageLimits
from skillyard.paths import CLOEXEC, NOCTTY, NOFOLLOW, NONBLOCK, is_reserved

_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC | NOCTTY
_CHUNK: Final = 1024 * 1024

EntryKind = Literal["f", "x", "l", "d", "o"]
"""A file, an executable file, a link, an empty folder, or anything else such as a pipe."""


class TreeEntry(NamedTuple):
    """One entry of a folder's tree: its path in it, its kind, and its size in bytes (0 for an empty folder)."""

    path: str
    kind: EntryKind
    size: int


def tree_entries(
    root: str | os.PathLike[str],
    without: Callable[[str, os.DirEntry[str]], bool] = lambda _path, _entry: False,
    *,
    lenient: bool = False,
) -> Iterator[TreeEntry]:
    """Everything below `root` but for what `without` excludes, in no order; links are not followed.

    A folder is an entry only when nothing in it is one. Names that are not UTF-8 have surrogates, as in `os.fsdecode`. Where
    it is `lenient`, what cannot be listed, or has gone meanwhile, has no entries.

    Raises:
        OSError: a folder cannot be listed.
    """
    waiting = [""]
    for prefix in waiting:  # grows while it runs
        empty = True
        with (
            contextlib.suppress(OSError) if lenient else contextlib.nullcontext(),
            os.scandir(f"{os.fspath(root)}/{prefix}") as entries,
        ):
            for entry in entries:
                path = prefix + entry.name
                if without(path, entry):
                    continue
                empty = False
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(f"{path}/")
                else:
                    yield TreeEntry(path, _entry_kind(status.st_mode), status.st_size)
        if empty and prefix:
            yield TreeEntry(prefix[:-1], "d", 0)


def _entry_kind(mode: int) -> EntryKind:
    if not stat.S_ISREG(mode):
        return "l" if stat.S_ISLNK(mode) else "o"
    return "x" if mode & 0o111 else "f"


def tree_size(root: str | os.PathLike[str], *, lenient: bool = False) -> int:
    """The bytes of all files below a folder; `lenient` as for `tree_entries`."""
    return sum(entry.size for entry in tree_entries(root, lenient=lenient))


def tree_digest(directory: str | os.PathLike[str], *, without: str | None = None) -> str:
    """`sha256:` and 64 hex digits over every file below `directory`, hidden ones included, but for the one path `without`.

    For each path in bytewise order: a letter for its kind (`f` file, `x` executable file, `l` link, `d` empty folder, `o`
    other, such as records in use), the length of the path, the path, and the SHA-256 of the bytes (of a link: its target).
    Links are never followed, so what they lead to is not part of the skill.
    """
    return digest_of_entries(_contents(directory, left_out=without))


def file_digests(directory: str | os.PathLike[str]) -> dict[str, str]:
    """For each path below `directory` what its content is: the letter and SHA-256 that `tree_digest` takes.

    Names that are no UTF-8 have their bytes as the surrogates of `os.fsdecode`.
    """
    return {path: kind + content.hex() for path, kind, content in _contents(directory) if kind != "d"}


def digest_of_entries(entries: Iterable[tuple[str, EntryKind, bytes]]) -> str:
    """The digest of a tree from path, letter and SHA-256 of each entry, sorted bytewise by path."""
    digest = hashlib.sha256(b"skillyard tree 1\n")
    for name, kind, content in entries:
        path = os.fsencode(name)
        digest.update(kind.encode() + len(path).to_bytes(8, "big") + path + content)
    return f"sha256:{digest.hexdigest()}"


def _contents(directory: str | os.PathLike[str], *, left_out: str | None = None) -> Iterator[tuple[str, EntryKind, bytes]]:
    """Path, letter and SHA-256 of everything in a folder, sorted bytewise by path; the path `left_out` is not even read."""
    for path, kind, _ in sorted(tree_entries(directory), key=lambda entry: os.fsencode(entry.path)):
        if path == left_out:
            continue
        whole = f"{os.fspath(directory)}/{path}"
        if kind in ("f", "x") and is_reserved(whole):
            kind = "o"
        yield path, kind, _content(whole, kind)


def _content(path: str, kind: EntryKind) -> bytes:
    if kind == "l":
        return hashlib.sha256(os.fsencode(os.readlink(path))).digest()  # noqa: PTH115 # as it is written
    digest = hashlib.sha256()
    if kind in ("f", "x"):
        descriptor = os.open(path, _FLAGS)
        try:
            while chunk := os.read(descriptor, _CHUNK):
                digest.update(chunk)
        finally:
            os.close(descriptor)
    return digest.digest()


DIGEST_PATTERN: Final = re.compile(r"sha256:([0-9a-f]{64})")


def digest_of(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_hex(digest: str) -> str:
    """The 64 hex digits of a digest. Raises InvalidInput: it is no digest."""
    match = DIGEST_PATTERN.fullmatch(digest)
    if not match:
        raise InvalidInput(f"{digest[:100]!r} is not a digest", hint="for example sha256: and 64 lower-case hex digits")
    return match[1]


def check_size(size: int, digest: str) -> None:
    """Refuse what is larger than any package, before it is read into memory.

    Raises:
        DigestMismatch: it cannot be what was put there.
    """
    if size > PackageLimits().archive:
        raise DigestMismatch(
            f"what the store has under {digest} is {size:,} bytes, more than any package",
            hint="somebody else wrote it there: check who may write to the store",
            expected=digest,
        )


def check_content(data: bytes, digest: str | None) -> str:
    """The digest of `data`. Raises DigestMismatch: it is not the `digest` that is given."""
    actual = digest_of(data)
    if digest is not None and f"sha256:{digest_hex(digest)}" != actual:
        raise DigestMismatch(
            f"the content has the digest {actual} and not {digest}",
            hint="it was changed or damaged: get it again from where it was published",
            expected=digest,
            found=actual,
        )
    return actual
