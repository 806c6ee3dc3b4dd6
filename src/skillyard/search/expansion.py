"""Expansion: words that a request means although it does not say them, each with what it counts.

They come from four places: English words for Chinese ones, other names of products and kinds of files (`ppt` for slides), two
words written as one (`front end`), and the words of the index that a word which no skill has may be a slip of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from skillyard.search.words import CHINESE_WORDS, compounds, runs, translate_chinese, words
from skillyard.text import nearest

if TYPE_CHECKING:
    from skillyard.search.index import SearchIndex


_TRANSLATED: Final = 1.0
_OTHER_NAME: Final = 0.6
_CORRECTED: Final = 0.9
_FEW_WORDS: Final = 5  # words of a request up to which two may be one word of a skill
_CORRECTIONS: Final = 4  # words of a request that are corrected, and words that one may be a slip of
_SHORTEST: Final = 4  # letters of a word that is corrected
_SMALL: Final = 2_000  # skills up to which words with two slips are looked for among all that are written
_HYPHENED: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]++[-_][A-Za-z0-9]++")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

# What is said = what it may be called in a skill. Endings of files are words like any other.
_NAMES: Final = """
powerpoint=pptx presentation slides deck|ppt=pptx powerpoint presentation slides deck|pptx=powerpoint presentation slides deck
slides=presentation pptx deck|slide=presentation pptx deck|slideshow=presentation slides pptx|deck=presentation slides pptx
keynote=presentation slides pptx|presentation=slides pptx deck|excel=xlsx spreadsheet|xls=xlsx excel spreadsheet
xlsx=excel spreadsheet|xlsm=xlsx excel spreadsheet|csv=spreadsheet table data|tsv=csv spreadsheet|spreadsheet=xlsx excel
workbook=xlsx excel spreadsheet|docx=word document|doc=docx word document|word=docx|odt=docx document|rtf=docx document
redline=tracked changes docx|redlining=tracked changes docx|redlines=tracked changes docx|acrobat=pdf|letterhead=docx document
jpg=image photo|jpeg=image photo|png=image|webp=image|svg=vector image|photo=image|picture=image|pic=image|screenshot=image
gif=animated animation|mp4=video|mov=video|mkv=video|clip=video|mp3=audio|wav=audio|podcast=audio episode|k8s=kubernetes
kubectl=kubernetes|js=javascript|ts=typescript|py=python|golang=go|postgres=postgresql|psql=postgresql|db=database
gh=github|repo=repository|pr=pull request|ml=machine learning|llm=language model|ai=artificial intelligence
iac=infrastructure code terraform|tf=terraform|ci=continuous integration pipeline|cicd=continuous integration deployment
auth=authentication|authn=authentication|authz=authorization|oauth=authentication|a11y=accessibility|wcag=accessibility
i18n=internationalization localization|l10n=localization|e2e=end-to-end testing|perf=performance|config=configuration
docs=documentation|env=environment|cv=resume|gsheet=google sheets spreadsheet|yml=yaml|md=markdown|infra=infrastructure
prod=production|ux=user experience design|ui=interface design|seo=search engine optimization|ads=advertising
newsletter=email|mail=email|inbox=email|invoice=billing|flyer=poster design|poster=design visual|logo=brand design
colors=theme palette|fonts=typography theme|webpage=web page html|website=web page frontend|webapp=web application
ocr=scanned text recognition|transcribe=transcription audio|transcript=transcription|tweet=twitter|crm=customer relationship
etl=pipeline data|viz=visualization|plot=chart visualization|graph=chart|chart=visualization|dashboard=visualization
standup=status update|memo=internal communication|announcement=communication newsletter
"""


def expansion(index: SearchIndex, query: str, query_words: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Words in the form of `words`, and their factors (0 to 1); none of them is in `query_words`."""
    from skillyard.search.scoring import counted_words, missing  # with it comes numpy

    said = set(query_words)
    extra = dict.fromkeys(translate_chinese(query), _TRANSLATED)
    extra.update((joined, 1.0) for joined, parts in _joined(query, query_words) if missing(index, parts))
    names = _other_names()
    for run in dict.fromkeys(runs(query.lower())):
        for word in names.get(run, ()):
            extra.setdefault(word, _OTHER_NAME)
    distinct = [word for word in said if word.isascii() and word.isalpha() and len(word) >= _SHORTEST]
    unknown = [word for word, count in zip(distinct, counted_words(index, distinct), strict=True) if not count]
    for word in sorted(unknown, key=query_words.index)[:_CORRECTIONS]:
        for other in _corrections(index, word):
            extra.setdefault(other, _CORRECTED)
    return tuple((word, factor) for word, factor in extra.items() if word not in said)


def as_written(index: SearchIndex, query: str, found: Sequence[str]) -> list[str]:
    """Words in the form of `words`, each as the request writes it, or else a table of this room or a skill."""
    known = _spellings(query)
    for texts in (_table_texts, lambda: index.vocabulary):
        if all(word in known for word in found):
            break
        for text in texts():
            for word, written in _spellings(text).items():
                known.setdefault(word, written)
    return [known.get(word, word) for word in found]


def _spellings(text: str) -> dict[str, str]:
    """The words of `text`, as `words` gives them and as they are written."""
    spelled = {word: run.lower() for run in reversed(runs(text)) for word in words(run)}
    return {joined: joined for joined in compounds(text)} | spelled


@cache
def _table_texts() -> tuple[str, ...]:
    return tuple(re.findall(r"(?<==)[^|\n]+", f"{_NAMES}\n{CHINESE_WORDS}"))


def _joined(query: str, query_words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Two words as the one that a skill may write, "front-end" or "front end" as frontend, with the words they are of."""
    beside = pairwise(query_words) if len(query_words) <= _FEW_WORDS else ()
    pairs = [(f"{one}{two}", [one, two]) for one, two in beside if one.isascii() and two.isascii()]
    return pairs + [(compounds(written)[0], words(written)) for written in _HYPHENED.findall(query) if compounds(written)]


@cache
def _other_names() -> dict[str, tuple[str, ...]]:
    entries = (entry.partition("=") for line in _NAMES.split("\n") for entry in line.split("|") if entry)
    return {said: tuple(words(called)) for said, _, called in entries}


def _corrections(index: SearchIndex, word: str) -> list[str]:
    """What `word` with one slip may be: a product with its other names, or words of skills, the commonest first.

    With two slips it is looked for where the catalog is small.
    """
    from skillyard.search.scoring import counted_words

    slips = list(_one_slip(word))
    if names := [name for slip in slips for name in (slip, *_other_names().get(slip, ())) if slip in _other_names()]:
        return names
    counts = counted_words(index, slips, described=True)
    near = sorted((-count, slip) for slip, count in zip(slips, counts, strict=True) if count)
    if near or len(index) > _SMALL:
        return [slip for _, slip in near[:_CORRECTIONS]]
    written = [one for one in index.vocabulary if one[:1] == word[:1] and abs(len(one) - len(word)) <= 3]
    return [stem for one in nearest(word, written, limit=2) for stem in words(one)]


def _one_slip(word: str) -> set[str]:
    """Everything that differs from `word` by one letter that is missing, too many or wrong, or by two that are swapped."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    slips = {one + two[1:] for one, two in cuts if two}
    slips |= {one + two[1] + two[0] + two[2:] for one, two in cuts if len(two) > 1}
    slips |= {one + letter + two[1:] for one, two in cuts if two for letter in _LETTERS}
    slips |= {one + letter + two for one, two in cuts for letter in _LETTERS}
    return {slip for slip in slips if len(slip) >= _SHORTEST - 1} - {word}
