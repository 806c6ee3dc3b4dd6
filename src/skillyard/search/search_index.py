"""The index: which skills have a word, and how strongly, so that a request only reads skills with its words.

With a `cache` folder it is kept on disk, shared by every process of this user: only skills whose SKILL.md has changed are read
again, and those that were deleted no longer count.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.search.pages import header_of, path_of, read_pages, source_of
from skillyard.search.words import LONGEST, STOP_WORDS, plain, runs, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillyard.catalog import Skill
    from skillyard.offload.forked_map import PortionFiles
    from skillyard.search.pages import PageSource
    from skillyard.search.postings import Key, Segment
    from skillyard.search.tokenizer import Tokenizer


_UNSETTLED_NS: Final = 100_000_000
_FEW_ASKED: Final = 3
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
        self._keys: Sequence[Key] = _keys(self.skills, before)
        self._file = _file(cache, self.skills, everyone=everyone) if cache and self.skills else None
        self._before = before.segments if before else None
        self._progress: Callable[[int, int], object] | None = None
        self._asked = 0
        self.reading = False
        """Whether skills are being read now: who asks for words waits until that is done."""

    def prepare(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Read now what the first request would have to read; `progress(done, total)` is called with numbers of skills."""
        self._progress = progress
        len(self.numbers)
        self._progress = None

    def __len__(self) -> int:
        return len(self.skills)

    @cached_property
    def segments(self) -> list[Segment]:
        """The posting lists; reads what is kept and the skills that are new or changed when first used."""
        segments = self._before if self._before is not None else _kept(self._file)
        self._before = None
        if _is_whole(segments, self._keys):
            self._keys = segments[0].keys  # equal ones, so that they are in memory once
            return segments
        have = {key for segment in segments for key in segment.keys}
        missing = [number for number, key in enumerate(self._keys) if key not in have]
        if not missing and segments:
            return segments
        return self._extended(segments, missing)

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """For each skill of each segment, one after the other, its number in `skills`; -1 when it no longer counts."""
        import numpy as np

        if _is_whole(self.segments, self._keys):
            return np.arange(len(self._keys))
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
    def gone(self) -> NDArray[Any]:
        """The positions of the skills that no longer count."""
        return (self.numbers < 0).nonzero()[0]

    def written_as(self, candidates: Collection[str]) -> set[int]:
        """Numbers of the skills whose name, slug or id as written, without case, is one of `candidates`."""
        if not candidates:
            return set()
        if self._many_asked():
            return {number for candidate in candidates for number in self._names_as_written.get(candidate, ())}
        return {
            number
            for number, skill in enumerate(self.skills)
            if skill.slug in candidates or skill.name.casefold() in candidates or skill.id.casefold() in candidates
        }

    def named(self, request_words: Sequence[str]) -> list[int]:
        """Numbers of the skills whose names have exactly these words (as `words` gives them), in this order."""
        wanted = tuple(request_words)
        if self._many_asked():
            return self._names.get(wanted, [])
        begin = [word[:2] for word in request_words]
        likely = [number for number, skill in enumerate(self.skills) if wanted and _may_be(skill, begin)]
        return [number for number in likely if tuple(words(source_of(self.skills[number]).name)) == wanted]

    def _many_asked(self) -> bool:
        """Whether a table of names pays: many a process asks but once, and then looking through them is quicker."""
        self._asked += 1
        return self._asked > _FEW_ASKED

    @cached_property
    def _sources(self) -> list[PageSource]:
        """What is read of each skill; not needed for a request while all of them are kept."""
        return [source_of(skill) for skill in self.skills]

    @cached_property
    def _names_as_written(self) -> dict[str, list[int]]:
        numbers_of: dict[str, list[int]] = {}
        for number, skill in enumerate(self.skills):
            for written in {skill.name.casefold(), skill.slug, skill.id.casefold()}:
                numbers_of.setdefault(written, []).append(number)
        return numbers_of

    @cached_property
    def _names(self) -> dict[tuple[str, ...], list[int]]:
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

    def phrases_with(self, request_words: Sequence[str]) -> Iterable[tuple[int, tuple[str, ...], str]]:
        """The declared phrases that begin with one of these words: number of the skill, words, and the phrase as written."""
        distinct = dict.fromkeys(request_words)
        if self._many_asked():
            return [found for word in distinct for found in self._phrases.get(word, ())]
        begins = {word[:2] for word in distinct}
        likely = (
            (number, tuple(words(phrase)), phrase)
            for number, skill in enumerate(self.skills)
            for phrase in skill.phrases
            if _may_be_said(phrase, begins)
        )
        return [found for found in likely if found[1] and found[1][0] in distinct]

    @cached_property
    def _phrases(self) -> dict[str, list[tuple[int, tuple[str, ...], str]]]:
        """The declared phrases by their first word."""
        numbers_of: dict[str, list[tuple[int, tuple[str, ...], str]]] = {}
        for number, skill in enumerate(self.skills):
            for phrase in skill.phrases:
                if phrase_words := tuple(words(phrase)):
                    numbers_of.setdefault(phrase_words[0], []).append((number, phrase_words, phrase))
        return numbers_of

    def _extended(self, existing: Sequence[Segment], missing: Sequence[int]) -> list[Segment]:
        """`segments` with one of the missing skills, saved on disk."""
        from skillyard.offload.forked_map import PortionFiles

        many = len(missing) >= _WORTH_SHARING
        files = PortionFiles(str(Path(self._file).parent) if self._file else None) if many else PortionFiles.in_memory()
        with contextlib.closing(files):
            self.reading = True
            try:
                parts = _read([source_of(self.skills[number]) for number in missing], self._progress, files)
            finally:
                self.reading = False
            from skillyard.search.postings import make_segment, save_segments, with_segment

            keys = [self._keys[number] for number in missing]
            current = set(self._keys)
            if not any(key in current for segment in existing for key in segment.keys):
                existing = ()  # every skill in it has changed or was deleted
            new = make_segment(keys, parts, files, self._file if keys and not existing else None)
        segments = with_segment(existing, new, self._keys)
        if self._file and existing and keys:
            return save_segments(self._file, segments, large=segments[0] is not existing[0])
        return segments


