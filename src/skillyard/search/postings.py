"""Posting lists: for each word, the skills that have it and how strongly, as arrays, in segments in memory and on disk.

The strength of a word in a skill is BM25 in each field, with fixed usual lengths, so that adding a skill changes nothing about
the others. An index is a list of segments, a large one and a few small ones; a skill that was edited gets a new small segment.
On disk they are two files, both replaced in one step; whatever is not as it should be is read anew from the skills. The large
one is mapped, so that a request reads only the pages of the file that have its words.
"""

from __future__ import annotations

import marshal
import sys
import zlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from skillyard._version import __version__
from skillyard.files import CachePieces, map_private_cache, read_private_cache, write_mapped_cache, write_private_cache
from skillyard.search.pages import FIELDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillyard.offload.forked_map import PortionFiles
    from skillyard.search.pages import Page
    from skillyard.search.tokenizer import Tokenizer


STEP: Final = 1 / 100  # what one step of a stored strength is worth
K1: Final = 1.2
"""The strength of a word is at most `K1 + 1`."""
B: Final = 0.75
_USUAL_LENGTHS: Final = {"description": 30.0, "body": 750.0}  # words
PLACES: Final = {"name": 1, "keywords": 2, "headings": 4, "files": 8}
"""Bits for the short fields, in which a word is there or is not."""
PLACE_BITS: Final = 4
ALL_PLACES: Final = (1 << PLACE_BITS) - 1
_MIX: Final = np.uint32(0x9E3779B1)
_LISTS: Final = ("skills", "described", "body")
_COUNTS: Final = ("in_description", "in_body", "in_name")
_RANGES: Final = 16  # of words, by their numbers
_FEW_POSTINGS: Final = 1 << 17  # which are put together in one range
_TYPES: Final = {
    "words": np.uint32, "starts": np.uint32, "skills": np.int32, "described": np.uint8, "body": np.uint8,
    "in_description": np.int32, "in_body": np.int32, "in_name": np.int32, "names": np.uint32, "name_starts": np.int64,
    "pairs": np.uint32, "pair_starts": np.int64, "said": np.uint32, "said_starts": np.int64, "lengths": np.int32,
}  # fmt: skip


class Postings(NamedTuple):
    """The words of some skills, numbered from 0: sorted words, and for each a slice of the lists.

    `words[i]` has the postings `starts[i]:starts[i + 1]` of `skills`, `described` and `body` (the strength in these fields).
    An entry of `skills` is the number of a skill and, in its lowest bits, the other fields that have the word (`PLACES`).
    `in_description[i]`, `in_body[i]` and `in_name[i]` of the postings are for that field. Of skill
    `n`, `names[name_starts[n]:…]` are the words of the name, `pairs[pair_starts[n]:…]` the pairs, sorted, `lengths[n]` how many
    words the body has, and `said[said_starts[n]:…]` the words of the description in order, with a 0 behind each clause.
    """

    words: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    skills: NDArray[np.int32]
    described: NDArray[np.uint8]
    body: NDArray[np.uint8]
    in_description: NDArray[np.int32]
    in_body: NDArray[np.int32]
    in_name: NDArray[np.int32]
    names: NDArray[np.uint32]
    name_starts: NDArray[np.int64]
    pairs: NDArray[np.uint32]
    pair_starts: NDArray[np.int64]
    said: NDArray[np.uint32]
    said_starts: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @property
    def skill_count(self) -> int:
        """How many skills there are."""
        return len(self.lengths)


