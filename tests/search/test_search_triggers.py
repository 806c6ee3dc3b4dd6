"""What skills declare to be picked by: the scores of rows 000-13 and 2.2, without defect D-16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.errors import InvalidInput

WEATHER = """name: weather
description: Looks up the weather.
keywords: [weather, forecast]
domain: daily
triggers:
  intents: [query_weather, 查询天气]
  phrases: [will it rain on the mountains]
  event_types: [abp.tool_request, calendar.*]
  priority: 0.5"""


@pytest.fixture
def catalog(skills_root: Path, make_skill: Any) -> Catalog:
    make_skill(skills_root, "weather", front_matter=WEATHER)
    make_skill(
        skills_root,
        "mail",
        front_matter="name: mail\ndescription: Send email.\nkeywords: [email, ai]\n"
        "triggers: {priority: 1, event_types: [abp.tool_request]}",
    )
    make_skill(skills_root, "plain", description="Bakes bread.")
    return Catalog.discover(roots=[skills_root])


def only(catalog: Catalog, intent: str, **options: Any) -> tuple[str, float, tuple[str, ...]]:
    (match,) = catalog.find_relevant_skills(intent, **options)
    return match.skill.name, match.confidence, match.matched


@pytest.mark.row("000-13", "C-26")
@pytest.mark.parametrize("intent", ["query_weather", "query-weather", "Query weather", "查询天气"])
def test_an_intent_that_is_declared_is_certain(catalog: Catalog, intent: str) -> None:
    name, confidence, matched = only(catalog, intent)
    assert (name, confidence) == ("weather", 1.0)
    assert any(reason.startswith("intent:") for reason in matched)


@pytest.mark.row("000-13", "D-16")
@pytest.mark.parametrize(
    ("intent", "confidence", "reason"),
    [
        ("please query weather of Paris", 0.95, "intent:query_weather"),
        ("请帮我查询天气谢谢", 0.95, "intent:查询天气"),
        ("tell me will it rain on the mountains today", 0.75, "phrase:will it rain on the mountains"),
        # 0.6 x 1 of 2 keywords + 0.3 x 0 of the description's words + 0.1 x 0.5
        ("a forecast", 0.35, "keyword:forecast"),
    ],
)
def test_the_scores_are_those_of_the_table(catalog: Catalog, intent: str, confidence: float, reason: str) -> None:
    name, found, matched = only(catalog, intent)
    assert (name, found) == ("weather", pytest.approx(confidence))
    assert reason in matched


@pytest.mark.row("000-13")
def test_a_domain_adds_a_tenth_and_makes_no_match_by_itself(catalog: Catalog) -> None:
    assert only(catalog, "a forecast", domain="Daily")[1] == pytest.approx(0.45)
    assert only(catalog, "a forecast", domain="other")[1] == pytest.approx(0.35)
    assert catalog.find_relevant_skills("something else", domain="daily", min_confidence=0) == []


@pytest.mark.row("D-16")
def test_priority_lifts_nothing_that_does_not_match_and_short_words_do_not_hide_in_long_ones(catalog: Catalog) -> None:
    assert catalog.find_relevant_skills("bring bread tails", min_confidence=0.01)[0].skill.name == "plain"
    assert all(match.skill.name == "plain" for match in catalog.find_relevant_skills("bread in Mailand", min_confidence=0))
    assert only(catalog, "ai for me")[0] == "mail"
    assert catalog.find_relevant_skills("aim", min_confidence=0) == []
    assert catalog.find_relevant_skills("q", min_confidence=0) == []


def test_what_is_declared_must_stand_in_the_intent_not_the_other_way_round(catalog: Catalog) -> None:
    matches = catalog.find_relevant_skills("mountains", min_confidence=0)
    assert all(match.confidence < 0.7 for match in matches)


def test_required_keywords_are_required(catalog: Catalog) -> None:
    assert only(catalog, "forecast of the weather", required_keywords=["Forecasts"])[0] == "weather"
    assert catalog.find_relevant_skills("forecast of the weather", required_keywords=["forecast", "email"]) == []


def test_the_limit_holds_and_the_best_come_first(catalog: Catalog) -> None:
    both = catalog.find_relevant_skills("weather email forecast", limit=5)
    assert [match.skill.name for match in both] == ["weather", "mail"]
    assert len(catalog.find_relevant_skills("weather email forecast", limit=1)) == 1


@pytest.mark.row("000-13", "D-16")
def test_events_find_the_skills_that_declare_them(catalog: Catalog) -> None:
    found = catalog.match_event("abp.tool_request")
    assert [(match.skill.name, match.confidence) for match in found] == [("mail", 1.0), ("weather", 1.0)]
    assert found[0].matched == ("event:abp.tool_request",)
    assert [match.skill.name for match in catalog.match_event("calendar.day_starts")] == ["weather"]
    assert catalog.match_event("calendar") == []
    assert catalog.match_event("abp.tool_request.more") == []


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"min_confidence": 2.0}])
def test_a_wrong_option_is_refused(catalog: Catalog, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        catalog.find_relevant_skills("weather", **wrong)
    assert caught.value.hint


def test_an_empty_event_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="event"):
        catalog.match_event(" ")


def test_facets_survive_the_cache(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "tagged", front_matter="name: tagged\ndescription: Is tagged.\ntags: [one, two]\ndomain: finance")
    for _ in range(2):
        skill = Catalog.discover(roots=[skills_root]).get("tagged")
        assert (skill.tags, skill.domain, skill.intents, skill.event_types, skill.priority) == (
            ("one", "two"), "finance", (), (), 0.0)  # fmt: skip
