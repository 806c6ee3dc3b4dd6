"""Agents over HTTP, and their prompt as it is written."""

from __future__ import annotations

from collections.abc import Callable

from starlette.testclient import TestClient

AGENTS = "/api/v1/agents"
Pack = Callable[..., bytes]


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
