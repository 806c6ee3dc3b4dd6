"""A client of MCP finds its way from a refusal to a token that a person allowed, and nobody gets one in another way."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
import preloaded
import pytest
from fastapi import FastAPI
from lazily import Lazily
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.access import OAuthStore
from skillyard.network import GuardedResponse
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app
from skillyard.server.server_settings import OAuthSettings
from skillyard.times import utc_now

client_auth = Lazily("mcp.client.auth")

BASE = "http://127.0.0.1:8787"
BACK = "http://127.0.0.1:4711/callback"
ASKS = "/api/v1/oauth/authorization"
VERIFIER = "a-verifier-of-at-least-forty-three-characters"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


def register(nobody: TestClient, **other: Any) -> str:
    answer = nobody.post("/oauth/register", json={"client_name": "Claude", "redirect_uris": [BACK]} | other)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["client_id"])


def asked(client_id: str, **other: str | None) -> dict[str, str]:
    """The request of a client for a code."""
    query = {
        "client_id": client_id, "redirect_uri": BACK, "response_type": "code", "code_challenge": CHALLENGE,
        "code_challenge_method": "S256", "state": "a state", "resource": f"{BASE}/mcp",
    } | other  # fmt: skip
    return {name: value for name, value in query.items() if value is not None}


def sign_in(nobody: TestClient, key: str) -> None:
    assert nobody.post("/api/v1/session", json={"key": key}).status_code == 201
    nobody.headers["Origin"] = BASE


def decide(person: TestClient, client_id: str, *, allow: bool = True, **other: Any) -> dict[str, str]:
    """What a person decided, as the client hears it."""
    answer = person.post(ASKS, json={"request": asked(client_id), "allow": allow} | other)
    assert answer.status_code == 200, answer.text
    back = urlsplit(answer.json()["data"]["redirect_to"])
    assert f"{back.scheme}://{back.netloc}{back.path}" == BACK
    return dict(parse_qsl(back.query))


def exchange(nobody: TestClient, client_id: str, code: str, **other: str) -> Any:
    form = {"grant_type": "authorization_code", "client_id": client_id, "code": code, "code_verifier": VERIFIER}
    return nobody.post("/oauth/token", data=form | {"redirect_uri": BACK, "resource": f"{BASE}/mcp"} | other)


def tokens(keyed: Any, *scopes: str) -> tuple[str, dict[str, Any], TestClient]:
    """The client, its tokens, and the person who allowed them."""
    person = keyed.client(*scopes)
    client_id = register(keyed.nobody)
    answer = exchange(keyed.nobody, client_id, decide(person, client_id)["code"])
    assert answer.status_code == 200, answer.text
    return client_id, answer.json(), person


def mcp(nobody: TestClient, token: str, **other: Any) -> int:
    """The status of a request of MCP with that token."""
    headers = MCP_HEADERS | {"Authorization": f"Bearer {token}"}
    return int(nobody.post("/mcp", json=INITIALIZE, headers=headers, **other).status_code)


class Kept:
    """Where a client keeps what it got."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client_info: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client_info

    async def set_client_info(self, client_info: Any) -> None:
        self.client_info = client_info


@contextmanager
def serving(home: Path) -> Iterator[tuple[str, str]]:
    """A server in a process of its own that wants keys: its address, and the key of its admin."""
    command = [sys.executable, "-m", "skillyard"]
    made = preloaded.run(
        [*command, "keys", "create", "ada", "--scope", "admin", "--json"], capture_output=True, text=True, cwd=home, timeout=60
    )
    key = json.loads(made.stdout)["secret"]
    serve = [*command, "serve", "--port", "0", "--require-keys", "--json"]
    with preloaded.Popen(serve, stdout=subprocess.PIPE, text=True, cwd=home, env=dict(os.environ)) as process:
        try:
            yield str(json.JSONDecoder().raw_decode(process.stdout.readline())[0]["address"]), key
        finally:
            process.terminate()
            process.wait(60)


