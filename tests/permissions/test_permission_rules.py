"""Rules: which pattern decides, and which rule sets are refused."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_growth import growth_of

from skillyard.catalog import SkillCatalog
from skillyard.errors import InvalidInput, UnreachableRule
from skillyard.permissions import PermissionRuling, Rules, permission_rules, without_denied
from skillyard.permissions.permission_rules import covers, matches


@dataclass(frozen=True)
class Named:
    name: str
    slug: str
    id: str
    status: str = "ok"


@pytest.mark.row("001-17", "C-10")
def test_the_first_matching_pattern_decides_and_everything_else_is_allowed():
    rules = Rules({"internal-docs": "allow", "internal-*": "deny", "deploy": "ask"})
    assert [rules.decide(name) for name in ("internal-docs", "internal-pay", "deploy", "pdf")] == [
        "allow",
        "deny",
        "ask",
        "allow",
    ]


@pytest.mark.row("C-10")
def test_the_last_matching_pattern_decides_when_asked_for():
    rules = Rules({"*": "deny", "pdf*": "allow", "pdf-secret": "ask"}, match="last")
    assert [rules.decide(name) for name in ("xlsx", "pdf", "pdf-secret")] == ["deny", "allow", "ask"]


@pytest.mark.row("001-17")
def test_no_rules_allow_everything():
    assert Rules().decide("anything") == "allow"
    assert Rules({}, match="last").decide("anything") == "allow"


@pytest.mark.row("001-17", "C-10")
@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("PDF", "pdf", True),
        ("pdf", "pdf-tools", False),
        ("pdf", "my-pdf", False),
        ("pdf*", "pdf", True),
        ("p?f", "pdf", True),
        ("p?f", "pf", False),
        ("*-*", "a-b", True),
        ("a.c", "abc", False),
        ("[a]", "a", False),
        ("(x)+", "(X)+", True),
        ("天气*", "天气查询", True),
        ("internal-*", "inter\u200bnal-x", True),
        ("*a*b*c", "xxaxbxc", True),
        ("*a*b*c", "xxcxbxa", False),
        ("a*a", "a", False),
    ],
)
def test_patterns_are_anchored_ignore_case_and_know_only_two_wildcards(pattern, name, fits):
    assert matches(pattern, name) is fits


@given(pattern=st.text(alphabet="ab*?", max_size=12), name=st.text(alphabet="abc", max_size=12))
def test_matching_agrees_with_a_plain_translation(pattern, name):
    assert matches(pattern, name) is (re.fullmatch(fnmatch.translate(pattern), name) is not None)


def test_a_pattern_of_many_stars_answers_at_once():
    assert not matches("*a" * 30 + "b", "a" * 5000)


def test_a_rule_holds_for_the_name_the_slug_and_the_id():
    skill = Named("PDF Miner", "pdf-miner", "project:pdf-miner")
    assert Rules({"pdf-miner": "deny"}).decide(skill) == "deny"
    assert Rules({"pdf miner": "deny"}).decide(skill) == "deny"
    assert Rules({"project:*": "ask"}).rule(skill) == PermissionRuling("ask", "project:*")
    assert Rules({"user:*": "deny"}).rule(skill) == PermissionRuling("allow", None)


@pytest.mark.row("C-10")
@pytest.mark.parametrize(
    ("patterns", "match", "hidden", "hiding"),
    [
        ({"*": "allow", "dangerous-*": "deny"}, "first", "dangerous-*", "*"),
        ({"dangerous-*": "deny", "*": "allow"}, "last", "dangerous-*", "*"),
        ({"internal-*": "ask", "internal-pay-*": "deny"}, "first", "internal-pay-*", "internal-*"),
        ({"Deploy": "ask", "deploy": "deny"}, "first", "deploy", "Deploy"),
        ({"a?c": "ask", "abc": "deny"}, "first", "abc", "a?c"),
        ({"*": "allow", "?": "deny"}, "first", "?", "*"),
        ({"x": "deny", "*a*": "allow", "ba*": "deny"}, "first", "ba*", "*a*"),
    ],
)
def test_a_rule_that_can_never_apply_is_refused_and_both_rules_are_named(patterns, match, hidden, hiding):
    with pytest.raises(UnreachableRule) as caught:
        Rules(patterns, match=match)
    assert f"the rule {hidden!r}" in caught.value.message
    assert f"{hiding!r} = " in caught.value.message
    assert caught.value.hint
    assert (caught.value.details["pattern"], caught.value.details["hidden_by"]) == (hidden, hiding)


@pytest.mark.row("C-10")
@pytest.mark.parametrize(
    ("patterns", "match"),
    [
        ({"dangerous-*": "deny", "*": "allow"}, "first"),
        ({"*": "allow", "dangerous-*": "deny"}, "last"),
        ({"*": "deny", "pdf": "deny"}, "first"),
        ({"a?": "ask", "a*": "deny"}, "first"),
        ({"*a": "ask", "b*": "deny"}, "first"),
    ],
)
def test_rule_sets_in_which_every_rule_can_apply_are_accepted(patterns, match):
    assert Rules(patterns, match=match).patterns == patterns


@given(
    wide=st.text(alphabet="ab*?", max_size=7),
    narrow=st.text(alphabet="ab*?", max_size=7),
    names=st.lists(st.text(alphabet="abz", max_size=8), max_size=30),
)
def test_a_covering_pattern_matches_all_that_the_covered_one_does(wide, narrow, names):
    inside = [name for name in names if matches(narrow, name)]
    if covers(wide, narrow):
        assert all(matches(wide, name) for name in inside)
    elif len(wide) <= 4 and len(narrow) <= 4:
        witnesses = _all_names(6)
        assert any(matches(narrow, name) and not matches(wide, name) for name in witnesses)


def _all_names(longest):
    names = [""]
    for _ in range(longest):
        names += [name + char for name in names if len(name) == len(names[-1]) for char in "abz"]
    return names


def test_patterns_too_entangled_to_compare_are_not_refused():
    assert not covers("*a" + "?" * 40 + "b", "*a" + "?" * 39 + "b*a*")


@pytest.mark.parametrize("wrong", [{"x": "maybe"}, {"": "deny"}, {"  ": "deny"}])
def test_a_rule_nobody_can_mean_is_refused(wrong):
    with pytest.raises(InvalidInput) as caught:
        Rules(wrong)
    assert caught.value.hint


def test_an_unknown_order_is_refused():
    with pytest.raises(InvalidInput):
        Rules({}, match="best")


def test_equal_rule_sets_are_equal():
    assert Rules({"a": "ask"}) == Rules({"a": "ask"})
    assert len({Rules({"a": "ask"}), Rules({"a": "ask"})}) == 1
    assert Rules({"a": "ask"}) != Rules({"a": "deny"})
    assert repr(Rules({"a": "ask"})) == "Rules({'a': 'ask'}, match='first')"


@pytest.mark.row("001-19")
def test_denied_skills_vanish_from_iteration_and_stay_in_all_with_the_reason(skills_root, make_skill):
    for name in ("internal-pay", "pdf"):
        make_skill(skills_root, name)
    make_skill(skills_root, "internal-broken", raw=b"---\nnever closed")
    catalog = SkillCatalog.discover(roots=[skills_root], cache=False)
    seen = without_denied(catalog, Rules({"internal-*": "deny", "pdf": "ask"}))
    assert [skill.name for skill in seen] == ["pdf"]
    states = {skill.name: (skill.status, skill.reason) for skill in seen.all()}
    assert states["internal-pay"] == ("denied", "the permission rule 'internal-*' denies it")
    assert states["internal-broken"][0] == "broken"
    assert {skill.name for skill in catalog} == {"internal-pay", "pdf"}


@pytest.mark.row("001-19", "D-28")
def test_rules_also_hold_for_skills_that_appear_later(skills_root, make_skill):
    make_skill(skills_root, "pdf")
    seen = without_denied(SkillCatalog.discover(roots=[skills_root], cache=False), Rules({"internal-*": "deny"}))
    make_skill(skills_root, "internal-new")
    seen.refresh()
    assert [skill.name for skill in seen] == ["pdf"]
    assert {skill.name for skill in seen.all()} == {"pdf", "internal-new"}


def test_without_a_deny_rule_the_catalog_is_the_same(skills_root):
    catalog = SkillCatalog.discover(roots=[skills_root], cache=False)
    assert without_denied(catalog, Rules({"x": "ask"})) is catalog


@pytest.mark.parametrize("text", [lambda size: "*a" * size, lambda size: "a?" * size, lambda size: "*" + "?a" * size])
def test_patterns_too_entangled_are_given_up_soon(text: Callable[[int], str]) -> None:
    assert growth_of(lambda pattern: covers(f"{pattern}c", pattern), text, 1_000) < 9


def test_a_set_of_many_rules_is_compared_within_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of somebody else may bring as many rules as a file of a megabyte holds."""
    monkeypatch.setattr(permission_rules, "_MOST_OF_ALL", 200_000)  # a tenth of it
    visited = 0
    step = permission_rules._step

    def counted(pattern: str, positions: frozenset[int], char: str) -> frozenset[int]:
        nonlocal visited
        visited += len(positions)
        return step(pattern, positions, char)

    monkeypatch.setattr(permission_rules, "_step", counted)
    entangled = Rules({"*a" * 300 + f"b{number}": ("allow", "deny")[number % 2] for number in range(12)})
    assert len(entangled.patterns) == 12
    assert 0 < visited < 10 * permission_rules._MOST_OF_ALL
    budget = permission_rules.ComparisonBudget()
    assert covers("a*", "ab", budget)
    assert not budget.takes(permission_rules._MOST_OF_ALL)
    assert budget.spent
    assert not covers("a*", "ab", budget), "what is not compared is not refused"
