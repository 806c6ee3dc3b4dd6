"""Agents over HTTP, and their prompt as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard.coding_agents import SkillLinks, SkillsFolder

AGENTS = "/api/v1/agents"
Pack = Callable[..., bytes]


@pytest.fixture
def local(app: FastAPI) -> Iterator[TestClient]:
    """Who sits at the machine."""
    with TestClient(app, base_url="http://127.0.0.1:8787", client=("127.0.0.1", 50_000)) as made:
        yield made


def _install(client: TestClient, data: bytes) -> None:
    sent = client.post("/api/v1/skill-definitions/upload-create", files={"file": ("a.zip", data)})
    assert sent.status_code == 201, sent.text


def test_an_agent_is_defined_changed_shown_and_forgotten(client: TestClient, pack: Pack) -> None:
    _install(client, pack())
    made = client.post(
        AGENTS, json={"name": "Clerk", "system_prompt": "Be exact.", "skills": [{"skill": "tidy", "version_lock": "^1"}]}
    )
    assert made.status_code == 201, made.text
    agent = made.json()["data"]
    assert agent["skills"] == [{"skill_id": "tidy", "position": 0, "version_lock": "^1", "auto_update": True}]
    assert client.get(f"{AGENTS}/Clerk").json()["data"] == client.get(f"{AGENTS}/{agent['id']}").json()["data"] == agent
    assert client.get(AGENTS).json()["data"] == [agent]
    changed = client.put(f"{AGENTS}/Clerk", json={"name": "Clerk", "settings": {"index_tokens": 300}}).json()["data"]
    assert (changed["skills"], changed["settings"]["index_tokens"], changed["system_prompt"]) == ([], 300, "")
    assert client.post(AGENTS, json={"name": "Clerk"}).json()["code"] == "record_exists"
    hidden = {"name": "Clerk", "settings": {"permissions": {"*": "allow", "dangerous-*": "deny"}}}
    assert client.put(f"{AGENTS}/Clerk", json=hidden).json()["code"] == "unreachable_rule"
    assert client.post(AGENTS, json=hidden | {"name": "b"}).json()["code"] == "unreachable_rule"
    assert client.delete(f"{AGENTS}/Clerk").status_code == 200
    assert client.get(f"{AGENTS}/Clerk").json()["code"] == "record_not_found"


def test_the_prompt_of_an_agent_is_the_one_of_its_draft(client: TestClient, pack: Pack) -> None:
    _install(client, pack())
    body = {"name": "Clerk", "system_prompt": "Be exact.", "skills": [{"skill": "tidy"}]}
    client.post(AGENTS, json=body)
    kept = client.get(f"{AGENTS}/Clerk/prompt", params={"style": "xml-index"}).json()["data"]
    draft = client.post(f"{AGENTS}/prompt-preview", json={**body, "style": "xml-index"}).json()["data"]
    assert kept == draft
    assert kept["text"].startswith("Be exact.")
    assert kept["skills"][0]["tokens"] > 0
    assert client.post(f"{AGENTS}/prompt-preview", json={**body, "style": "poem"}).status_code == 400


def test_a_skill_must_be_there_when_it_is_chosen_and_may_go_afterwards(client: TestClient, pack: Pack) -> None:
    _install(client, pack())
    body = {"name": "Clerk", "skills": [{"skill": "tidy"}]}
    client.post(AGENTS, json=body)
    client.delete("/api/v1/skill-definitions/tidy")
    assert client.put(f"{AGENTS}/Clerk", json=body).status_code == 200
    assert client.get(f"{AGENTS}/Clerk/prompt").json()["data"]["skills"][0]["shown"] == "missing"
    assert client.post(AGENTS, json={**body, "name": "Other"}).json()["code"] == "skill_not_found"


def test_a_command_is_tried_with_rules_that_are_not_kept(client: TestClient) -> None:
    rules = {"allow": ["Bash(git:*)"], "deny": ["Bash(git push:*)"]}

    def tried(argument: str, **more: object) -> tuple[object, ...]:
        answer = client.post(f"{AGENTS}/command-check", json={"argument": argument, "commands": rules, **more})
        assert answer.status_code == 200, answer.text
        ruling = answer.json()["data"]
        return ruling["permission"], ruling["level"], ruling["rule"], ruling["part"]

    assert tried("git log | git -C x push") == ("deny", "agent", "deny Bash(git push:*)", "git -C x push")
    assert tried("git log")[0] == "allow"
    assert tried("ls")[:3] == ("ask", "agent", None)
    assert tried("a.txt", tool="file_write", tool_permissions={"file_write": "ask"})[:3] == ("ask", "agent", "ask file_write")
    assert client.get(AGENTS).json()["data"] == []


def test_a_rule_that_cannot_be_read_is_named_by_its_list_and_place(client: TestClient) -> None:
    commands = {"allow": ["Bash(git:*)"], "deny": ["Bash(rm:*)", "Bash("]}
    for path, body in (
        (AGENTS, {"name": "Clerk", "settings": {"commands": commands}}),
        (f"{AGENTS}/command-check", {"argument": "ls", "commands": commands}),
    ):
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
        (fault,) = answer.json()["problems"]
        assert fault["at"].endswith("commands.deny.1")
        assert "Bash(" in fault["message"]
        assert "such as Bash(git:*)" in fault["message"]


def test_skills_go_into_the_folders_of_coding_agents_for_who_sits_at_the_machine(
    local: TestClient, home: Path, make_skill: Callable[..., Path]
) -> None:
    (home / ".claude").mkdir(exist_ok=True)
    skill = make_skill(home / "project/.agents/skills", "greet")
    assert local.post("/api/v1/catalog/refresh").status_code == 200
    url, asked = "/api/v1/coding-agents", {"skill": "project:greet", "agent": "claude", "linked": True}

    def claude() -> list[dict[str, Any]]:
        reported = local.get(url).json()["data"]
        assert reported["here"] is True
        (one,) = [agent for agent in reported["agents"] if agent["name"] == "claude"]
        return list(one["skills"])

    assert claude() == []
    (report,) = local.put(url, json=asked).json()["data"]
    assert (report["status"], report["agents"]) == ("linked", ["claude"])
    linked = home / ".claude/skills/greet"
    assert linked.resolve() == skill.resolve()
    assert claude() == [{"name": "greet", "skill": "project:greet", "path": str(linked), "form": "link", "state": "ok"}]
    assert local.put(url, json=asked | {"agent": "nobody"}).json()["code"] == "invalid_input"
    assert local.put(url, json=asked | {"skill": "none"}).status_code == 404
    (report,) = local.put(url, json=asked | {"linked": False}).json()["data"]
    assert (report["status"], linked.is_symlink(), skill.is_dir()) == ("removed", False, True)
    (home / ".claude/skills/greet").mkdir(parents=True)
    (report,) = local.put(url, json=asked).json()["data"]
    assert (report["status"], "did not create" in report["reason"]) == ("refused", True)
    local.put("/api/v1/catalog/state", json={"skill": "project:greet", "state": "manual"})
    assert local.put(url, json=asked).json()["code"] == "invalid_input"


def test_folders_of_coding_agents_follow_switches_and_the_set_of_the_project(
    local: TestClient, home: Path, make_skill: Callable[..., Path]
) -> None:
    skill, project = make_skill(home / "project/.agents/skills", "greet"), home / "project/.claude/skills"
    (home / "project/skillyard.toml").write_text('[sets]\nfew = ["other"]\n')
    assert local.post("/api/v1/catalog/refresh").status_code == 200
    local.put("/api/v1/coding-agents", json={"skill": "project:greet", "agent": "claude", "linked": True})
    SkillLinks(home / "data").add("greet", str(skill), [SkillsFolder(str(project), ("claude",))], copy=True)
    there = [home / ".claude/skills/greet/SKILL.md", project / "greet/SKILL.md"]
    catalog, named = "/api/v1/catalog", {"skill": "project:greet"}
    for path, leave, back, left in (
        ("state", named | {"state": "off"}, named | {"state": "automatic"}, []),
        ("enabled", {"enabled": False}, {"enabled": True}, []),
        ("sets", {"name": "few"}, {"name": None}, there[:1]),
    ):
        assert local.put(f"{catalog}/{path}", json=leave).status_code == 200
        assert [file for file in there if file.exists()] == left, path
        assert local.put(f"{catalog}/{path}", json=back).status_code == 200
        assert [file for file in there if file.exists()] == there, path


def test_folders_of_coding_agents_are_no_matter_of_others(client: TestClient) -> None:
    assert client.get("/api/v1/coding-agents").json()["data"] == {"here": False, "agents": []}
    asked = {"skill": "none", "agent": "claude", "linked": True}
    assert client.put("/api/v1/coding-agents", json=asked).status_code == 403