async def test_the_official_client_walks_through_all_of_it(home: Path, make_skill: Any) -> None:
    """With no word about OAuth: refused, it reads where to go, registers, sends the person, gets tokens and renews them."""
    make_skill(home / ".claude/skills", "weather", description="Tells the weather.")
    sent: list[str] = []
    with serving(home) as (address, key):

        async def person() -> Any:
            """Sign in on the page, look, and allow."""
            query = dict(parse_qsl(urlsplit(sent[-1]).query))
            async with httpx2.AsyncClient(base_url=address, headers={"Origin": address}, trust_env=False) as page:
                assert (await page.get(sent[-1], headers={"Accept": "text/html"})).status_code == 200
                assert (await page.get(ASKS, params=query)).status_code == 401
                await page.post("/api/v1/session", json={"key": key})
                reported = (await page.get(ASKS, params=query)).json()["data"]
                assert (reported["client_name"], reported["scopes"], reported["problem"]) == (
                    "Mine",
                    ["skills:read", "runs:execute"],
                    None,
                )
                answer = await page.post(ASKS, json={"request": query, "allow": True})
                back = dict(parse_qsl(urlsplit(answer.json()["data"]["redirect_to"]).query))
            return client_auth.AuthorizationCodeResult(**back)

        async def send(there: str) -> None:
            sent.append(there)

        kept = Kept()
        metadata = OAuthClientMetadata(client_name="Mine", redirect_uris=[BACK])
        provider = client_auth.OAuthClientProvider(f"{address}/mcp", metadata, kept, send, person)
        async with (
            httpx2.AsyncClient(auth=provider, trust_env=False, timeout=60) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("skill", {"skill": "weather"})
            assert "Tells the weather." in result.content[0].text  # type: ignore[union-attr] # it is text
            first = kept.tokens
            provider.context.token_expiry_time = 1  # as if the hour was over
            assert not (await client.call_tool("skill", {"skill": "weather"})).is_error
        assert (kept.tokens.access_token, kept.tokens.refresh_token) != (first.access_token, first.refresh_token)
        assert len(sent) == 1  # the person was asked once
        assert urlsplit(sent[0]).path == "/oauth/authorize"


def test_a_refusal_leads_to_where_tokens_are_given(keyed: Any) -> None:
    refused = keyed.nobody.post("/mcp", json={})
    reported = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers["www-authenticate"]))
    assert reported == {
        "realm": "skillyard",
        "resource_metadata": f"{BASE}/.well-known/oauth-protected-resource/mcp",
        "scope": "skills:read runs:execute",
    }
    wrong = keyed.nobody.post("/mcp", json={}, headers={"Authorization": "Bearer syt_wrong"})
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    resource = keyed.nobody.get(reported["resource_metadata"]).json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{BASE}/mcp", [BASE])
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/mcp"):
        server = keyed.nobody.get(path).json()
        assert server["issuer"] == BASE
        assert server["code_challenge_methods_supported"] == ["S256"]
        assert server["authorization_response_iss_parameter_supported"] is True
        assert {urlsplit(value).netloc for name, value in server.items() if name.endswith("_endpoint")} == {"127.0.0.1:8787"}


def test_the_metadata_names_no_host_that_is_not_the_server_s(keyed: Any) -> None:
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1:8787@evil.example"}):
        for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp", "/mcp"):
            answer = keyed.nobody.get(path, headers=headers)
            assert answer.status_code == 403, headers
            assert "evil" not in answer.text + str(answer.headers)
    for name in ("X-Forwarded-Host", "Forwarded"):
        answer = keyed.nobody.get("/.well-known/oauth-authorization-server", headers={name: "host=evil.example"})
        assert answer.json()["issuer"] == BASE


@pytest.mark.both_databases
def test_a_token_does_at_mcp_what_was_allowed_and_nothing_elsewhere(keyed: Any) -> None:
    client_id, issued, _ = tokens(keyed)
    assert (issued["token_type"], issued["expires_in"], issued["scope"]) == ("Bearer", 3600, "skills:read runs:execute")
    assert mcp(keyed.nobody, issued["access_token"]) == 200
    bearer = {"Authorization": f"Bearer {issued['access_token']}"}
    for path in (
        "/api/v1/skill-definitions",
        "/api/v1/keys",
        "/api/v1/oauth/grants",
        "/mirror/skillyard-mirror.json",
        "/mcp/x",
    ):
        assert keyed.nobody.get(path, headers=bearer).status_code == 401, path
    for name in ("access_token", "token", "key"):  # in an address it would be in logs
        assert keyed.nobody.post(f"/mcp?{name}={issued['access_token']}", json=INITIALIZE).status_code == 401
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": issued["refresh_token"]}
    assert keyed.nobody.post(f"/oauth/token?{urlencode(form)}", data={"x": "1"}).status_code == 400
    renewed = keyed.nobody.post("/oauth/token", data=form).json()
    assert mcp(keyed.nobody, renewed["access_token"]) == 200


