"""Scores: the skills of an index that may fit a request, by its words and what it means by them, and how well each does.

Words that a request means although it does not say them come from four places: English words for Chinese ones, other names of
products and kinds of files (`ppt` for slides), two words written as one (`front end`), and the words of the index that a word
which no skill has may be a slip of. Each has what it counts.

First every skill that has a word of the request gets a BM25 sum over name, description and body. Then the best of them are
described by numbers and ordered by the learned ranker (`ranker.py`). The content of two skills is compared by the smallest of
their word pairs (bottom-k).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from skillyard.search.pages import word_number
from skillyard.search.postings import ALL_PLACES, K1, PLACE_BITS, PLACES, STEP, B
from skillyard.search.words import CHINESE_WORDS, compounds, runs, translate_chinese, words
from skillyard.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from skillyard.search.postings import Postings
    from skillyard.search.search_index import SearchIndex


MOST_WORDS: Final = 96  # distinct words of a request that are looked up, the weightiest ones
MOST_CLOSE: Final = 120  # skills with words of the request that are scored in detail
_LEAST_SUM: Final = float(np.finfo(np.float64).tiny)
_GROUP: Final = 16  # skills of which the best is looked for first
_FEWEST: Final = 50  # skills as if there were so many at least: among a handful, one that has a word says little about it
NAME: Final = 0.5  # what the name counts beside description and body
_USUAL_NAME: Final = 3.0  # words
_LONGEST_NAME: Final = 512  # words; a longer name counts as one with so many
_CLEAR: Final = PLACES["name"] | PLACES["keywords"] | PLACES["files"]


class Terms(NamedTuple):
    """The words of a request: number, how often it is said, and rarity in any field, description, body and name."""

    numbers: NDArray[np.uint32]
    often: NDArray[np.float64]
    own: NDArray[np.bool_]  # said by the request itself, not added to it
    rarity: NDArray[np.float64]
    described: NDArray[np.float64]
    body: NDArray[np.float64]
    named: NDArray[np.float64]


class Table(NamedTuple):
    """For each candidate and word of the request the strength in description and body, in steps, and the other fields."""

    described: NDArray[np.uint8]
    body: NDArray[np.uint8]
    places: NDArray[np.uint8]


class Candidates(NamedTuple):
    """The skills that are scored in detail: position in the index, first score, their words, and the weight of these."""

    positions: NDArray[np.int64]
    sums: NDArray[np.float64]
    table: Table
    covered: NDArray[np.float64]


def request_terms(index: SearchIndex, query_words: Sequence[str], extra: Sequence[tuple[str, float]] = ()) -> Terms:
    """The weightiest distinct words of a request, and the extra ones that some skill has."""
    counts = Counter(map(word_number, query_words))
    factors = {number: (float(count), True) for number, count in counts.items()}
    for word, factor in extra:
        factors.setdefault(word_number(word), (factor, False))
    numbers = np.fromiter(factors, np.uint32, len(factors))
    often = np.array([factor for factor, _ in factors.values()])
    own = np.array([said for _, said in factors.values()], dtype=np.bool_)
    having, described, body, named = _having(index, numbers)
    often = often * (own | (having > 0))
    rarity = _rarity(index, having)
    best = np.sort(np.argsort(-rarity * often, kind="stable")[:MOST_WORDS])
    return Terms(
        numbers[best],
        often[best],
        own[best],
        rarity[best],
        _rarity(index, described[best]),
        _rarity(index, body[best]),
        _rarity(index, named[best]),
    )


def find_candidates(
    index: SearchIndex, terms: Terms, *, limit: int = 10, only: Callable[[int], bool] | None = None
) -> Candidates:
    """The skills to be scored in detail, at least `limit` of them if there are."""
    sums = _summed(index, terms)
    most = max(MOST_CLOSE, 3 * limit)
    sums[index.gone] = 0.0
    if only:
        positions = _first_allowed(index, np.flatnonzero(sums > 0), sums, most, only)
    else:
        positions = np.flatnonzero(sums >= max(_bound(sums, most), _LEAST_SUM))
    if len(positions) < most:  # few skills at all: those with words in other fields alone as well
        touched = _touched(index, terms)
        touched[index.gone] = False
        positions = np.flatnonzero(touched)
        if only:
            positions = _first_allowed(index, positions, sums, most, only)
    if len(positions) > most:
        positions = positions[_best(sums[positions], most)]
    table = _table(index, terms, positions)
    return Candidates(positions, sums[positions], table, _covered(terms, table))


def _bound(sums: NDArray[np.float64], most: int) -> float:
    """A number that at least `most` of the sums reach, and few more: the least of the best of as many groups of skills.

    To find it takes a tenth of the time that it takes to sort out the best of all.
    """
    groups = len(sums) // _GROUP
    if groups <= most:
        return 0.0
    best = sums[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)  # a group is every so manieth skill
    return float(np.partition(best, groups - most)[groups - most])


def _best(values: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
    """Which are the `most` highest values; of equal ones those that come first."""
    least = np.partition(values, len(values) - most)[len(values) - most]
    chosen: NDArray[np.bool_] = values > least
    (equal,) = (values == least).nonzero()
    chosen[equal[: most - np.count_nonzero(chosen)]] = True
    return chosen


def _first_allowed(
    index: SearchIndex, positions: NDArray[np.int64], sums: NDArray[np.float64], most: int, only: Callable[[int], bool]
) -> NDArray[np.int64]:
    """The best `most` of the positions that `only` allows: no more are asked about than are needed."""
    best = positions[np.argsort(-sums[positions], kind="stable")]
    numbers = index.numbers[best].tolist()
    allowed = (at for at, number in enumerate(numbers) if only(number))
    return best[np.fromiter(islice(allowed, most), np.int64)]


def has_words(index: SearchIndex, position: int, query_words: Sequence[str]) -> list[str]:
    """Those of the words that the skill at `position` has in any field."""
    postings, local = postings_of(index, position)
    begin, end = slices(postings, np.array([word_number(word) for word in query_words], dtype=np.uint32))
    where = [
        int(one + np.searchsorted(postings.skills[one:two], local << PLACE_BITS)) for one, two in zip(begin, end, strict=True)
    ]
    found = zip(query_words, where, end, strict=True)
    return [word for word, at, two in found if at < two and postings.skills[at] >> PLACE_BITS == local]


def counted_words(index: SearchIndex, query_words: Sequence[str], *, described: bool = False) -> list[int]:
    """How many skills have each word (as `words` gives it); with `described` in any field but headings and body."""
    numbers = np.array([word_number(word) for word in query_words], dtype=np.uint32)
    total = np.zeros(len(numbers), np.int64)
    for segment in index.segments:
        postings = segment.postings
        begin, end = slices(postings, numbers)
        for at in np.flatnonzero(end > begin).tolist():
            one, two = begin[at], end[at]
            if described:
                clear = (postings.described[one:two] > 0) | (postings.skills[one:two] & _CLEAR > 0)
                total[at] += np.count_nonzero(clear)
            else:
                total[at] += two - one
    return [int(count) for count in total]


def missing(index: SearchIndex, query_words: Sequence[str]) -> bool:
    """Whether one of the words is in no skill."""
    having, *_ = _having(index, np.array([word_number(word) for word in query_words], dtype=np.uint32))
    return not having.all()


def shares(index: SearchIndex, query_words: Sequence[str]) -> dict[str, float]:
    """The share of the request's weight that each of its words has."""
    counts = Counter(map(word_number, query_words))
    numbers = {word: word_number(word) for word in query_words}
    having, *_ = _having(index, np.array(list(numbers.values()), dtype=np.uint32))
    weights = _rarity(index, having) * np.array([counts[number] for number in numbers.values()], dtype=np.float64)
    whole = max(float(weights.sum()), 1e-9)
    return {word: float(weight) / whole for word, weight in zip(numbers, weights, strict=True)}


