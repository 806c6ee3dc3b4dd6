"""Text inside files that are no text: members of archives and office documents, text chunks of pictures.

Everything is read in memory, within bounds: a few hundred members, a megabyte of each, eight of all, three archives deep. What
cannot be opened is named. Nothing is written and nothing is run.
"""

from __future__ import annotations

import io
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from skillyard.packages import sniff
from skillyard.scanner.source_texts import reading_rank

MOST_MEMBERS: Final = 400
LARGEST_MEMBER: Final = 1024 * 1024
MOST_UNPACKED: Final = 8 * 1024 * 1024
DEEPEST: Final = 3
_ORDINARY: Final = 3
"""The rank from which on a file neither runs nor is read."""
_ERRORS: Final = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, RuntimeError,
    LookupError, TypeError, struct.error,
)  # fmt: skip
"""What the libraries raise for broken archives; tarfile lets a TypeError through."""
_OFFICE_TEXT: Final = re.compile(
    r"^(?:word/(?:document|comments|footnotes|endnotes|header\d*|footer\d*)|ppt/(?:slides/slide|notesSlides/notesSlide|comments/comment)\d*|xl/(?:sharedStrings|worksheets/sheet\d+|comments\d*)|docProps/(?:core|app|custom)"
    r"|content|meta)\.xml$"
)
_OFFICE: Final = ("[Content_Types].xml", "mimetype", "word/document.xml", "xl/workbook.xml", "ppt/presentation.xml")
"""Members of which one makes an archive an office document."""
_OFFICE_FORMS: Final = (".xml", ".rels", ".vml", ".emf", ".wmf", ".ttf", ".otf", ".odttf", ".fntdata", "/mimetype", "mimetype")
"""Members of one that say how it looks; others, such as pictures and what is embedded, are read like files."""
_BREAK: Final = re.compile(r"</(?:w:p|a:p|si|row|text:p|text:h|dc:\w{1,20}|cp:\w{1,20})>")
_TAG: Final = re.compile(r"<[^<>]{0,4000}>")
_UNREADABLE: Final = (b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_MACROS: Final = ("vbaproject.bin", "xl/macrosheets")


@dataclass(frozen=True, slots=True)
class Member:
    """One file inside another; `prose` when its text is what a reader of the outer file sees or a program hides there."""

    name: str
    data: bytes
    prose: bool = False
    whole: bool = True


@dataclass
class Contents:
    """What was found in a file, and why something in it was not."""

    members: list[Member] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Reasons, each about the whole file."""
    sealed: str = ""
    """Why nobody can look into a part of it."""
    macros: bool = False
    """Whether an office document has code."""
    hides: bool = False
    """Whether something that runs, or that is read, may be in what was not looked into."""
    left: int = MOST_UNPACKED


def unpack(name: str, data: bytes) -> Contents | None:
    """What is inside a file; None when it is nothing that holds others, and no picture with text."""
    contents = Contents()
    if data.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")):
        text = "\n".join(_picture_text(data)).strip()
        if text:
            contents.members.append(Member(f"{name}!text", text.encode("utf-8", "replace")[:LARGEST_MEMBER], prose=True))
    elif data.startswith(b"%PDF"):
        if text := "\n".join(_pdf_text(data)).strip():
            contents.members.append(Member(f"{name}!text", text.encode("utf-8", "replace")[:LARGEST_MEMBER], prose=True))
    elif data.startswith(_UNREADABLE):
        return Contents(sealed="it is packed in a format that is not opened here")
    form = sniff(data[:512])
    readers = [_tar] if form in ("tar", "tar.gz") else []
    if form == "zip" or zipfile.is_zipfile(io.BytesIO(data)):  # behind anything else, where Python finds it too
        readers.append(_zip)
    for read in readers:
        try:
            read(name, data, contents)
        except _ERRORS as error:
            if data.startswith(b"\x1f\x8b") and not contents.members:
                return _gzip(name, data)
            contents.unread.append(f"the archive cannot be read: {type(error).__name__}")
    return contents if readers or contents.members else None


def _gzip(name: str, data: bytes) -> Contents:
    """One file that is packed by itself."""
    contents = Contents()
    try:
        text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, LARGEST_MEMBER + 1)
    except zlib.error as error:
        contents.unread.append(f"it cannot be unpacked: {type(error).__name__}")
        return contents
    inner = name.rpartition("/")[2].removesuffix(".gz") or "content"
    contents.hides = len(text) > LARGEST_MEMBER and reading_rank(inner) < _ORDINARY
    if contents.hides:
        contents.unread.append("too much is in it")
    _keep(name, inner, text, contents, office=False)
    return contents


def _zip(name: str, data: bytes, contents: Contents) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        names = {entry.filename for entry in entries[:MOST_MEMBERS]}
        office = not names.isdisjoint(_OFFICE)
        contents.macros = any(word in entry.filename.lower() for entry in entries[:MOST_MEMBERS] for word in _MACROS)
        entries.sort(key=lambda entry: reading_rank(entry.filename))
        for number, entry in enumerate(entries):
            if number == MOST_MEMBERS or contents.left <= 0:
                contents.unread.append("too much is in it")
                contents.hides = not office and reading_rank(entry.filename) < _ORDINARY
                return
            text = bool(_OFFICE_TEXT.match(entry.filename)) or entry.filename.startswith("customXml/")
            if entry.is_dir() or (office and not text and entry.filename.endswith(_OFFICE_FORMS)):
                continue
            if entry.flag_bits & 1:
                contents.sealed = f"{entry.filename[:80]} needs a password"
                continue
            with archive.open(entry) as member:
                _keep(
                    name, entry.filename, member.read(min(LARGEST_MEMBER, contents.left) + 1), contents, office=office and text
                )


def _tar(name: str, data: bytes, contents: Contents) -> None:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
        for number, entry in enumerate(archive):
            if number == MOST_MEMBERS or contents.left <= 0:
                contents.unread.append("too much is in it")
                contents.hides = True
                return
            if entry.size > MOST_UNPACKED:
                contents.unread.append("a member is too large")
                contents.hides = True
                return
            if entry.isfile() and (member := archive.extractfile(entry)) is not None:
                _keep(name, entry.name, member.read(min(LARGEST_MEMBER, contents.left) + 1), contents, office=False)


def _keep(outer: str, inner: str, data: bytes, contents: Contents, *, office: bool) -> None:
    limit = min(LARGEST_MEMBER, contents.left)
    whole, data = len(data) <= limit, data[:limit]
    contents.left -= len(data)
    if office:
        text = _TAG.sub("", _BREAK.sub("\n", data.decode("utf-8", "replace")))
        data = text.encode("utf-8", "replace")
    if data.strip():
        contents.members.append(Member(f"{outer}!{inner[:200]}", data, prose=office, whole=whole))


def _picture_text(data: bytes) -> Iterator[str]:
    """Comments and text chunks of a PNG, JPEG, GIF or WebP, and what stands behind a picture."""
    if data.startswith(b"\x89PNG"):
        yield from _png_text(data)
        yield from _words(data[data.rfind(b"IEND") + 8 :])
    elif data.startswith(b"RIFF"):
        for kind in (b"EXIF", b"XMP "):
            if (at := data.find(kind, 12)) >= 0:
                yield from _words(data[at + 8 : at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")])
    elif data.startswith(b"\xff\xd8"):
        yield from _jpeg_text(data)
        yield from _words(data[data.rfind(b"\xff\xd9") + 2 :])
    else:
        at = data.find(b"!\xfe")
        for _ in range(20):
            if at < 0:
                return
            length = data[at + 2] if at + 2 < len(data) else 0
            yield data[at + 3 : at + 3 + length].decode("latin-1")
            at = data.find(b"!\xfe", at + 3)


def _png_text(data: bytes) -> Iterator[str]:
    at, left = 8, LARGEST_MEMBER
    for _ in range(2_000):
        if at + 12 > len(data) or left <= 0:
            return
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + min(length, LARGEST_MEMBER)]
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            text = _chunk_text(kind, body, left)
            left -= len(text)
            yield text
        if kind == b"IEND":
            return
        at += 12 + length


def _chunk_text(kind: bytes, body: bytes, most: int) -> str:
    """The text of one chunk, behind its keyword (PNG, third edition, section 11.3.3)."""
    _, _, rest = body.partition(b"\0")
    try:
        if kind == b"zTXt":
            return zlib.decompressobj().decompress(rest[1:], most).decode("latin-1")
        if kind == b"iTXt":
            packed = rest[:1] == b"\1"
            text = rest[2:].partition(b"\0")[2].partition(b"\0")[2]
            return (zlib.decompressobj().decompress(text, most) if packed else text).decode("utf-8", "replace")
    except zlib.error:
        return ""
    return rest.decode("latin-1")


_WORDS: Final = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xfe]{24,4000}")


_STREAM: Final = re.compile(rb"stream\r?\n")
# A string or a list begins at no escaped bracket: so what is read once as its content is not begun at again.
_SHOWN: Final = re.compile(
    rb"(?<!\\)\[((?:[^\[\]\\]|\\.){0,4000})\]\s{0,3}TJ|(?<!\\)\(((?:[^()\\]|\\.){0,4000})\)\s{0,3}(?:Tj|')|\b(?:T\*|Td|TD)\b"
)
_PIECE: Final = re.compile(rb"(?<!\\)\(((?:[^()\\]|\\.){0,4000})\)")
_MOST_STREAMS: Final = 400


def _pdf_text(data: bytes) -> Iterator[str]:
    """What the pages of a PDF show, where it is written in letters and not in numbers of a font's own."""
    left = MOST_UNPACKED
    for number, start in enumerate(_STREAM.finditer(data)):
        if number == _MOST_STREAMS or left <= 0:
            return
        try:
            page = zlib.decompressobj().decompress(data[start.end() : start.end() + LARGEST_MEMBER], min(left, LARGEST_MEMBER))
        except zlib.error:
            continue
        left -= len(page)
        if b"BT" in page:
            pieces = (
                b"".join(_PIECE.findall(one[1])) if one[1] is not None else one[2] or b"\n" for one in _SHOWN.finditer(page)
            )
            yield b"".join(pieces).decode("latin-1")


def _words(data: bytes) -> Iterator[str]:
    """What reads like text in some bytes."""
    return (match[0].decode("utf-8", "replace") for match in _WORDS.finditer(data[:LARGEST_MEMBER]))


def _jpeg_text(data: bytes) -> Iterator[str]:
    at = 2
    for _ in range(200):
        if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] == 0xDA:
            return
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + length]
        if data[at + 1] == 0xFE:
            yield body.decode("utf-8", "replace")
        elif data[at + 1] == 0xE1:
            yield from _words(body)
        at += 2 + max(length, 2)
