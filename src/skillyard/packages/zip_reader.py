"""Zip archives, read strictly, so that there is only one way to read them.

Central directory and local headers must agree; entries follow each other without gaps or overlaps from the first byte to the
directory; nothing stands before or after. An extra field that repeats a name or a size (Unicode path, ZIP64) must agree with
the header. A name is read as UTF-8 whether its flag is set or not, because Info-ZIP and macOS do not set it.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from skillyard.errors import ArchiveTooLarge, LinkNotAllowed, MalformedArchive, SpecialNotAllowed
from skillyard.packages.archive_entries import (
    REPACK_HINT,
    PackageLimits,
    TreeWriter,
    check_entry_count,
    check_total,
    decode_name,
    file_too_large,
    malformed,
    quoted_name,
    too_compressed,
)

_END: Final = struct.Struct("<4s4H2LH")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_STORED: Final = 0
_DEFLATED: Final = 8
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_DESCRIBED_AFTER: Final = 0x8
_DESCRIPTOR: Final = 24  # the most bytes of sizes that may follow a content
_CHUNK: Final = 256 * 1024
_UNICODE_PATH: Final = 0x7075
_ZIP64: Final = 0x0001
_SATURATED: Final = 0xFFFFFFFF
_LOCATOR: Final = 20  # bytes of the ZIP64 end locator, which stands before the end record
_DOS_FOLDER: Final = 0x10
_PROGRAMS: Final = (b"#!", b"\x7fELF")
"""How what can be started begins: it may be, where who packed it knew no permissions (browsers, Windows, single files)."""


@dataclass(frozen=True, slots=True)
class _Entry:
    raw: bytes
    name: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    start: int

    @property
    def folder(self) -> bool:
        return self.name.endswith("/")


def extract_zip(archive: int, length: int, writer: TreeWriter, limits: PackageLimits) -> None:
    """Write every entry of the zip archive `archive`, an open file of `length` bytes.

    Raises:
        ArchiveRefused: something in it breaks a rule.
    """
    directory, count, begin = _directory(archive, length, limits)
    entries = _entries(directory, count, limits)
    _check_sizes(entries, limits)
    contents = _contents(archive, entries, begin)
    for entry in entries:
        if entry.folder:
            writer.folder(entry.name)
        else:
            chunks, executable = _unpacked(archive, entry, contents[entry.start], limits), bool(entry.mode & 0o111)
            if not entry.mode:
                first = next(chunks, b"")
                chunks, executable = chain((first,), chunks), first.startswith(_PROGRAMS)
            writer.file(entry.name, chunks, executable=executable)


def _directory(archive: int, length: int, limits: PackageLimits) -> tuple[bytes, int, int]:
    """The bytes of the central directory, how many entries it should have, and where it begins."""
    tail = os.pread(archive, _END.size + 0xFFFF, max(0, length - _END.size - 0xFFFF))
    offset = tail.rfind(b"PK\x05\x06")
    if offset < 0 or len(tail) - offset < _END.size:
        raise MalformedArchive("the zip archive has no end: it is cut off", hint=REPACK_HINT)
    _, disk, first_disk, here, count, size, begin, comment = _END.unpack_from(tail, offset)
    end = length - len(tail) + offset
    check_entry_count(count, limits)
    if disk or first_disk or here != count or offset + _END.size + comment != len(tail) or begin + size != end:
        raise MalformedArchive("the zip archive has parts that do not belong to it, or is one of several", hint=REPACK_HINT)
    data = os.pread(archive, size, begin)
    if data[-_LOCATOR:].startswith(b"PK\x06\x07"):
        raise MalformedArchive("the zip archive has a second list of entries, for ZIP64", hint="pack without ZIP64")
    check_entry_count(data.count(b"PK\x01\x02"), limits, per_entry=4)
    return data, count, begin


def _entries(data: bytes, count: int, limits: PackageLimits) -> list[_Entry]:
    entries: list[_Entry] = []
    offset = 0
    while offset < len(data):
        if len(data) - offset < _CENTRAL.size or len(entries) >= limits.entries:
            raise MalformedArchive("the zip archive's list of entries is damaged", hint=REPACK_HINT)
        fields = _CENTRAL.unpack_from(data, offset)
        lengths = fields[10:13]
        name_end = offset + _CENTRAL.size + lengths[0]
        raw, extra = data[offset + _CENTRAL.size : name_end], data[name_end : name_end + lengths[1]]
        offset += _CENTRAL.size + sum(lengths)
        if fields[0] != b"PK\x01\x02" or offset > len(data) or fields[13]:
            raise MalformedArchive("the zip archive's list of entries is damaged", hint=REPACK_HINT)
        entry = _entry(raw, fields)
        _check_extra(entry, extra, saturated=False)
        entries.append(entry)
    if len(entries) != count:
        raise MalformedArchive("the zip archive has another number of entries than it says", hint=REPACK_HINT)
    return entries


def _entry(raw: bytes, fields: tuple[int, ...]) -> _Entry:
    flags, method, crc, packed, size = fields[3], fields[4], fields[7], fields[8], fields[9]
    mode, start = fields[15] >> 16, fields[16]
    name = decode_name(raw)
    if "\0" in name:
        raise MalformedArchive(f"the name {quoted_name(name)} ends twice", hint=REPACK_HINT, entry=name)
    if flags & _ENCRYPTED:
        raise malformed(name, "is encrypted", "pack without a password")
    if method not in (_STORED, _DEFLATED):
        raise malformed(name, f"is packed by method {method}", "pack with the usual method, deflate")
    if _SATURATED in (packed, size, start):
        raise malformed(name, "is written for archives over 4 GiB", "pack without ZIP64")
    _check_kind(name, mode, dos_folder=bool(fields[15] & _DOS_FOLDER))
    entry = _Entry(raw, name, flags, method, crc, packed, size, mode, start)
    if (entry.folder and size) or (method == _STORED and packed != size):
        raise malformed(name, "has sizes that contradict each other")
    return entry


def _check_kind(name: str, mode: int, *, dos_folder: bool) -> None:
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        raise LinkNotAllowed(f"{quoted_name(name)} is a link", hint="pack the file itself", entry=name)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise SpecialNotAllowed(f"{quoted_name(name)} is not a regular file", hint="leave it out", entry=name)
    if (kind and (kind == stat.S_IFDIR) != name.endswith("/")) or (dos_folder and not name.endswith("/")):
        raise malformed(name, "is a file and a folder")


def _check_extra(entry: _Entry, extra: bytes, *, saturated: bool) -> None:
    """Compare what extra fields repeat with the header; `saturated` means that the header leaves its sizes to ZIP64.

    Raises:
        MalformedArchive: one names the entry or measures it differently, or cannot be read.
    """
    seen: set[int] = set()
    for kind, data in _extra_fields(entry, extra):
        if kind in (_UNICODE_PATH, _ZIP64) and kind in seen:
            raise malformed(entry.name, "has an extra field twice")
        seen.add(kind)
        if kind == _UNICODE_PATH and data != struct.pack("<BL", 1, zlib.crc32(entry.raw)) + entry.raw:
            raise malformed(entry.name, "has another name in its Unicode path field", "pack with UTF-8 names")
        if kind == _ZIP64 and not _same_sizes(entry, data):
            raise malformed(entry.name, "has other sizes in its ZIP64 field", "pack without ZIP64")
    if saturated and _ZIP64 not in seen:
        raise malformed(entry.name, "has no sizes in its own header")


def _extra_fields(entry: _Entry, extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the data of each extra field: two bytes each for kind and length, then so many bytes."""
    offset = 0
    while offset < len(extra):
        kind, length = struct.unpack_from("<2H", extra, offset) if len(extra) - offset >= 4 else (0, len(extra))
        if offset + 4 + length > len(extra):
            raise malformed(entry.name, "has an extra field that is cut off")
        yield kind, extra[offset + 4 : offset + 4 + length]
        offset += 4 + length


