"""One gate for every interface: the same refusals, in the same words, wherever a skill is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, SkillTools
from skillyard.cli import main
from skillyard.errors import ApprovalRejected, PermissionDenied, SkillUnusable
from skillyard.permissions import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    PermissionGate,
    PolicyApprover,
    Rules,
    SkillConsent,
)

RULES = '[permissions.skills]\ndeploy = "ask"\n"secret-*" = "deny"\n'


@pytest.fixture
def catalog(tmp_path: Path, make_skill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A project with a skill to ask about, a denied one and a broken one."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "skillyard.toml").write_text(RULES)
    for name in ("deploy", "secret-sauce", "pdf"):
        make_skill(tmp_path / ".agents/skills", name, files={"scripts/execute.py": "print('ran')"})
    make_skill(tmp_path / ".agents/skills", "torn", raw=b"---\nnever closed")
    monkeypatch.chdir(tmp_path)
    return Catalog.discover(cache=False)


class Person:
    """Agrees once, and says what they were asked."""

    def __init__(self, decision: Any, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.asked: list[ApprovalRequest] = []
        self._decision, self._meanwhile = decision, meanwhile

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        self._meanwhile()
        return ApprovalAnswer(self._decision)


@pytest.mark.row("001-17")
async def test_every_door_refuses_a_denied_skill_in_the_same_words(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    words = 'You don\'t have permission to use "secret-sauce" skill'
    with pytest.raises(PermissionDenied, match=words):
        await catalog.run("secret-sauce")
    with pytest.raises(PermissionDenied, match=words):
        await catalog.test("secret-sauce")
    assert words in (await SkillTools(catalog).call("run_skill", {"skill": "secret-sauce"})).text
    for command in ("read", "run", "test"):
        assert await asyncio.to_thread(main, [command, "secret-sauce"]) == 1
        assert words in capsys.readouterr().err


async def test_every_door_refuses_a_broken_skill_in_the_same_words(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "The skill 'torn' is broken and cannot be used"
    with pytest.raises(SkillUnusable, match=words):
        await catalog.run("torn")
    assert words in (await SkillTools(catalog).call("run_skill", {"skill": "torn"})).text
    assert await asyncio.to_thread(main, ["run", "torn"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.row("001-18")
async def test_the_library_asks_an_approver_and_runs_only_what_it_agreed_to(catalog: Catalog) -> None:
    person = Person("once")
    assert (await catalog.run("deploy", approver=person)).ok
    assert [request.skill_id for request in person.asked] == ["project:deploy"]
    with pytest.raises(ApprovalRejected):
        await catalog.run("deploy", approver=PolicyApprover("reject"))
    assert (await catalog.run("pdf", approver=PolicyApprover("reject"))).ok  # nobody needs to be asked about it


@pytest.mark.row("001-18")
async def test_without_an_approver_the_caller_of_the_library_has_agreed(catalog: Catalog) -> None:
    assert (await catalog.run("deploy")).ok


async def test_a_digest_that_the_caller_named_still_holds_when_an_approver_agrees(catalog: Catalog) -> None:
    with pytest.raises(PermissionDenied):
        await catalog.run("deploy", approver=PolicyApprover("once"), digest="sha256:" + "0" * 64)


async def test_consent_is_confirmed_for_the_content_it_was_given_for(catalog: Catalog) -> None:
    skill = catalog.get("deploy")
    gate = PermissionGate(Rules({"deploy": "ask"}), Approvals(PolicyApprover("once")))
    consent = await gate.consent(skill, session="s")
    assert consent == SkillConsent("ask", skill.digest())
    gate.confirm(skill, consent)
    Path(skill.directory, "notes.md").write_text("new")
    with pytest.raises(ApprovalRejected):
        gate.confirm(skill, consent)


def test_only_a_gate_for_models_keeps_skills_for_people(tmp_path: Path, make_skill: Callable[..., Any]) -> None:
    header = "name: mine\ndescription: Does one thing. Use when a test runs.\ndisable-model-invocation: true"
    make_skill(tmp_path / "skills", "mine", front_matter=header)
    skill = Catalog.discover(roots=[tmp_path / "skills"], cache=False).get("mine")
    PermissionGate(Rules(), Approvals()).check(skill)
    with pytest.raises(SkillUnusable, match="kept for people"):
        PermissionGate(Rules(), Approvals(), for_models=True).check(skill)