def build_postings(pages: Sequence[Page], tokenizer: Tokenizer) -> Postings:
    """The postings of `pages`, in their order."""
    count = len(pages)
    described, said, said_starts = _clauses(pages, tokenizer)
    columns = [described if field == "description" else _column(pages, field, tokenizer) for field in FIELDS]
    keys: list[NDArray[np.uint64]] = []
    steps: list[NDArray[np.uint32]] = []  # description, body and places in one number: a sum puts them together
    for field, (owners, numbers, lengths) in zip(FIELDS, columns, strict=True):
        key, counts = _counted(owners << np.uint64(32) | numbers)
        keys.append(key)
        if field in _USUAL_LENGTHS:
            shift = np.uint32(8 if field == "body" else 0)
            steps.append(_strengths(key, counts, lengths, _USUAL_LENGTHS[field]) << shift)
        else:
            steps.append(np.full(len(key), PLACES[field] << 16, np.uint32))
    key, summed = _summed(np.concatenate(keys), np.concatenate(steps))
    _, names, name_lengths = columns[0]
    pairs, pair_starts = _pair_lists(columns, count)
    places = (summed >> np.uint32(16)).astype(np.int32)
    skills = (key >> np.uint64(32)).astype(np.int32) << PLACE_BITS | places
    words = (key & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    in_description = (summed & np.uint32(255)).astype(np.uint8)
    body = (summed >> np.uint32(8) & np.uint32(255)).astype(np.uint8)
    return Postings(
        **_inverted(words, skills=skills, described=in_description, body=body),
        names=names,
        name_starts=_starts(name_lengths),
        pairs=pairs,
        pair_starts=pair_starts,
        said=said,
        said_starts=said_starts,
        lengths=columns[4][2].astype(np.int32),
    )


def _put_together(parts: Sequence[_StoredPart]) -> Postings:
    """The postings of all parts as one, their skills numbered one part after the other; without the pairs, half of all.

    The words are dealt with in ranges, so that what is read and sorted at a time is small beside the whole.
    """
    before = np.cumsum([0, *(part.count for part in parts)]).tolist()
    total = sum(part.bounds[-1][1] for part in parts)
    whole = {name: np.empty(total, _TYPES[name]) for name in _LISTS}
    by_word: dict[str, list[NDArray[Any]]] = {name: [] for name in ("words", "lengths", *_COUNTS)}
    at, step = 0, 1 if total > _FEW_POSTINGS else _RANGES
    for number in range(0, _RANGES, step):
        ranges = [part.between(number, number + step) for part in parts]
        some = _inverted(
            np.concatenate([one["words"] for one in ranges]),
            skills=np.concatenate(
                [one["skills"] + np.int32(first << PLACE_BITS) for one, first in zip(ranges, before, strict=False)]
            ),
            **{name: np.concatenate([one[name] for one in ranges]) for name in _LISTS[1:]},
        )
        end = at + len(some["skills"])
        for name in _LISTS:
            whole[name][at:end] = some[name]
        some["lengths"] = np.diff(some["starts"])
        for name, lists in by_word.items():
            lists.append(some[name])
        at = end
    return Postings(
        starts=_starts(np.concatenate(by_word.pop("lengths"))).astype(np.uint32),
        **{name: np.concatenate(lists) for name, lists in by_word.items()},
        **whole,
        names=_one_after_the_other(parts, "names"),
        name_starts=_starts(_one_after_the_other(parts, "name_counts")),
        pairs=np.zeros(0, np.uint32),
        pair_starts=_starts(_one_after_the_other(parts, "pair_counts")),
        said=_one_after_the_other(parts, "said"),
        said_starts=_starts(_one_after_the_other(parts, "said_counts")),
        lengths=_one_after_the_other(parts, "lengths"),
    )


def _one_after_the_other(parts: Sequence[_StoredPart], name: str) -> NDArray[Any]:
    """One array of all parts; read into its place, so that nothing is in memory twice."""
    whole = np.empty(sum(part.lengths[name] for part in parts), _STORED[name])
    at = 0
    for part in parts:
        end = at + part.lengths[name]
        whole[at:end] = part.array(name)
        at = end
    return whole


def merge(old: Postings, keep: NDArray[np.bool_], new: Postings) -> Postings:
    """The skills of `old` that are to be kept, renumbered in their order, then those of `new`."""
    renumbered = ((np.cumsum(keep) - 1) << PLACE_BITS).astype(np.int32)
    numbers, places = old.skills >> PLACE_BITS, old.skills & ALL_PLACES
    stays = keep[numbers]
    words = np.repeat(old.words, np.diff(old.starts))[stays]
    kept = int(keep.sum())
    said, said_starts = _joined((old.said, old.said_starts), keep, (new.said, new.said_starts))
    names, name_starts = _joined((old.names, old.name_starts), keep, (new.names, new.name_starts))
    pairs, pair_starts = _joined((old.pairs, old.pair_starts), keep, (new.pairs, new.pair_starts))
    return Postings(
        **_inverted(
            np.concatenate([words, np.repeat(new.words, np.diff(new.starts))]),
            skills=np.concatenate([renumbered[numbers[stays]] | places[stays], new.skills + np.int32(kept << PLACE_BITS)]),
            **{name: np.concatenate([getattr(old, name)[stays], getattr(new, name)]) for name in _LISTS[1:]},
        ),
        names=names,
        name_starts=name_starts,
        pairs=pairs,
        pair_starts=pair_starts,
        said=said,
        said_starts=said_starts,
        lengths=np.concatenate([old.lengths[keep], new.lengths]),
    )


def pairs_of(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A number for each word with the one before it."""
    return words[:-1] * _MIX + words[1:]


_Column = tuple["NDArray[np.uint64]", "NDArray[np.uint32]", "NDArray[np.int64]"]
"""One field of all pages: the owner of each word, the words, and how many each page has."""


def _clauses(pages: Sequence[Page], tokenizer: Tokenizer) -> tuple[_Column, NDArray[np.uint32], NDArray[np.int64]]:
    """The descriptions of all pages, and their words with a 0 behind each clause, with where those of each page start."""
    lines = [page.description.split(b"\n") for page in pages]
    numbers, lengths = tokenizer.numbers([line for some in lines for line in some])
    owner = np.repeat(np.arange(len(pages)), [len(some) for some in lines])
    each = np.bincount(owner, weights=lengths, minlength=len(pages)).astype(np.int64)
    clauses = np.bincount(owner, weights=lengths > 0, minlength=len(pages)).astype(np.int64)
    said = np.insert(numbers, np.cumsum(lengths)[lengths > 0], np.uint32(0))
    return (np.repeat(np.arange(len(pages), dtype=np.uint64), each), numbers, each), said, _starts(each + clauses)


def _column(pages: Sequence[Page], field: str, tokenizer: Tokenizer) -> _Column:
    numbers, lengths = tokenizer.numbers([getattr(page, field) for page in pages])
    if field == "name" and any(page.compounds for page in pages):
        added = np.array([len(page.compounds) // 4 for page in pages], dtype=np.int64)
        joined = np.frombuffer(b"".join([page.compounds for page in pages]), np.uint32)
        numbers, lengths = np.insert(numbers, np.repeat(np.cumsum(lengths), added), joined), lengths + added
    return np.repeat(np.arange(len(pages), dtype=np.uint64), lengths), numbers, lengths


def _counted(key: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The different values, sorted, and how often each is there."""
    key = np.sort(key)
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
    return key[first], np.diff(np.append(first, len(key)))


def _strengths(
    key: NDArray[np.uint64], counts: NDArray[np.int64], lengths: NDArray[np.int64], usual: float
) -> NDArray[np.uint32]:
    """What each word of each page is worth in one field (BM25 without the rarity of the word), in steps."""
    held_back = K1 * (1 - B + B * lengths / usual)
    strength = counts * (K1 + 1) / (counts + held_back[key >> np.uint64(32)])
    steps: NDArray[np.uint32] = np.clip(np.rint(strength / STEP), 1, 255).astype(np.uint32)
    return steps


def _summed(key: NDArray[np.uint64], steps: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    order = np.argsort(key)
    key = key[order]
    if not len(key):
        return key, steps
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return key[first], np.add.reduceat(steps[order], first)


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _pair_lists(columns: Sequence[Any], count: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The pairs of words in description and body of each page, each once and sorted."""
    keys = []
    for at in (0, 1, 4):
        owners, numbers, _ = columns[at]
        same = owners[1:] == owners[:-1]
        keys.append((owners[1:] << np.uint64(32) | pairs_of(numbers))[same] if len(numbers) else np.zeros(0, np.uint64))
    key = np.sort(np.concatenate(keys))  # np.unique without counts is hashing, and many times slower than sorting
    key = key[np.concatenate([[True], key[1:] != key[:-1]])] if len(key) else key
    per_page = np.bincount((key >> np.uint64(32)).astype(np.int64), minlength=count)
    return (key & np.uint64(0xFFFFFFFF)).astype(np.uint32), _starts(per_page.astype(np.int64))


def _joined(
    old: tuple[NDArray[np.uint32], NDArray[np.int64]],
    keep: NDArray[np.bool_],
    new: tuple[NDArray[np.uint32], NDArray[np.int64]],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    lengths = np.diff(old[1])
    values = np.concatenate([old[0][np.repeat(keep, lengths)], new[0]])
    return values, _starts(np.concatenate([lengths[keep], np.diff(new[1])]))


def _inverted(words: NDArray[np.uint32], **lists: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The different words, sorted, where the lists of each start, the lists by word, then by skill, and the counts."""
    order = np.argsort(words.astype(np.uint64) << np.uint64(32) | lists["skills"].astype(np.uint64))
    words = words[order]
    changes = np.concatenate([[True], words[1:] != words[:-1]]) if len(words) else np.zeros(0, np.bool_)
    first = np.flatnonzero(changes)
    starts = np.concatenate([first, [len(words)]]).astype(np.uint32)  # of an index, a file has no room for more postings
    lists = {name: values[order] for name, values in lists.items()}
    has = {
        "in_description": lists["described"] > 0,
        "in_body": lists["body"] > 0,
        "in_name": lists["skills"] & PLACES["name"] > 0,
    }
    counts = {name: np.diff(_starts(values.astype(np.int64))[starts]).astype(np.int32) for name, values in has.items()}
    return {"words": words[first], "starts": starts, **lists, **counts}


Key = tuple[object, ...]
"""What a page was read from: the skill, the state of its file and a checksum of its header; plain values."""

_FORMAT: Final = 7
_MAGIC: Final = b"SKYS"
_LARGEST: Final = 2 * 1024**3
_SMALL: Final = 256  # skills in small segments before they become part of the large one
_SMALL_CATALOG: Final = 256  # skills that stay one segment
_SEGMENTS: Final = 8


class Segment(NamedTuple):
    """Postings, and for each skill in them what it was read from; a large one on disk has a value that identifies it."""

    keys: tuple[Key, ...]
    postings: Postings
    mark: bytes = b""


_STORED: Final = {
    "words": np.uint32, "counts": np.int32, "skills": np.int32, "described": np.uint8, "body": np.uint8,
    "names": np.uint32, "name_counts": np.int32, "pairs": np.uint32, "pair_counts": np.int32, "said": np.uint32,
    "said_counts": np.int32, "lengths": np.int32,
}  # fmt: skip


def stored_postings(pages: Sequence[Page], tokenizer: Tokenizer, files: PortionFiles) -> list[Any]:
    """The postings of the pages, left in `files`, and what `make_segment` needs to find them: plain values."""
    made = build_postings(pages, tokenizer)
    counts = {"counts": made.starts} | {f"{one}_counts": getattr(made, f"{one}_starts") for one in ("name", "pair", "said")}
    arrays = [np.diff(counts[name]).astype(kind) if name in counts else getattr(made, name) for name, kind in _STORED.items()]
    at = np.searchsorted(made.words, np.arange(_RANGES + 1, dtype=np.uint64) << np.uint64(28))
    bounds = list(zip(at.tolist(), made.starts[at].tolist(), strict=True))
    return [files.put(b"".join([array.tobytes() for array in arrays])), [len(array) for array in arrays], bounds]


class _StoredPart:
    """The postings of some skills as `stored_postings` left them: word range `n` begins with word and posting `bounds[n]`."""

    def __init__(self, files: PortionFiles, stored: list[Any]) -> None:
        self._files = files
        self._place, lengths, self.bounds = stored
        self.lengths: dict[str, int] = dict(zip(_STORED, lengths, strict=True))
        sizes = [length * np.dtype(kind).itemsize for length, kind in zip(lengths, _STORED.values(), strict=True)]
        self._begins = dict(zip(_STORED, np.cumsum([0, *sizes]).tolist(), strict=False))

    @property
    def count(self) -> int:
        """How many skills there are."""
        return self.lengths["lengths"]

    def array(self, name: str, begin: int = 0, end: int | None = None) -> NDArray[Any]:
        """One of the arrays, or a part of it."""
        kind = np.dtype(_STORED[name])
        length = (self.lengths[name] if end is None else end) - begin
        return np.frombuffer(
            self._files.get(self._place, self._begins[name] + begin * kind.itemsize, length * kind.itemsize), kind
        )

    def between(self, low: int, high: int) -> dict[str, NDArray[Any]]:
        """The lists of the words in some ranges, with the word of each posting."""
        (word, first), (word_end, end) = self.bounds[low], self.bounds[high]
        words = np.repeat(self.array("words", word, word_end), self.array("counts", word, word_end))
        return {"words": words, **{name: self.array(name, first, end) for name in _LISTS}}


def make_segment(keys: Sequence[Key], parts: Sequence[list[Any]], files: PortionFiles, kept_at: str | None = None) -> Segment:
    """One segment of all that `stored_postings` made of the pages, in their order.

    With `kept_at` it is written there and is the one on disk: its pairs never are in memory as a whole.
    """
    stored = [_StoredPart(files, part) for part in parts]
    made = Segment(tuple(keys), _put_together(stored))
    if kept_at:
        pairs = CachePieces(4 * int(made.postings.pair_starts[-1]), (part.array("pairs").tobytes() for part in stored))
        at = list(_TYPES).index("pairs")
        arrays = [*made.postings[:at], pairs, *made.postings[at + 1 :]]
        made = made._replace(mark=_mark(made))
        write_mapped_cache(kept_at, _MAGIC, (_code(), made.mark, made.keys), arrays)
        kept = _mapped(kept_at)
        if kept and kept.mark == made.mark:
            return kept
    return made._replace(postings=made.postings._replace(pairs=_one_after_the_other(stored, "pairs")))


def with_segment(segments: Sequence[Segment], new: Segment, current: Collection[Key]) -> list[Segment]:
    """The segments and a new one, put together where they have become many; only skills in `current` stay then.

    Those of a small catalog always are: what is left of an old text would count in how rare its words are.
    """
    everything = [*segments, new]
    if len(everything) == 1:
        return everything
    large, small = len(segments[0].keys), sum(len(segment.keys) for segment in everything[1:])
    if small > max(_SMALL, large // 20) or large + small <= _SMALL_CATALOG:
        return [_together(everything, current)]
    if len(everything) > _SEGMENTS:
        return [everything[0], _together(everything[1:], current)]
    return everything


def _together(segments: Sequence[Segment], current: Collection[Key]) -> Segment:
    first = segments[0]
    keys, postings = first.keys, first.postings
    for segment in segments[1:]:
        keep = np.fromiter((key in current for key in keys), np.bool_, len(keys))
        kept = tuple(key for key, stays in zip(keys, keep, strict=True) if stays)
        keys, postings = kept + segment.keys, merge(postings, keep, segment.postings)
    return Segment(keys, postings)


def load_segments(file: str) -> list[Segment]:
    """What is kept at `file` and beside it; empty when there is nothing, or nothing that can be trusted."""
    large = _mapped(file)
    if large is None:
        return []
    match read_private_cache(f"{file}.more", _MAGIC, largest=_LARGEST):
        case (code, bytes(base), content) if (code, base) == (_code(), large.mark):
            return [large, *(Segment(keys, _postings(arrays)) for keys, arrays in content)]
    return [large]


def save_segments(file: str, segments: Sequence[Segment], *, large: bool) -> list[Segment]:
    """Keep the segments at `file`; without `large` only the small ones, when the large one there is still the same.

    Returned are the segments to go on with: a large one that was written is the one on disk, which takes no memory.
    """
    first, *small = segments
    mark = first.mark or _mark(first)
    if large:
        write_mapped_cache(file, _MAGIC, (_code(), mark, first.keys), first.postings)
    packed = [(one.keys, [array.tobytes() for array in one.postings]) for one in small]
    write_private_cache(f"{file}.more", _MAGIC, (_code(), mark, packed))
    kept = _mapped(file) if large else None
    return [kept if kept and kept.mark == mark else first._replace(mark=mark) if large else first, *small]


def _mark(segment: Segment) -> bytes:
    keys = zlib.crc32(marshal.dumps(cast("Any", segment.keys), 2))
    return keys.to_bytes(4, "big") + len(segment.postings.skills).to_bytes(8, "big")


def _postings(arrays: Sequence[bytes | memoryview]) -> Postings:
    return Postings(*(np.frombuffer(data, kind) for data, kind in zip(arrays, _TYPES.values(), strict=True)))


def _mapped(path: str) -> Segment | None:
    """The large segment on disk."""
    match map_private_cache(path, _MAGIC, largest=_LARGEST):
        case (code, bytes(mark), keys), arrays if code == _code() and len(arrays) == len(_TYPES):
            return Segment(keys, _postings(arrays), mark)
    return None


def _code() -> str:
    return f"{__version__} {_FORMAT} {sys.implementation.cache_tag} {sys.byteorder}"
