"""Agent2Agent: a card for each agent, and other agents that send messages, follow tasks, answer approvals and cancel."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from scripted_models import Call, Hold, Say
from starlette.testclient import TestClient

CARD: Final = "/.well-known/agent-card.json"
REQUIRED: Final = {
    "name", "description", "supportedInterfaces", "version", "capabilities", "defaultInputModes", "defaultOutputModes",
    "skills",
}  # fmt: skip


@pytest.fixture
def agent(client: TestClient, models: Any, home: Path, make_skill: Callable[..., Path]) -> str:
    """The address of an agent that has one of two skills."""
    folder = home / "project/.claude/skills"
    make_skill(
        folder, "pdf", front_matter="name: pdf\ndescription: Fills in PDFs.\ntags: [forms]\ntriggers: {phrases: [fill it in]}"
    )
    make_skill(folder, "other", description="Is for something else.")
    client.post("/api/v1/catalog/refresh")
    body = {"name": "Clerk", "description": "Fills in forms.", "model": "openai-chat:gpt-5", "skills": [{"skill": "pdf"}]}
    made = client.post("/api/v1/agents", json=body).json()["data"]
    return f"/a2a/{made['id']}"


def call(client: TestClient, address: str, method: str, **params: Any) -> dict[str, Any]:
    """The answer to one request."""
    request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    answer = client.post(address, json=request, headers={"A2A-Version": "1.0"})
    assert answer.status_code == 200, answer.text
    shape: dict[str, Any] = answer.json()
    assert (shape["jsonrpc"], shape["id"]) == ("2.0", 7)
    return shape


def message(text: str, *parts: Any, **more: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}, *parts], **more}


def test_cards_describe_the_server_and_each_agent_with_its_skills(client: TestClient, agent: str) -> None:
    answer = client.get(f"{agent}{CARD}")
    card = answer.json()
    assert set(card) >= REQUIRED
    assert card["supportedInterfaces"] == [
        {"url": f"http://127.0.0.1:8787{agent}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ]
    (skill,) = card["skills"]
    assert (skill["name"], skill["tags"], skill["examples"]) == ("pdf", ["forms"], ["fill it in"])
    assert client.get(f"{agent}{CARD}", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    own = client.get(CARD).json()
    assert set(own) >= REQUIRED
    assert {"pdf", "other"} <= {skill["name"] for skill in own["skills"]}
    assert all({"id", "name", "description", "tags"} <= set(skill) and skill["tags"] for skill in own["skills"])
    assert client.get(f"/a2a/nobody{CARD}").status_code == 404


def test_a_message_with_a_file_becomes_a_task_that_can_be_gone_on_with_and_listed(
    client: TestClient, agent: str, models: Any
) -> None:
    models.script([Say("I look. "), Call("skill", {"skill": "pdf"})], Say("It is done."))
    raw = {"raw": base64.b64encode(b"%PDF").decode(), "filename": "form.pdf"}
    task = call(client, agent, "SendMessage", message=message("Fill it in", {"data": {"name": "Ada"}}, raw))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [artifact["parts"] for artifact in task["artifacts"]] == [[{"text": "I look. "}], [{"text": "It is done."}]]
    assert [(one["role"], one["parts"][0]["text"]) for one in task["history"]][1] == ("ROLE_AGENT", "It is done.")
    assert '"name": "Ada"' in task["history"][0]["parts"][0]["text"]
    files = client.get(f"/api/v1/chat/conversations/{task['contextId']}/files").json()["data"]
    assert [file["name"] for file in files] == ["form.pdf"]
    assert call(client, agent, "GetTask", id=task["id"], historyLength=0)["result"] == {
        key: value for key, value in task.items() if key != "history"
    }
    models.script(Say("Again."))
    again = call(client, agent, "SendMessage", message=message("Once more", contextId=task["contextId"]))["result"]["task"]
    assert again["contextId"] == task["contextId"]
    first = call(client, agent, "ListTasks", pageSize=1)["result"]
    assert ([one["id"] for one in first["tasks"]], first["totalSize"], "artifacts" in first["tasks"][0]) == (
        [again["id"]],
        2,
        False,
    )
    rest = call(
        client, agent, "ListTasks", pageToken=first["nextPageToken"], status="TASK_STATE_COMPLETED", includeArtifacts=True
    )
    assert ([one["id"] for one in rest["result"]["tasks"]], rest["result"]["nextPageToken"]) == ([task["id"]], "")
    assert rest["result"]["tasks"][0]["artifacts"] == task["artifacts"]
    assert call(client, agent, "ListTasks", statusTimestampAfter="2999-01-01T00:00:00Z")["result"]["tasks"] == []
    assert call(client, "/a2a", "GetTask", id=task["id"])["error"]["code"] == -32001  # it is the other agent's


def test_a_stream_begins_with_the_task_and_ends_with_its_state(client: TestClient, agent: str, models: Any) -> None:
    models.script([Say("I look. "), Call("skill", {"skill": "pdf"})], Say("It is done."))
    request = {"jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": {"message": message("Fill it in")}}
    with client.stream("POST", agent, json=request, headers={"A2A-Version": "1.0"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        sent = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert {one["id"] for one in sent} == {"s"}
    updates = [one["result"] for one in sent]
    assert updates[0]["task"]["status"]["state"] == "TASK_STATE_WORKING"
    assert updates[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    texts: dict[str, str] = {}
    for update in (one["artifactUpdate"] for one in updates if "artifactUpdate" in one):
        name, text = update["artifact"]["artifactId"], update["artifact"]["parts"][0]["text"]
        assert update["append"] == (name in texts)
        texts[name] = texts.get(name, "") + text
    assert texts == {"text-1": "I look. ", "text-2": "It is done."}
    assert [one["statusUpdate"]["metadata"] for one in updates if "metadata" in one.get("statusUpdate", {})] == [
        {"tool": "skill"}
    ]
    over = call(client, agent, "SubscribeToTask", id=updates[0]["task"]["id"])
    assert over["error"]["code"] == -32004


def test_a_task_that_needs_an_approval_is_answered_by_a_message_and_one_that_runs_is_canceled(
    client: TestClient, agent: str, models: Any
) -> None:
    body = {"name": "Careful", "model": "openai-chat:gpt-5", "settings": {"permissions": {"pdf": "ask"}}}
    careful = f"/a2a/{client.post('/api/v1/agents', json=body).json()['data']['id']}"
    models.script(Call("skill", {"skill": "pdf"}), Say("Loaded."))
    task = call(client, careful, "SendMessage", message=message("Load it"))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "Load skill: pdf" in task["status"]["message"]["parts"][0]["text"]
    assert call(client, careful, "SendMessage", message=message("perhaps", taskId=task["id"]))["error"]["code"] == -32602
    busy = call(client, careful, "SendMessage", message=message("Hello", contextId=task["contextId"]))
    assert busy["error"]["code"] == -32004
    done = call(client, careful, "SendMessage", message=message("Approve.", taskId=task["id"]))["result"]["task"]
    assert (done["id"], done["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")
    assert call(client, careful, "SendMessage", message=message("more", taskId=task["id"]))["error"]["code"] == -32004
    models.script(Hold())
    held = call(client, agent, "SendMessage", message=message("Wait"), configuration={"returnImmediately": True})
    assert held["result"]["task"]["status"]["state"] == "TASK_STATE_WORKING"
    ended = call(client, agent, "CancelTask", id=held["result"]["task"]["id"])["result"]
    assert ended["status"]["state"] == "TASK_STATE_CANCELED"
    assert call(client, agent, "CancelTask", id=ended["id"])["error"]["code"] == -32002


def test_what_cannot_be_done_has_the_number_of_the_protocol(client: TestClient) -> None:
    def sending(*parts: Any, **more: Any) -> dict[str, Any]:
        return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": list(parts)}, **more}

    pushed = {"taskPushNotificationConfig": {"url": "https://a"}}
    refused: list[tuple[str, Any, int]] = [
        ("SendMessage", sending(), -32602),
        ("SendMessage", sending({"text": "a", "url": "https://a"}), -32602),
        ("SendMessage", sending({"url": "https://a"}), -32005),
        ("SendMessage", sending({"raw": "%"}), -32602),
        ("SendMessage", {"message": message("a", taskId="nothing")}, -32001),
        ("SendMessage", {"message": message("a", contextId="nothing")}, -32602),
        ("SendMessage", sending({"text": "a"}, configuration=pushed), -32003),
        ("GetTask", {"id": "nothing"}, -32001),
        ("GetTask", [1], -32602),
        ("ListTasks", {"pageSize": 101}, -32602),
        ("ListTasks", {"pageToken": "%"}, -32602),
        ("CreateTaskPushNotificationConfig", {}, -32003),
        ("GetExtendedAgentCard", {}, -32004),
        ("message/send", {}, -32601),
    ]
    for method, params, code in refused:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        error = client.post("/a2a", json=request, headers={"A2A-Version": "1.0"}).json()["error"]
        assert error["code"] == code, (method, params, error)
        assert all("@type" in detail for detail in error["data"])


def test_other_versions_and_what_is_no_request_are_refused(client: TestClient, keyed: Any) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "a"}}
    for headers in ({}, {"A2A-Version": "0.3"}, {"A2A-Version": "2.0"}):
        assert client.post("/a2a", json=request, headers=headers).json()["error"]["code"] == -32009
    for wrong in ([], {"jsonrpc": "2.0", "method": "GetTask"}, {"jsonrpc": "1.0", "id": 1, "method": "GetTask"}):
        assert client.post("/a2a", json=wrong).json()["error"]["code"] == -32600
    assert client.post("/a2a", content=b"{", headers={"Content-Type": "application/json"}).json()["error"]["code"] == -32700
    reader = keyed.client("skills:read")
    card = reader.get(CARD).json()
    assert card["securityRequirements"] == [{"schemes": {"key": {"list": []}}}]
    refused = reader.post("/a2a", json=request)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, -32600)