@pytest.mark.parametrize(
    ("scopes", "runs"), [(("skills:read", "skills:write"), False), (("skills:read", "runs:execute"), True)]
)
def test_who_may_only_read_is_not_offered_to_run(
    script: Callable[..., Path], keyed: Any, scopes: tuple[str, ...], runs: bool
) -> None:
    script("print('{}')")
    _, issued, _ = tokens(keyed, *scopes)
    assert issued["scope"].split() == [scope for scope in scopes if scope != "skills:write"]
    headers = MCP_HEADERS | {"Authorization": f"Bearer {issued['access_token']}"}
    begun = keyed.nobody.post("/mcp", json=INITIALIZE, headers=headers).headers
    session = {name: begun[name] for name in ("mcp-session-id",) if name in begun}  # none where several servers answer
    answer = keyed.nobody.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers | session)
    assert answer.status_code == 200
    assert ("run_skill" in answer.text) == runs


def test_a_person_allows_less_than_was_asked_for(keyed: Any) -> None:
    person, client_id = keyed.client(), register(keyed.nobody)
    code = decide(person, client_id, scopes=["skills:read"])["code"]
    assert exchange(keyed.nobody, client_id, code).json()["scope"] == "skills:read"
    answer = person.post(ASKS, json={"request": asked(client_id), "allow": True, "scopes": ["admin"]})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_a_refusal_goes_back_to_the_client_and_into_the_audit_log(keyed: Any) -> None:
    person, client_id = keyed.client(), register(keyed.nobody)
    assert decide(person, client_id, allow=False) == {"error": "access_denied", "state": "a state", "iss": BASE}
    assert set(decide(person, client_id)) == {"code", "state", "iss"}
    events = person.get("/api/v1/audit").json()["data"]
    assert [(event["action"], event["outcome"]) for event in events][:2] == [
        ("oauth.allow", "success"),
        ("oauth.refuse", "refused"),
    ]
    assert events[0]["details"] == {"client": "Claude", "redirect_uri": BACK, "scopes": ["skills:read", "runs:execute"]}


def test_a_code_that_comes_twice_ends_the_tokens(keyed: Any) -> None:
    person, client_id = keyed.client(), register(keyed.nobody)
    code = decide(person, client_id)["code"]
    issued = exchange(keyed.nobody, client_id, code).json()
    assert mcp(keyed.nobody, issued["access_token"]) == 200
    again = exchange(keyed.nobody, client_id, code)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    keyed.app.state.credentials.forget()  # as after a second
    assert mcp(keyed.nobody, issued["access_token"]) == 401
    reused = person.get("/api/v1/audit?action=oauth.reuse").json()["data"]
    assert [event["outcome"] for event in reused] == ["refused"]


FAULTS = [
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": None}, "unsupported_response_type"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"scope": "admin skills:write"}, "invalid_scope"),
    ({"resource": "https://evil.example/mcp"}, "invalid_target"),
    ({"resource": f"{BASE}/api"}, "invalid_target"),
]


@pytest.mark.parametrize(("other", "error"), FAULTS)
def test_a_request_with_a_fault_is_shown_and_cannot_be_allowed(keyed: Any, other: dict[str, Any], error: str) -> None:
    person, client_id = keyed.client(), register(keyed.nobody)
    reported = person.get(ASKS, params=asked(client_id, **other)).json()["data"]
    assert reported["problem"]
    assert reported["scopes"] == []
    back = parse_qs(urlsplit(reported["redirect_to"]).query)
    assert reported["redirect_to"].startswith(f"{BACK}?")
    assert (back["error"], back["state"], back["iss"]) == ([error], ["a state"], [BASE])
    answer = person.post(ASKS, json={"request": asked(client_id, **other), "allow": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "authorization_refused")


@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "client_unknown"},
        {"client_id": "https://127.0.0.1/client.json"},
        {"client_id": "https://localhost/client.json"},
        {"client_id": "https://user@a.example/client.json"},
        {"client_id": "https://a.example/"},
        {"client_id": "https://a.example/../client.json"},
        {"client_id": "http://a.example/client.json"},
        {"redirect_uri": "https://evil.example/cb"},
        {"redirect_uri": f"{BACK}/../x"},
        {"redirect_uri": BACK.replace("127.0.0.1", "localhost")},
        {"redirect_uri": "javascript:alert(1)"},
    ],
)
def test_nobody_is_sent_where_the_client_is_not_known_to_be(fetching: Any, other: dict[str, str]) -> None:
    person, client_id = fetching.client(), register(fetching.nobody)
    answer = person.get(ASKS, params=asked(client_id) | other)
    assert (answer.status_code, answer.json()["code"]) == (400, "authorization_refused")
    assert "redirect_to" not in answer.text
    assert person.post(ASKS, json={"request": asked(client_id) | other, "allow": True}).status_code == 400