def _may_be(skill: Skill, begin: Sequence[str]) -> bool:
    """Whether the names of a skill may have words that begin so; taking every name of a large catalog apart takes long."""
    names = f"{skill.name} {skill.slug} {skill.display_name or ''}"
    lower = names.lower() if names.isascii() else plain(names).casefold()
    return begin[0] in lower and all(one in lower for one in begin)


def _may_be_said(phrase: str, begins: Collection[str]) -> bool:
    """Whether all words of a phrase may be among words that begin so; taking every phrase apart takes long."""
    lower = phrase.lower()
    if not lower.isascii() or "third" in lower:  # `words` writes some of these otherwise
        return True
    return all(
        word[:2] in begins or not word.isalpha() or not 1 < len(word) <= LONGEST or word in STOP_WORDS for word in lower.split()
    )


def _kept(file: str | None) -> list[Segment]:
    """The segments on disk; without any, nothing is imported that would prevent a second process."""
    if file is None or not Path(file).exists():
        return []
    from skillyard.search.postings import load_segments

    return load_segments(file)


def _read(sources: list[PageSource], progress: Callable[[int, int], object] | None, files: PortionFiles) -> list[list[Any]]:
    """The postings of the sources in parts; of many with a second process, before anything starts threads of its own.

    Those of many are in files: in memory all parts would be larger than the index.
    """
    portion = _Portions(len(sources), files)
    if len(sources) < _WORTH_SHARING:
        return portion(sources)
    from skillyard.offload.forked_map import forked_map

    return forked_map(sources, portion, progress=progress)


class _Portions:
    """Reads portions of some skills; each process has a tokenizer of its own, which knows the words of earlier portions."""

    def __init__(self, skills: int, files: PortionFiles) -> None:
        self._skills = skills
        self._files = files
        self._tokenizer: Tokenizer | None = None

    def __call__(self, sources: list[PageSource]) -> list[list[Any]]:
        pages = read_pages(sources)
        from skillyard.search.postings import stored_postings  # numpy starts threads: only where nothing is forked any more
        from skillyard.search.tokenizer import Tokenizer

        self._tokenizer = self._tokenizer or Tokenizer(self._skills)
        return [stored_postings(pages, self._tokenizer, self._files)]


def _keys(skills: Sequence[Skill], before: SearchIndex | None) -> list[Key]:
    """What identifies the text of each skill; this is done for all of them in every process, also when nothing has changed.

    That of a skill which is the same at the same place of an earlier index is taken from there.
    """
    earlier, known = (before.skills, before._keys) if before else ((), ())
    keys: list[Key] = []
    seen: dict[Key, int] = {}
    now = time.time_ns()
    settled = now - _UNSETTLED_NS
    for number, skill in enumerate(skills):
        if number < len(known) and _is_settled(known[number]) and earlier[number] == skill:
            key = known[number]
        elif path := path_of(skill):
            mode, size, changed, inode = skill.stamp
            # a file that may change once more within the same tick of the clock has a state that never comes again
            key = (path, _checksum(skill), mode, size, changed if changed < settled else -now, inode)
        else:
            key = (skill.id, _checksum(skill))
        if key in seen:
            seen[key] += 1
            key = (*key, seen[key])
        else:
            seen[key] = 0
        keys.append(key)
    return keys


def _checksum(skill: Skill) -> int:
    return zlib.crc32("\0".join(header_of(skill)).encode("utf-8", "replace"))


def _is_settled(key: Key) -> bool:
    """Whether it is the key of a file whose state does not come again with another content."""
    match key:
        case (_, _, _, _, int(changed), _):
            return changed > 0
    return False


def _is_whole(segments: Sequence[Segment], keys: Sequence[Key]) -> bool:
    """Whether one segment has exactly these skills in their order, as after the first search of a catalog."""
    return len(segments) == 1 and (segments[0].keys is keys or segments[0].keys == tuple(keys))


def _file(cache: str, skills: Sequence[Skill], *, everyone: bool) -> str:
    """Where the index of these skills is kept: by the folders they come from."""
    roots = sorted({skill.root.path for skill in skills})
    name = "\n".join(roots).encode("utf-8", "surrogateescape")
    return f"{cache}/{zlib.crc32(name):08x}{zlib.adler32(name):08x}{'-all' if everyone else ''}.search"
