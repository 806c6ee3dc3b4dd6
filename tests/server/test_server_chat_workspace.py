"""Workspaces of conversations over HTTP: commands followed live, files, previews, questions about commands, whose is what."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_models import Call, Say
from starlette.testclient import TestClient

CHAT = "/api/v1/chat"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>endobj\n"
    b"4 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>endobj\ntrailer<</Root 1 0 R>>\n"
)


@pytest.fixture
def web(home: Path, models: Any, address: str) -> Iterator[httpx.Client]:
    """A client of the application on its port, with a scripted model."""
    with httpx.Client(base_url=f"{address}{CHAT}", timeout=60, trust_env=False) as client:
        yield client


def begin(web: Any, **body: Any) -> str:
    made = web.post("/conversations", json={"model": "openai-chat:gpt-5", **body})
    assert made.status_code == 201, made.text
    return f"/conversations/{made.json()['data']['id']}"


def follow(web: httpx.Client, at: str, turn: str) -> list[dict[str, Any]]:
    with web.stream("GET", f"{at}/turns/{turn}/events") as answer:
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def say(web: httpx.Client, at: str, text: str) -> tuple[str, list[dict[str, Any]]]:
    said = web.post(f"{at}/messages", json={"text": text})
    assert said.status_code == 201, said.text
    turn = str(said.json()["data"]["id"])
    return turn, follow(web, at, turn)


def of(reported: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in reported if event["event"] == kind]


def workbook() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    book.active.title = "Fish"
    book.active.append(["name", "number"])
    book.active.append(["one", 1])
    book.active["C2"] = "=B2*2"
    book.create_sheet("Empty")
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


@pytest.mark.row("003-12")
def test_commands_are_followed_live_and_their_files_are_there(web: httpx.Client, models: Any) -> None:
    at = begin(web)
    command = (
        "mkdir -p out; for n in 1 2; do echo line $n; done; echo bad >&2; echo x > out/a.txt; touch .hid; sleep 60 & exit 3"
    )
    models.script(Call("bash", {"command": command}), Call("bash", {"command": "sleep 100", "background": True}), Say("Done."))
    turn, reported = say(web, at, "Work")
    assert models.faults == []
    kinds = [event["event"] for event in reported]
    assert kinds.index("call") < kinds.index("log") < kinds.index("result")
    first = of(reported, "result")[0]
    assert (first["ok"], first["code"], first["exit_code"]) == (False, "command_failed", 3)
    logs = [event for event in of(reported, "log") if event["id"] == first["id"]]
    assert "".join(log["text"] for log in logs if log["stream"] == "stdout") == "line 1\nline 2\n"
    assert [(event["name"], event["origin"]) for event in of(reported, "file")] == [("out/a.txt", turn)]
    state = web.get(f"{at}/workspace").json()["data"]
    assert (state["enabled"], state["path"], state["is_open"]) == (True, "/workspace", True)
    assert [(process["id"], process["state"]) for process in state["processes"]] == [("bg1", "running")]
    listed = web.get(f"{at}/workspace/files").json()["data"]
    assert [(entry["path"], entry["kind"], entry["origin"]) for entry in listed["entries"]] == [
        ("out", "folder", None), ("out/a.txt", "file", turn),
    ]  # fmt: skip
    assert (listed["size"], listed["truncated"]) == (2, False)
    everything = web.get(f"{at}/workspace/files", params={"hidden": True, "limit": 1}).json()["data"]
    assert (len(everything["entries"]), everything["truncated"]) == (1, True)
    assert web.delete(f"{at}/workspace/session").status_code == 204
    assert web.get(f"{at}/workspace").json()["data"]["processes"] == []
    models.script(Call("bash", {"command": "echo again"}), Say("Done."))
    _, reported = say(web, at, "More")
    assert "The shell is fresh" in of(reported, "result")[0]["text"]


def test_a_file_is_previewed_as_plain_data_by_what_it_is(web: httpx.Client) -> None:
    at = begin(web)
    files = {
        "a.png": PNG, "b.pdf": PDF, "c.xlsx": workbook(), "d.csv": b'a,"b\nc"\n1,2\n', "e.md": b"# Hi <script>\x1b[0m\n",
        "f.html": b"<script>alert(1)</script>", "g.bin": bytes(range(256)), "h.xlsx": b"PK nothing", "i.pdf": b"%PDF-1.4 no",
    }  # fmt: skip
    for name, data in files.items():
        assert web.put(f"{at}/files/{name}", content=data).status_code == 201

    def preview(name: str, **query: int) -> dict[str, Any]:
        answer = web.get(f"{at}/workspace/preview/{name}", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["data"]
        return found

    image = preview("a.png")
    assert (image["kind"], image["image"]["media_type"]) == ("image", "image/png")
    assert base64.b64decode(image["image"]["data"]) == PNG
    page = preview("b.pdf", page=2)
    assert (page["kind"], page["page"], page["pages"]) == ("pdf", 2, 2)
    assert base64.b64decode(page["image"]["data"]).startswith(b"\x89PNG")
    sheet = preview("c.xlsx")
    assert (sheet["kind"], sheet["sheets"], sheet["sheet"]) == ("table", ["Fish", "Empty"], 0)
    assert sheet["rows"] == [["name", "number", ""], ["one", "1", "=B2*2"]]
    assert preview("c.xlsx", sheet=1)["rows"] == []
    assert preview("d.csv")["rows"] == [["a", "b\nc"], ["1", "2"]]
    assert (preview("e.md")["kind"], preview("e.md")["text"]) == ("markdown", "# Hi <script>[0m\n")
    assert (preview("f.html")["kind"], preview("f.html")["text"]) == ("text", "<script>alert(1)</script>")
    for name in ("g.bin", "h.xlsx", "i.pdf"):
        assert (preview(name)["kind"], bool(preview(name)["reason"])) == ("binary", True), name
    assert preview("c.xlsx", sheet=7)["kind"] == "binary"
    assert web.get(f"{at}/workspace/preview/none.txt").status_code == 404
    assert web.get(f"{at}/workspace/preview/..%2Fx").status_code == 403
    assert web.get(f"{at}/workspace/preview/a.png", params={"page": 0}).status_code == 400


def test_everything_is_taken_away_as_one_archive_and_deleted(web: httpx.Client, home: Path) -> None:
    at = begin(web)
    for name in ("out/a.txt", "out/b/c.txt", "d.txt"):
        web.put(f"{at}/files/{name}", content=name.encode())
    folder = home / "data" / at.strip("/") / "files"
    (folder / "out/link").symlink_to("/etc/passwd")
    (folder / "out/unrecorded.txt").write_text("u")
    answer = web.get(f"{at}/workspace/archive")
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert sorted(archive.namelist()) == [
            "d.txt", "out/", "out/a.txt", "out/b/", "out/b/c.txt", "out/unrecorded.txt",
        ]  # fmt: skip
        assert archive.read("out/b/c.txt") == b"out/b/c.txt"
    assert web.get(f"{at}/files/out/link").status_code in {403}, "no link is followed"
    assert web.delete(f"{at}/files/out/unrecorded.txt").status_code == 204
    assert web.delete(f"{at}/files/out").status_code == 204
    assert [file["name"] for file in web.get(f"{at}/files").json()["data"]] == ["d.txt"]
    assert not (folder / "out").exists()
    assert Path("/etc/passwd").exists()


def test_a_command_is_asked_about_over_http(web: httpx.Client, models: Any) -> None:
    at = begin(web, settings={"commands": {"ask": ["Bash(rm:*)"]}, "tool_permissions": {"code_run": "deny"}})
    models.script(Call("bash", {"command": "touch a; rm -f a"}), Say("Done."))
    turn, reported = say(web, at, "Remove it")
    (asked,) = of(reported, "ask")
    question = asked["question"]
    assert (question["type"], question["title"], question["argument"]) == (
        "command", "Run a command: rm -f a", "touch a; rm -f a",
    )  # fmt: skip
    assert (question["level"], question["rule"], question["folder"]) == ("conversation", "ask Bash(rm:*)", "/workspace")
    (open_question,) = web.get(at).json()["data"]["turns"][0]["questions"]
    assert (open_question["type"], open_question["call"]) == ("command", asked["id"])
    refused = web.post(f"{at}/turns/{turn}/answers", json={"call": asked["id"], "decision": "workspace"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
    web.post(f"{at}/turns/{turn}/answers", json={"call": asked["id"], "decision": "once"})
    reported = follow(web, at, turn)
    assert of(reported, "result")[0]["ok"]
    assert "code_run" not in models.seen[0].tools
    trail = web.get("/trail", params={"conversation": at.rpartition("/")[2]}).json()["data"]
    (step,) = [step for step in trail if step["event"] == "ruled"]
    assert "Bash(rm:*)" in step["detail"]


@pytest.mark.parametrize(
    "settings",
    [
        {"tool_permissions": {"basj": "deny"}},
        {"tool_permissions": {"bash": "perhaps"}},
        {"commands": {"deny": ["Bash("]}},
        {"commands": {"refuse": []}},
        {"workspace": "somewhere"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(client: TestClient, models: Any, settings: Any) -> None:
    body = {"model": "openai-chat:gpt-5", "settings": settings}
    answer = client.post(f"{CHAT}/conversations", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input"), answer.text
    agent = client.post("/api/v1/agents", json={"name": "clerk", "settings": settings})
    assert (agent.status_code, agent.json()["code"]) == (400, "invalid_input"), agent.text


def test_what_is_switched_for_an_agent_holds_in_its_conversations(client: TestClient, models: Any) -> None:
    settings = {"tool_permissions": {"bash": "deny"}, "commands": {"deny": ["Write"]}, "workspace": True}
    made = client.post("/api/v1/agents", json={"name": "clerk", "model": "openai-chat:gpt-5", "settings": settings})
    assert made.json()["data"]["settings"]["tool_permissions"] == {"bash": "deny"}
    begun = client.post(f"{CHAT}/conversations", json={"agent": "clerk"}).json()["data"]["settings"]
    assert (begun["tool_permissions"], begun["commands"]["deny"]) == ({"bash": "deny"}, ["Write"])


def test_the_operator_has_the_last_word(models: Any, home: Path) -> None:
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text("[workspace]\nconversations = false\n")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    assert catalog.configuration.workspace == {"conversations": False}
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url=f"http://127.0.0.1:8787{CHAT}") as client:
        state = client.get(f"{begin(client)}/workspace").json()["data"]
    assert (state["enabled"], state["reason"]) == (False, "conversations have no workspaces here")


EXECUTES = ("runs:execute", "skills:read")


def test_a_workspace_belongs_to_who_began_the_conversation(keyed: Any, models: Any) -> None:
    mine, other = (keyed.client(*EXECUTES, name=name) for name in ("mine", "other"))
    elsewhere, reader = keyed.client(*EXECUTES, organisation="acme"), keyed.client("skills:read", name="reader")
    at = f"{CHAT}{begin(_below(mine))}"
    assert mine.put(f"{at}/files/a.txt", content=b"mine").status_code == 201
    assert [entry["origin"] for entry in mine.get(f"{at}/workspace/files").json()["data"]["entries"]] == ["user"]
    for method, path in [
        ("GET", "/workspace"), ("GET", "/workspace/files"), ("GET", "/workspace/preview/a.txt"), ("GET", "/workspace/archive"),
        ("DELETE", "/workspace/session"), ("DELETE", "/files/a.txt"),
    ]:  # fmt: skip
        assert [client.request(method, f"{at}{path}").status_code for client in (other, elsewhere, reader)] == [404, 404, 403]


def _below(client: TestClient) -> TestClient:
    return TestClient(client.app, base_url=f"{client.base_url}{CHAT}", headers=client.headers)
