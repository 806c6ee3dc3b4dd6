"""An organisation on a shared server learns nothing of the machine it is on: no folder, no database, no name of it."""

from __future__ import annotations

import io
import itertools
import json
import re
import socket
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from httpx import Response
from scripted_models import Call, Say
from starlette.testclient import TestClient

import skillyard
from skillyard.engine import WorkerRoster

EVERYTHING = ("skills:read", "skills:write", "runs:execute", "workspaces:use", "admin")
HEADER = "type: direct\nresources:\n  entry: ./scripts/add.py\n"
BREAKS = "def execute(parameters):\n    open('b.txt', 'w').write('b')\n    raise ValueError('no')\n"
SKILLS: Final = ("tidy", "installed:tidy", "shared", "user:private", "broken", "twice", "nothing")
"""An installed skill by both names, one of the server, one of its own, one that is broken, one of two of a name, none."""
UNANSWERED: Final = frozenset(
    {
        "GET /metrics",  # these four are for who manages the server itself
        "GET /api/v1/settings",
        "GET /api/v1/doctor",
        "GET /api/v1/organisations",
        "GET /api/v1/oauth/authorization",  # is about a client that has sent somebody
        "GET /api/v1/skills/-/reports",  # these are ClawHub's, and not offered here
        "GET /api/v1/skills/-/scan/download/{slug}",
        "GET /api/v1/skills/-/scan/{scan_id}",
        "GET /api/v1/skills/-/scan/{scan_id}/download",
        "GET /mirror/packages/{start}/{rest}",  # the address of a package is its digest, which no name stands for
    }
)
"""What is refused to an organisation, or has nothing to give: every other `GET` is asked for something that is there."""


@pytest.fixture(autouse=True)
def _unlimited(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many requests that no limit is met."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text(
        "[server.limits]\nread = 1000000\nwrite = 1000000\ndownload = 1000000\n", "utf-8"
    )


@pytest.fixture
def guest(keyed: Any) -> TestClient:
    """An admin of an organisation that is not the server's own."""
    client: TestClient = keyed.nobody  # the one whose loop goes on between requests
    client.headers["Authorization"] = f"Bearer {keyed.key(*EVERYTHING, organisation='acme', name='ada')}"
    return client


@pytest.fixture
def words(home: Path) -> tuple[str, ...]:
    """What names the machine: its folders, its name, its database, and where the program and its Python are."""
    program = str(Path(skillyard.__file__).parent)
    return (str(home), str(home.parent), socket.gethostname(), "skillyard.db", "postgresql:", program, sys.prefix)


