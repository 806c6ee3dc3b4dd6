"""The exact prompt of an agent: its own words, the index of its skills, and what each costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.agent_definitions import AgentDraft, AgentSkill, choose_agent_skill, write_agent_prompt
from skillyard.errors import InvalidInput, SkillNotFound
from skillyard.prompt import count_tokens

Make = Callable[..., Catalog]


@pytest.fixture
def catalog(skills_root: Path, make_skill: Any) -> Make:
    """Give a function that makes a catalog of skills with those names."""

    def make(*names: str, description: str = "Does {name} things. Use for {name}.") -> Catalog:
        for name in names:
            make_skill(skills_root, name, front_matter=f"name: {name}\ndescription: {description.format(name=name)}\n")
        return Catalog.discover(roots=[skills_root], cache=False)

    return make


@pytest.mark.row("003-8")
def test_the_prompt_is_the_agents_words_and_the_index_of_its_skills_only(catalog: Make) -> None:
    draft = AgentDraft("a", system_prompt="Be kind.", skills=(AgentSkill("config:pdf"),))
    prompt = write_agent_prompt(draft, catalog("pdf", "docx"), style="xml-index")
    assert prompt.text.startswith('Be kind.\n\n---\n\n<available_skills>\n  <skill name="pdf"')
    assert "docx" not in prompt.text
    assert prompt.text.endswith("脚本位于技能目录的 scripts/ 下。")
    assert prompt.tokens == count_tokens(prompt.text)
    (share,) = prompt.skills
    assert (share.id, share.shown) == ("config:pdf", "whole")
    entry = prompt.text[prompt.text.index("  <skill") : prompt.text.index("</available_skills>")]
    assert share.tokens == count_tokens(entry)
    assert share.skill_md_tokens > 0


@pytest.mark.row("003-8", "003-18")
def test_ten_skills_cost_what_the_document_allows(catalog: Make) -> None:
    made = catalog(*(f"skill-{number}" for number in range(10)), description="A description of {name}. " * 7)
    prompt = write_agent_prompt(AgentDraft("a"), made, style="xml-index")
    assert prompt.index_tokens < 2000
    assert all(share.tokens <= 100 for share in prompt.skills)
    assert sum(share.tokens for share in prompt.skills) <= prompt.index_tokens


def test_every_skill_of_the_agent_is_accounted_for_in_its_order(catalog: Make) -> None:
    made = catalog("alpha", "beta", "gamma")
    draft = AgentDraft(
        "a", settings={"permissions": {"beta": "deny"}, "index_tokens": 100},
        skills=(AgentSkill("config:gamma"), AgentSkill("config:beta"), AgentSkill("gone"), AgentSkill("alpha")),
    )  # fmt: skip
    shares = write_agent_prompt(draft, made).skills
    assert [share.name for share in shares] == ["gamma", "beta", "gone", "alpha"]
    assert shares[2].shown == "missing"
    assert (shares[1].shown, shares[1].tokens) == ("omitted", 0)
    assert "denies" in (shares[1].reason or "")


def test_a_budget_that_is_too_small_says_what_was_left_out(catalog: Make) -> None:
    made = catalog("alpha", "beta")
    prompt = write_agent_prompt(AgentDraft("a", settings={"index_tokens": 0}, skills=(AgentSkill("alpha"),)), made)
    assert (prompt.text, prompt.index_tokens, prompt.more) == ("", 0, 1)
    assert [share.shown for share in prompt.skills] == ["omitted"]
    every = write_agent_prompt(AgentDraft("a", settings={"index_tokens": 0}), made)
    assert (every.skills, every.more) == ((), 2)


def test_an_agent_without_tools_is_told_the_instructions(catalog: Make) -> None:
    prompt = write_agent_prompt(AgentDraft("a", settings={"tools": False}), catalog("alpha"))
    assert prompt.style == "direct"
    assert "### Skill: alpha" in prompt.text


def test_a_request_ranks_the_index(catalog: Make) -> None:
    prompt = write_agent_prompt(AgentDraft("a"), catalog("alpha", "beta"), request="some beta things")
    assert prompt.skills[0].name == "beta"


def test_a_skill_is_chosen_by_name_and_kept_by_id(catalog: Make) -> None:
    made = catalog("alpha")
    assert choose_agent_skill(made, "alpha", version_lock="^1") == AgentSkill("config:alpha", "^1")
    with pytest.raises(SkillNotFound):
        choose_agent_skill(made, "beta")
    with pytest.raises(InvalidInput):
        write_agent_prompt(AgentDraft("a"), made, style="poem")  # type: ignore[arg-type] # on purpose


def test_skills_are_reported_in_the_order_their_agent_has_them(catalog: Make) -> None:
    made = catalog("alpha", "beta", "gamma")
    draft = AgentDraft("a", skills=(AgentSkill("config:gamma"), AgentSkill("alpha"), AgentSkill("Beta")))
    prompt = write_agent_prompt(draft, made)
    assert [prompt.text.index(name) for name in ("gamma", "alpha", "beta")] == sorted(
        prompt.text.index(name) for name in ("gamma", "alpha", "beta")
    )
    assert [share.name for share in prompt.skills] == ["gamma", "alpha", "beta"]
    all_of_them = write_agent_prompt(AgentDraft("b"), made)
    assert [share.name for share in all_of_them.skills] == ["alpha", "beta", "gamma"]


def test_what_has_no_room_is_left_out_from_the_end_of_the_agents_order(catalog: Make) -> None:
    names = [f"skill-{number:02}" for number in range(30)]
    made = catalog(*names)
    chosen = tuple(AgentSkill(name) for name in reversed(names))
    prompt = write_agent_prompt(AgentDraft("a", settings={"index_tokens": 120}, skills=chosen), made)
    shown = [share.name for share in prompt.skills if share.shown != "omitted"]
    assert 0 < len(shown) < 30
    assert shown == names[::-1][: len(shown)]
