"""The index: which skills have a word, and how strongly, so that a request only reads skills with its words.

With a `cache` folder it is kept on disk, shared by every process of this user: only skills whose SKILL.md has changed are read
again, and those that were deleted no longer count. In one process an index is made from the one before: what is worked out anew
is that of the skills that are other objects, or whose file may still have changed.
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import is_not
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from skillyard.search.pages import header_of, path_of, read_pages, source_of
from skillyard.search.words import LONGEST, STOP_WORDS, plain, runs, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillyard.catalog import Skill
    from skillyard.offload.forked_map import PortionFiles
    from skillyard.search.pages import PageSource
    from skillyard.search.postings import Key, Segment
    from skillyard.search.tokenizer import Tokenizer


_KeysOf = Callable[["Skill"], Iterable[object]]
_UNSETTLED_NS: Final = 100_000_000
_FEW_ASKED: Final = 3
_WORTH_SHARING: Final = 500  # skills to be read from which a second process helps


_Value = TypeVar("_Value")


class _once(Generic[_Value]):  # noqa: N801 # a decorator
    """A property of an index, worked out once also where two threads ask first; `cached_property` may do it twice."""

    def __init__(self, make: Callable[[SearchIndex], _Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, index: SearchIndex, owner: type[SearchIndex]) -> _Value:
        with index.lock:
            if self._name not in index.__dict__:
                index.__dict__[self._name] = self._make(index)
            value: _Value = index.__dict__[self._name]
            return value


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
        self.lock = threading.RLock()
        before = before or None  # one without skills has nothing to take over
        self._everyone = everyone
        self._given = tuple(skills)
        self._counted = _counted(self._given, everyone, before)
        self.skills: tuple[Skill, ...] = tuple(compress(self._given, self._counted))
        self._file = _file(cache, self.skills, everyone=everyone) if cache and self.skills else None
        self._progress: Callable[[int, int], object] | None = None
        self.reading = False
        """Whether skills are being read now: who asks for words waits until that is done."""
        self._asked = 0
        self._tables: dict[_KeysOf, Mapping[object, tuple[int, ...]]] = {}
        self._before = _Before(before.segments) if before else None
        self._keys: Sequence[Key] = ()
        if not (before and self._take_over(before)):
            self._keys = _keys(self.skills, before)

    def _take_over(self, before: SearchIndex) -> bool:
        """Take over from an index that has the same skills in the same places, but for some that were edited."""
        changed = _changed(self.skills, before.skills)
        if changed is None:
            return False
        keys, number_of, missing = list(before._keys), before._number_of.copy(), []
        now = time.time_ns()
        looked_at = {*changed, *before._unsettled}
        for number in sorted(looked_at):
            key = _key(self.skills[number], now)
            if key == keys[number]:
                continue
            if key in before._number_of or key in number_of:
                return False  # it was in another place
            del number_of[keys[number]]
            keys[number] = key
            number_of[key] = number
            missing.append(number)
        self._keys, self._number_of = keys, number_of
        self._unsettled = frozenset(number for number in looked_at if not _is_settled(keys[number]))
        self._before = _Before(before.segments, before.numbers, missing)
        self._asked = before._asked
        self._tables = {
            keys_of: _changed_table(table, keys_of, before.skills, self.skills, changed)
            for keys_of, table in before._tables.copy().items()  # a request in another thread may add one
        }
        return True

    def prepare(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Read now what the first request would have to read; `progress(done, total)` is called with numbers of skills."""
        self._progress = progress
        len(self.numbers)
        self._progress = None

    def __len__(self) -> int:
        return len(self.skills)

    @_once
    def segments(self) -> list[Segment]:
        """The posting lists; reads what is kept and the skills that are new or changed when first used."""
        before = self._before
        segments = before.segments if before else _kept(self._file)
        if _is_whole(segments, self._keys):
            self._keys = segments[0].keys  # equal ones, so that they are in memory once
            return segments
        if before and before.missing is not None:
            missing = before.missing
        else:
            have = {key for segment in segments for key in segment.keys}
            missing = [number for number, key in enumerate(self._keys) if key not in have]
        return self._extended(segments, missing) if missing or not segments else segments

    @_once
    def numbers(self) -> NDArray[Any]:
        """For each skill of each segment, one after the other, its number in `skills`; -1 when it no longer counts."""
        import numpy as np

        segments, before, self._before = self.segments, self._before, None
        if _is_whole(segments, self._keys):
            return np.arange(len(self._keys))
        known = before.numbers_by_segment() if before else {}
        numbers = np.concatenate([known[id(one)] if id(one) in known else self._numbers_in(one) for one in segments])
        (at,) = (numbers >= 0).nonzero()
        last = np.zeros(len(self._keys), np.int64)
        last[numbers[at]] = at
        numbers[at[last[numbers[at]] != at]] = -1  # read twice: the later one counts
        return numbers

    def _numbers_in(self, segment: Segment) -> NDArray[Any]:
        import numpy as np

        return np.array([self._number_of.get(key, -1) for key in segment.keys], dtype=np.int64)

    @cached_property
    def _number_of(self) -> dict[Key, int]:
        """The number of each skill by what identifies its text."""
        return {key: number for number, key in enumerate(self._keys)}

    @cached_property
    def _unsettled(self) -> frozenset[int]:
        """The numbers of the skills that are to be looked at again."""
        return frozenset(number for number, key in enumerate(self._keys) if not _is_settled(key))

    @cached_property
    def gone(self) -> NDArray[Any]:
        """The positions of the skills that no longer count."""
        return (self.numbers < 0).nonzero()[0]

    def written_as(self, candidates: Collection[str]) -> set[int]:
        """Numbers of the skills whose name, slug or id as written, without case, is one of `candidates`."""
        if not candidates:
            return set()
        if self._many_asked():
            table = self._numbers_by(_names_as_written)
            return {number for candidate in candidates for number in table.get(candidate, ())}
        return {
            number
            for number, skill in enumerate(self.skills)
            if skill.slug in candidates or skill.name.casefold() in candidates or skill.id.casefold() in candidates
        }

    def named(self, request_words: Sequence[str]) -> list[int]:
        """Numbers of the skills whose names have exactly these words (as `words` gives them), in this order."""
        wanted = tuple(request_words)
        if self._many_asked():
            return list(self._numbers_by(_name_words).get(wanted, ()))
        begin = [word[:2] for word in request_words]
        likely = [number for number, skill in enumerate(self.skills) if wanted and _may_be(skill, begin)]
        return [number for number in likely if tuple(words(source_of(self.skills[number]).name)) == wanted]

    def _many_asked(self) -> bool:
        """Whether a table of names pays: many a process asks but once, and then looking through them is quicker."""
        self._asked += 1
        return self._asked > _FEW_ASKED

    def _numbers_by(self, keys_of: _KeysOf) -> Mapping[object, tuple[int, ...]]:
        """The table of the numbers of the skills by what each has."""
        if keys_of not in self._tables:
            self._tables[keys_of] = _table(self.skills, keys_of)
        return self._tables[keys_of]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of names, keywords and descriptions as they are written, without case."""
        texts = (f"{source.name} {source.keywords} {source.description}" for source in map(source_of, self.skills))
        return frozenset(run.lower() for text in texts for run in runs(text))

    def phrases_with(self, request_words: Sequence[str]) -> Iterable[tuple[int, tuple[str, ...], str]]:
        """The declared phrases that begin with one of these words: number of the skill, words, and the phrase as written."""
        distinct = dict.fromkeys(request_words)
        numbered: Iterable[tuple[int, Skill]] = enumerate(self.skills)
        if self._many_asked():
            table = self._numbers_by(_first_words_of_phrases)
            numbers = dict.fromkeys(number for word in distinct for number in table.get(word, ()))
            numbered = [(number, self.skills[number]) for number in numbers]
        begins = {word[:2] for word in distinct}
        likely = (
            (number, tuple(words(phrase)), phrase)
            for number, skill in numbered
            for phrase in skill.phrases
            if _may_be_said(phrase, begins)
        )
        return [found for found in likely if found[1] and found[1][0] in distinct]

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
            current = self._number_of
            if not any(key in current for segment in existing for key in segment.keys):
                existing = ()  # every skill in it has changed or was deleted
            new = make_segment(keys, parts, files, self._file if keys and not existing else None)
        segments = with_segment(existing, new, current)
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


class _Before(NamedTuple):
    """What an index takes over of the one before it: its segments and what they hold, and what is missing in them, if known."""

    segments: list[Segment]
    numbers: NDArray[Any] | None = None
    missing: list[int] | None = None

    def numbers_by_segment(self) -> dict[int, NDArray[Any]]:
        """The numbers of the skills in each segment, by the identity of the segment."""
        if self.numbers is None:
            return {}
        found, end = {}, 0
        for segment in self.segments:
            begin, end = end, end + len(segment.keys)
            found[id(segment)] = self.numbers[begin:end]
        return found


def _counted(given: Sequence[Skill], everyone: bool, before: SearchIndex | None) -> bytearray:
    """Which of the skills are searched: a 1 for each that is."""
    changed = _changed(given, before._given) if before and before._everyone == everyone else None
    counted = before._counted.copy() if before and changed is not None else bytearray(len(given))
    for number in range(len(given)) if changed is None else changed:
        skill = given[number]
        counted[number] = skill.offered or (everyone and skill.usable)
    return counted


def _changed(now: Sequence[Skill], before: Sequence[Skill]) -> list[int] | None:
    """The places at which there are other skills than before; None where there are more or fewer."""
    return list(compress(range(len(now)), map(is_not, now, before))) if len(now) == len(before) else None


def _names_as_written(skill: Skill) -> set[str]:
    return {skill.name.casefold(), skill.slug, skill.id.casefold()}


def _name_words(skill: Skill) -> set[tuple[str, ...]]:
    return {tuple(words(source_of(skill).name))} - {()}


def _first_words_of_phrases(skill: Skill) -> set[str]:
    return {found[0] for phrase in skill.phrases if (found := words(phrase))}


def _table(skills: Sequence[Skill], keys_of: _KeysOf, which: Iterable[int] | None = None) -> dict[object, tuple[int, ...]]:
    numbers_of: dict[object, list[int]] = {}
    for number in range(len(skills)) if which is None else which:
        for key in keys_of(skills[number]):
            numbers_of.setdefault(key, []).append(number)
    return {key: tuple(numbers) for key, numbers in numbers_of.items()}


def _changed_table(
    table: Mapping[object, tuple[int, ...]],
    keys_of: _KeysOf,
    before: Sequence[Skill],
    now: Sequence[Skill],
    changed: Sequence[int],
) -> Mapping[object, tuple[int, ...]]:
    """The table of `before` as it is with the skills of `now` in the places that have changed."""
    gone, come = _table(before, keys_of, changed), _table(now, keys_of, changed)
    if gone == come:  # as after most edits: then nothing of ten thousand entries need be copied
        return table
    numbers_of = dict(table)
    for key in gone.keys() | come.keys():  # each once: all skills may have changed, and share a word
        numbers = {*numbers_of.pop(key, ())}.difference(gone.get(key, ())).union(come.get(key, ()))
        if numbers:
            numbers_of[key] = tuple(sorted(numbers))
    return numbers_of


def _keys(skills: Sequence[Skill], before: SearchIndex | None) -> list[Key]:
    """What identifies the text of each skill; in every process this is done for all of them, also when nothing has changed."""
    pairs = zip(before.skills, before._keys, strict=True) if before else ()
    known = {id(skill): key for skill, key in pairs if _is_settled(key)}
    now = time.time_ns()
    keys = [known.get(id(skill)) or _key(skill, now) for skill in skills]
    return keys if len(set(keys)) == len(keys) else _numbered(keys)


def _numbered(keys: Sequence[Key]) -> list[Key]:
    """The keys with a number on each that has come before."""
    seen: Counter[Key] = Counter()
    numbered: list[Key] = []
    for key in keys:
        numbered.append((*key, seen[key]) if seen[key] else key)
        seen[key] += 1
    return numbered


def _key(skill: Skill, now: int) -> Key:
    """What identifies the text of a skill that is looked at `now` (wall clock, in ns)."""
    if path := path_of(skill):
        mode, size, changed, inode = skill.stamp
        # a file that may change once more within the same tick of the clock has a state that never comes again
        return (path, _checksum(skill), mode, size, changed if changed < now - _UNSETTLED_NS else -now, inode)
    return (skill.id, _checksum(skill))


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