@pytest.fixture
def used(guest: TestClient, home: Path, make_skill: Any, pack: Callable[..., bytes], models: Any) -> Iterator[dict[str, str]]:
    """What its organisation has: skills of every source and state, runs, a schedule, an agent, a memory, a conversation."""
    make_skill(home / "project/.claude/skills", "shared", files={"scripts/main.py": "print(1)", "b.txt": "b"})
    make_skill(home / "project/.claude/skills", "broken", front_matter="name: [")
    for folder in ("one", "two"):
        make_skill(home / "project/.claude/skills", folder, front_matter="name: twice\ndescription: Is there twice.")
    archive = pack("tidy", header=HEADER, files={"scripts/add.py": BREAKS, "b.txt": "b"})
    done = guest.post("/api/v1/skill-definitions/upload-create", params={"wait": False}, files={"file": ("tidy.zip", archive)})
    operation = done.json()["data"]["operation_id"]
    guest.get(f"/api/v1/skill-definitions/operations/{operation}/events")
    guest.post("/api/v1/catalog", json={"name": "private", "description": "Says: nothing."})
    guest.post("/api/v1/catalog/refresh")
    run = guest.post("/api/v1/runs", json={"skill": "tidy", "files": [{"name": "a.txt", "content": "YQ=="}]}).json()["data"][
        "run_id"
    ]
    guest.post("/api/v1/runs", json={"skill": "shared"})
    guest.post("/api/v1/schedules", json={"name": "nightly", "skill": "tidy", "cron": "0 3 * * *"})
    agent = guest.post("/api/v1/agents", json={"name": "helper", "skills": [{"skill": "tidy"}]}).json()["data"]
    memory = guest.post("/api/v1/memories", json={"content": "Likes tea.", "type": "fact"}).json()["data"]
    chat = "/api/v1/chat/conversations"
    conversation = guest.post(chat, json={"model": "openai-chat:gpt-5"}).json()["data"]["id"]
    guest.put(f"{chat}/{conversation}/files/b.txt", content=b"b")
    models.script(Call("skill", {"skill": "shared"}), Call("run_skill", {"skill": "tidy"}), Say("Done."))
    guest.post("/api/v1/workspaces", json={"id": "desk"})
    guest.put("/api/v1/workspaces/desk/files/b.txt", content=b"b")
    turn = guest.post(f"{chat}/{conversation}/messages", json={"text": "Do it"}).json()["data"]["id"]
    guest.get(f"{chat}/{conversation}/turns/{turn}/events")  # until it is done
    models.answer_with(lambda _: Say("Well."))
    of_others: dict[str, str] = {}
    for kind in ("anthropic", "openai"):
        of_others[kind] = there = guest.get(f"/{kind}/v1/skills").json()["data"][0]["id"]
        newest = guest.get(f"/{kind}/v1/skills/{there}/versions").json()["data"][0]
        of_others[f"{kind} version"] = str(newest["version"])
    of_others["clawhub version"] = guest.get("/api/v1/skills/tidy/versions").json()["items"][0]["version"]
    version = guest.get("/api/v1/skill-definitions/tidy/versions").json()["data"][0]["version"]
    yield {
        "operation_id": operation, "run_id": run, "name": "nightly", "slug": "tidy", "version": version, "path": "b.txt",
        "before": version, "after": version, "agent": str(agent["id"]), "memory_id": str(memory["id"]),
        "conversation": conversation, "turn": turn, "way": "incoming",
        "workspace": "desk", "session": "default", "tag": "good", **of_others,
    }  # fmt: skip


def _names(used: Mapping[str, str], path: str, skill: str) -> dict[str, str]:
    """What stands in an address: the ids of what is there."""
    names = {**used, "id": skill, "skill": skill, "slug": skill.rpartition(":")[2], "skill_id": skill}
    if "schedules" not in path:
        names["name"] = skill
    for kind in ("anthropic", "openai"):
        if path.startswith(f"/{kind}/"):
            names |= {"skill_id": used[kind], "version": used[f"{kind} version"]}
    if path.startswith("/api/v1/skills/{slug}") or "/.well-known/" in path:
        names["version"] = used["clawhub version"]
    return names


TEXT: Final = b"---\nname: more\ndescription: Is more. Use when a test needs one.\n---\nDo it.\n"
FILES: Final[Mapping[str, str]] = {
    "POST /api/v1/skill-definitions/inspect": "file",
    "POST /api/v1/skill-definitions/upload-create": "file",
    "POST /api/v1/skill-definitions/{id}/upload-install": "file",
    "POST /anthropic/v1/skills": "files[]",
    "POST /anthropic/v1/skills/{skill_id}/versions": "files[]",
    "POST /openai/v1/skills": "files[]",
    "POST /openai/v1/skills/{skill_id}/versions": "files[]",
}
"""The field of a form in which a file is sent: once an archive with a skill, once a broken one, once a SKILL.md."""
BODIES: Final[Mapping[str, Any]] = {
    "POST /api/v1/runs": {"skill": "{skill}"},
    "POST /api/v1/schedules": {"name": "daily", "skill": "{skill}", "cron": "0 3 * * *"},
    "POST /api/v1/tools/call": {"name": "skill", "arguments": {"skill": "{skill}"}},
    "POST /api/v1/agents/command-check": {
        "tool": "file_read",
        "argument": "../{skill}",
        "commands": {"deny": ["Read(/etc/**)"]},
    },
    "POST /api/v1/agents/prompt-preview": {"name": "helper", "skills": [{"skill": "{skill}"}]},
    "POST /api/v1/catalog/toggle": {"skill": "{skill}"},
    "POST /api/v1/catalog": {"name": "{skill}", "description": "Is new."},
    "POST /api/v1/chat/conversations/{conversation}/messages": {"text": "/{skill} do it"},
    "POST /api/v1/skill-definitions/install/address": {"address": "/etc", "repository": "../{skill}"},
    "POST /api/v1/workspaces": {"id": "../{skill}"},
    "POST /api/v1/workspaces/{workspace}/calls": {
        "tool": "bash",
        "arguments": {"command": "cat {skill}; pwd; ls /; env; hostname"},
    },
    "POST /api/v1/keys": {"name": "more", "scopes": ["skills:read"]},
}


