"""The budget: never exceeded, shared fairly, and honest about what it cost."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidInput
from skillyard.prompt import IndexOptions, build_index, count_tokens
from skillyard.prompt.budget import water_level
from skillyard.prompt.index_entry import cut, cut_list, quarters

STYLES = ["awareness", "direct", "tool", "xml-index", "section", "compact"]
LONG = (
    "Reads every kind of document, finds the parts that matter and writes a report about each of them for people in a hurry. "
)


def many(skill, count, description=LONG):
    return [skill(f"skill-{number:03}", description, directory=f"/s/{number:03}") for number in range(count)]


@pytest.mark.row("C-29")
def test_a_token_is_four_characters_and_a_wide_character_is_one():
    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde", "技能", "技能ab", "…")] == [0, 1, 1, 2, 2, 3, 1]


@pytest.mark.row("C-29")
def test_descriptions_are_whole_while_all_of_them_fit(skill):
    skills = [skill(f"skill-{number}", "word " * 80) for number in range(17)]  # 17 of 400 characters: 1,700 tokens
    index = build_index(skills, IndexOptions(budget=2000))
    assert (len(index.kept), index.shortened, index.omitted) == (17, (), ())
    less = build_index(skills, IndexOptions(budget=1500))
    assert (less.kept, len(less.shortened), less.omitted) == ((), 17, ())
    assert 1450 < less.tokens <= 1500  # the room that there is is used


@pytest.mark.row("C-29")
def test_a_description_is_cut_at_two_hundred_characters_at_a_word_and_reported(skill):
    options = IndexOptions(style="tool", description_chars=200)
    index = build_index([skill("a", "word " * 80), skill("b", "short")], options)
    line = next(line for line in index.text.splitlines() if line.startswith("- **a**"))
    description = line.removeprefix("- **a**: ")
    assert len(description) <= 200
    assert description.endswith("word…")
    assert (index.kept, index.shortened, index.omitted) == (("user:b",), ("user:a",), ())


def test_without_limits_everything_is_said(skill):
    index = build_index([skill("a", "word " * 100)], IndexOptions(budget=None, description_chars=None, style="tool"))
    assert "word " * 99 + "word" in index.text
    assert index.shortened == ()


def test_when_room_is_short_everyone_keeps_an_equal_share(skill):
    skills = [*many(skill, 20), skill("tiny", "Adds numbers.")]
    index = build_index(skills, IndexOptions(style="tool", budget=500))
    lengths = {len(line) for line in index.text.splitlines() if line.startswith("- **skill-")}
    assert index.tokens <= 500
    assert max(lengths) - min(lengths) <= 12
    assert "- **tiny**: Adds numbers.\n" in index.text
    assert index.kept == ("user:tiny",)
    assert len(index.shortened) == 20
    assert index.tokens > 470


def test_when_room_is_very_short_the_first_keep_some_words_and_all_keep_their_names(skill):
    index = build_index(many(skill, 60), IndexOptions(style="tool", budget=330))
    lines = [line for line in index.text.splitlines() if line.startswith("- **")]
    assert len(lines) == 60
    described = [": " in line for line in lines]
    assert described == sorted(described, reverse=True)
    assert any(described)
    assert not all(described)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.abuse("G15")
def test_what_has_no_room_is_left_out_from_the_end_and_the_model_is_informed(skill, style):
    index = build_index(many(skill, 300), IndexOptions(style=style, budget=400))
    left_out = [omission.id for omission in index.omitted]
    assert left_out == [f"user:skill-{number:03}" for number in range(300 - len(left_out), 300)]
    assert index.more == len(left_out) > 0
    assert "search_skills" in index.text
    assert str(len(left_out)) in index.text
    assert all(omission.reason for omission in index.omitted)
    assert index.tokens == count_tokens(index.text) <= 400


@pytest.mark.parametrize("style", STYLES)
def test_the_line_about_others_is_only_there_when_something_was_left_out(skill, style):
    assert "search_skills" not in build_index(many(skill, 3), IndexOptions(style=style)).text


def test_named_skills_come_first_then_pinned_ones(skill):
    skills = many(skill, 300)
    index = build_index(skills, IndexOptions(style="tool", budget=300, named=["SKILL-290"], pinned=["user:skill-280"]))
    lines = [line for line in index.text.splitlines() if line.startswith("- **")]
    assert lines[0] == f"- **skill-290**: {LONG.strip()}"
    assert lines[1] == f"- **skill-280**: {LONG.strip()}"
    assert index.kept == ("user:skill-290", "user:skill-280")
    assert lines[2] == "- **skill-000**"


def test_naming_a_skill_changes_nothing_while_everything_fits(skill):
    skills = many(skill, 5)
    assert build_index(skills, IndexOptions(named=["skill-004"], pinned=["skill-003"])).text == build_index(skills).text


def test_many_named_skills_share_fairly_among_themselves(skill):
    skills = many(skill, 50)
    index = build_index(skills, IndexOptions(style="tool", budget=700, named=[each.name for each in skills]))
    assert len(index.shortened) == 50
    assert index.tokens <= 700


def test_a_ranking_keeps_whole_descriptions_for_the_first_and_names_for_more(skill):
    skills = many(skill, 1000)
    index = build_index(skills, IndexOptions(budget=2000, ranked=True))
    assert index.kept == tuple(f"user:skill-{number:03}" for number in range(len(index.kept)))
    described = [line for line in index.lines if line.allowance != 0]
    assert len(index.kept) >= 20
    assert len(described) >= 40
    assert len(index.shortened) > 50
    assert [line.allowance for line in index.lines] == [-1] * len(index.kept) + [48] * (len(described) - len(index.kept)) + [
        0
    ] * (len(index.lines) - len(described))
    assert index.tokens <= 2000
    few = build_index(skills[:12], IndexOptions(budget=2000, ranked=True))
    assert few.text == build_index(skills[:12], IndexOptions(budget=2000)).text
    some = build_index(skills[:60], IndexOptions(budget=1000, ranked=True))
    assert not some.omitted
    assert len(some.kept) >= 10


def test_adding_a_skill_at_the_end_moves_no_other(skill):
    skills = many(skill, 6)
    for style in STYLES:
        before = build_index(skills, IndexOptions(style=style)).text
        after = build_index([*skills, skill("zz-last")], IndexOptions(style=style)).text
        positions = [after.index(each.name) for each in skills]
        assert positions == sorted(positions)
        if style in ("awareness", "direct", "tool", "compact"):
            assert after.startswith(before)


@pytest.mark.row("D-28")
def test_two_indexes_know_nothing_of_each_other(skill):
    mine, yours = [skill("mine")], [skill("yours")]
    first = build_index(mine, IndexOptions(named=["mine"]))
    build_index(yours, IndexOptions(style="section", roots=["/yours"]))
    assert build_index(mine, IndexOptions(named=["mine"])) == first
    assert "yours" not in first.text


@pytest.mark.row("D-25")
def test_an_index_is_there_at_once():
    assert not inspect.iscoroutinefunction(build_index)
    assert isinstance(build_index([]).text, str)


@pytest.mark.parametrize("style", STYLES)
def test_a_budget_below_the_preamble_gives_no_text_and_says_why(skill, style):
    index = build_index(many(skill, 3), IndexOptions(style=style, budget=4))
    assert (index.text, index.tokens) == ("", 0)
    assert len(index.omitted) == 3
    assert "the budget is 4" in index.omitted[0].reason


def test_skills_a_model_may_not_call_are_reported_but_never_shown(skill):
    skills = [
        skill("open"),
        skill("quiet", model_invocable=False),
        skill("secret", status="denied", reason="the rule 'secret' denies it"),
        skill("bad", status="broken"),
    ]
    index = build_index(skills)
    assert "quiet" not in index.text
    assert "secret" not in index.text
    assert "bad" not in index.text
    assert index.more == 0
    assert {omission.id: omission.reason for omission in index.omitted} == {
        "user:quiet": "its author does not offer it to models",
        "user:secret": "denied: the rule 'secret' denies it",
        "user:bad": "broken",
    }


@pytest.mark.row("D-36", "C-9")
def test_skills_of_one_name_are_distinguished_by_id(skill):
    index = build_index([skill("pdf"), skill("pdf", source="project"), skill("csv")], IndexOptions(style="tool"))
    assert "- **user:pdf**: " in index.text
    assert "- **project:pdf**: " in index.text
    assert "- **csv**: " in index.text


def test_compact_costs_at_most_ninety_tokens_and_the_words_of_each_skill(skill):
    nothing = build_index([skill("a", "")], IndexOptions(description_chars=0))
    assert count_tokens(nothing.text.removesuffix("- a\n")) <= 90
    text = build_index([skill("pdf", "Reads PDF files."), skill("技能", "处理文件")]).text
    assert text.splitlines()[-2:] == ["- pdf: Reads PDF files.", "- 技能: 处理文件"]


def test_a_report_is_plain_data(skill):
    index = build_index([skill("a"), skill("b", status="broken", reason="no front matter")])
    assert index.to_dict() == {
        "text": index.text,
        "tokens": index.tokens,
        "kept": ["user:a"],
        "shortened": [],
        "omitted": [{"id": "user:b", "reason": "broken: no front matter"}],
        "more": 0,
        "added": [],
        "dropped": [],
        "unchanged": 0,
        "style": "compact",
        "budget": 2000,
        "turn": 1,
        "lines": [["user:a", -1, 0]],
    }


@pytest.mark.parametrize("wrong", [{"style": "yaml"}, {"budget": -1}, {"description_chars": -5}])
def test_a_wrong_option_is_refused_with_a_hint(skill, wrong):
    with pytest.raises(InvalidInput) as caught:
        build_index([skill("a")], IndexOptions(**wrong))
    assert caught.value.hint


descriptions = st.text(max_size=300) | st.text(alphabet="ab &<>技能é—\n", max_size=300)
names = st.text(alphabet="abc-技 *<&", min_size=1, max_size=40)


@given(
    rows=st.lists(st.tuples(names, descriptions), max_size=25),
    budget=st.integers(0, 700),
    style=st.sampled_from(STYLES),
    named=st.lists(st.integers(0, 24), max_size=3),
    ranked=st.booleans(),
)
def test_the_budget_is_never_exceeded_and_every_skill_is_accounted_for(skill, rows, budget, style, named, ranked):
    skills = [
        skill(name, text, given_id=f"user:{n}", body=text, file_names=(text[:20] or "f", "d/e"))
        for n, (name, text) in enumerate(rows)
    ]
    index = build_index(skills, IndexOptions(style=style, budget=budget, named=[f"user:{n}" for n in named], ranked=ranked))
    accounted = [*index.kept, *index.shortened, *(omission.id for omission in index.omitted)]
    assert index.tokens == count_tokens(index.text) <= budget
    assert sorted(accounted) == sorted(each.id for each in skills)


@given(sizes=st.lists(st.integers(0, 300), min_size=1), room=st.integers(0, 5000))
def test_the_water_level_is_the_highest_that_fits(sizes, room):
    level = water_level(sizes, room)
    assert sum(min(size, level) for size in sizes) <= room or level == 0
    assert level == max(sizes) or sum(min(size, level + 1) for size in sizes) > room


@given(text=st.text(alphabet="ab ,技能é", max_size=120), allowance=st.integers(0, 200))
def test_a_cut_keeps_to_its_allowance(text, allowance):
    assert quarters(cut(text, allowance)) <= allowance
    assert quarters(cut_list(text, allowance)) <= allowance


def test_a_list_is_cut_between_its_entries():
    assert cut_list("SKILL.md, REFERENCE.md, FORMS.md", 30) == "SKILL.md, REFERENCE.md, …"
    assert cut_list("SKILL.md, REFERENCE.md", 4) == "…"