def test_the_port_of_this_machine_may_be_another_and_stays_that_of_the_code(keyed: Any) -> None:
    person, client_id, moved = keyed.client(), register(keyed.nobody), BACK.replace("4711", "50123")
    answer = person.post(ASKS, json={"request": asked(client_id, redirect_uri=moved), "allow": True})
    back = urlsplit(answer.json()["data"]["redirect_to"])
    assert back.netloc == "127.0.0.1:50123"
    code = parse_qs(back.query)["code"][0]
    assert exchange(keyed.nobody, client_id, code).json()["error"] == "invalid_grant"
    assert exchange(keyed.nobody, client_id, code, redirect_uri=moved).status_code == 200


def test_no_page_from_elsewhere_allows_anything(keyed: Any) -> None:
    client_id = register(keyed.nobody)
    sign_in(keyed.nobody, keyed.key())
    body = {"request": asked(client_id), "allow": True}
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert keyed.nobody.post(ASKS, json=body, headers=headers).status_code == 403, headers
    del keyed.nobody.headers["Origin"]
    assert keyed.nobody.post(ASKS, json=body).status_code == 403  # the cookie alone
    assert keyed.nobody.get(ASKS, params=asked(client_id)).status_code == 200
    page = keyed.nobody.get("/oauth/authorize", params=asked(client_id), headers={"Accept": "text/html"})
    assert page.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert keyed.client().get("/api/v1/oauth/grants").json()["data"] == []


def test_a_person_and_an_admin_end_what_was_allowed(keyed: Any) -> None:
    _, issued, person = tokens(keyed, "skills:read")
    (grant,) = person.get("/api/v1/oauth/grants").json()["data"]
    assert (grant["client_name"], grant["scopes"]) == ("Claude", ["skills:read"])
    other, admin, acme = keyed.client("skills:read"), keyed.client(), keyed.client(organisation="acme")
    for somebody in (other, acme):
        assert somebody.get("/api/v1/oauth/grants").json()["data"] == []
        assert somebody.delete(f"/api/v1/oauth/grants/{grant['id']}").status_code == 404
    assert other.get("/api/v1/oauth/grants?everybody=true").status_code == 403
    assert acme.get("/api/v1/oauth/grants?everybody=true").json()["data"] == []
    assert admin.get("/api/v1/oauth/grants?everybody=true").json()["data"] == [grant]
    assert mcp(keyed.nobody, issued["access_token"]) == 200
    assert person.delete(f"/api/v1/oauth/grants/{grant['id']}").status_code == 200
    assert mcp(keyed.nobody, issued["access_token"]) == 401
    assert admin.get("/api/v1/audit?action=oauth.revoke").json()["data"][0]["details"]["client"] == "Claude"


def test_a_key_that_is_revoked_ends_the_tokens_at_once(keyed: Any) -> None:
    client_id, issued, person = tokens(keyed)
    assert mcp(keyed.nobody, issued["access_token"]) == 200
    (grant,) = person.get("/api/v1/oauth/grants").json()["data"]
    assert keyed.client().delete(f"/api/v1/keys/{grant['key_id']}").status_code == 200
    assert mcp(keyed.nobody, issued["access_token"]) == 401
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": issued["refresh_token"]}
    assert keyed.nobody.post("/oauth/token", data=form).json()["error"] == "invalid_grant"


def test_a_token_is_refused_when_its_hour_is_over(keyed: Any) -> None:
    _, issued, _ = tokens(keyed)
    credentials = keyed.app.state.credentials
    credentials.oauth = OAuthStore(credentials.oauth.database, lambda: utc_now() + timedelta(hours=1))
    assert mcp(keyed.nobody, issued["access_token"]) == 401


