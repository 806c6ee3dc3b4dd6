"""How well a memory fits a query, by their words; the same in every database.

Words are those of the search room: without English endings, and for Chinese, Japanese and Korean pairs of characters. Single
characters of those scripts are kept as well, so that a query of one character finds something.
"""

from __future__ import annotations

from typing import Final

__all__ = ["indexed_words", "query_words", "relevance"]

_OTHER_WAY: Final = 0.8
_MOST: Final = 64
_LONGEST_QUERY: Final = 20_000
"""In characters; the words of a message of 400,000 take 0.2 s."""


def indexed_words(text: str) -> str:
    """The words a memory is found by, separated by spaces."""
    found = _words(text)
    single = [character for word in found if not word.isascii() and len(word) == 2 for character in word]
    return " ".join(dict.fromkeys([*found, *single]))


def query_words(text: str) -> tuple[str, ...]:
    """The words that the first 20,000 characters of a query look for, each once, at most 64."""
    return tuple(dict.fromkeys(_words(text[:_LONGEST_QUERY])))[:_MOST]


def relevance(query: tuple[str, ...], indexed: str) -> float:
    """From 0 to 1: the share of the query's words that the memory has, or 0.8 of the share of the memory's that the query has.

    The second is for long questions: "what tea shall I buy for tomorrow's guests" concerns a memory that only says "tea".
    """
    known = set(indexed.split(" "))
    hits = sum(word in known for word in query)
    if not hits:
        return 0.0
    content = sum(len(word) != 1 or word.isascii() for word in known) or len(known)
    return max(hits / len(query), _OTHER_WAY * min(1.0, hits / content))


def _words(text: str) -> list[str]:
    from skillyard.search.words import words  # its tables are large, and a run that remembers nothing needs none

    return words(text)
