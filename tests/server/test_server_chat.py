"""Conversations over HTTP: the story of a form, events, approvals, stop, files, and what belongs to whom."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_models import Call, Hold, Say
from starlette.testclient import TestClient

CHAT = "/api/v1/chat"
CHECK = """\
import sys
print("fields: name" if b"/AcroForm" in open(sys.argv[1], "rb").read() else "none")
open("out.txt", "w").write("x")
"""
FORM = b"%PDF-1.4 << /AcroForm << /Fields [] >> >>"


@pytest.fixture
def pdf(home: Path, make_skill: Callable[..., Path]) -> Path:
    return make_skill(
        home / "project/.claude/skills",
        "pdf",
        description="Fills in PDF forms. Use when the user mentions a PDF.",
        files={"FORMS.md": "Run scripts/check.py <file.pdf>.", "scripts/check.py": CHECK},
    )


@pytest.fixture
def web(pdf: Path, models: Any, address: str) -> Iterator[httpx.Client]:
    """A client of the application on its port, with skills and a scripted model."""
    with httpx.Client(base_url=f"{address}{CHAT}", timeout=60, trust_env=False) as client:
        yield client


def begin(web: Any, **body: Any) -> str:
    made = web.post("/conversations", json={"model": "openai-chat:gpt-5", **body})
    assert made.status_code == 201, made.text
    return str(made.json()["data"]["id"])


def events(web: httpx.Client, conversation: str, turn: str, last: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """What is reported of a turn: the ids of the events and their data."""
    reported, number = [], ""
    headers = {"Last-Event-ID": last} if last else {}
    with web.stream("GET", f"/conversations/{conversation}/turns/{turn}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                reported.append((number, json.loads(line[6:])))
    return reported


def say(web: httpx.Client, conversation: str, text: str, **more: Any) -> str:
    said = web.post(f"/conversations/{conversation}/messages", json={"text": text, **more})
    assert said.status_code == 201, said.text
    return str(said.json()["data"]["id"])


@pytest.mark.row("003-11", "003-18")
def test_a_form_is_filled_in_over_http(web: httpx.Client, models: Any) -> None:
    conversation = begin(web)
    assert web.put(f"/conversations/{conversation}/files/form.pdf", content=FORM).status_code == 201
    models.script(
        Call("skill", {"skill": "pdf"}),
        Call("read_skill_file", {"skill": "pdf", "file_path": "FORMS.md"}),
        [Say("I check. "), Call("run_skill", {"skill": "pdf", "arguments": ["form.pdf"]})],
        Say("It has one field."),
    )
    turn = say(web, conversation, "Fill in this PDF form")
    reported = [data for _, data in events(web, conversation, turn)]
    assert models.faults == []
    kinds = [data["event"] for data in reported]
    assert kinds[0] == "begin"
    assert kinds[-1] == "end"
    assert [data["tool"] for data in reported if data["event"] == "call"] == ["skill", "read_skill_file", "run_skill"]
    assert all(data["ok"] for data in reported if data["event"] == "result")
    assert [data["name"] for data in reported if data["event"] == "file"] == ["out.txt"]
    assert reported[-1] == {"event": "end", "state": "done", "answer": "It has one field."}
    shown = web.get(f"/conversations/{conversation}").json()["data"]
    assert shown["title"] == "Fill in this PDF form"
    assert [(item["state"], item["answer"]) for item in shown["turns"]] == [("done", "It has one field.")]
    assert {file["name"]: file["origin"][:4] for file in shown["files"]} == {"form.pdf": "user", "out.txt": "run_"}
    assert web.get(f"/conversations/{conversation}/files/out.txt").text == "x"
    steps = web.get("/trail", params={"conversation": conversation}).json()["data"]
    assert [step["event"] for step in steps] == ["offered", "loaded", "read", "run", "outcome"]
    assert web.get("/trail/report").json()["data"]["skills"][0]["run"] == 1
    listed = web.get("/turns", params={"skill": steps[0]["skill"], "stage": "followed", "since": shown["created_at"]}).json()
    assert listed["meta"]["total"] == 1
    one = listed["data"][0]
    assert (one["conversation_id"], one["turn_id"], one["number"], one["state"]) == (conversation, turn, 1, "done")
    assert (one["request"], one["detail"], one["replaced"]) == ("Fill in this PDF form", "FORMS.md", False)
    assert web.get("/turns", params={"stage": "refused"}).json()["data"] == []
    assert web.get("/turns", params={"stage": "adored"}).status_code == 400


def test_a_client_that_comes_back_is_told_the_rest_and_a_late_one_everything(web: httpx.Client, models: Any) -> None:
    models.script([Say("One two three four five six seven. "), Call("skills_list", {})], Say("Done."))
    conversation = begin(web)
    turn = say(web, conversation, "Hello")
    whole = events(web, conversation, turn)
    number = whole[3][0]
    assert events(web, conversation, turn, number) == whole[4:]
    assert events(web, conversation, turn, "nonsense") == whole
    assert events(web, conversation, turn, "ffffffffffff.3") == whole


@pytest.mark.row("001-18")
@pytest.mark.parametrize(("decision", "answer"), [("once", "Loaded."), ("reject", "Loaded.")])
def test_an_approval_is_asked_and_answered_over_http(decision: str, answer: str, web: httpx.Client, models: Any) -> None:
    conversation = begin(web, settings={"permissions": {"pdf": "ask"}})
    models.script(Call("skill", {"skill": "pdf"}), Say("Loaded."))
    turn = say(web, conversation, "Load it")
    reported = [data for _, data in events(web, conversation, turn)]
    (asked,) = [data for data in reported if data["event"] == "ask"]
    assert reported[-1]["state"] == "waiting"
    question = asked["question"]
    assert question["title"] == "Load skill: pdf"
    assert {file["name"] for file in question["files"]} == {"FORMS.md", "scripts/check.py"}
    assert any("scripts/check.py" in sentence for sentence in question["may"])
    busy = web.post(f"/conversations/{conversation}/messages", json={"text": "Hello?"})
    assert (busy.status_code, busy.json()["code"]) == (409, "conversation_busy")
    (waiting,) = web.get("/questions").json()["data"]
    assert (waiting["conversation_id"], waiting["turn_id"], waiting["request"]) == (conversation, turn, "Load it")
    assert waiting["calls"] == [{"id": asked["id"], "tool": "skill", "arguments": {"skill": "pdf"}}]
    assert (waiting["question"]["call"], waiting["question"]["may"]) == (asked["id"], question["may"])
    path = f"/conversations/{conversation}/turns/{turn}/answers"
    assert web.post(path, json={"call": "nosuch", "decision": "once"}).status_code == 409
    assert web.post(path, json={"call": asked["id"], "decision": "perhaps"}).status_code == 400
    given = web.post(path, json={"call": asked["id"], "decision": decision, "reason": "not now"})
    assert given.json()["data"]["state"] == "running"
    assert web.get("/questions").json()["data"] == []
    reported = [data for _, data in events(web, conversation, turn)]
    assert reported[0]["event"] == "begin"
    assert reported[-1] == {"event": "end", "state": "done", "answer": answer}
    assert ("was not approved: not now" in models.seen[-1].last) == (decision == "reject")


def test_a_turn_is_stopped_tried_again_and_said_in_other_words(web: httpx.Client, models: Any) -> None:
    conversation = begin(web)
    models.script(Hold("Once upon"), Say("The end."), Say("Another end."))
    turn = say(web, conversation, "A story")
    assert models.holding.wait(20)
    stopped = web.post(f"/conversations/{conversation}/turns/{turn}/stop").json()["data"]
    assert (stopped["state"], stopped["answer"]) == ("stopped", "Once upon")
    models.go_on.set()
    again = web.post(f"/conversations/{conversation}/retry").json()["data"]
    assert events(web, conversation, again["id"])[-1][1]["answer"] == "The end."
    other = say(web, conversation, "Another story", replaces=again["id"])
    assert events(web, conversation, other)[-1][1]["answer"] == "Another end."
    assert models.seen[-1].user == ("Another story",)
    assert web.post(f"/conversations/{conversation}/turns/{other}/stop").json()["data"]["state"] == "done"
    assert [turn["id"] for turn in web.get(f"/conversations/{conversation}").json()["data"]["turns"]] == [other]


def test_a_model_that_fails_is_reported_as_an_event(web: httpx.Client, models: Any) -> None:
    conversation = begin(web)
    models.script()
    reported = [data for _, data in events(web, conversation, say(web, conversation, "Hello"))]
    assert [data["code"] for data in reported if data["event"] == "error"] == ["model_failed"]
    assert reported[-1]["state"] == "failed"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nosuch:model"}, 400, "invalid_input"),
        ({"model": "llama3@http://127.0.0.1:1/v1"}, 400, "invalid_input"),
        ({"model": "test"}, 400, "invalid_input"),
        ({"agent": "nobody"}, 404, "record_not_found"),
        ({"settings": {"colour": "blue"}}, 400, "invalid_input"),
        ({"settings": {"index_tokens": -1}}, 400, "invalid_input"),
        ({"settings": {"permissions": {"*": "maybe"}}}, 400, "invalid_input"),
    ],
)
def test_a_conversation_that_cannot_be_is_refused(client: TestClient, models: Any, body: Any, status: int, code: str) -> None:
    answer = client.post(f"{CHAT}/conversations", json={"model": "openai-chat:gpt-5", **body})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


@pytest.mark.parametrize("model", [None, "nonsense", "llama3@http://127.0.0.1:11434/v1"])
def test_who_names_no_model_that_can_be_used_is_told_what_can_be_chosen_here(client: TestClient, model: str | None) -> None:
    refused = client.post(f"{CHAT}/conversations", json={"model": model}).json()
    assert "such as openai:" in refused["hint"]
    assert "http" not in refused["hint"], "a model at an address is chosen by whoever runs the server"


def test_what_is_not_there_is_not_found_and_a_skill_that_is_none_starts_nothing(client: TestClient, models: Any) -> None:
    for method, path in [
        ("GET", "/conversations/chat_nosuch"),
        ("DELETE", "/conversations/chat_nosuch"),
        ("GET", "/conversations/chat_nosuch/turns/x/events"),
        ("GET", "/trail?conversation=chat_nosuch"),
        ("PUT", "/conversations/chat_nosuch/files/a.txt"),
    ]:
        assert client.request(method, f"{CHAT}{path}").status_code == 404, path
    conversation = begin(client.__class__(client.app, base_url=f"{client.base_url}{CHAT}"))
    at = f"{CHAT}/conversations/{conversation}"
    assert client.post(f"{at}/messages", json={"text": "/nosuch thing"}).json()["code"] == "skill_not_found"
    assert client.post(f"{at}/messages", json={"text": "  "}).status_code == 400
    assert client.post(f"{at}/retry").status_code == 400
    assert client.get(f"{at}/turns/turn_x/events").status_code == 404
    assert client.delete(at).status_code == 204
    assert client.get(at).status_code == 404


def test_files_are_kept_safely_and_never_shown_as_a_page(client: TestClient, models: Any) -> None:
    conversation = begin(client.__class__(client.app, base_url=f"{client.base_url}{CHAT}"))
    at = f"{CHAT}/conversations/{conversation}/files"
    page = b"<script>alert(1)</script>"
    assert client.put(f"{at}/a/page.html", content=page).json()["data"]["name"] == "a/page.html"
    got = client.get(f"{at}/a/page.html")
    assert (got.content, got.headers["content-type"]) == (page, "text/plain; charset=utf-8")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert client.get(f"{at}/a/page.html", headers={"Range": "bytes=0-6"}).content == b"<script"
    client.put(f"{at}/b.bin", content=bytes(range(256)))
    assert client.get(f"{at}/b.bin").headers["content-type"] == "application/octet-stream"
    refused = {
        name: (client.put(f"{at}/{name}", content=b"x").status_code, client.get(f"{at}/{name}").status_code)
        for name in ("..%2Fup.txt", "%2Fetc%2Fpasswd", ".hidden", "a%00b", "a/..%2F..%2F..%2Fx")
    }
    outside = dict.fromkeys(("..%2Fup.txt", "%2Fetc%2Fpasswd", "a%00b", "a/..%2F..%2F..%2Fx"), (403, 403))
    assert refused == {**outside, ".hidden": (400, 404)}
    assert client.put(f"{at}/big", content=bytes(50 * 1024 * 1024 + 1)).status_code == 413
    assert [file["name"] for file in client.get(at).json()["data"]] == ["a/page.html", "b.bin"]


def test_a_conversation_is_there_after_the_server_came_back(client: TestClient, models: Any, home: Path) -> None:
    conversation = begin(client.__class__(client.app, base_url=f"{client.base_url}{CHAT}"), title="Mine")
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as again:
        listed = again.get(f"{CHAT}/conversations").json()["data"]
        assert [(item["id"], item["title"]) for item in listed] == [(conversation, "Mine")]


def test_a_conversation_is_named_found_and_given_another_model(web: httpx.Client, models: Any) -> None:
    models.script(Say("Water at 75 degrees."), Say("Nine."))
    tea, stars = begin(web), begin(web)
    events(web, tea, say(web, tea, "How is green tea made?"))
    events(web, stars, say(web, stars, "How many 100% real planets?"))

    def found(text: str) -> list[str]:
        return [item["id"] for item in web.get("/conversations", params={"text": text}).json()["data"]]

    assert found("") == [stars, tea]
    assert found("75 DEGREES") == found("green tea") == [tea]
    assert found("100%") == [stars]
    assert found("100_") == []
    changed = web.patch(
        f"/conversations/{tea}", json={"title": "  Tea\u202e\nand water ", "model": "openai-chat:gpt-6"}
    ).json()["data"]
    assert (changed["title"], changed["model"]) == ("Tea and water", "openai-chat:gpt-6")
    assert found("") == [stars, tea]  # a name is no use
    assert web.patch(f"/conversations/{tea}", json={"title": " \n "}).json()["code"] == "invalid_input"
    assert web.patch(f"/conversations/{tea}", json={"model": "nosuch:model"}).status_code == 400
    assert web.patch(f"/conversations/{tea}", json={"owner": "eve"}).status_code == 400
    assert web.patch("/conversations/chat_nosuch", json={"title": "x"}).status_code == 404


def test_a_conversation_gives_its_newest_turns_and_says_how_many_are_before(web: httpx.Client, models: Any) -> None:
    models.answer_with(lambda seen: Say(f"{seen.said}!"))
    conversation = begin(web)
    for number in range(3):
        events(web, conversation, say(web, conversation, f"{number}"))
    shown = web.get(f"/conversations/{conversation}", params={"last": 2}).json()["data"]
    assert ([turn["request"] for turn in shown["turns"]], shown["earlier"]) == (["1", "2"], 1)
    assert web.get(f"/conversations/{conversation}").json()["data"]["earlier"] == 0


def test_files_come_with_a_message_also_when_it_is_said_again(web: httpx.Client, models: Any) -> None:
    models.script(Say("One file."), Say("One."), Say("None."))
    conversation = begin(web)
    at = f"/conversations/{conversation}"
    missing = web.post(f"{at}/messages", json={"text": "What is it?", "files": ["form.pdf"]})
    assert (missing.status_code, missing.json()["code"]) == (404, "file_not_found")
    web.put(f"{at}/files/form.pdf", content=FORM)
    turn = say(web, conversation, "What is it?", files=["form.pdf", "form.pdf"])
    reported = [data for _, data in events(web, conversation, turn)]
    given = [(data["name"], data["origin"]) for data in reported if data["event"] == "file"]
    assert given == [("form.pdf", "user")]
    assert models.seen[-1].said == 'What is it?\n\nGiven with this message:\n- "form.pdf"'
    again = web.post(f"{at}/retry").json()["data"]
    events(web, conversation, again["id"])
    assert '- "form.pdf"' in models.seen[-1].said
    assert web.delete(f"{at}/files/form.pdf").status_code == 204
    assert web.delete(f"{at}/files/form.pdf").status_code == 404
    assert web.delete(f"{at}/files/..%2Fup").status_code == 403
    again = web.post(f"{at}/retry").json()["data"]
    events(web, conversation, again["id"])
    assert models.seen[-1].said == "What is it?"


def test_what_a_script_prints_is_reported_while_it_runs_and_not_kept(web: httpx.Client, models: Any) -> None:
    conversation = begin(web)
    web.put(f"/conversations/{conversation}/files/form.pdf", content=FORM)
    models.script(Call("run_skill", {"skill": "pdf", "arguments": ["form.pdf"]}), Say("Done."))
    reported = [data for _, data in events(web, conversation, say(web, conversation, "Check it"))]
    kinds = [data["event"] for data in reported]
    assert kinds.index("call") < kinds.index("log") < kinds.index("result")
    (log,) = [data for data in reported if data["event"] == "log"]
    (called,) = [data for data in reported if data["event"] == "call"]
    assert (log["id"], log["stream"], log["text"]) == (called["id"], "stdout", "fields: name\n")
    (result,) = [data for data in reported if data["event"] == "result"]
    assert result["tokens"] > 10
    assert result["duration_ms"] > 0
    (turn,) = web.get(f"/conversations/{conversation}").json()["data"]["turns"]
    assert "log" not in [event["event"] for event in turn["events"]]


STEPS = """import skillyard_sdk as sdk
def execute(parameters):
    with sdk.step("read", input={"apiKey": "hidden"}) as current:
        current.output = 3
    return {"output": "done"}
