"""Words of a request and of a skill, in the form in which they are compared.

Latin words lose their case and the commonest English endings (`merging`, `merged` and `merges` meet), and `camelCase`,
`kebab-case` and `snake_case` come apart. Chinese, Japanese and Korean text, which has no spaces, becomes overlapping pairs of
characters. Words that every description has say nothing and are left out, and so are single Latin letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

__all__ = ["STOP_WORDS", "compounds", "in_order", "root", "runs", "stem", "words"]

_WIDE: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# A run of letters and digits of one kind: Latin and other alphabets, or characters without spaces between words.
_RUN: Final = re.compile(rf"[^\W_{_WIDE}]+|[{_WIDE}]+")
_WIDE_RUN: Final = re.compile(rf"[{_WIDE}]")
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_COMPOUND: Final = re.compile(r"(?<![\w-])([A-Za-z0-9]+)[-_]([A-Za-z0-9]+)(?![\w-])")
_VOWEL: Final = re.compile(r"[aeiouy]")
_LONGEST: Final = 40  # characters of one word; what is longer is data, not language

_ENGLISH: Final = """
    about across after again all also an and any are as at be been before being between both but by can could did do
    does doing done during each etc for from had has have having he help helps her here him his how if in into is it its itself
    just let like may me might more most must my need needs no nor not of off on once only or other our out over own per
    please same shall she should skill skills so some such than that the their them then there these they this those
    through to too under until up upon us use used user users uses using via want wants was we well were what when
    whenever where whether which while who whom why will with within without would you your
"""
_CHINESE: Final = (
    "一个 一下 一些 什么 怎么 如何 可以 需要 帮我 帮忙 请问 我要 我想 这个 那个 以及 或者 使用 用户 时候 的时 技能"
)
STOP_WORDS: Final = frozenset(_ENGLISH.split())
_WIDE_STOP_WORDS: Final = frozenset(_CHINESE.split())


def words(text: str) -> list[str]:
    """The comparable words of `text`, in order, with repetitions."""
    if not text.isascii():
        text = _plain(text)
    found: list[str] = []
    for run in _RUN.findall(text):
        if run.isascii():
            found += _latin(run)
        elif _WIDE_RUN.match(run):
            found += _pairs(run)
        elif 1 < len(run) <= _LONGEST:
            found.append(run.casefold())
    return found


def runs(text: str) -> list[str]:
    """`text` taken apart as it is written: runs of letters and digits, pairs of characters where there are no spaces."""
    found: list[str] = []
    for run in _RUN.findall(text):
        found += _pairs(run) if _WIDE_RUN.match(run) else [run]
    return found


def in_order(sequence: Iterable[str]) -> str:
    """Words as one text; that of words which stand together and in order in others is a part of theirs.

    Finding a text in another one is linear; comparing at each place is not.
    """
    return f" {' '.join(sequence)} "


def compounds(text: str) -> list[str]:
    """Words of `text` made of two with a hyphen or underscore, written as one: `front-end` is also `frontend`."""
    return [stem(f"{one}{two}".lower()) for one, two in _COMPOUND.findall(text) if len(one) + len(two) <= _LONGEST]


@lru_cache(maxsize=1 << 16)
def _latin(run: str) -> tuple[str, ...]:
    lower = run.lower()
    if lower in STOP_WORDS or not 1 < len(run) <= _LONGEST:
        return ()
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        return (stem(lower),)
    parts = [part.lower() for part in _PART.findall(run)]
    named = [stem(part) for part in parts if len(part) > 1 and not part.isdigit() and part not in STOP_WORDS]
    return tuple(dict.fromkeys([stem(lower), *named]))


def _pairs(run: str) -> list[str]:
    pairs = [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
    return [pair for pair in pairs if pair not in _WIDE_STOP_WORDS]


def _plain(text: str) -> str:
    """`text` in compatibility form without accents: full-width letters and `café` become ASCII."""
    folded = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in folded if not unicodedata.combining(char)) if not folded.isascii() else folded
    return unicodedata.normalize("NFC", bare)  # Hangul came apart as well


def stem(word: str) -> str:
    """`word`, in lower case, without a common English ending; short words stay."""
    if len(word) <= 3 or not word.isascii():
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and _VOWEL.search(word, 0, len(word) - len(ending)):
            word = _undoubled(word.removesuffix(ending))
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _undoubled(word: str) -> str:
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouylsz"
    return word[:-1] if doubled else word


# Endings that make one word of another (`simulator`, `simulation`), with what stays and the least syllables before.
_DERIVED: Final = (
    ("ization", "iz", 1), ("isation", "iz", 1), ("ational", "at", 1), ("ation", "at", 1), ("ator", "at", 1), ("ality", "al", 1),
    ("ivity", "iv", 1), ("bility", "bl", 1), ("ment", "", 1), ("ness", "", 1), ("ition", "it", 1), ("sion", "s", 1),
    ("tion", "t", 1), ("ance", "", 1), ("ence", "", 1), ("anc", "", 1), ("enc", "", 1), ("able", "", 1), ("ible", "", 1),
    ("abl", "", 1), ("ibl", "", 1), ("ical", "ic", 1), ("ally", "al", 1), ("ously", "ous", 1), ("ively", "iv", 1),
    ("ful", "", 1), ("ous", "", 1), ("ly", "", 1), ("er", "", 1), ("or", "", 1), ("iz", "", 2),
    ("at", "", 2), ("iv", "", 2), ("al", "", 2),
    ("ic", "", 2), ("y", "i", 1),
)  # fmt: skip
_SYLLABLE: Final = re.compile(r"[aeiouy][^aeiouy]")  # where one ends: each of them has one such place


@lru_cache(maxsize=1 << 17)
def root(word: str) -> str:
    """The stem `word` without the endings that make nouns and adjectives of verbs: `simulat` and `simulation` meet."""
    if len(word) < 5 or not word.isascii():
        return word
    for _ in range(3):
        shorter = _underived(word)
        if shorter == word:
            break
        word = shorter
    doubled = len(word) > 4 and word[-1] == word[-2] and word[-1] in "lnrtgpmbd"
    return word[:-1] if doubled else word


_DERIVED_ENDINGS: Final = tuple(ending for ending, _, _ in _DERIVED)


def _underived(word: str) -> str:
    if not word.endswith(_DERIVED_ENDINGS):
        return word
    for ending, rest, syllables in _DERIVED:
        if word.endswith(ending):
            before = word[: -len(ending)]
            if len(before) >= 3 and len(_SYLLABLE.findall(before)) >= syllables:
                return before + rest
    return word
