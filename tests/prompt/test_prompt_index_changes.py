"""Turn after turn: what an index showed stays where it is, and what must change changes at the end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidInput
from skillyard.prompt import Index, IndexOptions, build_index, count_tokens

LONG = "Reads every kind of document, finds the parts that matter and writes a report about each of them for people. "


def many(skill, count):
    return [skill(f"skill-{number:03}", LONG) for number in range(count)]


def ranked(skills, first):
    """The skills with `first`, by number, ahead of the others."""
    return [skills[number] for number in first] + [each for at, each in enumerate(skills) if at not in first]


def test_the_same_request_again_changes_nothing(skill):
    skills = many(skill, 300)
    first = build_index(skills, IndexOptions(ranked=True))
    again = build_index(skills, IndexOptions(ranked=True, previous=first))
    assert again.text == first.text
    assert (again.added, again.dropped, again.unchanged, again.turn) == ((), (), len(first.text), 2)


def test_another_order_of_what_is_already_described_changes_nothing(skill):
    skills = many(skill, 300)
    first = build_index(skills, IndexOptions(ranked=True))
    turned = ranked(skills, list(range(11, -1, -1)))
    assert build_index(turned, IndexOptions(ranked=True, previous=first)).text == first.text


def test_what_a_new_request_wants_is_appended_after_what_was_described(skill):
    skills = many(skill, 1000)
    first = build_index(skills, IndexOptions(ranked=True))
    second = build_index(ranked(skills, range(900, 912)), IndexOptions(ranked=True, previous=first))
    described = [line.id for line in second.lines if line.allowance != 0]
    assert described[-12:] == [f"user:skill-{number}" for number in range(900, 912)]
    assert second.text[: second.unchanged] == first.text[: second.unchanged]
    assert "- skill-011: Reads" in second.text[: second.unchanged]
    assert set(second.added) >= {f"user:skill-{number}" for number in range(900, 912)}
    assert second.dropped
    assert not set(second.dropped) & {line.id for line in second.lines}
    assert second.tokens <= 2000


def test_what_was_wanted_longest_ago_goes_first(skill):
    skills = many(skill, 300)
    index = build_index(skills, IndexOptions(ranked=True))
    for turn in range(1, 8):
        index = build_index(ranked(skills, range(turn * 30, turn * 30 + 12)), IndexOptions(ranked=True, previous=index))
        shown = {line.id for line in index.lines if line.allowance != 0}
        assert {f"user:skill-{number:03}" for number in range(turn * 30, turn * 30 + 12)} <= shown
        assert index.tokens <= 2000
    assert "user:skill-000" not in {line.id for line in index.lines if line.allowance != 0}


def test_a_skill_that_is_installed_is_appended_and_one_that_was_removed_is_dropped(skill):
    skills = [skill("b"), skill("c"), skill("d")]
    first = build_index(skills)
    grown = build_index([skill("a"), *skills], IndexOptions(previous=first))
    assert grown.text.startswith(first.text)
    assert grown.added == ("user:a",)
    gone = build_index([skill("a"), skill("b"), skill("d")], IndexOptions(previous=grown))
    assert gone.dropped == ("user:c",)
    assert [line.id for line in gone.lines] == ["user:b", "user:d", "user:a"]


def test_a_changed_description_changes_its_line_and_nothing_before_it(skill):
    first = build_index([skill("a"), skill("b"), skill("c")])
    second = build_index([skill("a"), skill("b", "Does it otherwise."), skill("c")], IndexOptions(previous=first))
    assert "- b: Does it otherwise.\n- c: " in second.text
    assert second.text[: second.unchanged].endswith("- b: Does ")


def test_a_named_skill_is_there_whatever_was_shown_before(skill):
    skills = many(skill, 300)
    first = build_index(skills, IndexOptions(ranked=True))
    second = build_index(skills, IndexOptions(ranked=True, named=["skill-299"], previous=first))
    assert "- skill-299: Reads" in second.text
    assert second.tokens <= 2000


def test_an_index_of_another_style_is_begun_anew(skill):
    skills = many(skill, 5)
    compact = build_index(skills)
    assert (
        build_index(skills, IndexOptions(style="tool", previous=compact)).text
        == build_index(skills, IndexOptions(style="tool")).text
    )


def test_the_section_style_never_lists_more_than_forty(skill):
    skills = many(skill, 60)
    index = build_index(skills, IndexOptions(style="section", budget=None, ranked=True))
    index = build_index(ranked(skills, range(45, 57)), IndexOptions(style="section", budget=None, ranked=True, previous=index))
    assert len(index.lines) == 40
    assert "skill-045" in index.text


def test_an_index_goes_through_json_and_is_continued(skill):
    skills = many(skill, 100)
    first = build_index(skills, IndexOptions(ranked=True))
    back = Index.from_dict(json.loads(json.dumps(first.to_dict())))
    assert back == first
    assert build_index(skills, IndexOptions(ranked=True, previous=back)).text == first.text


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"text": 1},
        {"style": "poem"},
        {"turn": 0},
        {"turn": True},
        {"budget": "much"},
        {"lines": 3},
        {"lines": [["a", "b", 1]]},
        {"lines": [["a", -2, 1]]},
        {"kept": [1]},
        {"omitted": ["a"]},
        {"more": -1},
    ],
)
def test_what_is_no_index_is_refused_with_a_hint(skill, wrong):
    data = {**build_index([skill("a")]).to_dict(), **wrong} if wrong else {}
    with pytest.raises(InvalidInput) as caught:
        Index.from_dict(data)
    assert caught.value.hint


@given(
    turns=st.lists(
        st.tuples(
            st.permutations(range(25)),
            st.integers(1, 25),
            st.integers(0, 500) | st.none(),
            st.booleans(),
            st.sets(st.integers(0, 24), max_size=3),
        ),
        max_size=5,
    )
)
def test_whatever_happens_the_budget_holds_and_every_skill_is_in_one_list(skill, turns):
    skills = many(skill, 25)
    index = None
    for order, count, budget, by_rank, named in turns:
        here = [skills[number] for number in order][:count]
        index = build_index(
            here, IndexOptions(budget=budget, ranked=by_rank, named=[skills[number].name for number in named], previous=index)
        )
        assert index.tokens == count_tokens(index.text)
        assert budget is None or index.tokens <= budget
        listed = [*index.kept, *index.shortened, *(omission.id for omission in index.omitted)]
        assert sorted(listed) == sorted(each.id for each in here)