def _same_sizes(entry: _Entry, data: bytes) -> bool:
    """Whether a ZIP64 field has the sizes of the entry, and also its offset.

    Zeros are what is written before a size is known; the sizes then follow the content.
    """
    if len(data) not in (16, 24, 28):
        return False
    size, packed = struct.unpack_from("<2Q", data)
    unknown = entry.flags & _DESCRIBED_AFTER and (size, packed) == (0, 0)
    start = struct.unpack_from("<Q", data, 16)[0] if len(data) > 16 else entry.start
    disk = struct.unpack_from("<L", data, 24)[0] if len(data) > 24 else 0
    return bool((size, packed) == (entry.size, entry.packed) or unknown) and start == entry.start and not disk


def _check_sizes(entries: list[_Entry], limits: PackageLimits) -> None:
    for entry in entries:
        if entry.size > limits.file:
            raise file_too_large(entry.name, limits.file)
        if entry.size > limits.ratio_from and entry.size > limits.ratio * max(entry.packed, 1):
            raise too_compressed(entry.name, limits)
    check_total(sum(entry.size for entry in entries), limits)


def _contents(archive: int, entries: list[_Entry], directory: int) -> dict[int, int]:
    """Where each entry's content begins, by where its local header does; entries must lie side by side."""
    contents: dict[int, int] = {}
    reached = slack = 0
    for entry in sorted(entries, key=lambda entry: entry.start):
        if not reached <= entry.start <= reached + slack:
            raise malformed(entry.name, "overlaps another entry or follows a gap")
        contents[entry.start] = begin = _begin(archive, entry)
        reached = begin + entry.packed
        slack = _DESCRIPTOR if entry.flags & _DESCRIBED_AFTER else 0
    if not reached <= directory <= reached + slack:
        raise MalformedArchive("the zip archive has content that it does not list", hint=REPACK_HINT)
    return contents