"""


def test_the_steps_of_a_script_are_reported_while_it_runs_and_stay_in_its_record(
    web: httpx.Client, models: Any, home: Path, make_skill: Callable[..., Path]
) -> None:
    make_skill(home / "project/.claude/skills", "stepper", files={"scripts/execute.py": STEPS})
    web.post(str(web.base_url.copy_with(path="/api/v1/catalog/refresh")))
    conversation = begin(web)
    models.script(Call("run_skill", {"skill": "stepper"}), Say("Done."))
    reported = [data for _, data in events(web, conversation, say(web, conversation, "Take a step"))]
    kinds = [data["event"] for data in reported]
    assert kinds.index("call") < kinds.index("step") < kinds.index("result")
    (step,) = [data for data in reported if data["event"] == "step"]
    (result,) = [data for data in reported if data["event"] == "result"]
    assert (step["id"], step["step"]["stepName"], step["step"]["output"]) == (result["id"], "read", 3)
    assert "hidden" not in str(step)
    (turn,) = web.get(f"/conversations/{conversation}").json()["data"]["turns"]
    assert "step" not in [event["event"] for event in turn["events"]]
    timeline = web.get(f"/conversations/{conversation}/turns/{turn['id']}/timeline").json()["data"]
    shapes = [(span["kind"], span["name"], span["state"]) for span in timeline["spans"]]
    called = [("tool", "run_skill", "ok"), ("script", "stepper", "ok"), ("step", "read", "ok")]
    assert [shape for shape in shapes if shape[0] != "waiting"] == [
        ("model", turn["model"], "ok"), *called, ("model", turn["model"], "ok"),
    ]  # fmt: skip
    assert timeline["input_tokens"] == sum(span["input_tokens"] for span in timeline["spans"]) > 0
    run = str(web.base_url.copy_with(path=f"/api/v1/runs/{result['run']}/timeline"))
    assert [span["kind"] for span in web.get(run).json()["data"]["spans"] if span["kind"] != "waiting"] == ["script", "step"]


def test_open_questions_say_which_are_answered(
    web: httpx.Client, models: Any, home: Path, make_skill: Callable[..., Path]
) -> None:
    make_skill(home / "project/.claude/skills", "other", description="Does other things.")
    web.post(str(web.base_url.copy_with(path="/api/v1/catalog/refresh")))
    conversation = begin(web, settings={"permissions": {"*": "ask"}})
    models.script([Call("skill", {"skill": name}) for name in ("pdf", "other", "pdf")], Say("Loaded."))
    turn = say(web, conversation, "Load both")
    events(web, conversation, turn)

    def questions() -> list[tuple[str, str | None]]:
        (shown,) = web.get(f"/conversations/{conversation}").json()["data"]["turns"]
        return [(question["skillName"], question["decision"]) for question in shown["questions"]]

    assert questions() == [("pdf", None), ("other", None), ("pdf", None)]
    (shown,) = web.get(f"/conversations/{conversation}").json()["data"]["turns"]
    answers = f"/conversations/{conversation}/turns/{turn}/answers"
    web.post(answers, json={"call": shown["questions"][0]["call"], "decision": "once"})
    assert questions() == [("pdf", "once"), ("other", None), ("pdf", "once")]
    web.post(answers, json={"call": shown["questions"][1]["call"], "decision": "reject"})
    assert events(web, conversation, turn)[-1][1]["answer"] == "Loaded."


def test_models_that_can_be_chosen_and_skills_that_can_be_started_are_listed(
    web: httpx.Client, models: Any, home: Path, make_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = home / "project/.claude/skills"
    make_skill(root, "inner", front_matter="name: inner\ndescription: For models.\nuser-invocable: false")
    make_skill(root, "pdf-secret", description="Secret.")
    make_skill(root, "release", front_matter="name: release\ndescription: Releases.\nargument-hint: '[version]'")
    web.post(str(web.base_url.copy_with(path="/api/v1/catalog/refresh")))
    monkeypatch.setenv("SKILLYARD_MODEL", "openai-chat:gpt-5")
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    reported = web.get("/models").json()["data"]
    ready = {provider["name"]: (provider["ready"], provider["variable"]) for provider in reported["providers"]}
    assert reported["usual"] == "openai-chat:gpt-5"
    assert (ready["openai"], ready["deepseek"]) == ((True, "OPENAI_API_KEY"), (False, "DEEPSEEK_API_KEY"))
    assert all(
        name.startswith("anthropic:") for name in next(p["models"] for p in reported["providers"] if p["name"] == "anthropic")
    )
    refused = web.post("/conversations", json={"model": "deepseek:deepseek-chat"}).json()
    assert "DEEPSEEK_API_KEY" in refused["detail"]
    assert "start it again" in refused["hint"]
    commands = web.get("/commands").json()["data"]
    assert [(item["name"], item["arguments"]) for item in commands] == [
        ("pdf", None),
        ("pdf-secret", None),
        ("release", "[version]"),
    ]
    conversation = begin(web, settings={"permissions": {"*-secret": "deny"}})
    narrowed = web.get("/commands", params={"text": "PD", "conversation": conversation}).json()["data"]
    assert [item["name"] for item in narrowed] == ["pdf"]
    assert web.get("/commands", params={"conversation": "chat_nosuch"}).status_code == 404


def test_a_model_at_an_address_is_used_when_whoever_runs_the_server_chose_it(
    web: httpx.Client, models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLYARD_MODEL", f"llama3@{models.address}/v1")
    models.script(Say("Hello."))
    made = web.post("/conversations", json={}).json()["data"]["id"]
    assert events(web, made, say(web, made, "Hi"))[-1][1]["answer"] == "Hello."
    assert models.seen[0].model == "llama3"
    assert web.post("/conversations", json={"model": "llama3@http://127.0.0.1:1/v1"}).status_code == 400


@pytest.mark.abuse("H6")
def test_a_file_so_deep_that_runs_would_fail_is_refused_and_an_old_one_can_be_deleted(
    web: httpx.Client, models: Any, home: Path
) -> None:
    conversation = begin(web)
    at = f"/conversations/{conversation}/files"
    deep, refused = "/".join("abcdefgh") + "/form.pdf", web.put(f"{at}/{'/'.join('abcdefghi')}/form.pdf", content=FORM)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")
    assert "8 folders" in refused.json()["hint"]
    assert web.put(f"{at}/{deep}", content=FORM).status_code == 201
    (home / f"data/conversations/{conversation}/files/{'/'.join('abcdefghij')}").mkdir(parents=True)  # as it was left before
    models.script(Call("run_skill", {"skill": "pdf", "arguments": [deep]}), Say("Done."))
    reported = [data for _, data in events(web, conversation, say(web, conversation, "Fill in this PDF form"))]
    assert [data["ok"] for data in reported if data["event"] == "result"] == [True], reported
