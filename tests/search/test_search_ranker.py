"""The learned ranker and what a request means beyond its words: other names, slips, and scores of trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.search import SearchIndex, search_skills
from skillyard.search.ranker import FEATURES, RISING, Ranker, candidate_features, ranker
from skillyard.search.scoring import as_written, expansion, find_candidates, request_terms
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


def test_trees_are_followed_from_root_to_leaf():
    trees = Ranker(
        {
            "root": np.array([0, 3]),
            "feature": np.array([1, 0, 0, 0]),
            "threshold": np.array([0.5, np.inf, np.inf, np.inf]),
            "left": np.array([1, 1, 2, 3]),
            "right": np.array([2, 1, 2, 3]),
            "value": np.array([0.0, -1.0, 2.0, 10.0]),
            "depth": np.array([1]),
        }
    )
    assert trees.scores(np.array([[9, 0.5], [9, 0.6]], dtype=np.float32)).tolist() == [9.0, 12.0]


def test_reasons_are_whole_words_as_somebody_writes_them() -> None:
    """Those of the request as it says them; the others as a table or a skill has them."""
    index = SearchIndex(OFFICE)
    assert as_written(index, "Making MOVIES", words("making movies")) == ["making", "movies"]
    assert as_written(index, "幻灯片", words("presentations providers unheard-of")) == ["presentation", "providers", "unheard"]
