"""The index: which skills have a word, and how strongly, so that a request only reads skills with its words.

With a `cache` folder it is kept on disk, shared by every process of this user: only skills whose SKILL.md has changed are read
again, and those that were deleted no longer count.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.search.pages import read_pages, source_of
from skillyard.search.words import runs, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillyard.catalog import Skill
    from skillyard.search.pages import PageSource
    from skillyard.search.postings import Key, Segment


_UNSETTLED_NS: Final = 100_000_000
_WORTH_SHARING: Final = 500  # skills to be read from which a second process helps


class SearchIndex:
    """The skills a model may see, ready to be searched; build it once and use it for many requests.

    With `everyone` also those that no model may call, for a host that picks by itself. `cache` is a folder in which the index
    is kept; `before` is an earlier index of nearly the same skills, of which everything that still holds is taken over.
    """

    def __init__(
        self,
        skills: Iterable[Skill],
        *,
        everyone: bool = False,
        cache: str | None = None,
        before: SearchIndex | None = None,
    ) -> None:
        self.skills = tuple(skill for skill in skills if skill.offered or (everyone and skill.usable))
        self._sources = [source_of(skill) for skill in self.skills]
        self._keys = _keys(self.skills, self._sources)
        self._file = _file(cache, self.skills, everyone=everyone) if cache and self.skills else None
        self._before = before.segments if before else None

    def __len__(self) -> int:
        return len(self.skills)

    @cached_property
    def segments(self) -> list[Segment]:
        """The posting lists; reads what is kept and the skills that are new or changed when first used."""
        segments = self._before if self._before is not None else _kept(self._file)
        self._before = None
        have = {key for segment in segments for key in segment.keys}
        missing = [number for number, key in enumerate(self._keys) if key not in have]
        if not missing and segments:
            return segments
        return self._extended(segments, missing)

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """For each skill of each segment, one after the other, its number in `skills`; -1 when it no longer counts."""
        import numpy as np

        number_of = {key: number for number, key in enumerate(self._keys)}
        position_of: dict[int, int] = {}
        numbers: list[int] = []
        for segment in self.segments:
            for key in segment.keys:
                number = number_of.get(key, -1)
                if number >= 0 and number in position_of:
                    numbers[position_of[number]] = -1  # read twice: the later one counts
                if number >= 0:
                    position_of[number] = len(numbers)
                numbers.append(number)
        return np.array(numbers, dtype=np.int64)

    @cached_property
    def names_as_written(self) -> dict[str, list[int]]:
        """Numbers of skills by name, slug and id as written, without case."""
        numbers_of: dict[str, list[int]] = {}
        for number, skill in enumerate(self.skills):
            for written in {skill.name.casefold(), skill.slug, skill.id.casefold()}:
                numbers_of.setdefault(written, []).append(number)
        return numbers_of

    @cached_property
    def names(self) -> dict[tuple[str, ...], list[int]]:
        """Numbers of skills by all the words of their names."""
        numbers_of: dict[tuple[str, ...], list[int]] = {}
        for number, source in enumerate(self._sources):
            numbers_of.setdefault(tuple(words(source.name)), []).append(number)
        numbers_of.pop((), None)
        return numbers_of

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of names, keywords and descriptions as they are written, without case."""
        texts = (f"{source.name} {source.keywords} {source.description}" for source in self._sources)
        return frozenset(run.lower() for text in texts for run in runs(text))

    @cached_property
    def phrases(self) -> dict[str, list[tuple[int, tuple[str, ...], str]]]:
        """Declared phrases by their first word: number of the skill, words, and the phrase as written."""
        numbers_of: dict[str, list[tuple[int, tuple[str, ...], str]]] = {}
        for number, skill in enumerate(self.skills):
            for phrase in skill.phrases:
                if phrase_words := tuple(words(phrase)):
                    numbers_of.setdefault(phrase_words[0], []).append((number, phrase_words, phrase))
        return numbers_of

    def _extended(self, existing: Sequence[Segment], missing: Sequence[int]) -> list[Segment]:
        """`segments` with one of the missing skills, saved on disk."""
        parts = _read([self._sources[number] for number in missing])
        from skillyard.search.postings import make_segment, save_segments, with_segment

        keys = [self._keys[number] for number in missing]
        if not any(key in set(self._keys) for segment in existing for key in segment.keys):
            existing = ()  # every skill in it has changed or was deleted
        segments = with_segment(existing, make_segment(keys, parts), self._keys)
        if self._file and keys:
            save_segments(self._file, segments, large=not existing or segments[0] is not existing[0])
        return segments


def _kept(file: str | None) -> list[Segment]:
    """The segments on disk; without any, nothing is imported that would prevent a second process."""
    if file is None or not Path(file).exists():
        return []
    from skillyard.search.postings import load_segments

    return load_segments(file)


def _read(sources: list[PageSource]) -> list[list[bytes]]:
    """The postings of the sources in parts; of many with a second process, before anything starts threads of its own."""
    if len(sources) < _WORTH_SHARING:
        return _portion(sources)
    from skillyard.offload.forked_map import forked_map

    return forked_map(sources, _portion)


def _portion(sources: list[PageSource]) -> list[list[bytes]]:
    pages = read_pages(sources)
    from skillyard.search.postings import packed_postings  # numpy starts threads: only where nothing is to be forked any more

    return [packed_postings(pages)]


def _keys(skills: Sequence[Skill], sources: Sequence[PageSource]) -> list[Key]:
    keys: list[Key] = []
    seen: dict[Key, int] = {}
    for skill, source in zip(skills, sources, strict=True):
        header = zlib.crc32("\0".join(source[2:]).encode("utf-8", "replace"))
        state = _settled(skill.stamp) if source.path else ()
        key: Key = (source.path or skill.id, header, *state)
        repeat = seen[key] = seen.get(key, -1) + 1
        keys.append((*key, repeat) if repeat else key)
    return keys


def _settled(stamp: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """The state of a file, made one that never comes again when it may change once more within the same tick of the clock."""
    now = time.time_ns()
    return stamp if stamp[2] < now - _UNSETTLED_NS else (*stamp[:2], -now, stamp[3])


def _file(cache: str, skills: Sequence[Skill], *, everyone: bool) -> str:
    """Where the index of these skills is kept: by the folders they come from."""
    roots = sorted({skill.root.path for skill in skills})
    name = "\n".join(roots).encode("utf-8", "surrogateescape")
    return f"{cache}/{zlib.crc32(name):08x}{zlib.adler32(name):08x}{'-all' if everyone else ''}.search"
