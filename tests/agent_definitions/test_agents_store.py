"""Agents are kept under a name, with their skills in order, in every database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skillyard.agent_definitions import AgentDraft, AgentSkill, AgentStore
from skillyard.engine import Records
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound, UnreachableRule


@pytest.fixture
def book(database_address: str, tmp_path: Path) -> Iterator[AgentStore]:
    """An empty book, once in each database."""
    records = Records(str(tmp_path), database_address)
    yield AgentStore(lambda: records.database)
    records.close()


SKILLS = (AgentSkill("pdf", "^1.2.0", auto_update=False), AgentSkill("project:notes"))


def test_an_agent_is_kept_as_it_was_written_with_its_skills_in_order(book: AgentStore) -> None:
    made = book.create(AgentDraft("Clerk", "Fills in forms.", "Be exact.", "openai:gpt-5", {"index_tokens": 500}, SKILLS))
    assert book.get("Clerk") == book.get(made.id) == made
    assert (made.skills, made.settings, made.system_prompt) == (SKILLS, {"index_tokens": 500}, "Be exact.")
    assert [skill["position"] for skill in made.to_dict()["skills"]] == [0, 1]  # type: ignore[attr-defined, index] # plain


def test_an_update_replaces_all_and_a_name_is_given_once(book: AgentStore) -> None:
    first, second = book.create(AgentDraft("a", skills=SKILLS)), book.create(AgentDraft("b"))
    changed = book.update("a", AgentDraft("c", skills=SKILLS[::-1]))
    assert (changed.id, changed.name, changed.skills) == (first.id, "c", SKILLS[::-1])
    assert changed.updated_at >= first.updated_at
    with pytest.raises(RecordExists):
        book.update("c", AgentDraft("b"))
    with pytest.raises(RecordExists):
        book.create(AgentDraft("c"))
    assert [agent.name for agent in book.list()] == [second.name, "c"]


def test_a_deleted_agent_is_gone_with_its_skills(book: AgentStore) -> None:
    book.create(AgentDraft("a", skills=SKILLS))
    assert book.delete("a").skills == SKILLS
    assert book.list() == ()
    for forgotten in (lambda: book.get("a"), lambda: book.delete("a"), lambda: book.update("a", AgentDraft("a"))):
        with pytest.raises(RecordNotFound):
            forgotten()


def test_a_lock_of_an_agent_keeps_a_version_from_being_pruned(tmp_path: Path) -> None:
    from skillyard.registry import Registry

    registry = Registry(str(tmp_path / "data"), keep=1)
    folder = tmp_path / "pdf"
    folder.mkdir()
    for number in (1, 2, 3):
        (folder / "SKILL.md").write_text(f"---\nname: pdf\ndescription: x\nversion: {number}.0.0\n---\n{number}\n", "utf-8")
        registry.install(str(folder))
        if number == 1:
            AgentStore(lambda: registry.records.database).create(AgentDraft("a", skills=(AgentSkill("pdf", "1.0.0"),)))
    there = {version.declared_version for version in registry.installed.versions("pdf") if not version.removed}
    registry.close()
    assert there == {"1.0.0", "3.0.0"}


@pytest.mark.parametrize(
    "values",
    [
        {"name": ""}, {"name": " a"}, {"name": "a\nb"}, {"name": "x" * 101}, {"name": "a", "system_prompt": "x" * 200_001},
        {"name": "a", "settings": {"colour": 1}}, {"name": "a", "settings": {"index_tokens": True}},
        {"name": "a", "settings": {"index_tokens": -1}}, {"name": "a", "skills": (AgentSkill("x"), AgentSkill("x"))},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        AgentDraft(**values)


def test_of_several_who_take_a_name_at_once_one_gets_it(book: AgentStore) -> None:
    def create(number: int) -> str:
        try:
            return book.create(AgentDraft("Clerk", f"Number {number}.")).description
        except RecordExists as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        reported = list(pool.map(create, range(8)))
    assert reported.count("record_exists") == 7
    assert book.get("Clerk").description in reported


def test_an_agent_has_rules_about_commands_and_bad_ones_are_refused():
    draft = AgentDraft("clerk", settings={"commands": {"deny": ["Bash(rm:*)"], "default": "ask"}})
    assert draft.settings["commands"]["deny"] == ["Bash(rm:*)"]
    with pytest.raises(InvalidInput, match="does not name a tool"):
        AgentDraft("clerk", settings={"commands": {"deny": ["Bash("]}})


@pytest.mark.row("C-10")
def test_an_agent_with_a_rule_that_can_never_apply_is_not_saved(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    hidden = AgentDraft("a", settings={"permissions": {"*": "allow", "dangerous-*": "deny"}})
    last = AgentStore(lambda: records.database, match="last")
    book = AgentStore(lambda: records.database)
    with pytest.raises(UnreachableRule, match=r"'dangerous-\*' = 'deny' can never apply: '\*' = 'allow'"):
        book.create(hidden)
    book.create(AgentDraft("a"))
    with pytest.raises(UnreachableRule):
        book.update("a", hidden)
    with pytest.raises(InvalidInput):
        book.update("a", AgentDraft("a", settings={"permissions": {"x": "perhaps"}}))
    assert book.get("a").settings == {}
    assert last.update("a", hidden).settings == hidden.settings
    records.close()


def test_rules_about_skills_may_be_written_below_skill() -> None:
    """As `{"skill": {PATTERN: PERMISSION}}`, which is how other programs write the permissions of an agent."""
    nested = AgentDraft("clerk", settings={"permissions": {"skill": {"internal-*": "deny", "*": "ask"}}})
    assert nested.settings["permissions"] == {"internal-*": "deny", "*": "ask"}
    with pytest.raises(InvalidInput):
        AgentDraft("clerk", settings={"permissions": {"skill": {"internal-*": "maybe"}}})
