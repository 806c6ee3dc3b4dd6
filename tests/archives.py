"""Archives as attackers and ordinary tools write them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib

SKILL = b"---\nname: tidy\ndescription: Tidies up.\n---\nDo it.\n"
# fmt: off
OUTSIDE = ("../x", "a/../../x", "/abs", "C:\\x", "C:x", "\\\\srv\\x", "..\\x", "a//b", "./../x", "a/./b", "..", "~/../x")
WINDOWS = ("CON", "nul.txt", "COM1", "com\u00b9", "a/LPT9.md", "aux .txt", "a:stream", "dot.", "space ", "a./b", "CONIN$")
HIDDEN = ("a\u202egpj.sh", "a\u200bb", "a\U000e0041b", "a\x1b[2Jb", "a\nb", "a\u2028b", "a\u2066b", "\ufeffa")
# fmt: on


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    """A zip archive by the standard library."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o644, pax: dict[str, str] | None = None
) -> tarfile.TarInfo:
    """One entry of a tar archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.pax_headers = kind, link, mode, pax or {}
    return info


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], compressed: bool = True, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive by the standard library."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, data in entries:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0) if compressed else buffer.getvalue()


def raw_zip(
    name: bytes,
    *,
    local: bytes | None = None,
    flags: int = 0,
    size: int | None = None,
    data: bytes = b"x",
    crc: int | None = None,
    hidden: bytes = b"",
    extra: bytes = b"",
    local_extra: bytes = b"",
    comment: bytes = b"",
    attributes: int = 0,
) -> bytes:
    """A zip archive of one stored entry, written by hand so that it may lie."""
    said = len(data) if size is None else size
    sum_ = zlib.crc32(data) if crc is None else crc
    own = name if local is None else local
    head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, 0, 0, 33, sum_, len(data), said, len(own), len(local_extra)) + own
    head += local_extra
    lengths = len(name), len(extra), len(comment)
    central = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 788, 20, flags, 0, 0, 33, sum_, len(data), said, *lengths, 0, 0, attributes, 0
    )
    central += name + extra + comment
    begin = len(head) + len(data) + len(hidden)
    return head + data + hidden + central + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), begin, 0)


def extra_field(kind: int, data: bytes) -> bytes:
    """One extra field of a zip entry."""
    return struct.pack("<2H", kind, len(data)) + data


def unicode_path(name: str, header: bytes) -> bytes:
    """The extra field 0x7075, which names an entry a second time; it holds while the header says `header`."""
    return extra_field(0x7075, struct.pack("<BL", 1, zlib.crc32(header)) + name.encode())


def overlapping() -> bytes:
    """Two entries of the directory that share one content."""
    data = bytearray(raw_zip(b"a"))
    end = data.rindex(b"PK\5\6")
    begin = data.index(b"PK\1\2")
    central = bytes(data[begin:end])
    second = central[:-1] + b"b"
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 2 * len(central), begin, 0)
    return bytes(data[:begin]) + central + second + tail
