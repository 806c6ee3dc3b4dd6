"""Rules of the configuration at the terminal: denied, asked, remembered until the content changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def deploy(project: Path, make_skill: Call) -> Path:
    """A skill that a rule says to ask about."""
    (project / "skillyard.toml").write_text('[permissions.skills]\ndeploy = "ask"\n"secret-*" = "deny"\n')
    return make_skill(project / ".agents/skills", "deploy", files={"scripts/execute.py": "print('ran')"})


@pytest.mark.row("001-17")
def test_a_denied_skill_is_neither_read_nor_run(call: Call, deploy: Path, make_skill: Call) -> None:
    make_skill(deploy.parent, "secret-sauce", files={"scripts/execute.py": "print('ran')"})
    for command in ("read", "run"):
        answer = call(command, "secret-sauce", "--json")
        assert answer.code == 1
        assert answer.data["error"]["code"] == "permission_denied"
        assert "skillyard.toml" in answer.data["error"]["hint"]


@pytest.mark.row("001-18")
def test_where_nobody_can_be_asked_the_answer_is_no(call: Call, deploy: Path) -> None:
    for command in ("read", "run"):
        answer = call(command, "deploy", "--json")
        assert answer.code == 1
        assert answer.data["error"]["code"] == "approval_rejected"


@pytest.mark.row("001-18")
def test_a_person_sees_what_is_inside_and_agrees_once(on_terminal: Call, deploy: Path) -> None:
    code, shown = on_terminal("read", "deploy", answer="y\n")
    assert code == 0
    assert "scripts/execute.py" in shown
    assert str(deploy) in shown
    assert "has the script scripts/execute.py" in shown
    assert "name: deploy" in shown
    assert on_terminal("read", "deploy", answer="\n")[0] == 1


@pytest.mark.row("001-18")
def test_consent_for_the_workspace_holds_until_the_content_changes(call: Call, on_terminal: Call, deploy: Path) -> None:
    code, shown = on_terminal("run", "deploy", answer="w\n")
    assert code == 0
    assert "ran" in shown
    assert call("run", "deploy").code == 0
    (deploy / "scripts/execute.py").write_text("print('changed')")
    assert call("run", "deploy").code == 1


@pytest.mark.row("001-18")
def test_consent_is_listed_and_can_be_taken_back(call: Call, on_terminal: Call, deploy: Path) -> None:
    assert call("approvals", "--json").data == {"approvals": []}
    assert on_terminal("read", "deploy", answer="w\n")[0] == 0
    (kept,) = call("approvals", "--json").data["approvals"]
    assert (kept["skill_id"], kept["workspace"]) == ("project:deploy", str(deploy.parents[2]))
    assert "project:deploy" in call("approvals", "--everywhere").out
    for wanted, found in (("deploy", [kept]), ("project:deploy", [kept]), ("other", [])):
        assert call("approvals", "list", wanted, "--json").data == {"approvals": found}
    assert "revoked project:deploy" in call("approvals", "revoke", "deploy").out
    trail = [(event["action"], event["subject"]) for event in call("audit", "--json").data["events"]]
    assert trail == [("approvals.revoke", "project:deploy"), ("approvals.grant", "project:deploy")]
    assert call("read", "deploy").code == 1
    assert call("approvals", "revoke", "deploy", "--json").data["error"]["code"] == "record_not_found"
    assert "approved project:deploy as it is now" in call("approvals", "approve", "deploy").out
    assert len(call("approvals", "--json").data["approvals"]) == 1
    assert call("approvals", "revoke", "--all").code == 0


@pytest.mark.parametrize(
    "given", [["revoke"], ["list", "--all"], ["revoke", "deploy", "--all"], ["revoke", "--all", "--everywhere"]]
)
def test_approvals_that_are_not_named_clearly_are_a_wrong_usage(call: Call, given: list[str]) -> None:
    assert call("approvals", *given).code == 2


def test_a_hint_repeats_the_roots_that_were_given(call: Call, tmp_path: Path, make_skill: Call) -> None:
    root = make_skill(tmp_path / "my skills", "one").parent
    assert f"`skillyard list --root '{root}'`" in call("show", "zzzzzz", "--root", str(root)).err
    assert f"--root '{root}'" in call("read", "zzzzzz", f"--root={root}", "--json").data["error"]["hint"]


@pytest.mark.row("000-13")
def test_an_event_asks_the_person_at_the_terminal(call: Call, on_terminal: Call, deploy: Path) -> None:
    text = (deploy / "SKILL.md").read_text().replace("---\n", "---\ntriggers: {event_types: [door.opened]}\n", 1)
    (deploy / "SKILL.md").write_text(text)
    fired = call("event", "door.opened", "--id", "door-1", "--json")
    assert (fired.code, fired.data["runs"][0]["state"]) == (1, "needs_approval")
    assert on_terminal("event", "door.opened", "--id", "door-1", answer="n\n")[0] == 1
    code, shown = on_terminal("event", "door.opened", "--id", "door-1", answer="y\n")
    assert (code, "begun, ok" in shown) == (0, True), shown
    assert call("event", "door.opened", "--id", "door-1", "--json").data["runs"][0]["state"] == "repeated"