def postings_of(index: SearchIndex, position: int) -> tuple[Postings, int]:
    """The postings of the segment that the skill at `position` is in, and its number there."""
    for segment in index.segments:
        if position < segment.postings.skill_count:
            return segment.postings, position
        position -= segment.postings.skill_count
    raise IndexError(position)


def slices(postings: Postings, numbers: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Where the postings of each word begin and end; nothing for one that is not there."""
    if not len(postings.words):
        empty = np.zeros(len(numbers), np.uint32)
        return empty, empty
    at = np.minimum(np.searchsorted(postings.words, numbers), len(postings.words) - 1)
    begin = postings.starts[at]
    return begin, np.where(postings.words[at] == numbers, postings.starts[at + 1], begin)


def ranges(begin: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers `begin[i]` to `begin[i] + lengths[i]` of all i, one after the other."""
    return np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(int(lengths.sum()))


def name_strengths(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a word of a name with so many words is worth there (BM25 without the rarity)."""
    strengths: NDArray[np.float64] = ((K1 + 1) / (1 + K1 * (1 - B + B * lengths / _USUAL_NAME))).astype(np.float64)
    return strengths


def name_rarity(index: SearchIndex, numbers: NDArray[np.uint32]) -> NDArray[np.float64]:
    """How rare each word is in names and descriptions."""
    counts = np.zeros(len(numbers), np.int64)
    for segment in index.segments:
        postings = segment.postings
        if len(postings.words):
            at = np.minimum(np.searchsorted(postings.words, numbers), len(postings.words) - 1)
            counts += np.where(postings.words[at] == numbers, postings.in_description[at], 0)
    return _rarity(index, counts)


def _rarity(index: SearchIndex, having: NDArray[np.int64]) -> NDArray[np.float64]:
    count = max(len(index.skills), _FEWEST)
    rarity: NDArray[np.float64] = np.log(1 + (np.maximum(count - having, 0) + 0.5) / (having + 0.5))
    return rarity


def _having(
    index: SearchIndex, numbers: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How many skills have each word at all, in the description, in the body and in the name."""
    counts = np.zeros((4, len(numbers)), np.int64)
    for segment in index.segments:
        postings = segment.postings
        begin, end = slices(postings, numbers)
        counts[0] += end - begin
        known = np.flatnonzero(end > begin)
        at = np.searchsorted(postings.words, numbers[known])
        for row, of_field in enumerate((postings.in_description, postings.in_body, postings.in_name), 1):
            counts[row, known] += of_field[at]
    return counts[0], counts[1], counts[2], counts[3]


def _summed(index: SearchIndex, terms: Terms) -> NDArray[np.float64]:
    """The score of the first step for every skill of every segment.

    Word by word: a skill is once in the postings of a word, and a slice of an array need not be gathered.
    """
    sums = np.zeros(_count(index))
    often = np.minimum(terms.often, 1.0)
    factors = (STEP * often * terms.described, STEP * often * terms.body, NAME * often * terms.named)
    strengths = name_strengths(np.arange(_LONGEST_NAME))
    for postings, first, word, one, two in _slices_of(index, terms):
        own = sums[first : first + postings.skill_count]
        described, body, named = (float(factor[word]) for factor in factors)
        entries = postings.skills[one:two]
        skills = np.right_shift(entries, PLACE_BITS, dtype=np.intp)
        value = postings.described[one:two] * described
        value += postings.body[one:two] * body
        (in_name,) = (entries & PLACES["name"] != 0).nonzero()  # of truth values it is several times quicker
        if len(in_name):
            whose = skills[in_name]
            lengths = postings.name_starts[whose + 1] - postings.name_starts[whose]
            value[in_name] += strengths[np.minimum(lengths, _LONGEST_NAME - 1)] * named
        np.add.at(own, skills, value)  # half the time of `own[skills] += value`
    return sums


def _table(index: SearchIndex, terms: Terms, positions: NDArray[np.int64]) -> Table:
    """What each of the skills has of each word: of each the postings of a few skills in many, which is quick to look up."""
    shape = (len(positions), len(terms.numbers))
    table = Table(np.zeros(shape, np.uint8), np.zeros(shape, np.uint8), np.zeros(shape, np.uint8))
    order = np.argsort(positions)
    before = -1
    for postings, first, word, one, two in _slices_of(index, terms):
        skills = postings.skills[one:two]
        if first != before:
            sought = ((positions[order] - first) << PLACE_BITS).astype(skills.dtype)  # those of other segments are in none
            before = first
        at = np.minimum(skills.searchsorted(sought), two - one - 1)
        (mine,) = ((skills[at] - sought).view(np.uint32) <= ALL_PLACES).nonzero()
        at, whose = at[mine], order[mine]
        table.described[whose, word] = postings.described[one:two][at]
        table.body[whose, word] = postings.body[one:two][at]
        table.places[whose, word] = skills[at] & ALL_PLACES
    return table


def _covered(terms: Terms, table: Table) -> NDArray[np.float64]:
    """The weight of the request's words that each of the skills has."""
    weights = terms.rarity * (terms.often > 0)
    has = (table.described > 0) | (table.body > 0) | (table.places > 0)
    return (has * weights).cumsum(axis=1)[:, -1]  # one after the other, so that equal words give equal sums


def _touched(index: SearchIndex, terms: Terms) -> NDArray[np.bool_]:
    """Which skills have a word of the request in any field."""
    touched = np.zeros(_count(index), np.bool_)
    weighty = (terms.rarity * (terms.often > 0) > 0).tolist()
    for postings, first, word, one, two in _slices_of(index, terms):
        if weighty[word]:
            touched[first + (postings.skills[one:two] >> PLACE_BITS)] = True
    return touched


def _count(index: SearchIndex) -> int:
    return sum(segment.postings.skill_count for segment in index.segments)


def _slices_of(index: SearchIndex, terms: Terms) -> Iterator[tuple[Postings, int, int, int, int]]:
    """For each segment and word of the request with postings: those of the segment, its first position, word, begin and end."""
    first = 0
    for segment in index.segments:
        begin, end = slices(segment.postings, terms.numbers)
        for word in np.flatnonzero(end > begin).tolist():
            yield segment.postings, first, word, int(begin[word]), int(end[word])
        first += segment.postings.skill_count


_SAMPLE: Final = 64
_LEAST: Final = 24  # a text with fewer pairs is too short to be compared
_SAME: Final = 0.7  # share of the sample


class Sketches:
    """The samples of the skills added so far, to recognize another with nearly the same content."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._samples: list[tuple[int, frozenset[int]]] = []
        self._pairs: set[int] = set()  # of all samples

    def add(self, position: int, number: int) -> None:
        """Remember the skill `number` at `position` in the index."""
        sample = self._sample(position)
        if len(sample) >= _LEAST:
            self._samples.append((number, sample))
            self._pairs |= sample

    def twin(self, position: int, number: int) -> int | None:
        """The number of the remembered skill that has nearly the same content; None when there is none."""
        sample = self._sample(position)
        if len(sample) < _LEAST or len(sample & self._pairs) < max(_LEAST // 2, _SAME * len(sample)):
            return None
        return next((other for other, earlier in self._samples if other != number and _alike(sample, earlier)), None)

    def _sample(self, position: int) -> frozenset[int]:
        postings, local = postings_of(self._index, position)
        begin, end = postings.pair_starts[local : local + 2].tolist()
        return frozenset(postings.pairs[begin : min(begin + _SAMPLE, end)].tolist())


def _alike(one: frozenset[int], two: frozenset[int]) -> bool:
    both, size = one & two, max(len(one), len(two))
    if len(both) < max(_LEAST // 2, _SAME * size):
        return False
    return sum(pair in both for pair in sorted(one | two)[:size]) >= _SAME * size


_TRANSLATED: Final = 1.0
_OTHER_NAME: Final = 0.4
_CORRECTED: Final = 0.9
_FEW_WORDS: Final = 5  # words of a request up to which two may be one word of a skill
_CORRECTIONS: Final = 4  # words of a request that are corrected, and words that one may be a slip of
_SHORTEST: Final = 3  # letters of a word that is corrected; in the shortest only two letters may be swapped
_SPELLED_TWO_WAYS: Final = 7  # letters of a common word that is taken for another with one slip too: artefact, artifact
_LONG: Final = 6  # letters of a word that may be another name with two slips
_SMALL: Final = 2_000  # skills up to which words with two slips are looked for among all that are written
COMMON_WORDS_FILE: Final = Path(__file__).with_name("common_words.npy")
"""Checksums (`word_checksum`) of words that many public skills use, sorted; written by `benchmarks/search/common_words.py`."""
# What people say and skills do not, in the form of `words`.
_COURTEOUS: Final = """
    afternoon appreciat awesom bravo brilliant bye cheer congrat congratulation dear delight even excellent fantastic glad
    goodby goodnight gosh great greet haha hello hey hooray howdy kindly lovely madam marvelou morn nic oop pls plz sad sir
    sorry splendid superb terrific thank thx tonight ty uh um welcom wonderful wow yay yeah yep
"""
_COURTESY: Final = frozenset(_COURTEOUS.split())
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
vlookup=spreadsheet formula xlsx|xlookup=spreadsheet formula xlsx|pivot=spreadsheet table xlsx|sheet=spreadsheet
ods=spreadsheet xlsx|sheets=spreadsheet|odp=presentation pptx|potx=pptx template|dotx=docx template|msword=word docx
mswords=word docx|gdoc=google docs document|gslides=google slides presentation|pitch=presentation deck
selenium=browser testing playwright|puppeteer=browser testing playwright|cypress=browser testing playwright|chrome=browser
webdriver=browser testing playwright|firefox=browser|headless=browser|homepage=website web page
palette=colors theme|colour=color|colours=colors|branding=brand guidelines|typeface=fonts typography|font=typography theme
banner=poster design image|artwork=art design|drawing=art design|animation=animated gif|sticker=animated image emoji
emoji=animated gif|meme=image gif|shadcn=react components|jsx=react|tsx=react typescript|nextjs=react next|vue=frontend
svelte=frontend|angular=frontend|css=frontend design style|html=web page|llms=language model|gpt=openai language model
tailwindcss=tailwind css|sdk=api library|endpoint=api|graphql=api query|webhook=api event|rfc=proposal design documentation
prd=product requirements documentation|spec=specification technical documentation|specs=specification technical documentation
proposal=documentation draft|adr=architecture decision documentation|readme=documentation|wiki=documentation knowledge
changelog=release notes|postmortem=incident report|faqs=faq|okr=goals planning|kpi=metrics dashboard
okrs=goals planning|kpis=metrics dashboard|roadmap=product planning|backlog=issues planning|ticket=issue jira|tickets=issue jira
zip=archive compress|tar=archive compress|ipynb=jupyter notebook|notebook=jupyter|dataframe=pandas data|parquet=data table
sqlite=database sql|mysql=database sql|mongo=mongodb database|redis=cache database|helm=kubernetes chart|eks=kubernetes aws
gke=kubernetes google|ecs=containers aws|dockerfile=docker container|nginx=web server|ssh=remote server
ga4=google analytics|gtm=google tag manager|serp=search engine seo|ppc=advertising|cro=conversion optimization
cpa=advertising|roi=return finance|pnl=profit finance|invoices=billing invoice|receipt=expense invoice|gdpr=privacy compliance
soc2=compliance audit|hipaa=compliance health|pentest=penetration testing security
vuln=vulnerability security|cve=vulnerability security
"""


def expansion(index: SearchIndex, query: str, query_words: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Words in the form of `words`, and their factors (0 to 1); none of them is in `query_words`."""
    said = set(query_words)
    extra = dict.fromkeys(translate_chinese(query), _TRANSLATED)
    extra.update((joined, 1.0) for joined, parts in _joined(query, query_words) if missing(index, parts))
    names = _other_names()
    written = list(dict.fromkeys(runs(query.lower())))
    for run in (*written, *(f"{one}{two}" for one, two in pairwise(written))):
        for word in names.get(run, ()):
            extra.setdefault(word, _OTHER_NAME)
    distinct = [word for word in said if word.isascii() and word.isalpha() and len(word) >= _SHORTEST]
    unknown = [word for word, count in zip(distinct, counted_words(index, distinct), strict=True) if not count]
    unknown = [word for word in unknown if len(word) >= _SPELLED_TWO_WAYS or not _is_common(word)]
    for word in sorted(unknown, key=query_words.index)[:_CORRECTIONS]:
        for other in _corrections(index, word):
            extra.setdefault(other, _CORRECTED)
    return tuple((word, factor) for word, factor in extra.items() if word not in said)


def as_written(index: SearchIndex, query: str, found: Sequence[str]) -> list[str]:
    """Words in the form of `words`, each as the request writes it, or else a table of this component or a skill."""
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

    A longer word is looked for with two slips too, where the catalog is small.
    """
    slips = list(_one_slip(word))
    if names := [name for slip in slips for name in (slip, *_other_names().get(slip, ())) if slip in _other_names()]:
        return names
    counts, named = counted_words(index, slips, described=True), _in_names(index, slips)
    near = sorted((slip not in named, -count, slip) for slip, count in zip(slips, counts, strict=True) if count)
    if near or len(index) > _SMALL or len(word) < _LONG or _is_common(word):
        return [slip for _, _, slip in near[:_CORRECTIONS]]
    written = sorted(one for one in index.vocabulary if one[:1] == word[:1] and abs(len(one) - len(word)) <= 3)
    close = [(stem, one) for one in nearest(word, written, limit=_CORRECTIONS) for stem in words(one)]
    if found := [stem for stem, one in close if slips_between(word, stem) <= 2 or slips_between(word, one) <= 2]:
        return found[:2]
    known = [name for name in _other_names() if name[:2] == word[:2] and abs(len(name) - len(word)) <= 1]
    return [stem for name in nearest(word, known, limit=1) for stem in (*words(name), *_other_names()[name])]


def slips_between(one: str, two: str) -> int:
    """How many letters are missing, too many, wrong or swapped with the next (optimal string alignment)."""
    before, row = [0] * (len(two) + 1), list(range(len(two) + 1))
    for at, letter in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for to, other in enumerate(two, 1):
            least = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != other))
            if at > 1 and to > 1 and letter == two[to - 2] and one[at - 2] == other:
                least = min(least, earlier[to - 2] + 1)
            row.append(least)
    return row[-1]


@cache
def _common_words() -> NDArray[np.uint32]:
    return np.load(COMMON_WORDS_FILE)  # type: ignore[no-any-return]


def word_checksum(word: str) -> int:
    """The number of a word, in the form of `words`, in the list of common words."""
    return zlib.crc32(word.encode())


def _is_common(word: str) -> bool:
    """Whether many public skills use a word, or people say it for courtesy: then it is no slip, also where no skill has it."""
    if word in _COURTESY:
        return True
    known, number = _common_words(), word_checksum(word)
    at = int(np.searchsorted(known, number))
    return at < len(known) and int(known[at]) == number


def _in_names(index: SearchIndex, some: Sequence[str]) -> set[str]:
    """Those of the words that the name of a skill has."""
    _, _, _, named = _having(index, np.array([word_number(word) for word in some], dtype=np.uint32))
    return {word for word, count in zip(some, named.tolist(), strict=True) if count}


def _one_slip(word: str) -> set[str]:
    """Everything that differs from `word` by one letter that is missing, too many or wrong, or by two that are swapped."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    slips = {one + two[1] + two[0] + two[2:] for one, two in cuts if len(two) > 1}
    if len(word) > _SHORTEST:
        slips |= {one + two[1:] for one, two in cuts if two}
        slips |= {one + letter + two[1:] for one, two in cuts if two for letter in _LETTERS}
        slips |= {one + letter + two for one, two in cuts for letter in _LETTERS}
    return {slip for slip in slips if len(slip) >= _SHORTEST} - {word}
