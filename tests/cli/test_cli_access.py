"""Keys, organisations and the trail at the terminal."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.access import AuthorizationTerms, OAuthStore
from skillyard.database import Database

Call = Callable[..., Any]


def test_a_key_is_made_shown_once_listed_and_revoked(call: Call) -> None:
    assert "no keys" in call("keys").err
    made = call("keys", "create", "ci", "--scope", "skills:read", "runs:execute", "--expires", "90d")
    assert made.code == 0
    secret = made.out.strip()
    assert secret.startswith("sky_")
    assert "not shown again" in made.err
    [key] = call("keys", "list", "--json").data["keys"]
    assert (key["name"], key["scopes"], key["state"]) == ("ci", ["skills:read", "runs:execute"], "usable")
    days = datetime.fromisoformat(key["expires_at"]) - datetime.now(UTC)
    assert 88 < days.days < 91
    listing = call("keys").out
    assert "EXPIRES" in listing and str(key["expires_at"]) in listing
    assert key["id"] in listing
    assert secret not in listing
    assert call("keys", "revoke", key["id"], "--json").data["revoked"]["state"] == "revoked"
    assert call("keys", "--json").data["keys"][0]["state"] == "revoked"


def test_a_client_that_was_let_sign_in_is_listed_and_disconnected(call: Call, home: Path) -> None:
    assert "no client is signed in" in call("keys", "clients").err
    assert call("keys", "clients", "--json").data == {"clients": []}
    key = call("keys", "create", "ada", "--scope", "skills:read", "--json").data["key"]
    database = Database.open(Catalog.discover(roots=()).data_directory)
    oauth = OAuthStore(lambda: database)
    client = oauth.register("Claude Code", ["http://127.0.0.1/callback"])
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"v" * 43).digest()).decode().rstrip("=")
    terms = AuthorizationTerms(("skills:read",), "http://127.0.0.1:8787/mcp", client.redirect_uris[0], challenge)
    code = oauth.allow(client, key["id"], terms)[1]
    issued = oauth.exchange(code, client_id=client.id, redirect_uri=None, verifier="v" * 43, resource=None)
    [grant] = call("keys", "clients", "--json").data["clients"]
    assert (grant["client_name"], grant["key_name"], grant["scopes"]) == ("Claude Code", "ada", ["skills:read"])
    assert "Claude Code" in call("keys", "clients").out
    assert oauth.find(issued.access) is not None
    assert "disconnected Claude Code" in call("keys", "disconnect", grant["id"]).out
    assert oauth.find(issued.access) is None
    database.close()
    assert call("keys", "disconnect", grant["id"]).code == 1
    assert call("audit", "--json").data["events"][0]["action"] == "oauth.revoke"


@pytest.mark.parametrize(
    "arguments",
    [
        ("clients", "x"), ("disconnect",), ("disconnect", "x", "--scope", "admin"), ("create",),
        ("create", "ci"), ("create", "--scope", "admin"), ("revoke",), ("list", "x"), ("list", "--scope", "admin"),
        ("create", "ci", "--scope", "root"), ("create", "ci", "--scope", "admin", "--expires", "soon"),
        ("create", "ci", "--scope", "admin", "--expires", "0d"), ("revoke", "key_1", "--expires", "1d"),
    ],
)  # fmt: skip
def test_a_command_line_that_cannot_be_meant_makes_no_key(call: Call, arguments: tuple[str, ...]) -> None:
    answer = call("keys", *arguments)
    assert answer.code == 2
    assert call("keys", "--json").data == {"keys": []}


def test_what_is_not_there_is_an_error_with_a_way_out(call: Call) -> None:
    for arguments in (("keys", "revoke", "key_1"), ("audit", "--organisation", "acme"),
                      ("keys", "create", "ci", "--scope", "admin", "--organisation", "acme")):  # fmt: skip
        answer = call(*arguments)
        assert answer.code == 1
        assert answer.err.splitlines()[-1].startswith("hint: ")


def test_an_organisation_is_made_and_has_keys_and_a_trail_of_its_own(call: Call, home: Path) -> None:
    assert call("organisations", "create", "acme").code == 0
    assert call("organisations", "create", "acme").code == 1
    assert call("organisations", "create", "../acme").code == 1
    assert call("organisations", "create").code == 2
    found = call("organisations", "--json").data["organisations"]
    assert [one["name"] for one in found] == ["default", "acme"]
    assert found[1]["home"].endswith("/organisations/acme")
    call("keys", "create", "ci", "--scope", "admin", "--organisation", "acme")
    assert [key["organisation"] for key in call("keys", "--organisation", "acme", "--json").data["keys"]] == ["acme"]
    assert call("keys", "--organisation", "default", "--json").data["keys"] == []
    assert call("audit", "--organisation", "acme", "--json").data["events"] == []


def test_the_trail_tells_what_was_done_here(call: Call, tmp_path: Path, make_skill: Call) -> None:
    assert "no matching records" in call("audit").err
    folder = make_skill(tmp_path / "mine", "tidy")
    call("install", folder)
    assert call("update").out.startswith("unchanged tidy")  # no change, and so no record
    call("uninstall", "tidy")
    call("keys", "create", "ci", "--scope", "admin")
    actions = [event["action"] for event in call("audit", "--json").data["events"]]
    assert actions == ["keys.create", "uninstall", "install"]
    assert len(call("audit", "--subject", "tidy", "--json").data["events"]) == 2
    assert call("audit", "--action", "install", "--since", "1h", "--json").data["events"][0]["subject"].startswith("tidy@")
    assert call("audit", "--since", "2099-01-01", "--json").data["events"] == []
    assert call("audit", "--outcome", "refused", "--actor", "x", "--json").data["events"] == []
    assert "tidy" in call("audit").out
    for wrong in (("--since", "yesterday"), ("--since", "9999999w"), ("--limit", "0"), ("--outcome", "fine")):
        assert call("audit", *wrong).code == 2


def test_what_is_switched_deleted_and_agreed_to_here_leaves_a_trail_too(call: Call, home: Path) -> None:
    call("new", "tidy", "--description", "Tidies up. Use when something is to be tidied.")
    for command in (("disable", "tidy"), ("enable", "tidy"), ("delete", "tidy", "--yes")):
        assert call(*command).code == 0
    events = call("audit", "--json").data["events"]
    assert [(event["action"], event["subject"], event["outcome"]) for event in reversed(events)] == [
        ("catalog.disable", "user:tidy", "success"),
        ("catalog.enable", "user:tidy", "success"),
        ("catalog.delete", "user:tidy", "success"),
    ]


def test_a_change_stands_although_its_record_cannot_be_written(call: Call, home: Path, monkeypatch: Any) -> None:
    call("new", "tidy", "--description", "Tidies up. Use when something is to be tidied.")
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", "sqlite:////proc/nowhere/records.db")
    answer = call("disable", "tidy")
    assert (answer.code, "is now disabled" in answer.out) == (0, True)
    assert "not recorded in the audit log" in answer.err


def test_the_trail_is_pruned_by_age_and_by_number_and_says_so(call: Call, home: Path) -> None:
    for number in range(4):
        call("organisations", "create", f"team-{number}")
    assert call("audit", "prune", "--older-than", "1h", "--json").data == {"pruned": 0}
    assert "2 records deleted" in call("audit", "prune", "--keep", "2").out
    events = call("audit", "--json").data["events"]
    assert [(event["action"], event["subject"]) for event in events] == [
        ("audit.prune", "audit log"),
        ("organisations.create", "team-3"),
        ("organisations.create", "team-2"),
    ]
    assert events[0]["details"] == {"records": 2}
    wrong = (("prune",), ("--keep", "2"), ("prune", "--keep", "0"), ("prune", "--keep", "2", "--actor", "ada"))
    for arguments in wrong:
        assert call("audit", *arguments).code == 2


def test_a_webhook_is_made_shown_once_listed_and_removed(call: Call) -> None:
    assert "no webhooks" in call("webhooks").err
    made = call("webhooks", "create", "github-main", "--event", "github.push", "--id-field", "id")
    assert (made.code, made.out.startswith("whs_"), "not shown again" in made.err) == (0, True, True)
    assert made.out.strip() not in call("webhooks").out + call("webhooks", "--json").out
    (hook,) = call("webhooks", "--json").data["webhooks"]
    assert (hook["event"], hook["id_field"], hook["owner"]) == ("github.push", "id", "default/local user")
    assert call("webhooks", "create", "github-main", "--event", "a").code == 1
    for wrong in (("create", "a"), ("create",), ("remove",), ("list", "a"), ("remove", "a", "--id-field", "x")):
        assert call("webhooks", *wrong).code == 2
    assert call("webhooks", "create", "b", "--event", "github.*").code == 1
    assert call("webhooks", "remove", "github-main", "--json").data["removed"]["name"] == "github-main"
    assert call("webhooks", "remove", "github-main").code == 1
    actions = [event["action"] for event in call("audit", "--subject", "github-main", "--json").data["events"]]
    assert actions == ["webhooks.remove", "webhooks.create"]