def test_a_client_gives_its_token_back(keyed: Any) -> None:
    client_id, issued, _ = tokens(keyed)
    for token in ("nonsense", issued["access_token"], issued["access_token"]):
        answer = keyed.nobody.post("/oauth/revoke", data={"token": token, "client_id": client_id, "token_type_hint": "x"})
        assert (answer.status_code, answer.content) == (200, b"")
    assert mcp(keyed.nobody, issued["access_token"]) == 401


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "invalid_client_metadata"),
        (b"[]", "invalid_client_metadata"),
        (b"\xff", "invalid_client_metadata"),
        (b"[" * 9_000, "invalid_client_metadata"),
        (b'{"redirect_uris": []}', "invalid_redirect_uri"),
        (b'{"redirect_uris": ["javascript:alert(1)"]}', "invalid_redirect_uri"),
        (b'{"redirect_uris": ["https://a.example"], "client_name": {"a": 1}}', "invalid_client_metadata"),
        (b'{"redirect_uris": ["https://a.example"], "grant_types": ["client_credentials"]}', "invalid_client_metadata"),
        (b'{"redirect_uris": ["https://a.example"], "response_types": ["token"]}', "invalid_client_metadata"),
        (b'{"client_name": "' + b"x" * 20_000 + b'"}', "invalid_request"),
    ],
)
def test_what_describes_no_client_is_refused_in_the_words_of_the_protocol(keyed: Any, body: bytes, error: str) -> None:
    answer = keyed.nobody.post("/oauth/register", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (413 if error == "invalid_request" else 400, error)
    assert re.fullmatch(r"[ -!#-\[\]-~]+", answer.json()["error_description"])
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ("", "invalid_request"),
        ("client_id=c&grant_type=password&username=a&password=b", "unsupported_grant_type"),
        ("client_id=c&grant_type=client_credentials", "unsupported_grant_type"),
        ("client_id=c&grant_type=authorization_code&code=x", "invalid_request"),
        ("client_id=c&grant_type=authorization_code&code=x&code_verifier=y", "invalid_grant"),
        ("client_id=c&client_id=d&grant_type=authorization_code&code=x&code_verifier=y", "invalid_request"),
        ("client_id=c&grant_type=refresh_token&refresh_token=%00%ff", "invalid_grant"),
        ("&".join(f"a{number}=1" for number in range(60)), "invalid_request"),
    ],
)
def test_what_asks_for_no_token_is_refused_in_the_words_of_the_protocol(keyed: Any, form: str, error: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": "Basic Yzpk"}
    answer = keyed.nobody.post("/oauth/token", content=form, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert keyed.nobody.post("/oauth/token", json={"client_id": "c"}).json()["error"] == "invalid_request"


def test_a_flood_of_clients_from_one_address_is_stopped(keyed: Any) -> None:
    answers = [keyed.nobody.post("/oauth/register", json={"redirect_uris": [BACK]}).status_code for _ in range(62)]
    assert answers[:60] == [201] * 60
    assert answers[60:] == [429] * 2


def test_a_client_is_public_whatever_it_asks_for_and_its_name_is_one_line(keyed: Any) -> None:
    reported = {
        "redirect_uris": [BACK], "client_name": "A\n\u202eB<b>" + "x" * 100, "scope": "admin",
        "token_endpoint_auth_method": "client_secret_basic", "logo_uri": "https://evil.example/x.png", "client_id": "mine",
    }  # fmt: skip
    answer = keyed.nobody.post("/oauth/register", json=reported).json()
    assert (answer["token_endpoint_auth_method"], answer["scope"]) == ("none", "skills:read runs:execute")
    assert answer["client_name"].startswith("A B<b>xx")
    assert len(answer["client_name"]) <= 80
    assert not {"client_secret", "logo_uri"} & set(answer)
    assert answer["client_id"] != "mine"


def test_wrong_tokens_are_slowed_down_apart_from_wrong_keys(keyed: Any) -> None:
    answers = [mcp(keyed.nobody, f"syt_{number}") for number in range(180)]  # two a second become allowed again meanwhile
    assert answers[:120] == [401] * 120
    assert 429 in answers[120:]
    assert keyed.client().get("/api/v1/skill-definitions").status_code == 200


@pytest.fixture
def fetching(keyed: Any) -> Any:
    """A server that wants keys, and fetches documents about clients."""
    settings = replace(keyed.app.state.settings, oauth=OAuthSettings(client_documents=True))
    keyed.app.state = replace(keyed.app.state, settings=settings)
    return keyed


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Give a function that puts what it is given at every address; and the addresses that were asked."""
    asked_for: list[str] = []

    def put(reported: Any, status: int = 200) -> list[str]:
        async def answer(method: str, url: str, **other: Any) -> GuardedResponse:
            asked_for.append(url)
            assert (method, other["allow"], "allow_private" in other) == ("GET", ["a.example"], False)
            return GuardedResponse(status, {}, reported if isinstance(reported, bytes) else json.dumps(reported).encode())

        monkeypatch.setattr("skillyard.server.routes.credential_routes.guarded_request", answer)
        return asked_for

    return put


def test_a_client_is_known_by_the_document_at_its_address(fetching: Any, document: Callable[..., list[str]]) -> None:
    address, person = "https://a.example/client.json", fetching.client()
    asked_for = document({"client_id": address, "client_name": "Claude Code", "redirect_uris": [BACK]})
    assert fetching.nobody.get(ASKS, params=asked(address)).status_code == 401
    assert asked_for == []  # nobody makes the server fetch without a key
    reported = person.get(ASKS, params=asked(address)).json()["data"]
    assert (reported["client_name"], reported["client_host"], reported["local"]) == ("Claude Code", "a.example", True)
    assert exchange(fetching.nobody, address, decide(person, address)["code"]).status_code == 200
    assert asked_for == [address]
    credentials = fetching.app.state.credentials
    credentials.oauth = OAuthStore(credentials.oauth.database, lambda: utc_now() + timedelta(hours=1))
    assert person.get(ASKS, params=asked(address)).status_code == 200
    assert asked_for == [address] * 2


@pytest.mark.parametrize(
    ("reported", "status"),
    [
        ({"client_id": "https://b.example/client.json", "redirect_uris": [BACK]}, 200),
        ({"client_id": "https://a.example/client.json", "redirect_uris": ["javascript:x"]}, 200),
        ({"client_id": "https://a.example/client.json", "redirect_uris": BACK}, 200),
        ({"client_id": "https://a.example/client.json", "redirect_uris": [BACK]}, 302),
        ([], 200),
        (b"\xff", 200),
        (b"[" * 5_000, 200),
    ],
)
def test_what_stands_there_and_describes_no_client_is_refused(
    fetching: Any, document: Callable[..., list[str]], reported: Any, status: int
) -> None:
    document(reported, status)
    answer = fetching.client().get(ASKS, params=asked("https://a.example/client.json"))
    assert (answer.status_code, answer.json()["code"]) == (400, "authorization_refused")


def _app(home: Path, *, keys: bool, settings: str = "") -> FastAPI:
    (home / ".config/skillyard").mkdir(parents=True, exist_ok=True)
    (home / ".config/skillyard/skillyard.toml").write_text(settings, "utf-8")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    return create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=keys))


@pytest.mark.parametrize(("keys", "settings"), [(False, ""), (True, "[server]\noauth = { enabled = false }\n")])
def test_nothing_of_it_is_there_where_it_is_not_offered(home: Path, keys: bool, settings: str) -> None:
    with TestClient(_app(home, keys=keys, settings=settings), base_url=BASE) as client:
        for method, path in (
            ("GET", "/.well-known/oauth-authorization-server"), ("POST", "/oauth/register"), ("POST", "/oauth/token"),
            ("POST", "/oauth/revoke"),
        ):  # fmt: skip
            answer = client.request(method, path, json={})
            assert answer.status_code == 404, path
        resource = client.get("/.well-known/oauth-protected-resource/mcp").json()
        assert "authorization_servers" not in resource
        if keys:
            assert "scope=" not in client.post("/mcp", json={}).headers["www-authenticate"]
        else:
            assert client.get(ASKS, params=asked("client_x")).json()["code"] == "not_offered"


@pytest.mark.parametrize(
    ("settings", "fetched"), [("", False), ("[server]\noauth = { client-documents = true }\n", True)], ids=["usual", "told"]
)
def test_documents_about_clients_are_fetched_where_the_operator_says_so(
    home: Path, document: Callable[..., list[str]], settings: str, fetched: bool
) -> None:
    address = "https://a.example/client.json"
    asked_for = document({"client_id": address, "redirect_uris": [BACK]})
    app = _app(home, keys=True, settings=settings)
    with TestClient(app, base_url=BASE) as client:
        reported = client.get("/.well-known/oauth-authorization-server").json()
        assert reported["client_id_metadata_document_supported"] is fetched
        key = app.state.credentials.keys.create("ada", ["admin"])[1]
        answer = client.get(ASKS, params=asked(address), headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == (200 if fetched else 400)
        assert asked_for == [address] * fetched
