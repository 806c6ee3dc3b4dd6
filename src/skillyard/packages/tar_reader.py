"""Tar archives, plain or compressed by gzip, read in one pass and never further than the limits allow.

Whatever two readers could interpret differently is refused: two names or sizes, a prefix outside ustar, numbers that are not
plain octal.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from skillyard.errors import ArchiveTooLarge, LinkNotAllowed, MalformedArchive, SpecialNotAllowed
from skillyard.packages.archive_entries import (
    REPACK_HINT,
    PackageLimits,
    TreeWriter,
    check_entry_count,
    decode_name,
    file_too_large,
    malformed,
    quoted_name,
    too_compressed,
)

_BLOCK: Final = 512
_CHUNK: Final = 256 * 1024
_MEMBERS: Final = 64  # how many gzip streams may follow each other
_EXTENSION: Final = 64 * 1024  # bytes of one extended header
_OCTAL: Final = re.compile(rb"[0-7]*")
_USTAR: Final = b"ustar\0"
_PAX_IGNORED: Final = frozenset({
    b"atime", b"charset", b"comment", b"ctime", b"gid", b"gname", b"mtime", b"uid", b"uname",
    b"LIBARCHIVE.creationtime",
})  # fmt: skip
_PAX_IGNORED_BEGINNINGS: Final = (b"SCHILY.", b"LIBARCHIVE.xattr.", b"RHT.", b"APPLE.")


def is_tar_header(block: bytes) -> bool:
    """Whether the first 512 bytes of a file are the header of a tar archive: its checksum fits."""
    return len(block) == _BLOCK and any(block) and _checksum_fits(block)


class _Stream:
    """The bytes of the archive, unpacked when they are compressed, counted on both sides."""

    def __init__(self, archive: int, *, compressed: bool) -> None:
        self._archive = archive
        self._place = 0
        self._inflate = zlib.decompressobj(31) if compressed else None
        self._members = 1
        self._ahead = b""
        self._waiting = b""

    @property
    def taken(self) -> int:
        """How many bytes of the file were used."""
        return self._place - len(self._waiting)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; empty at the end."""
        if not self._ahead:
            self._ahead = self._more()
        piece, self._ahead = self._ahead[:size], self._ahead[size:]
        return piece

    def exactly(self, size: int) -> bytes:
        """`size` bytes. Raises MalformedArchive: the archive ends before."""
        pieces: list[bytes] = []
        while size:
            piece = self.read(size)
            if not piece:
                raise MalformedArchive("the tar archive is cut off", hint=REPACK_HINT)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _more(self) -> bytes:
        while True:
            data = self._waiting
            if not data:
                data = os.pread(self._archive, _CHUNK, self._place)
                self._place += len(data)
            self._waiting = b""
            if self._inflate is None:
                return data
            if self._inflate.eof:
                if not data:
                    return b""
                self._next_member()
            if not data:
                raise MalformedArchive("the gzip stream is cut off", hint=REPACK_HINT)
            try:
                unpacked = self._inflate.decompress(data, _CHUNK)
            except zlib.error:
                raise MalformedArchive("the gzip stream is damaged", hint=REPACK_HINT) from None
            self._waiting = self._inflate.unconsumed_tail or self._inflate.unused_data
            if unpacked:
                return unpacked

    def _next_member(self) -> None:
        self._members += 1
        if self._members > _MEMBERS:
            raise ArchiveTooLarge(f"the archive is made of over {_MEMBERS} gzip streams", hint="pack it in one")
        self._inflate = zlib.decompressobj(31)


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    kind: bytes
    size: int
    mode: int


@dataclass(slots=True)
class _Pending:
    """What extended headers declare about the next entry."""

    path: bytes | None = None
    size: int | None = None


def extract_tar(archive: int, writer: TreeWriter, limits: PackageLimits, *, compressed: bool) -> None:
    """Write every entry of the tar archive `archive`, an open file. Raises ArchiveRefused: something in it breaks a rule."""
    stream = _Stream(archive, compressed=compressed)
    pending, count = _Pending(), 0
    while any(block := stream.exactly(_BLOCK)):
        if not _checksum_fits(block):
            raise MalformedArchive("the tar archive is damaged: a header has a wrong checksum", hint=REPACK_HINT)
        count += 1
        check_entry_count(count, limits, per_entry=3)
        kind = block[156:157]
        if kind in (b"x", b"g", b"L"):
            _extend(pending, kind, stream, _number(block[124:136]))
            continue
        _write(_header(block, pending), stream, writer, limits)
        pending = _Pending()
    _check_end(stream)


def _check_end(stream: _Stream) -> None:
    """After the first empty block only emptiness may follow: some readers would continue."""
    left = 4 * _CHUNK
    while piece := stream.read(_CHUNK):
        left -= len(piece)
        if any(piece) or left < 0:
            raise MalformedArchive("the tar archive continues after its end", hint=REPACK_HINT)


def _checksum_fits(block: bytes) -> bool:
    digits = block[148:156].strip(b" \0")
    return _OCTAL.fullmatch(digits) is not None and int(digits or b"0", 8) == sum(block[:148]) + 8 * 32 + sum(block[156:])


