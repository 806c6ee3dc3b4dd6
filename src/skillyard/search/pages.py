"""What search reads of one skill: the words of each of its fields, as numbers.

A word is the checksum of its root, so that an index needs no list of words: with a quarter of a million words some six pairs
share a number. Everything here is plain Python, so that it can be done in a second process.
"""

from __future__ import annotations

import os
import re
import zlib
from array import array
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.paths import CLOEXEC, NOFOLLOW, NONBLOCK
from skillyard.search.words import compounds, root, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillyard.catalog import Skill


FIELDS: Final = ("name", "description", "keywords", "headings", "body", "files")
"""The fields of a page, in its order."""

Page = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""The words of each field, in order and with repetitions, as 32-bit numbers."""

BODY_LIMIT: Final = 20_000  # bytes of a file that are read beyond its front matter
DESCRIPTION_LIMIT: Final = 2_000  # characters of a description that count
_HEADER_LIMIT: Final = 8_192
_FILES: Final = 60
_LOOKED_AT: Final = 2_000  # entries of folders, however many there are
_SHORT: Final = 16  # bytes
_HEADING: Final = re.compile(rb"^#{1,4}[ \t]+(\S[^\n]{0,200})", re.MULTILINE)
_FENCE: Final = re.compile(rb"\n---[ \t]*\r?\n")
# In UTF-8 everything that is not ASCII stays together and comes apart in `words`: bytes are searched three times as fast.
_TOKEN: Final = re.compile(rb"[A-Za-z0-9\x80-\xff]+")
_THIRD_PARTY: Final = re.compile(rb"(?i)\bthird[- ]part(?:y|ies)\b")  # as in `words`
_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC


class PageSource(NamedTuple):
    """What a page is made of: plain values, and the folder whose files are read (empty: none)."""

    directory: str
    path: str
    name: str
    description: str
    keywords: str


def source_of(skill: Skill) -> PageSource:
    """What search reads of `skill`; skills that are not in a folder have no body."""
    name = skill.name if words(skill.name) else skill.slug
    if skill.display_name and skill.display_name != skill.name:
        name = f"{name} {skill.display_name}"
    keywords = " . ".join((*skill.keywords, *skill.phrases))
    has_folder = hasattr(skill, "directory") and hasattr(skill, "path")
    folder, path = (skill.directory, skill.path) if has_folder else ("", "")
    return PageSource(folder, path, name, skill.description[:DESCRIPTION_LIMIT], keywords)


def read_pages(sources: Iterable[PageSource]) -> list[Page]:
    """The page of each source, in the same order; a file that cannot be read has no body."""
    return [_page(source) for source in sources]


def word_number(word: str) -> int:
    """The number of a word as `words` gives it."""
    return zlib.crc32(root(word).encode("utf-8", "replace"))


def numbers(text: bytes) -> array[int]:
    """The words of `text` (UTF-8) as numbers, in order and with repetitions."""
    text = _THIRD_PARTY.sub(b"thirdparty", text)
    return array("I", chain.from_iterable(map(_KNOWN.__getitem__, _TOKEN.findall(text))))


class _Numbers(dict[bytes, tuple[int, ...]]):
    """The numbers of each run of letters and digits that was met; long ones of other scripts, whole sentences, are not kept."""

    def __missing__(self, run: bytes) -> tuple[int, ...]:
        numbers = tuple(map(word_number, words(run.decode("utf-8", "replace"))))
        if (run.isascii() or len(run) <= _SHORT) and len(self) < 1 << 18:
            self[run] = numbers
        return numbers


_KNOWN: Final = _Numbers()


def _page(source: PageSource) -> Page:
    body = _body(source.path) if source.path else b""
    name = numbers(_encoded(source.name))
    name.extend(map(word_number, compounds(source.name)))
    fields = (
        name,
        numbers(_encoded(source.description)),
        numbers(_encoded(source.keywords)),
        numbers(b"\n".join(_HEADING.findall(body))),
        numbers(body),
        numbers(_encoded(" ".join(_files(source.directory)))) if source.directory else array("I"),
    )
    one, two, three, four, five, six = (field.tobytes() for field in fields)
    return one, two, three, four, five, six


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _body(path: str) -> bytes:
    """The text behind the front matter, at most `BODY_LIMIT` bytes of it."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return b""
    try:
        text = os.read(descriptor, _HEADER_LIMIT + BODY_LIMIT)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    fence = _FENCE.search(text) if text.removeprefix(b"\xef\xbb\xbf").startswith(b"---") else None
    return text[fence.end() if fence else 0 :][:BODY_LIMIT]


def _files(directory: str) -> list[str]:
    """Names of files in the skill's folder and the folders right below it, at most sixty."""
    names: list[str] = []
    waiting = [directory]
    for folder in waiting:
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, _LOOKED_AT):
                    if entry.name.startswith(".") or entry.name == "node_modules":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
                        if folder is directory:
                            waiting.append(entry.path)
                    else:
                        names.append(entry.name)
        except OSError:
            continue
        if len(names) >= _FILES:
            break
    return sorted(names)[:_FILES]
