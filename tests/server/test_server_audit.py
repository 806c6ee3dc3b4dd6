"""The trail: each change once, with who made it and from where, and each that was refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

DEFINITIONS = "/api/v1/skill-definitions"
CATALOG = "/api/v1/catalog"
AUDIT = "/api/v1/audit"
SCRIPT = {"scripts/add.py": "def execute(parameters):\n    return {'output': 1}\n"}
HEADER = "type: direct\nresources:\n  entry: ./scripts/add.py\n"


def _events(client: TestClient, **wanted: str) -> list[dict[str, Any]]:
    found = client.get(AUDIT, params=wanted)
    assert found.status_code == 200, found.text
    return list(found.json()["data"])


@pytest.mark.both_databases
@pytest.mark.parametrize("organisation", ["default", "ours"])
def test_each_change_is_recorded_once_with_who_made_it(keyed: Any, pack: Callable[..., bytes], organisation: str) -> None:
    admin = keyed.client("admin", organisation=organisation, name="ada")
    admin.headers["X-Request-Id"] = "req-1"
    archive = {"file": ("t.zip", pack("tidy", header=HEADER, files=SCRIPT))}
    new_skill, new_key = {"name": "mine", "description": "Says: x."}, {"name": "b", "scopes": ["admin"]}
    steps: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: admin.post(f"{DEFINITIONS}/upload-create", files=archive), "install", "tidy@"),
        (lambda: admin.post("/api/v1/runs", json={"skill": "installed:tidy"}), "runs.start", "installed:tidy"),
        (lambda: admin.delete(f"{DEFINITIONS}/tidy"), "uninstall", "tidy"),
        (lambda: admin.post(f"{DEFINITIONS}/tidy/rollback", json={}), "rollback", "tidy@"),
        (lambda: admin.post(CATALOG, json=new_skill), "catalog.create", "mine"),
        (lambda: admin.post(f"{CATALOG}/toggle", json={"skill": "mine"}), "catalog.toggle", "mine"),
        (lambda: admin.put(f"{CATALOG}/state", json={"skill": "mine", "state": "off"}), "catalog.set_state", "mine"),
        (lambda: admin.delete(CATALOG, params={"skill": "mine"}), "catalog.delete", "mine"),
        (lambda: admin.post("/api/v1/keys", json=new_key), "keys.create", "key_"),
    ]
    for change, action, subject in steps:
        seen = len(_events(admin))
        answer = change()
        assert answer.status_code < 300, answer.text
        event, *before = _events(admin)
        assert len(before) == seen, [one["action"] for one in before]
        assert (event["action"], event["outcome"], event["actor"]) == (action, "success", "ada")
        assert event["subject"].startswith(subject)
        assert (event["organisation"], event["request_id"], event["address"]) == (organisation, "req-1", "testclient")


def test_looking_leaves_no_trail_and_neither_does_what_could_not_be_understood(keyed: Any) -> None:
    admin = keyed.client("admin", name="ada")
    seen = len(_events(admin))
    for path in (DEFINITIONS, CATALOG, "/api/v1/runs", f"{CATALOG}/search?q=x", "/api/v1/keys", "/no/such"):
        admin.get(path)
    admin.post(f"{CATALOG}/refresh")
    admin.post("/api/v1/tools/call", json={"name": "skills_list"})
    admin.post("/api/v1/agents/prompt-preview", json={"name": "x"})
    admin.post(f"{CATALOG}/toggle", json={"skill": "none"})
    admin.post(f"{CATALOG}/toggle", json={"skil": "none"})
    admin.post("/api/v1/nothing")
    keyed.nobody.post(f"{CATALOG}/toggle", json={"skill": "none"})
    assert len(_events(admin)) == seen


def test_what_was_refused_is_recorded_with_what_it_would_have_needed(keyed: Any) -> None:
    admin = keyed.client("admin", name="ada")
    reader = keyed.client("skills:read", name="eve")
    reader.get("/api/v1/keys")
    reader.post("/api/v1/keys", json={"name": "x", "scopes": ["admin"]})
    reader.post(f"{CATALOG}/toggle", json={"skill": "pdf"})
    found = _events(admin, actor="eve")
    assert [(one["action"], one["outcome"], one["details"]) for one in found] == [
        ("catalog.toggle", "refused", {"needs": "skills:write"}),
        ("keys.create", "refused", {"needs": "admin"}),
        ("keys.list_keys", "refused", {"needs": "admin"}),
    ]
    assert _events(admin, actor="eve", outcome="refused") == found


def test_an_installation_that_fails_is_recorded_once_as_failed(keyed: Any, pack: Callable[..., bytes]) -> None:
    admin = keyed.client("admin", name="ada")
    answer = admin.post(f"{DEFINITIONS}/upload-create", files={"file": ("t.zip", pack("tidy", header="name: 3\nx: [\n"))})
    assert answer.status_code == 422
    assert [(one["action"], one["outcome"]) for one in _events(admin, actor="ada")] == [("install", "failed")]


def test_signing_in_is_recorded_in_the_name_of_the_key(keyed: Any) -> None:
    admin = keyed.client("admin", name="ada")
    keyed.nobody.post("/api/v1/session", json={"key": keyed.key("skills:read", name="bob")})
    keyed.nobody.post("/api/v1/session", json={"key": "sky_wrong"})
    assert [(one["actor"], one["outcome"]) for one in _events(admin, action="session.open")] == [("bob", "success")]


@pytest.mark.both_databases
def test_the_trail_is_paged_and_narrowed(keyed: Any) -> None:
    admin = keyed.client("admin", name="ada")
    for number in range(5):
        admin.post(CATALOG, json={"name": f"skill-{number}", "description": "Says: x."})
    first = admin.get(AUDIT, params={"action": "catalog.create", "limit": 2, "page": 1}).json()
    last = admin.get(AUDIT, params={"action": "catalog.create", "limit": 2, "page": 3}).json()
    assert first["meta"] == {"total": 5, "page": 1, "limit": 2, "totalPages": 3}
    assert [one["subject"] for one in first["data"] + last["data"]] == ["skill-4", "skill-3", "skill-0"]
    assert _events(admin, subject="skill-3")[0]["subject"] == "skill-3"
    assert _events(admin, since="2099-01-01T00:00:00Z") == []
    assert len(_events(admin, since="2020-01-01")) >= 5
    for wrong in ("yesterday", "0001-01-01T00:00:00+14:00"):
        assert admin.get(AUDIT, params={"since": wrong}).status_code == 400


def test_an_organisation_reads_its_own_trail_only(keyed: Any) -> None:
    ours, theirs = (keyed.client("admin", organisation=name, name=name) for name in ("ours", "theirs"))
    ours.post(CATALOG, json={"name": "mine", "description": "Says: x."})
    made = ours.post("/api/v1/keys", json={"name": "b", "scopes": ["skills:read"]}).json()["data"]["key"]
    assert [one["subject"] for one in _events(ours)] == [made["id"], "mine"]
    assert _events(theirs) == []
    server = keyed.client("admin", name="root")
    assert [one["actor"] for one in _events(server, action="keys.create", subject=made["id"])] == ["ours"]


def test_only_admins_read_the_trail(keyed: Any) -> None:
    assert keyed.client("skills:read", "skills:write", "runs:execute").get(AUDIT).status_code == 403


def test_what_an_installation_notes_of_who_made_it_is_the_key_s_name(keyed: Any, pack: Callable[..., bytes]) -> None:
    admin = keyed.client("admin", name="ada")
    admin.post(f"{DEFINITIONS}/upload-create", files={"file": ("t.zip", pack("tidy"))})
    version = admin.get(f"{DEFINITIONS}/tidy/versions").json()["data"][0]
    assert version["installed_by"] == "ada"


def test_what_nobody_thought_of_is_answered_in_one_shape_with_an_id_and_recorded(
    keyed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = keyed.client("admin", name="ada")

    def broken(*arguments: object) -> None:
        raise RuntimeError("secret text")

    monkeypatch.setattr(type(keyed.app.state.pool.main.catalog), "create", broken)
    calm = TestClient(keyed.app, base_url="http://127.0.0.1:8787", headers=admin.headers, raise_server_exceptions=False)
    answer = calm.post(CATALOG, json={"name": "mine", "description": "Says: x."})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret text" not in answer.text
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["x-frame-options"] == "DENY"
    event = _events(admin, action="catalog.create")[0]
    assert (event["outcome"], event["request_id"]) == ("failed", answer.headers["x-request-id"])


def test_records_are_found_by_words_and_by_days(keyed: Any) -> None:
    admin = keyed.client("admin", name="ada")
    for name in ("mine", "yours"):
        admin.post(CATALOG, json={"name": name, "description": "Says: x."})
    assert [one["subject"] for one in _events(admin, text="CREATE mine")] == ["mine"]
    assert {one["subject"] for one in _events(admin, text="ada catalog")} == {"mine", "yours"}
    assert _events(admin, text="100%") == []
    newest = _events(admin, limit="1")[0]["at"]
    assert _events(admin, until="2020-01-01T00:00:00Z") == []
    assert {one["subject"] for one in _events(admin, action="catalog.create", until="2990-01-01T00:00:00Z")} == {
        "mine",
        "yours",
    }
    assert all(one["at"] < newest for one in _events(admin, until=newest))
