"""The words of many texts at once, as numbers: runs of letters and digits are distinguished by a hash, and each is read once.

Ten thousand skills say some eight million words, a quarter of a million different ones. All bytes of some texts lie in one
array; the hash of a run is the difference of two sums over it, so that no run but a new one becomes an object. The hash has a
key that is drawn anew for each tokenizer: nobody can write a skill whose words are taken for others.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skillyard.search.pages import uncached_word_number
from skillyard.search.words import plain, run_words, runs

if TYPE_CHECKING:
    from numpy.typing import NDArray


_CHUNK: Final = 1 << 17  # bytes that are looked at together: their numbers fit into the caches of a processor
_BITS: Final = (10, 20)  # least and most bits of the table
_MOST: Final = 1 << 19  # different runs that are remembered
_THIRD_PARTY: Final = re.compile(rb"(?i)\bthird[- ]part(?:y|ies)\b")  # as in `words`
_ASCII, _HAN, _OTHER = 1, 2, 3  # kinds of bytes; 0 is between runs. Two kinds with a bit in common stay together
_KINDS: Final = bytes(_OTHER if byte > 127 else _ASCII if chr(byte).isalnum() else 0 for byte in range(256))

Numbers = tuple["NDArray[np.uint32]", "NDArray[np.int64]"]
"""The words of some texts as numbers, in order and with repetitions, one text after the other, and how many each has."""


class Tokenizer:
    """Turns texts into the numbers of their words; `texts` is how many there will be about, for the size of its table."""

    def __init__(self, texts: int) -> None:
        least, most = _BITS
        self._bits = min(max((128 * texts).bit_length(), least), most)
        key: NDArray[np.uint64] = np.frombuffer(os.urandom(257 * 8), np.uint64)
        self._letters, self._factor = key[:256], int(key[256]) | 1
        self._powers = self._inverses = np.zeros(0, np.uint64)
        self._forget()

    def numbers(self, texts: Sequence[bytes]) -> Numbers:
        """The words of each text (UTF-8)."""
        found: list[NDArray[np.uint32]] = []
        lengths: list[NDArray[np.int64]] = []
        chunk: list[bytes] = []
        size = 0
        for text in texts:
            if size + len(text) > _CHUNK and chunk:
                self._add(chunk, found, lengths)
                chunk, size = [], 0
            chunk.append(_THIRD_PARTY.sub(b"thirdparty", text) if b"hird" in text or b"HIRD" in text else text)
            size += len(text) + 1
        self._add(chunk, found, lengths)
        return np.concatenate(found), np.concatenate(lengths)

    def _forget(self) -> None:
        """Start with an empty table: slot `hash >> …` holds the hash and the id of a run; others with the slot are apart."""
        self._slots: NDArray[np.uint64] = np.zeros(1 << self._bits, np.uint64)
        self._ids: NDArray[np.int32] = np.zeros(1 << self._bits, np.int32)
        self._others: dict[int, int] = {}
        self._begins, self._words = array("q", [0]), array("I")  # words of run `id` are `begins[id]:begins[id + 1]`

    def _add(self, texts: list[bytes], found: list[NDArray[np.uint32]], lengths: list[NDArray[np.int64]]) -> None:
        joined = b"\n" + b"\n".join(texts) + b"\n"
        data = np.frombuffer(joined, np.uint8)
        kinds = np.frombuffer(bytearray(joined.translate(_KINDS)), np.uint8)
        if not joined.isascii():
            _take_marks_out(kinds, data)
            _set_han(kinds, data)
        one, two = kinds[:-1], kinds[1:]
        edges = np.flatnonzero((one & two == 0) & (one | two > 0))
        before, last = edges[two[edges] > 0], edges[one[edges] > 0]  # of each run the byte before it, and its last one
        if not joined.isascii():
            before, last = _in_pairs(kinds, before, last)
        ids = self._known(joined, data, before, last)
        begins = np.frombuffer(self._begins, np.int64)  # no copy; nothing can be learned until this is gone
        begin = begins[ids]
        count = begins[1:][ids] - begin
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
        where = np.repeat(begin - sums[:-1], count) + np.arange(int(sums[-1]))
        found.append(np.frombuffer(self._words, np.uint32)[where])
        ends = np.cumsum([len(text) + 1 for text in texts])
        lengths.append(np.diff(sums[np.searchsorted(before, np.concatenate([[0], ends]))]))

    def _known(self, joined: bytes, data: NDArray[np.uint8], before: NDArray[Any], last: NDArray[Any]) -> NDArray[np.int32]:
        """The id of each run; those that are new are learned."""
        hashes = self._hashes(data, before, last)
        slots = (hashes >> np.uint64(64 - self._bits)).astype(np.int64)
        ids = self._ids[slots]
        missed = np.flatnonzero(self._slots[slots] != hashes)
        if len(missed):
            if len(self._begins) > _MOST:
                self._forget()
                return self._known(joined, data, before, last)
            unique, first, back = np.unique(hashes[missed], return_index=True, return_inverse=True)
            at = missed[first]
            learned = self._learned(joined, unique, before[at] + 1, last[at] + 1)
            self._put(unique, slots[at], learned)
            ids[missed] = learned[back.ravel()]
        return ids

    def _hashes(self, data: NDArray[np.uint8], before: NDArray[Any], last: NDArray[Any]) -> NDArray[np.uint64]:
        """A hash of the bytes of each run: the sum of a secret number for each byte times a power for its place in the run."""
        if len(data) > len(self._powers):
            size = max(len(data), _CHUNK + (1 << 16))
            self._powers = _powers(self._factor, size)
            self._inverses = _powers(pow(self._factor, -1, 1 << 64), size)
        values = self._letters[data]
        values *= self._powers[: len(data)]
        sums = np.cumsum(values, dtype=np.uint64, out=values)
        hashes: NDArray[np.uint64] = (sums[last] - sums[before]) * self._inverses[before] | np.uint64(1)  # 0 is an empty slot
        return hashes

    def _learned(self, joined: bytes, hashes: NDArray[np.uint64], begin: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int32]:
        """The ids of runs, by their different hashes; the words of each that is new are looked up."""
        begins, found, known = self._begins, self._words, self._others.get
        ids: list[int] = []
        for hashed, one, two in zip(hashes.tolist(), begin.tolist(), end.tolist(), strict=True):
            number = known(hashed)
            if number is None:
                number = len(begins) - 1
                found.extend([uncached_word_number(word) for word in run_words(joined[one:two].decode("utf-8", "replace"))])
                begins.append(len(found))
            ids.append(number)
        return np.array(ids, np.int32)

    def _put(self, hashes: NDArray[np.uint64], slots: NDArray[np.int64], ids: NDArray[np.int32]) -> None:
        """Remember the ids where they are looked up: one run in each slot, the others apart."""
        free = np.flatnonzero(self._slots[slots] == 0)
        self._slots[slots[free]], self._ids[slots[free]] = hashes[free], ids[free]  # of several for one slot the last
        others = np.flatnonzero(self._slots[slots] != hashes)
        self._others.update(zip(hashes[others].tolist(), ids[others].tolist(), strict=True))


def _set_han(kinds: NDArray[np.uint8], data: NDArray[np.uint8]) -> None:
    """Set the kind of Chinese characters (U+4E00 to U+9FFF), which never are in one run with ASCII."""
    at = np.flatnonzero((data[:-2] >= 0xE4) & (data[:-2] <= 0xE9))
    second = data[at + 1]
    at = at[(second >> 6 == 0b10) & (data[at + 2] >> 6 == 0b10) & ((data[at] > 0xE4) | (second >= 0xB8))]
    for byte in range(3):
        kinds[at + byte] = _HAN


def _in_pairs(kinds: NDArray[np.uint8], before: NDArray[Any], last: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The runs, those of nothing but Chinese characters as their pairs of two, each of which is a word."""
    others = np.cumsum(kinds != _HAN)
    pairs = np.where(others[last] == others[before], (last - before) // 3 - 1, 0)
    counts = np.maximum(pairs, 1)
    into = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    begin, paired = np.repeat(before, counts) + 3 * into, np.repeat(pairs > 0, counts)
    return begin, np.where(paired, begin + 6, np.repeat(last, counts))


def _take_marks_out(kinds: NDArray[np.uint8], data: NDArray[np.uint8]) -> None:
    """Take the marks of the blocks that have the most of them out of the runs: “ and →, which are most of what is not ASCII."""
    for lead, width in ((b"\xe2", 3), (b"\xe3", 3), (b"\xef", 3), (b"\xf0\x9f", 4)):
        at = np.flatnonzero(data[: 1 - width] == lead[0])
        for byte in range(1, width):  # a text may be cut off within a character
            at = at[data[at + byte] >> 6 == 0b10 if byte >= len(lead) else data[at + byte] == lead[byte]]
        marks = at[_marks(lead)[(data[at + width - 2] & 63).astype(np.int64) << 6 | data[at + width - 1] & 63]]
        for byte in range(width):
            kinds[marks + byte] = 0


@cache
def _marks(lead: bytes) -> NDArray[np.bool_]:
    """Which characters with these first bytes are neither a part of any word nor may join two of them."""
    texts = [plain((lead + bytes((128 | at >> 6, 128 | at & 63))).decode("utf-8", "replace")) for at in range(1 << 12)]
    return np.array([bool(text) and not runs(text) and not {" ", "-"} & {*text} for text in texts], dtype=np.bool_)


def _powers(factor: int, count: int) -> NDArray[np.uint64]:
    """The powers 0 to `count - 1` of a number, modulo 2**64."""
    powers: NDArray[np.uint64] = np.full(count, factor, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers, out=powers)
