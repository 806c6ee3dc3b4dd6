"""What denied skills and skills that need consent look like to a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from skillyard.permissions import ApprovalAnswer, ApprovalRequest
from skillyard.tools import SkillTools

Tools = Callable[..., SkillTools]
RULES = {"internal-*": "deny", "deploy": "ask"}


class Person:
    """Someone who is asked, and gives the answers laid out for them."""

    def __init__(self, *decisions: str, reason: str | None = None) -> None:
        self.decisions = list(decisions)
        self.reason = reason
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer(self.decisions.pop(0), self.reason)  # type: ignore[arg-type] # the tests know the words


@pytest.fixture
def three(skills_root: Path, make_skill: Any) -> None:
    for name in ("internal-billing", "deploy", "pdf"):
        make_skill(skills_root, name, body="The instructions.", files={"notes.md": "The notes."})


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-19")
async def test_denied_skills_vanish_from_schemas_lists_and_searches(tools: Tools) -> None:
    calls = tools(permissions=RULES)
    for dialect in ("openai", "anthropic", "mcp"):
        assert "internal" not in json.dumps(calls.definitions(dialect))  # type: ignore[arg-type] # one of the three
    assert "internal" not in (await calls.call("skills_list")).text
    assert "internal" not in (await calls.call("search_skills", {"query": "internal billing"})).text.split("fits")[0]
    assert "internal" not in (await calls.call("skill", {"skill": "internal-billin"})).text.split("\n", 1)[1]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("tool", ["skill", "skills_load", "read_skill_file", "run_skill"])
@pytest.mark.parametrize("argument", ["skill", "name", "skill_name"])
async def test_every_tool_knows_a_skill_by_each_name_of_the_argument(tool: str, argument: str, tools: Tools) -> None:
    more = {"file_path": "notes.md"} if tool == "read_skill_file" else {}
    result = await tools().call(tool, {argument: "pdf", **more})
    assert (result.ok, result.code) == ((False, "not_executable") if tool == "run_skill" else (True, None))


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-16", "001-19")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("skill", {"skill": "internal-billing"}),
        ("skills_load", {"skill": "internal-billing"}),
        ("read_skill_file", {"skill": "internal-billing", "file_path": "notes.md"}),
        ("run_skill", {"skill": "internal-billing"}),
    ],
)
async def test_a_denied_skill_cannot_be_used_by_its_name(tool: str, arguments: dict[str, str], tools: Tools) -> None:
    result = await tools(permissions=RULES).call(tool, arguments)
    assert (result.ok, result.code, result.title) == (False, "permission_denied", "Skill denied: internal-billing")
    assert "The " not in result.text


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-19")
async def test_a_guess_does_not_tell_that_a_denied_skill_exists(tools: Tools) -> None:
    result = await tools(permissions=RULES).call("skill", {"skill": "billing"})
    assert (result.code, result.title) == ("skill_not_found", "Skill not found: billing")


@pytest.mark.usefixtures("three")
async def test_rules_of_the_configuration_hold_when_none_are_given(skills_root: Path, tools: Tools) -> None:
    from skillyard.catalog import SkillCatalog

    (skills_root.parent / "skillyard.toml").write_text('[permissions.skills]\n"internal-*" = "deny"\n')
    calls = SkillTools(SkillCatalog.discover(roots=[skills_root], cwd=skills_root.parent, cache=False))
    assert (await calls.call("skill", {"skill": "internal-billing"})).code == "permission_denied"


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-18")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("skill", {"skill": "deploy"}),
        ("skills_load", {"skill": "deploy"}),
        ("read_skill_file", {"skill": "deploy", "file_path": "notes.md"}),
        ("run_skill", {"skill": "deploy"}),
    ],
)
async def test_consent_is_asked_before_a_skill_is_loaded_read_or_run(
    tool: str, arguments: dict[str, str], tools: Tools
) -> None:
    person = Person("reject", reason="not today")
    result = await tools(permissions=RULES, approver=person).call(tool, arguments)
    assert len(person.asked) == 1
    assert (result.ok, result.code, result.title) == (False, "approval_rejected", "Skill rejected: deploy")
    assert "not today" in result.text
    assert "The " not in result.text


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-18")
async def test_the_one_who_is_asked_sees_what_it_is_about(tools: Tools) -> None:
    person = Person("once")
    calls = tools(permissions=RULES, approver=person)
    result = await calls.call("skill", {"skill": "deploy"}, session="s", message_id="m", call_id="c")
    assert result.data["permission"] == "ask"
    asked = person.asked[0].to_dict()
    assert (asked["sessionId"], asked["messageId"], asked["callId"]) == ("s", "m", "c")
    assert (asked["title"], asked["pattern"]) == ("Load skill: deploy", ["skill/deploy"])


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-18")
async def test_consent_for_a_session_ends_with_the_content_it_was_given_for(
    skills_root: Path, make_skill: Any, tools: Tools
) -> None:
    person = Person("session", "session", "reject")
    calls = tools(permissions=RULES, approver=person)
    for _ in range(2):
        assert (await calls.call("skill", {"skill": "deploy", "force": True})).ok
    assert len(person.asked) == 1
    assert (await calls.call("skill", {"skill": "deploy"}, session="another")).ok
    assert len(person.asked) == 2
    make_skill(skills_root, "deploy", body="Delete everything.")
    assert not (await calls.call("skill", {"skill": "deploy"})).ok
    assert len(person.asked) == 3


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-18")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("skill", {"skill": "deploy"}), ("read_skill_file", {"skill": "deploy", "file_path": "notes.md"})],
)
async def test_a_skill_that_changes_right_after_consent_is_not_shown(
    tool: str, arguments: dict[str, str], skills_root: Path, make_skill: Any, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tools(permissions=RULES, approver=Person("session"))
    approve = calls.access.approve

    async def then_change(*given: Any, **named: Any) -> Any:
        consent = await approve(*given, **named)
        make_skill(skills_root, "deploy", body="Delete everything.", files={"notes.md": "Delete everything."})
        return consent

    monkeypatch.setattr(calls.access, "approve", then_change)
    result = await calls.call(tool, arguments)
    assert (result.ok, result.code) == (False, "approval_rejected")
    assert "Delete" not in result.text


@pytest.mark.row("001-18")
async def test_a_script_runs_only_as_it_was_approved(tmp_path: Path) -> None:
    import shutil

    from skillyard.catalog import SkillCatalog

    examples = Path(__file__).parents[2] / "examples" / "skills"
    shutil.copytree(examples / "text-statistics", tmp_path / "s" / "text-statistics")
    person = Person("once")
    calls = SkillTools(
        SkillCatalog.discover(roots=[tmp_path / "s"], cache=False), permissions={"text-*": "ask"}, approver=person
    )
    result = await calls.call("run_skill", {"skill": "text-statistics", "input": {"text": "a b"}})
    assert result.ok, result.text
    assert len(person.asked) == 1


@pytest.mark.usefixtures("three")
@pytest.mark.row("001-18")
async def test_without_anyone_to_ask_the_answer_is_no(tools: Tools) -> None:
    result = await tools(permissions=RULES).call("skill", {"skill": "deploy"})
    assert (result.ok, result.code) == (False, "approval_rejected")


def test_every_permission_is_one_of_three() -> None:
    from skillyard.catalog import Permission

    assert set(get_args(Permission)) == {"allow", "ask", "deny"}
