"""Who is let in: keys in either header, a cookie for a page, nobody else; and each only to what its scopes say."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app
from skillyard.server.application import ROUTERS
from skillyard.server.authorization import CLIENT, OPEN, WEBHOOK, scopes_of

LIST = "/api/v1/skill-definitions"
TOGGLE = "/api/v1/catalog/toggle"
SAME = {"Origin": "http://127.0.0.1:8787"}


def test_without_a_key_only_what_is_open_is_answered(keyed: Any) -> None:
    for path in ("/healthz", "/readyz", "/api/v1/session"):
        assert keyed.nobody.get(path).status_code == 200
    others = (LIST, "/openapi.json", "/no/such/place", "/.well-known/agent-skills/index.json", "/mirror/skillyard-mirror.json")
    for method, path in (*(("GET", path) for path in others), ("POST", TOGGLE), ("PUT", "/healthz")):
        answer = keyed.nobody.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (401, "sign_in_required"), path
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["hint"]


def test_a_client_of_mcp_is_told_where_it_is_written_how_to_authenticate(keyed: Any) -> None:
    server = keyed.nobody.get("/.well-known/oauth-protected-resource").json()
    for headers in ({}, {"Authorization": "Bearer sky_wrong"}):
        refused = keyed.nobody.post("/mcp", json={}, headers=headers)
        assert refused.status_code == 401
        (address,) = re.findall(r'^Bearer realm="skillyard", resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        reported = keyed.nobody.get(address).json()
        assert (
            reported["resource"] == address.replace("/.well-known/oauth-protected-resource", "") == f"{server['resource']}/mcp"
        )
        assert reported["bearer_methods_supported"] == ["header"]
        assert "runs:execute" in reported["scopes_supported"]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer {}"}, {"authorization": "bearer  {} "}, {"X-Api-Key": "{}"}], ids=["a", "b", "c"]
)
def test_a_key_is_good_in_either_header(keyed: Any, headers: dict[str, str]) -> None:
    secret = keyed.key("skills:read")
    given = {name: value.format(secret) for name, value in headers.items()}
    assert keyed.nobody.get(LIST, headers=given).status_code == 200


@pytest.mark.parametrize(
    "value", ["Bearer", "Bearer ", "Bearer sky_wrong", "Basic YTpi", "sky_x", "Bearer \xff", "Bearer " + "x" * 9000]
)
def test_what_is_no_key_is_refused(keyed: Any, value: str) -> None:
    answer = keyed.nobody.get(LIST, headers={"Authorization": value.encode("latin-1")})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("scopes", "answers"),
    [
        (["skills:read"], [200, 403, 403, 403]),
        (["skills:read", "skills:write"], [200, 404, 403, 403]),
        (["skills:read", "runs:execute"], [200, 403, 404, 403]),
        (["skills:write", "runs:execute"], [403, 403, 403, 403]),  # who may not look at skills can do nothing with them
        (["admin"], [200, 404, 404, 200]),
    ],
)
def test_a_scope_lets_somebody_do_what_it_says_and_no_more(keyed: Any, scopes: list[str], answers: list[int]) -> None:
    client = keyed.client(*scopes)
    found = [client.get(LIST), client.post(TOGGLE, json={"skill": "none"}), client.post("/api/v1/runs", json={"skill": "none"}),
             client.get("/api/v1/keys")]  # fmt: skip
    assert [answer.status_code for answer in found] == answers


def test_every_route_says_what_it_needs_or_that_it_is_open() -> None:
    routes = [route for router in ROUTERS[:-1] for route in router.routes]
    assert len(routes) > 170
    for route in routes:
        assert isinstance(route, APIRoute)
        is_open = (route.openapi_extra or {}).get("security") in (OPEN["security"], WEBHOOK["security"], CLIENT["security"])
        assert is_open != bool(scopes_of(route.dependencies)), f"{route.path} needs no scope and is not open"


def test_the_description_says_how_to_show_a_key_and_which_scope_a_route_needs(keyed: Any) -> None:
    found = keyed.client().get("/openapi.json").json()
    assert set(found["components"]["securitySchemes"]) == {"basic", "bearer", "key", "session", "signature", "secret"}
    assert {} not in found["security"]
    assert found["paths"]["/healthz"]["get"]["security"] == []
    assert found["paths"][LIST]["get"]["x-scopes"] == ["skills:read"]
    assert "admin" in found["paths"]["/api/v1/keys"]["post"]["x-scopes"]


def test_a_revoked_key_is_refused_at_once_by_the_server_that_revoked_it(keyed: Any) -> None:
    admin = keyed.client()
    made = admin.post("/api/v1/keys", json={"name": "bot", "scopes": ["skills:read"]}).json()["data"]
    bot = {"Authorization": f"Bearer {made['secret']}"}
    assert keyed.nobody.get(LIST, headers=bot).status_code == 200
    assert admin.delete(f"/api/v1/keys/{made['key']['id']}").json()["data"]["state"] == "revoked"
    assert keyed.nobody.get(LIST, headers=bot).status_code == 401


@pytest.mark.both_databases
def test_a_key_that_is_revoked_elsewhere_holds_a_second_at_most(keyed: Any) -> None:
    """Another process revoked it: this one learns of it when it looks again."""
    secret = keyed.key("skills:read")
    bot = {"Authorization": f"Bearer {secret}"}
    assert keyed.nobody.get(LIST, headers=bot).status_code == 200
    (known,) = [key for key in keyed.keys.all() if key.scopes == ("skills:read",)]
    keyed.keys.revoke(known.id)
    time.sleep(1)
    assert keyed.nobody.get(LIST, headers=bot).status_code == 401


def test_a_key_is_shown_once(keyed: Any) -> None:
    admin = keyed.client()
    answer = admin.post("/api/v1/keys", json={"name": "bot", "scopes": ["skills:read"], "expires_in_days": 3})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()["data"]
    assert made["key"]["expires_at"] > made["key"]["created_at"]
    assert made["secret"] not in admin.get("/api/v1/keys").text
    assert admin.post("/api/v1/keys", json={"name": "bot", "scopes": ["admin"]}).json()["code"] == "record_exists"
    assert admin.post("/api/v1/keys", json={"name": "b", "scopes": ["root"]}).status_code == 400


def test_wrong_keys_are_slowed_down_and_right_ones_of_late_are_not(keyed: Any) -> None:
    client = keyed.client("skills:read")
    assert client.get(LIST).status_code == 200
    codes = [keyed.nobody.get(LIST, headers={"Authorization": f"Bearer sky_{number}"}).status_code for number in range(12)]
    assert codes[:10] == [401] * 10
    assert codes[-1] == 429
    refused = keyed.nobody.get(LIST, headers={"Authorization": "Bearer sky_x"})
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert client.get(LIST).status_code == 200


def test_a_client_that_goes_on_with_a_revoked_key_is_slowed_down_alone(keyed: Any) -> None:
    secret = keyed.key("skills:read")
    keyed.keys.revoke(keyed.keys.find(secret).id)
    old = {"Authorization": f"Bearer {secret}"}
    codes = [keyed.nobody.get(LIST, headers=old).status_code for _ in range(12)]
    assert (codes[0], codes[-1]) == (401, 429)
    assert keyed.client("skills:read").get(LIST).status_code == 200


@pytest.mark.both_databases
def test_a_page_signs_in_is_known_by_its_cookie_and_signs_out(keyed: Any) -> None:
    secret = keyed.key("skills:read", "skills:write", name="ada")
    page = TestClient(keyed.app, base_url="http://127.0.0.1:8787")
    assert page.get("/api/v1/session").json()["data"]["caller"] is None
    answer = page.post("/api/v1/session", json={"key": secret}, headers=SAME)
    assert answer.status_code == 201
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/", "max-age="))
    assert "secure" not in cookie
    assert secret not in answer.headers["set-cookie"]
    reported = page.get("/api/v1/session").json()["data"]
    assert (reported["caller"], reported["organisation"], reported["local"], reported["session"]) == (
        "ada",
        "default",
        False,
        True,
    )
    assert reported["scopes"] == ["skills:read", "skills:write"]
    assert page.get(LIST).status_code == 200
    kept = TestClient(keyed.app, base_url="http://127.0.0.1:8787", cookies=dict(page.cookies))
    assert kept.get(LIST).status_code == 200
    assert page.delete("/api/v1/session", headers=SAME).status_code == 200
    assert not page.cookies
    assert kept.get(LIST).status_code == 401


def test_over_https_the_cookie_is_for_https_only(keyed: Any) -> None:
    secret = keyed.key("skills:read")
    page = TestClient(keyed.app, base_url="https://127.0.0.1:8787")
    answer = page.post("/api/v1/session", json={"key": secret}, headers={"Origin": "https://127.0.0.1:8787"})
    assert "; secure" in answer.headers["set-cookie"].lower()


def test_a_change_with_a_cookie_says_that_it_comes_from_our_page(keyed: Any) -> None:
    page = TestClient(keyed.app, base_url="http://127.0.0.1:8787")
    page.post("/api/v1/session", json={"key": keyed.key("admin")})
    change = {"json": {"name": "mine", "description": "Says: hello."}}
    assert page.post("/api/v1/catalog", **change).json()["code"] == "permission_denied"
    assert page.post("/api/v1/catalog", headers={"Origin": "https://evil.example"}, **change).status_code == 403
    assert (
        page.post("/api/v1/catalog", headers={"Sec-Fetch-Site": "cross-site", "X-Skillyard-CSRF": "1"}, **change).status_code
        == 403
    )
    assert page.get("/api/v1/catalog").json()["data"] == []
    assert page.post("/api/v1/catalog", headers={"X-Skillyard-CSRF": "1"}, **change).status_code == 201
    assert page.request("DELETE", "/api/v1/catalog?skill=mine", headers=SAME).status_code == 200


@pytest.mark.parametrize(("key", "status"), [("", 400), ("sky_wrong", 401), ("x" * 300, 400)])
def test_nobody_signs_in_with_a_wrong_key(keyed: Any, key: str, status: int) -> None:
    answer = keyed.nobody.post("/api/v1/session", json={"key": key})
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_a_page_whose_session_has_ended_may_sign_in_again(keyed: Any) -> None:
    page = TestClient(keyed.app, base_url="http://127.0.0.1:8787", cookies={"skillyard_session": "old"})
    assert page.get("/api/v1/session").json()["data"]["caller"] is None
    assert page.get(LIST).status_code == 401
    assert page.post("/api/v1/session", json={"key": keyed.key("skills:read")}).status_code == 201


def test_on_this_machine_without_a_key_it_is_the_local_user(client: TestClient) -> None:
    reported = client.get("/api/v1/session").json()["data"]
    assert (reported["caller"], reported["local"], "admin" in reported["scopes"]) == ("local user", True, True)


def test_keys_do_not_close_an_open_server_and_count_when_they_are_sent(app: FastAPI, client: TestClient) -> None:
    secret = client.post("/api/v1/keys", json={"name": "bot", "scopes": ["skills:read"]}).json()["data"]["secret"]
    bot = {"Authorization": f"Bearer {secret}"}
    assert client.get(LIST).status_code == 200
    assert client.get("/api/v1/session", headers=bot).json()["data"]["caller"] == "bot"
    assert client.post(TOGGLE, json={"skill": "x"}, headers=bot).status_code == 403
    assert client.get(LIST, headers={"Authorization": "Bearer sky_wrong"}).status_code == 401
    assert client.get(LIST, headers={"X-Api-Key": "what another service gave"}).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_who_comes_through_a_proxy_is_not_the_local_user(client: TestClient, header: str) -> None:
    assert client.get(LIST, headers={header: "203.0.113.9"}).status_code == 401


def test_a_server_for_others_answers_to_its_addresses_and_to_the_names_it_was_given(home: Any) -> None:
    catalog = Catalog.discover(roots=())
    access_policy = AccessPolicy.listening("0.0.0.0", allowed_hosts=["Skills.example.org:443"])
    client = TestClient(create_app(catalog, Registry.of(catalog), access_policy=access_policy))
    for host in ("127.0.0.1", "192.0.2.7:8787", "[2001:db8::1]:8787", "skills.example.org", "SKILLS.EXAMPLE.ORG:8787"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "skills.example.org.evil.example", "192.0.2.7.evil.example", "", "a@192.0.2.7", "0x7f.1"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 403, host
    assert client.get(LIST, headers={"Host": "127.0.0.1"}).status_code == 401


def test_a_link_from_elsewhere_may_be_followed_and_nothing_more(client: TestClient) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/healthz", headers=link).status_code == 200
    assert client.get("/healthz", headers=link | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert client.get("/healthz", headers=link | {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}).status_code == 403
    assert client.post(TOGGLE, headers=link, json={"skill": "x"}).status_code == 403


@pytest.mark.parametrize("given", ["abc-1.2:3", "x" * 128])
def test_a_request_keeps_its_id(client: TestClient, given: str) -> None:
    assert client.get("/healthz", headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\tb", "ä".encode().decode("latin-1")])
def test_a_request_without_a_usable_id_gets_one(client: TestClient, given: str) -> None:
    headers = {"X-Request-Id": given.encode("latin-1")}
    ids = {client.get("/no/such", headers=headers).headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2
    assert all(one.startswith("req_") for one in ids)


@pytest.mark.row("003-13")
def test_files_of_skills_are_data_and_never_a_page(client: TestClient, pack: Callable[..., bytes]) -> None:
    page = "<!doctype html><script>alert(1)</script>"
    files = {"page.html": page, "logo.svg": "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"}
    client.post(f"{LIST}/upload-create", files={"file": ("tidy.zip", pack(files=files))})
    for name in files:
        answer = client.get(f"{LIST}/tidy/files/{name}", headers={"Accept": "text/html"})
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert "script-src" not in answer.headers["content-security-policy"]
