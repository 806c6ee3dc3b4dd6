"""Read one file of a skill for a person or a model: contained, bounded, and told apart as text or binary."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from skillyard.catalog.inventory import is_denied, media_type, walk_files
from skillyard.catalog.summaries import legacy_header
from skillyard.document import DOCUMENT_LIMIT, parse_document
from skillyard.errors import FileMissing, PathRefused, SkillUnusable
from skillyard.paths import is_inside, read_inside, real_path, safe_relative
from skillyard.text import nearest

if TYPE_CHECKING:
    from skillyard.document import Document, Profile


_SHOWN: Final = 20
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
    (b"\0\x01\0\0", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
)
# Bytes that do not occur in text: controls but for tab, newline, form feed, return and escape.
_CONTROLS: Final = bytes(set(range(32)) - {9, 10, 12, 13, 27}) + b"\x7f"


class HasFolder(Protocol):
    """What has a folder: a skill of the catalog, or an installed version."""

    @property
    def directory(self) -> str:
        """The folder."""


class ReadableSkill(HasFolder, Protocol):
    """A skill whose SKILL.md can be read: where it is, and by which profile it is checked."""

    @property
    def id(self) -> str:
        """The id in the catalog."""

    @property
    def path(self) -> str:
        """The path of SKILL.md."""

    @property
    def profile(self) -> Profile:
        """How strictly it is checked."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file: its path as it was found, its bytes, and its text unless it is binary.

    `media_type` is for example `text/plain` or `image/png`. `note` says when the file was found under another spelling or is
    not UTF-8.
    """

    path: str
    data: bytes
    text: str | None
    media_type: str
    note: str | None = None

    @property
    def binary(self) -> bool:
        """Whether the file is not text."""
        return self.text is None

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return len(self.data)


def read_file(skill: HasFolder, path: str, *, limit: int) -> FileContent:
    """The file at `path`; a spelling that differs in case only is accepted when one file fits, and said in the note (D-11).

    Raises:
        PathRefused: the path leaves the folder, also through a link, has a denied name, or is no regular file.
        FileMissing: no such file; `details["candidates"]` lists near names, or all when there are few.
        FileTooLarge: longer than `limit` bytes.
    """
    wanted = safe_relative(path)
    root = real_path(skill.directory)
    relative, note = _located(root, wanted)
    data = read_inside(root, _real_relative(root, relative), limit=limit)
    text, encoding = _decoded(data)
    notes = [part for part in (note, encoding) if part]
    return FileContent(relative, data, text, _media_type(relative, data, text), "; ".join(notes) or None)


def read_document(skill: ReadableSkill, directory: str | None = None) -> Document:
    """The parsed SKILL.md, with the metadata of METADATA.yml when it has no front matter itself (row 000-6).

    `directory` is a copy of the skill's folder to read instead.
    """
    root = real_path(directory or skill.directory)
    file = skill.path.rpartition("/")[2]
    try:
        data = read_inside(root, _real_relative(root, file), limit=DOCUMENT_LIMIT * 2)
    except (OSError, FileMissing, PathRefused) as error:
        raise SkillUnusable(
            f"{skill.id} cannot be read: {error}", hint="`skillyard list` shows what is wrong with it", id=skill.id
        ) from None
    folder = skill.directory.rpartition("/")[2]
    document = parse_document(data, file=file, directory_name=folder, profile=skill.profile)
    if any(found.rule == "front-matter-missing" for found in document.diagnostics) and (header := legacy_header(root)):
        return parse_document(header + data, file=file, directory_name=folder, profile=skill.profile)
    return document


def _real_relative(root: str, relative: str) -> str:
    """`relative` with links inside the skill resolved, so that it can be opened without following any."""
    real = real_path(f"{root}/{relative}")
    resolved = relative
    if real != f"{root}/{relative}":
        if not is_inside(real, root):
            raise PathRefused(
                f"{relative!r} is a link that leaves the skill's folder",
                hint="only files inside the skill's folder can be read",
            )
        resolved = os.path.relpath(real, root)
    for name in (relative, resolved):
        if is_denied(name):
            raise PathRefused(f"{name!r} is never shown: it may hold a secret", hint="keys, .env files and .git stay closed")
    return resolved


def _located(root: str, wanted: str) -> tuple[str, str | None]:
    """The path of the file that is meant and a note when it is spelled otherwise."""
    if is_denied(wanted) or os.path.isfile(f"{root}/{wanted}"):
        return wanted, None
    names = sorted(name for name, _ in walk_files(root, skip_built=False))
    alike = [name for name in names if _folded(name) == _folded(wanted)]
    if len(alike) == 1:
        return alike[0], f"{wanted!r} was found as {alike[0]!r}"
    if not alike and os.path.lexists(f"{root}/{wanted}") and not os.path.isdir(f"{root}/{wanted}"):
        return wanted, None  # a device, or a link that leads out: opening it says so
    raise _missing(wanted, alike, names, is_folder=os.path.isdir(f"{root}/{wanted}"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _missing(wanted: str, alike: list[str], names: list[str], *, is_folder: bool) -> FileMissing:
    below = [name for name in names if name.startswith(f"{wanted}/")]
    near = alike or below or nearest(wanted, names, limit=5)
    base = wanted.rpartition("/")[2].casefold()
    near += [name for name in names if name.rpartition("/")[2].casefold() == base and name not in near]
    candidates = (near or names)[:_SHOWN]
    what = f"{wanted!r} is a folder" if below or is_folder else f"there is no file {wanted!r}"
    hint = f"files there are: {', '.join(candidates)}" if candidates else "the skill has no files"
    return FileMissing(what, hint=hint, candidates=candidates)


def _decoded(data: bytes) -> tuple[str | None, str | None]:
    """The text of a file and a note about its encoding; no text when it is binary."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and len(data) % 2 == 0:
        try:
            return data.decode("utf-16"), "read as UTF-16"
        except UnicodeDecodeError:
            return None, None
    if b"\0" in data:
        return None, None
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        pass
    if data.translate(None, _CONTROLS) != data or data.startswith(tuple(signature for signature, _ in _SIGNATURES)):
        return None, None
    return data.decode("latin-1"), "not UTF-8: read as Latin-1"


def _media_type(path: str, data: bytes, text: str | None) -> str:
    """The type that the content shows, else the one of the name where both agree on what is text."""
    by_name = media_type(path)
    if text is not None:
        return by_name if by_name.startswith("text/") else "text/plain"
    shown = next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), "application/octet-stream")
    return by_name if shown == "application/octet-stream" and not by_name.startswith("text/") else shown