QUERY: Final = {"q": "a skill", "type": "a", "path": "SKILL.md", "hash": "0" * 64, "service": "git-upload-pack"}


class _Named(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "tidy"


def _filled(value: Any, skill: str) -> Any:
    if isinstance(value, str):
        return value.replace("{skill}", skill)
    if isinstance(value, list):
        return [_filled(one, skill) for one in value]
    return {name: _filled(one, skill) for name, one in value.items()} if isinstance(value, dict) else value


def _said(answer: Response) -> str:
    """Everything an answer says: its headers, its text, and what is in an archive; without the letters of new keys."""
    content = answer.content
    if content.startswith(b"PK\3\4"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content += b"\n".join([name.encode() + archive.read(name) for name in archive.namelist()])
    return re.sub(r"\bsky_[A-Za-z0-9_-]+", "", content.decode("utf-8", "replace")) + str(answer.headers)


def _around(said: str, word: str) -> str:
    return said[max(0, said.find(word) - 80) :][:240]


def _bodies(operation: str, skill: str, pack: Callable[..., bytes]) -> Iterator[dict[str, Any]]:
    """What is sent with an operation."""
    if field := FILES.get(operation):
        archive = pack(skill.replace(":", "-"), header=HEADER, files={"scripts/add.py": BREAKS})
        for name, content in (("a.zip", archive), ("b.zip", archive[:-40]), ("more/SKILL.md", TEXT)):
            yield {"files": {field: (name, content)}}
    elif operation.startswith(("GET", "DELETE")):
        yield {}
    else:
        yield {"json": _filled(BODIES.get(operation, {}), skill)}


@pytest.mark.parametrize("others", [2, pytest.param(len(SKILLS) - 1, marks=pytest.mark.long)])
@pytest.mark.abuse("H3")
def test_no_answer_names_the_machine(
    others: int,
    keyed: Any,
    guest: TestClient,
    used: dict[str, str],
    words: tuple[str, ...],
    pack: Callable[..., bytes],
) -> None:
    """Each operation is asked for the installed skill and for some others: in turn, or all of them."""
    reported: list[str] = []
    sent = Counter[str]()
    visited: dict[str, set[int]] = {}
    first, *rest = SKILLS
    turns = itertools.cycle(rest)
    operations = [
        (method.upper(), path, operation)
        for path, methods in keyed.app.openapi()["paths"].items()
        for method, operation in methods.items()
    ]
    operations.sort(key=lambda one: (one[0] != "GET", one[0] == "DELETE"))  # what is there is looked at before it is changed
    for method, path, operation in operations:
        for skill in (first, *itertools.islice(turns, others)):
            address = path.format_map(_Named(_names(used, path, skill)))
            query = QUERY | dict.fromkeys(("skill", "slug", "text", "request"), skill) | {"conversation": used["conversation"]}
            wanted = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
            for style in ("compact", "section", "full") if "style" in wanted else ("",):
                asked = {name: value for name, value in query.items() if name in wanted} | ({"style": style} if style else {})
                for body in _bodies(f"{method} {path}", skill, pack):
                    sent[request := f"{method} {address} {asked} {body}"] += 1
                    if sent[request] > (1 if method == "GET" else 2):
                        continue  # a skill does not stand in it: it has been sent for another one
                    answer = guest.request(method, address, params=asked, **body)
                    visited.setdefault(f"{method} {path}", set()).add(answer.status_code)
                    said = _said(answer)
                    reported += [f"{method} {address} {asked}: …{_around(said, word)}" for word in words if word in said]
    assert reported == []
    assert len(visited) == len(operations) > 120
    answered = {operation for operation, statuses in visited.items() if min(statuses) < 300}
    assert {operation for operation in visited if operation.startswith("GET") and operation not in answered} == UNANSWERED
    assert len(answered) > 90


@pytest.mark.abuse("H3")
def test_no_answer_over_mcp_names_the_machine(guest: TestClient, used: dict[str, str], words: tuple[str, ...]) -> None:
    guest.headers["Accept"] = "application/json, text/event-stream"
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    session = guest.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin})
    if "mcp-session-id" in session.headers:  # where several servers share the address none is kept
        guest.headers["Mcp-Session-Id"] = session.headers["mcp-session-id"]
    guest.headers["MCP-Protocol-Version"] = "2025-06-18"
    reported: list[str] = []
    visited = Counter[str]()

    def ask(method: str, **params: Any) -> Any:
        answer = guest.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert answer.status_code == 200, answer.text
        reported.extend(f"{method} {params}: …{_around(answer.text, word)}" for word in words if word in answer.text)
        shape = json.loads(answer.text.partition("data: ")[2] or answer.text)
        visited[method if "result" in shape else f"{method} refused"] += 1
        return shape.get("result", {})

    tools = [tool["name"] for tool in ask("tools/list")["tools"]]
    for tool in tools:
        for skill in SKILLS:
            ask("tools/call", name=tool, arguments={"skill": skill, "file_path": "b.txt", "query": skill})
            ask("tools/call", name=tool, arguments={"name": skill, "skill_name": skill, "file_path": "../b.txt"})
    ask("tools/call", name="nothing", arguments={})
    for resource in ask("resources/list")["resources"]:
        ask("resources/read", uri=resource["uri"])
        ask("resources/read", uri=f"{resource['uri']}/nothing")
    for prompt in ask("prompts/list")["prompts"]:
        ask("prompts/get", name=prompt["name"])
    for entry in ask("skills/list")["skills"]:
        ask("skills/get", uri=entry["uri"])
        ask("resources/directory/read", uri=entry["uri"].removesuffix("/SKILL.md"))
    ask("prompts/get", name="nothing")
    assert reported == []
    assert {"skill", "skills_list", "read_skill_file", "run_skill"} <= set(tools)
    assert visited["tools/call"] == len(tools) * len(SKILLS) * 2
    assert min(visited[name] for name in ("resources/read", "prompts/get", "skills/get", "resources/directory/read")) >= 3


@pytest.mark.both_databases
@pytest.mark.abuse("H3")
def test_workers_are_reported_without_their_machine(keyed: Any, guest: TestClient) -> None:
    admin = keyed.client()
    reported = guest.get("/api/v1/workers").json()["data"]
    if reported["reason"] is not None:  # no worker pools on SQLite
        assert reported["reason"] == "this server keeps no worker pools"
        assert "skillyard.db" in admin.get("/api/v1/workers").json()["data"]["reason"]
        return
    organisations = keyed.app.state.pool.organisations
    database = organisations.catalog("acme", keyed.app.state.pool.main.catalog).records().database
    WorkerRoster(database).join(f"{socket.gethostname()}-17-abc", ["default"], 4)
    (worker,) = guest.get("/api/v1/workers").json()["data"]["workers"]
    assert (worker["host"], worker["process"], worker["id"][:7]) == (None, None, "worker-")
    WorkerRoster(keyed.app.state.pool.database()).join("w1", ["default"], 4)
    (worker,) = admin.get("/api/v1/workers").json()["data"]["workers"]
    assert (worker["host"], worker["id"]) == (socket.gethostname(), "w1")
