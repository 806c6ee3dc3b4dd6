"""The learned ranker and what a request means beyond its words: other names, slips, and scores of trees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.search import SearchIndex, scoring, search_skills
from skillyard.search.pages import Page, PageSource, read_pages, source_of, word_number
from skillyard.search.postings import build_postings, merge, pairs_of
from skillyard.search.ranker import ANSWER_CLUES, BASE, CLUES, FEATURES, RANKER_FILE, RISING, Ranker, candidate_features, ranker
from skillyard.search.scoring import MOST_CLOSE, as_written, expansion, find_candidates, request_terms
from skillyard.search.tokenizer import Tokenizer
from skillyard.search.words import words


@dataclass(frozen=True)
class DescribedSkill:
    name: str
    description: str
    keywords: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    display_name: str | None = None
    offered: bool = True

    @property
    def slug(self):
        return self.name

    @property
    def id(self):
        return f"user:{self.name}"


def found(query, skills):
    return [match.skill.name for match in search_skills(skills, query)]


OFFICE = [
    DescribedSkill("pptx", "Create and edit presentations: slide decks, speaker notes and layouts in .pptx files."),
    DescribedSkill("docx", "Create and edit documents with tracked changes and comments in .docx files."),
    DescribedSkill("xlsx", "Create spreadsheets with formulas and charts in .xlsx files."),
    DescribedSkill("claude-api", "Call a model over the network, also through third-party providers."),
    DescribedSkill("party-planner", "Plan a party: guests, invitations and food."),
    DescribedSkill("slack-gif-creator", "Make animated images for messages."),
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("powerpoint", "pptx"),
        ("ppt", "pptx"),
        ("powerpiont", "pptx"),
        ("make my slides look nicer", "pptx"),
        ("redline", "docx"),
        ("spredsheet", "xlsx"),
        ("exel", "xlsx"),
        ("documnet", "docx"),
        ("vlookup", "xlsx"),
        ("potx", "pptx"),
        ("trakced changes", "docx"),
        ("power point", "pptx"),
    ],
)
def test_other_names_and_slips_find_the_skill(query, best):
    assert found(query, OFFICE)[0] == best


def test_a_third_party_is_no_party():
    assert found("poster for the summer party", OFFICE) == ["party-planner"]
    assert found("third party", OFFICE)[0] == "claude-api"


def test_a_word_that_some_skill_has_is_not_corrected():
    index = SearchIndex([*OFFICE, DescribedSkill("parts", "Lists spare parts.")])
    assert expansion(index, "spare parts", words("spare parts")) == ()


@pytest.mark.parametrize("request_text", ["Thank you", "nicer", "summer", "hello"])
def test_an_everyday_word_is_no_slip_of_one_that_some_skill_has(request_text):
    near = DescribedSkill("things", "Does never summarize the thing: a hall, a weaker help, a holding.")
    index = SearchIndex([*OFFICE, near])
    assert expansion(index, request_text, words(request_text)) == ()


@pytest.mark.parametrize(
    ("said", "near"), [("congrats", "convert"), ("fantastic", "fastmcp"), ("glad", "grad"), ("cheers", "cheek")]
)
def test_courtesy_and_what_is_three_slips_away_is_no_slip(said, near):
    index = SearchIndex([*OFFICE, DescribedSkill(near, f"Does {near}.")])
    assert expansion(index, said, words(said)) == ()


def test_two_slips_in_a_long_word_are_corrected_in_a_small_catalog():
    index = SearchIndex([DescribedSkill("terraform", "Writes terraform.")])
    assert ("terraform", 0.9) in expansion(index, "teraforn", words("teraforn"))


def test_a_long_everyday_word_finds_its_other_spelling():
    index = SearchIndex([DescribedSkill("artifacts", "Builds an artifact of several pages.")])
    assert expansion(index, "artefact", words("artefact")) == (("artifact", 0.9),)


def test_letters_that_are_swapped_are_all_that_is_corrected_in_a_word_of_three():
    index = SearchIndex([DescribedSkill("cad", "Draws in cad.")])
    assert expansion(index, "cda", ["cda"]) == (("cad", 0.9),)
    assert expansion(index, "caq", ["caq"]) == ()


@given(
    st.lists(st.sampled_from(sorted(["plan", "party", "slides", "create", "edit", "files", "zebra"])), min_size=1, max_size=12)
)
def test_features_are_finite_and_as_many_as_their_names(asked):
    index = SearchIndex(OFFICE)
    terms = request_terms(index, words(" ".join(asked)))
    candidates = find_candidates(index, terms)
    if len(candidates.positions):
        rows = candidate_features(index, candidates, terms, words(" ".join(asked)))
        assert rows.shape == (len(candidates.positions), len(FEATURES))
        assert np.isfinite(rows).all()


@given(st.lists(st.floats(0, 4, width=32), min_size=len(FEATURES), max_size=len(FEATURES)), st.sampled_from(sorted(RISING)))
def test_more_of_what_fits_never_lowers_a_score(values, name):
    rows = np.array([values, values], dtype=np.float32)
    rows[1, FEATURES.index(name)] += 0.5
    low, high = ranker().scores(rows)
    assert high >= low - 1e-6


def test_clauses_of_a_description_are_kept_in_order() -> None:
    page = page_of("Splits files, or merges them. Not for images")
    made = build_postings([page, page_of(""), page_of("Zebra/Okapi (big) — and 'small'")], Tokenizer(1))
    expected = [["splits", "files"], ["merges"], ["images"], ["zebra", "okapi"], ["big"], ["small"]]
    numbers = [[word_number(one) for one in words(" ".join(clause))] + [0] for clause in expected]
    assert made.said.tolist() == [number for clause in numbers for number in clause]
    assert np.diff(made.said_starts).tolist() == [sum(map(len, numbers[:3])), 0, sum(map(len, numbers[3:]))]
    kept = merge(made, np.array([False, True, True]), build_postings([page], Tokenizer(1)))
    assert kept.said.tolist() == [number for clause in numbers[3:] + numbers[:3] for number in clause]


def page_of(description: str) -> Page:
    return read_pages([PageSource("", "", "one", description, "")])[0]


def test_a_clause_that_the_request_says_whole_counts_more_than_its_words_here_and_there() -> None:
    together = DescribedSkill("one", "Reads tickets. Triggers: 'find reviewers', 'count votes'.")
    apart = DescribedSkill("two", "Find votes of tickets. Triggers: 'count tickets', 'reads reviewers'.")
    index = SearchIndex([together, apart, *OFFICE])
    asked = words("please find reviewers")
    terms = request_terms(index, asked)
    candidates = find_candidates(index, terms)
    rows = candidate_features(index, candidates, terms, asked)
    row_of = {int(number): row for number, row in zip(index.numbers[candidates.positions], rows, strict=True)}
    for name in ("clause_share", "clause_mostly_share", "clause_whole_share"):
        assert row_of[0][FEATURES.index(name)] > row_of[1][FEATURES.index(name)]
    assert row_of[1][FEATURES.index("clause_whole_share")] == 0


def test_words_that_stand_together_count_in_either_order_and_more_when_few_skills_have_them_so() -> None:
    """`one` has them as the request does, `two` the other way round, `three` apart, and `four` a pair that most skills have."""
    texts = {
        "one": "Handles the citation format.",
        "two": "Handles the format citation.",
        "three": "A citation is handled in a format.",
        "four": "Handles the usual report.",
    }
    others = [DescribedSkill(f"other-{number}", "Handles the usual report.") for number in range(6)]
    index = SearchIndex([*(DescribedSkill(name, text) for name, text in texts.items()), *others])
    asked = words("citation format usual report")
    terms = request_terms(index, asked)
    candidates = find_candidates(index, terms)
    rows = candidate_features(index, candidates, terms, asked)
    row_of = {int(number): row for number, row in zip(index.numbers[candidates.positions], rows, strict=True)}

    def column(name: str) -> list[float]:
        return [float(row_of[number][FEATURES.index(name)]) for number in range(len(texts))]

    one, two, three, four = column("pairs_near_share")
    assert one > four > two == three == 0
    for name in ("pairs_loose_share", "pairs_close_share", "pairs_bare_share", "pair_best_share"):
        one, two, three, four = column(name)
        assert one == two > four > three == 0
    assert column("pairs_loose_rank")[:2] == [1, 1]  # equal values have the same rank
    assert column("pairs_loose_rank")[2] == 0


def test_the_features_of_the_best_are_the_same_with_more_candidates_after_them() -> None:
    best = [DescribedSkill(f"one-{number}", f"Draws a chart, or colours case {number}.") for number in range(MOST_CLOSE)]
    index = SearchIndex([*best, *(DescribedSkill(f"two-{number}", "Colours what it draws.") for number in range(100))])
    asked = words("draw a chart and colour it")
    terms = request_terms(index, asked)
    of: list[dict[int, list[float]]] = []
    for limit in (10, 100):
        candidates = find_candidates(index, terms, limit=limit)
        rows = candidate_features(index, candidates, terms, asked)
        numbers = index.numbers[candidates.positions].tolist()
        of.append({number: row.tolist() for number, row in zip(numbers, rows, strict=True)})
    assert len(of[1]) > len(of[0]) == MOST_CLOSE
    assert [of[1][number] for number in of[0]] == [pytest.approx(row) for row in of[0].values()]


def test_trees_are_followed_from_root_to_leaf():
    trees = Ranker(
        {
            "root": np.array([0, 3]),
            "feature": np.array([BASE + 1, 0, 0, 0]),
            "threshold": np.array([0.5, np.inf, np.inf, np.inf]),
            "left": np.array([1, 1, 2, 3]),
            "right": np.array([2, 1, 2, 3]),
            "value": np.array([0.0, -1.0, 2.0, 10.0]),
            "depth": np.array([1]),
            "base": np.array([2.0]),
            "curve": np.zeros(len(CLUES) + 1),
            "fitting": np.zeros(len(ANSWER_CLUES) + 1),
        }
    )
    rows = np.zeros((2, len(FEATURES)), dtype=np.float32)
    rows[:, BASE + 1], rows[:, BASE] = (0.5, 0.6), (0.0, 0.5)
    assert trees.scores(rows).tolist() == [9.0, 13.0]


def test_all_trees_at_once_are_each_tree_followed_from_its_root() -> None:
    with np.load(RANKER_FILE) as stored:
        arrays = {name: stored[name] for name in stored.files}
    features = np.random.default_rng(4).random((40, len(FEATURES))).astype(np.float32)
    ends = np.repeat(arrays["root"][None, :], len(features), axis=0).astype(int)
    for _ in range(int(arrays["depth"][0])):
        compared = features[np.arange(len(features))[:, None], arrays["feature"][ends]]
        ends = np.where(compared > arrays["threshold"][ends], arrays["right"][ends], arrays["left"][ends])
    walked = arrays["value"].astype(float)[ends].sum(axis=1) + float(arrays["base"][0]) * features[:, BASE]
    assert Ranker(arrays).scores(features).tolist() == walked.tolist()


def test_a_filter_leaves_the_best_of_the_skills_that_it_allows() -> None:
    many = [DescribedSkill(f"chart-{number}", "Draws a chart. " + "Draws it again. " * (number % 7)) for number in range(400)]
    index = SearchIndex(many)
    terms = request_terms(index, words("draw a chart"))
    asked: list[int] = []
    found = find_candidates(index, terms, only=lambda number: bool(asked.append(number)) or number % 3 == 0)
    everything = find_candidates(index, terms, limit=400)
    sums = dict(zip(everything.positions.tolist(), everything.sums.tolist(), strict=True))
    best = sorted((value for number, value in sums.items() if number % 3 == 0), reverse=True)[: len(found.sums)]
    assert sorted(found.sums.tolist(), reverse=True) == best
    assert len(found.positions) == MOST_CLOSE
    assert len(asked) < len(many)


@pytest.mark.parametrize("skills", [0, 50, 3_000])
def test_the_best_sums_are_those_that_sorting_all_would_find(skills: int) -> None:
    sums = np.random.default_rng(5).integers(0, 40, skills) / 8  # many are equal
    positions = np.flatnonzero(sums >= scoring._bound(sums, 20))
    if skills > 20:
        positions = positions[scoring._best(sums[positions], 20)]
    assert positions.tolist() == sorted(np.argsort(-sums, kind="stable")[:20].tolist())


def test_reasons_are_whole_words_as_somebody_writes_them() -> None:
    """Those of the request as it says them; the others as a table or a skill has them."""
    index = SearchIndex(OFFICE)
    assert as_written(index, "Making MOVIES", words("making movies")) == ["making", "movies"]
    assert as_written(index, "幻灯片", words("presentations providers unheard-of")) == ["presentation", "providers", "unheard"]


def test_a_slip_is_first_taken_for_a_word_of_a_name() -> None:
    common = [DescribedSkill(f"helper-{number}", "Prints a card.") for number in range(6)]
    index = SearchIndex([*common, DescribedSkill("cart-builder", "Makes vehicles.")])
    assert expansion(index, "cark", words("cark"))[0][0] == "cart"


def test_an_answer_is_judged_as_a_whole() -> None:
    """What no skill is for reads otherwise than what one is for; a name leaves no doubt."""
    skills = [*OFFICE, *(DescribedSkill(f"tool-{number}", f"Handles case {number} of the build.") for number in range(30))]
    foreign = search_skills(skills, "which vaccinations do I need before travelling through edit Kenya and Tanzania in spring")
    meant = search_skills(skills, "edit a document with tracked changes and comments")
    assert foreign[0].none_may_fit
    assert not meant[0].none_may_fit
    assert foreign[0].fitting < meant[0].fitting
    assert len({match.fitting for match in meant}) == 1
    assert search_skills(skills, "the pptx skill")[0].fitting == 1


def test_names_answer_while_skills_are_read_and_progress_is_reported() -> None:
    index = SearchIndex(OFFICE)
    index.reading = True
    assert [match.skill.name for match in search_skills(index, "$pptx")] == ["pptx"]
    assert "segments" not in vars(index)  # nothing was read for it
    index.reading = False
    index.prepare()
    assert "segments" in vars(index)
    assert len(search_skills(index, "make slides")) >= 1


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=1, max_size=6))
def test_pairs_of_a_page_are_sorted_and_once(pages: list[list[int]]) -> None:
    body = [["bcfhkm"[number] * 4 for number in page] for page in pages]
    made = build_postings([Page(b"", b"", b"", b"", " ".join(one).encode(), b"") for one in body], Tokenizer(len(body)))
    for number, page in enumerate(body):
        own = made.pairs[made.pair_starts[number] : made.pair_starts[number + 1]].tolist()
        assert own == sorted({int(one) for one in pairs_of(np.array([word_number(word) for word in page], np.uint32))})


_CHARACTERS = "aAbBzZ019 -_.\n/'éßй漢字一个的を・カ゛が한글ﬁ①™…“”—→、。，　\u0301\u20d0\u200d\ufe0f\u302a\u3099\u4dc0🙂🄰\ud800"
_PIECES = st.lists(st.sampled_from([*_CHARACTERS, "third party", "ThirdPartyAPI"]), max_size=30).map("".join)


@given(st.lists(_PIECES | st.text(max_size=20), max_size=8), st.integers(0, 3))
def test_words_of_many_texts_at_once_are_those_of_each_run_by_itself(texts: list[str], cut: int) -> None:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    encoded = [text[: len(text) - cut] for text in encoded]  # also within a character
    expected = []
    for text in encoded:
        plain = re.sub(rb"(?i)\bthird[- ]part(?:y|ies)\b", b"thirdparty", text)
        alone = re.findall(rb"[A-Za-z0-9\x80-\xff]+", plain)
        expected.append([word_number(word) for run in alone for word in words(run.decode("utf-8", "replace"))])
    tokenizer = Tokenizer(1)
    for _ in range(2):  # new runs, and known ones
        numbers, lengths = tokenizer.numbers(encoded)
        assert lengths.tolist() == [len(one) for one in expected]
        assert numbers.tolist() == [number for one in expected for number in one]


_PIECES = (
    "Plan",
    "the",
    "third",
    "party",
    "third-party",
    "café",
    "GitHub's",
    "PDFs",
    "it's",
    "a",
    "幻灯片",
    "x_y",
    "Merging",
    "e" * 41,
)


@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4), st.lists(st.sampled_from(_PIECES), max_size=6))
def test_a_process_that_asks_once_finds_the_phrases_that_one_that_asks_often_finds(said, more):
    phrase = " ".join(said)
    once, often = (SearchIndex([DescribedSkill("plan", "Plans.", phrases=(phrase, "edit files"))]) for _ in range(2))
    request = words(" ".join([*more[:2], phrase, *more[2:]]))
    found = list(once.phrases_with(request))
    for _ in range(4):
        often.written_as({"plan"})
    assert found == list(often.phrases_with(request))
    assert bool(found) == any(word in request for word in words(phrase)[:1])  # "third" before "party" is no word of its own


@given(st.text(alphabet="aZ9-_ é幻.'", max_size=12))
def test_a_skill_whose_name_has_no_word_goes_by_its_slug(name):
    skill = SimpleNamespace(name=name, slug="slug", display_name=None, keywords=(), phrases=(), description="Plans.")
    assert source_of(skill).name == (name if words(name) else "slug")
