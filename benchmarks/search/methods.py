"""The methods that are compared: each takes the entries and gives a function from a request to the numbers of the best ten."""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.search.collection import Entry

Search = Callable[[str], list[int]]
Method = Callable[[Sequence[Entry]], Search]
TOKEN = re.compile(r"[A-Za-z0-9]+|[\u4e00-\u9fff]")
BODY = 20_000


def ours(entries: Sequence[Entry]) -> Search:
    """Skillyard, without any model."""
    from skillyard.search import SearchIndex, search_skills

    index = SearchIndex(entries)  # type: ignore[arg-type] # entries have what search asks of a skill
    len(index.numbers)
    return lambda text: [int(match.skill.id) for match in search_skills(index, text, min_confidence=0)]


Fields = Sequence[tuple[Callable[[Entry], str], float]]


def _bm25(entries: Sequence[Entry], fields: Fields, *, counted: bool = False) -> Search:
    import bm25s
    import numpy as np
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    indexes = _bm25_indexes(entries, fields)

    def search(text: str) -> list[int]:
        asked = bm25s.tokenize([text], stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)[0]
        asked = asked if counted else list(dict.fromkeys(asked))
        total = np.zeros(len(entries), dtype=np.float32)
        for index, weight in indexes:
            known = [word for word in asked if word in index.vocab_dict]
            if known:
                total += weight * index.get_scores(known)
        best = np.argpartition(-total, 10)[:10]
        return [int(one) for one in best[np.argsort(-total[best], kind="stable")]]

    return search


_last: list[tuple[Sequence[Entry], Fields, Any]] = []


def _bm25_indexes(entries: Sequence[Entry], fields: Fields) -> Any:
    """An index of each field, with its weight; the last ones are kept, since two methods ask the same."""
    import bm25s
    import Stemmer

    if _last and _last[0][0] is entries and _last[0][1] is fields:
        return _last[0][2]
    indexes = []
    for text, weight in fields:
        words = bm25s.tokenize(
            [text(entry) or "." for entry in entries], stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False
        )
        index = bm25s.BM25(k1=1.2, b=0.75)
        index.index(words, show_progress=False)
        indexes.append((index, weight))
    _last[:] = [(entries, fields, indexes)]
    return indexes


_FIELDS: Fields = (
    (lambda entry: entry.name, 0.5), (lambda entry: entry.description, 1), (lambda entry: entry.body[:BODY], 1)
)  # fmt: skip


def bm25_short(entries: Sequence[Entry]) -> Search:
    """BM25 over name and description."""
    return _bm25(entries, [(lambda entry: f"{entry.name} {entry.description}", 1)])


def bm25_full(entries: Sequence[Entry]) -> Search:
    """BM25 over everything as one text."""
    return _bm25(entries, [(lambda entry: f"{entry.name} {entry.description} {entry.body[:BODY]}", 1)])


def bm25_fields(entries: Sequence[Entry]) -> Search:
    """BM25 of three fields, added up: half the name, description, body; each word of a request once."""
    return _bm25(entries, _FIELDS)


def bm25_counted(entries: Sequence[Entry]) -> Search:
    """The same, with words counted as often as the request says them."""
    return _bm25(entries, _FIELDS, counted=True)


def fts5(entries: Sequence[Entry]) -> Search:
    """SQLite FTS5 with the porter tokenizer over name and description."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table skills using fts5(name, description, tokenize='porter unicode61')")
    database.executemany("insert into skills values (?, ?)", ((entry.name, entry.description) for entry in entries))

    def search(text: str) -> list[int]:
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(TOKEN.findall(text.lower())))
        if not asked:  # no letters of its alphabets
            return []
        rows = database.execute("select rowid from skills where skills match ? order by bm25(skills) limit 10", (asked,))
        return [row[0] - 1 for row in rows]

    return search


def tantivy_fields(entries: Sequence[Entry]) -> Search:
    """tantivy: name, description, half the body, English stems."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    for name in ("name", "description", "body"):
        builder.add_text_field(name, tokenizer_name="en_stem")
    builder.add_integer_field("number", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer(128_000_000, 1)
    for number, entry in enumerate(entries):
        fields = {"name": entry.name, "description": entry.description, "body": entry.body[:BODY], "number": number}
        writer.add_document(tantivy.Document(**fields))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(text: str) -> list[int]:
        asked = " ".join(dict.fromkeys(TOKEN.findall(text.lower())))
        query = index.parse_query(asked, ["name", "description", "body"], field_boosts={"body": 0.5})
        return [searcher.doc(address)["number"][0] for _, address in searcher.search(query, 10).hits]

    return search


def tf_idf(entries: Sequence[Entry]) -> Search:
    """TF-IDF of scikit-learn over name, description and body."""
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    matrix = vectorizer.fit_transform([f"{one.name} {one.description} {one.body[:BODY]}" for one in entries]).tocsc()

    def search(text: str) -> list[int]:
        scores = np.asarray((matrix @ vectorizer.transform([text]).T).todense()).ravel()
        best = np.argpartition(-scores, 10)[:10]
        return [int(one) for one in best[np.argsort(-scores[best], kind="stable")]]

    return search


METHODS: dict[str, tuple[Method, tuple[str, ...]]] = {
    "skillyard": (ours, ()),  # first, while the process has one thread and may use a second core
    "BM25 name + description": (bm25_short, ("bm25s", "Stemmer")),
    "SQLite FTS5 name + description": (fts5, ()),
    "BM25 full text": (bm25_full, ("bm25s", "Stemmer")),
    "BM25 with fields": (bm25_fields, ("bm25s", "Stemmer")),
    "BM25 with fields, words counted": (bm25_counted, ("bm25s", "Stemmer")),
    "tantivy with fields": (tantivy_fields, ("tantivy",)),
    "TF-IDF": (tf_idf, ("sklearn",)),
}


def installed(needs: Sequence[str]) -> bool:
    """Whether every package is there."""
    return all(importlib.util.find_spec(name) for name in needs)