def _number(field: bytes) -> int:
    """An octal number, or one in base 256 when its first bit is set."""
    if field[0] & 0x80:
        number = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] == 0x80 else -1
    else:
        digits = field.strip(b" \0")
        number = int(digits or b"0", 8) if _OCTAL.fullmatch(digits) else -1
    if number < 0:
        raise MalformedArchive("the tar archive is damaged: a header has no proper number", hint=REPACK_HINT)
    return number


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _header(block: bytes, pending: _Pending) -> _Header:
    raw, size = _text(block[:100]), _number(block[124:136])
    if prefix := _text(block[345:500]):
        if block[257:263] != _USTAR:  # some readers take it for a part of the name all the same
            raise MalformedArchive(
                f"{quoted_name(decode_name(raw))} has a prefix of another format", hint="pack as ustar or pax"
            )
        raw = prefix + b"/" + raw
    name = decode_name(pending.path if pending.path is not None else raw)
    if pending.size not in (None, size):
        raise malformed(name, "has another size in its extended header")
    return _Header(name, block[156:157], size, _number(block[100:108]))


def _extend(pending: _Pending, kind: bytes, stream: _Stream, size: int) -> None:
    if size > _EXTENSION:
        raise ArchiveTooLarge(f"an extended header is over {_EXTENSION} bytes", hint="pack with ordinary names")
    data = stream.exactly(size)
    stream.exactly(-size % _BLOCK)
    if kind == b"L":
        _name(pending, _text(data))
        return
    for key, value in _pax(data):
        _apply_record(pending, key, value, everywhere=kind == b"g")


def _name(pending: _Pending, path: bytes) -> None:
    """Take the name of the next entry, which has one."""
    if pending.path is not None:
        raise MalformedArchive(f"{quoted_name(decode_name(path))} has another name in another header", hint=REPACK_HINT)
    pending.path = path


def _pax(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The records of an extended header: a length, a space, `KEY=VALUE`, a line end."""
    while data:
        length, blank, _ = data[:20].partition(b" ")
        number = int(length) if length.isdigit() and blank else 0
        record = data[len(length) + 1 : number]
        key, equals, value = record.partition(b"=")
        if number > len(data) or not key or not equals or not value.endswith(b"\n"):
            raise MalformedArchive("the tar archive is damaged: an extended header cannot be read", hint=REPACK_HINT)
        yield key, value[:-1]
        data = data[number:]


def _apply_record(pending: _Pending, key: bytes, value: bytes, *, everywhere: bool) -> None:
    if key in _PAX_IGNORED or key.startswith(_PAX_IGNORED_BEGINNINGS):
        return
    if key == b"hdrcharset" and value != b"BINARY":
        return
    if key.startswith(b"GNU.sparse."):
        raise SpecialNotAllowed("a file is written with holes", hint="pack without --sparse")
    if everywhere or key not in (b"path", b"size", b"linkpath"):
        where = "for every file" if everywhere else "in an extended header"
        raise MalformedArchive(f"{quoted_name(key.decode('utf-8', 'replace'))} is set {where}", hint="pack with plain headers")
    if key == b"path":
        _name(pending, value)
    elif key == b"size":
        if not value.isdigit() or len(value) > 19 or pending.size is not None:
            raise MalformedArchive("the tar archive is damaged: a size is not a number, or is given twice", hint=REPACK_HINT)
        pending.size = int(value)


def _write(header: _Header, stream: _Stream, writer: TreeWriter, limits: PackageLimits) -> None:
    name = header.name
    if header.kind in (b"1", b"2", b"K"):
        raise LinkNotAllowed(f"{quoted_name(name)} is a link", hint="pack the file itself: tar has --dereference", entry=name)
    if header.kind == b"5":
        if header.size:
            raise malformed(name, "is a folder with content")
        if name.strip("/") not in ("", "."):
            writer.folder(_plain(name))
        elif name not in (".", "./"):
            writer.folder(name)
        return
    if header.kind not in (b"0", b"\0", b"7"):
        raise SpecialNotAllowed(f"{quoted_name(name)} is not a regular file", hint="leave it out", entry=name)
    if name.endswith("/"):
        raise malformed(name, "is a file and a folder")
    if header.size > limits.file:
        raise file_too_large(name, limits.file)
    writer.file(_plain(name), _content(header, stream, writer, limits), executable=bool(header.mode & 0o111))
    stream.exactly(-header.size % _BLOCK)


def _plain(name: str) -> str:
    """Without the `./` that `tar -C folder .` writes before every name."""
    return name[2:] if name.startswith("./") else name


def _content(header: _Header, stream: _Stream, writer: TreeWriter, limits: PackageLimits) -> Iterator[bytes]:
    left = header.size
    while left:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            raise MalformedArchive("the tar archive is cut off", hint=REPACK_HINT, entry=header.name)
        left -= len(chunk)
        unpacked = writer.size + header.size - left
        if unpacked > limits.ratio_from and unpacked > limits.ratio * max(stream.taken, 1):
            raise too_compressed(header.name, limits)
        yield chunk
