"""Segments: postings of some skills with the state of the files they were read from, in memory and on disk.

An index is a list of segments, a large one and a few small ones. A skill that was edited gets a new small segment; what the old
one says about it no longer counts, because the state of its file is another. On disk they are two files, of which the second
holds the small segments; both are replaced in one step, and whatever is not as it should be is read anew from the skills.
So processes that write at the same time cannot harm each other: the last one stays, and what it lacks is added by the next.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from skillyard._version import __version__
from skillyard.search.postings import Postings, build, collected, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillyard.search.pages import Page

__all__ = ["Key", "Segment", "load_segments", "make_segment", "packed_postings", "save_segments", "with_segment"]

Key = tuple[object, ...]
"""What a page was read from: the skill, the state of its file and a checksum of its header; plain values."""

_FORMAT: Final = 1
_MAGIC: Final = b"SKYS"
_LARGEST: Final = 2 * 1024**3
_SMALL: Final = 256  # skills in small segments before they become part of the large one
_SEGMENTS: Final = 8
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_TYPES: Final = {
    "words": np.uint32, "starts": np.int64, "skills": np.int32, "plain": np.uint8, "told": np.uint8, "names": np.uint32,
    "name_starts": np.int64, "pairs": np.uint32, "pair_starts": np.int64, "lengths": np.int32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Segment:
    """Postings, and for each skill in them what it was read from."""

    keys: tuple[Key, ...]
    postings: Postings


def packed_postings(pages: Sequence[Page]) -> list[bytes]:
    """The postings of the pages as plain values, which another process can give back."""
    postings = build(pages)
    return [getattr(postings, field.name).tobytes() for field in fields(Postings)]


def make_segment(keys: Sequence[Key], parts: Sequence[list[bytes]]) -> Segment:
    """One segment of all that `packed_postings` made of the pages, in their order."""
    return Segment(tuple(keys), collected([_postings(part) for part in parts]))


def with_segment(segments: Sequence[Segment], new: Segment, wanted: Iterable[Key]) -> list[Segment]:
    """The segments and a new one, put together where they have become many; only `wanted` skills stay then."""
    small = sum(len(segment.keys) for segment in segments[1:]) + len(new.keys)
    everything = [*segments, new]
    if len(everything) == 1:
        return everything
    if small > max(_SMALL, len(segments[0].keys) // 20):
        return [_together(everything, set(wanted))]
    if len(everything) > _SEGMENTS:
        return [everything[0], _together(everything[1:], set(wanted))]
    return everything


def _together(segments: Sequence[Segment], wanted: set[Key]) -> Segment:
    first = segments[0]
    keys, postings = first.keys, first.postings
    for segment in segments[1:]:
        keep = np.fromiter((key in wanted for key in keys), np.bool_, len(keys))
        kept = tuple(key for key, stays in zip(keys, keep, strict=True) if stays)
        keys, postings = kept + segment.keys, merged(postings, keep, segment.postings)
    return Segment(keys, postings)


def load_segments(file: str) -> list[Segment]:
    """What is kept at `file` and beside it; empty when there is nothing, or nothing that can be trusted."""
    large = _read(file)
    if large is None:
        return []
    base, content = large
    beside = _read(f"{file}.more")
    segments = [_unpacked(one) for one in content[1]]
    if beside and beside[1][0] == base:
        segments += [_unpacked(one) for one in beside[1][1]]
    return segments


def save_segments(file: str, segments: Sequence[Segment], *, large: bool) -> None:
    """Keep the segments at `file`; without `large` only the small ones, when the large one there is still the same."""
    from skillyard.files import replace_file

    with contextlib.suppress(OSError):
        Path(file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = _mark(segments[0])
        if large:
            replace_file(file, _packed(mark, b"", segments[:1]), durable=False)
        replace_file(f"{file}.more", _packed(b"", mark, segments[1:]), durable=False)


def _mark(segment: Segment) -> bytes:
    """What tells one large segment from another."""
    keys = zlib.crc32(marshal.dumps(cast("Any", segment.keys), 2))
    return keys.to_bytes(4, "big") + len(segment.postings.skills).to_bytes(8, "big")


def _packed(own: bytes, base: bytes, segments: Sequence[Segment]) -> bytes:
    plain = [
        (segment.keys, [getattr(segment.postings, field.name).tobytes() for field in fields(Postings)]) for segment in segments
    ]
    body = marshal.dumps((_code(), own or base, plain))
    return _MAGIC + zlib.crc32(body).to_bytes(4, "big") + body


def _unpacked(plain: Any) -> Segment:
    keys, arrays = plain
    return Segment(keys, _postings(arrays))


def _postings(arrays: Sequence[bytes]) -> Postings:
    names = [field.name for field in fields(Postings)]
    return Postings(**{name: np.frombuffer(data, _TYPES[name]) for name, data in zip(names, arrays, strict=True)})


def _read(path: str) -> tuple[bytes, tuple[bytes, Any]] | None:
    """The mark and the content of one file."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022 or status.st_size > _LARGEST:
            return None
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            data = stream.read()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    view = memoryview(data)
    if data[:4] != _MAGIC or zlib.crc32(view[8:]).to_bytes(4, "big") != data[4:8]:
        return None
    try:
        code, mark, content = marshal.loads(view[8:])  # noqa: S302 - the trust of catalog/cache.py: our own file, not others'
    except (EOFError, ValueError, TypeError):
        return None
    return (mark, (mark, content)) if code == _code() else None


def _code() -> str:
    return f"{__version__} {_FORMAT} {sys.implementation.cache_tag} {sys.byteorder}"