def _begin(archive: int, entry: _Entry) -> int:
    fixed = _LOCAL.size + len(entry.raw)
    head = os.pread(archive, fixed, entry.start)
    if len(head) < fixed:
        raise malformed(entry.name, "is cut off")
    magic, _, flags, method, _, _, crc, packed, size, name_length, extra = _LOCAL.unpack_from(head)
    described, saturated = (crc, packed, size), {packed, size} == {_SATURATED}
    same = described == (entry.crc, entry.packed, entry.size) or flags & _DESCRIBED_AFTER or saturated
    if magic != b"PK\x03\x04" or name_length != len(entry.raw) or head[_LOCAL.size :] != entry.raw:
        raise malformed(entry.name, "has another name in its own header")
    if flags != entry.flags or method != entry.method or not same:
        raise malformed(entry.name, "has another description in its own header")
    _check_extra(entry, os.pread(archive, extra, entry.start + fixed), saturated=saturated)
    return entry.start + fixed + int(extra)


def _unpacked(archive: int, entry: _Entry, begin: int, limits: PackageLimits) -> Iterator[bytes]:
    """The content in pieces, never more than was declared, its checksum proven at the end."""
    left, crc = entry.size, 0
    for chunk in _inflated(archive, entry, begin):
        left -= len(chunk)
        if left < 0:
            raise ArchiveTooLarge(f"{quoted_name(entry.name)} holds more than it declares", hint=REPACK_HINT, entry=entry.name)
        crc = zlib.crc32(chunk, crc)
        yield chunk
    if left or crc != entry.crc:
        raise MalformedArchive(f"the content of {quoted_name(entry.name)} is damaged", hint=REPACK_HINT, entry=entry.name)


def _inflated(archive: int, entry: _Entry, begin: int) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if entry.method == _DEFLATED else None
    end = begin + entry.packed
    while begin < end:
        data = os.pread(archive, min(_CHUNK, end - begin), begin)
        if not data:
            return
        begin += len(data)
        if inflate is None:
            yield data
            continue
        while data and not inflate.eof:
            try:
                yield inflate.decompress(data, _CHUNK)
            except zlib.error:
                raise MalformedArchive(
                    f"the content of {quoted_name(entry.name)} is damaged", hint=REPACK_HINT, entry=entry.name
                ) from None
            data = inflate.unconsumed_tail
    if inflate is not None:
        yield inflate.flush()
