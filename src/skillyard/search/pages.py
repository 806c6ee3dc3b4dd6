"""What search reads of one skill: the texts of its fields, and the number that stands for a word.

A word is the checksum of its root, so that an index needs no list of words: with a quarter of a million words some six pairs
share a number. Nothing here needs numpy, so that a catalog can be looked at without it.
"""

from __future__ import annotations

import os
import re
import zlib
from array import array
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.paths import CLOEXEC, NOFOLLOW, NONBLOCK
from skillyard.search.words import LONGEST, STOP_WORDS, compounds, root, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillyard.catalog import Skill


FIELDS: Final = ("name", "description", "keywords", "headings", "body", "files")
"""The fields of a page, in its order."""


class Page(NamedTuple):
    """The texts of one skill, UTF-8, and the numbers of the words of its name that are made of two (32 bits each).

    The description is a line for each clause.
    """

    name: bytes
    description: bytes
    keywords: bytes
    headings: bytes
    body: bytes
    files: bytes
    compounds: bytes = b""


BODY_LIMIT: Final = 20_000  # bytes of a file that are read beyond its front matter
DESCRIPTION_LIMIT: Final = 2_000  # characters of a description that count
_HEADER_LIMIT: Final = 8_192
_FILES: Final = 60
_LOOKED_AT: Final = 2_000  # entries of folders, however many there are
_HEADING: Final = re.compile(rb"\n#{1,4}[ \t]+(\S[^\n]{0,200})")
# Where a clause of a description ends: a mark before a space, a quotation mark or bracket, a dash, "or" and "and".
_CLAUSE: Final = re.compile(r"""[,.;:!?|/](?=\s|$)|["“”'‘’()\[\]\n]|\s[-–—]\s|[，。；：！？、（）「」]|\s(?:or|and)(?=\s)""")
_FENCE: Final = re.compile(rb"\n---[ \t]*\r?\n")
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
    name = skill.name if _has_words(skill.name) else skill.slug
    if skill.display_name and skill.display_name != skill.name:
        name = f"{name} {skill.display_name}"
    keywords = " . ".join((*skill.keywords, *skill.phrases))
    return PageSource(getattr(skill, "directory", ""), path_of(skill), name, skill.description[:DESCRIPTION_LIMIT], keywords)


def header_of(skill: Skill) -> tuple[str, ...]:
    """All texts of the header that `source_of` reads, as they are: many times quicker, for who compares them."""
    return (skill.name, skill.slug, skill.display_name or "", skill.description, *skill.keywords, *skill.phrases)


def path_of(skill: Skill) -> str:
    """The file that search reads; empty for a skill that is not in a folder."""
    return getattr(skill, "path", "")


def _has_words(name: str) -> bool:
    """Whether `words` finds any; of nearly every name a part between hyphens, spaces or underscores is one."""
    parts = name.replace("_", "-").replace(" ", "-").split("-")
    return any(_is_word(part) for part in parts) or bool(words(name))


def _is_word(part: str) -> bool:
    return part.isascii() and part.isalnum() and 1 < len(part) <= LONGEST and part.lower() not in STOP_WORDS


def read_pages(sources: Iterable[PageSource]) -> list[Page]:
    """The page of each source, in the same order; a file that cannot be read has no body."""
    return [_page(source) for source in sources]


def uncached_word_number(word: str) -> int:
    """The number of a word as `words` gives it."""
    return zlib.crc32(root(word).encode("utf-8", "replace"))


word_number: Final = lru_cache(maxsize=1 << 13)(uncached_word_number)
"""The same; one request asks for each of its words a dozen times."""


def _page(source: PageSource) -> Page:
    body = _body(source.path) if source.path else b""
    return Page(
        _encoded(source.name),
        _encoded("\n".join(one for one in _CLAUSE.split(source.description) if one)),
        _encoded(source.keywords),
        b"\n".join(_HEADING.findall(b"\n" + body)),
        body,
        _encoded(" ".join(_files(source.directory))) if source.directory else b"",
        array("I", map(word_number, compounds(source.name))).tobytes(),
    )


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
