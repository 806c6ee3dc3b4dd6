"""What clients of OAuth are allowed: codes and tokens are good once, for one client, for a time, and no longer than the key."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from skillyard.access import ApiKey, AuditLog, AuthorizationTerms, IssuedTokens, Keys, OAuthClient, OAuthStore
from skillyard.access.oauth_store import check_addresses, is_local, permitted_scopes, same_resource
from skillyard.database import ALL_TABLES, Database, oauth_clients, oauth_grants
from skillyard.errors import AuthorizationRefused, RecordNotFound, SkillyardError

BACK = "http://127.0.0.1:4711/callback"
RESOURCE = "http://127.0.0.1:8787/mcp"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.at

    def goes_on(self, **by: float) -> None:
        self.at += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def oauth(database: Database, clock: Clock) -> OAuthStore:
    """Nobody has allowed anything."""
    return OAuthStore(lambda: database, clock)


@pytest.fixture
def ada(keys: Keys) -> ApiKey:
    """Somebody's key."""
    return keys.create("ada", ["skills:read", "runs:execute", "skills:write"])[0]


def allow(oauth: OAuthStore, key: ApiKey, client: OAuthClient | None = None) -> tuple[OAuthClient, str]:
    """Somebody allows a client all it can be: the client, and the code."""
    client = client or oauth.register("Claude", [BACK])
    terms = AuthorizationTerms(("skills:read", "runs:execute"), RESOURCE, BACK, CHALLENGE)
    return client, oauth.allow(client, key.id, terms)[1]


def exchange(oauth: OAuthStore, client: OAuthClient, code: str, **other: Any) -> IssuedTokens:
    values = {"client_id": client.id, "redirect_uri": BACK, "verifier": VERIFIER, "resource": RESOURCE}
    return oauth.exchange(code, **values | other)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(AuthorizationRefused) as caught:
        call()
    return str(caught.value.details["oauth_error"])


def test_a_code_gives_tokens_that_do_what_was_allowed(oauth: OAuthStore, ada: ApiKey) -> None:
    client, code = allow(oauth, ada)
    issued = exchange(oauth, client, code)
    assert issued.scopes == ("skills:read", "runs:execute")
    assert oauth.find(issued.access) == (ada, ("skills:read", "runs:execute"))
    for other in (issued.refresh, code, issued.access[:-1], "", "syt_", "\0", "\udcff" * 300):
        assert oauth.find(other) is None
    (grant,) = oauth.grants("default", "ada")
    assert (grant.client_name, grant.key_name, grant.redirect_uri) == ("Claude", "ada", BACK)


def test_the_database_holds_nothing_that_lets_somebody_in(oauth: OAuthStore, ada: ApiKey, database: Database) -> None:
    client, code = allow(oauth, ada)
    issued = exchange(oauth, client, code)
    with database.read() as connection:
        kept = "\n".join(str(connection.execute(select(table)).all()) for table in ALL_TABLES.sorted_tables)
    assert client.id in kept
    assert [secret for secret in (code, issued.access, issued.refresh, VERIFIER) if secret in kept] == []


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"client_id": "client_other"}, "invalid_grant"),
        ({"redirect_uri": f"{BACK}/"}, "invalid_grant"),
        ({"verifier": "w" * 43}, "invalid_grant"),
        ({"verifier": "short"}, "invalid_grant"),
        ({"verifier": CHALLENGE}, "invalid_grant"),
        ({"resource": "http://127.0.0.1:8787/other"}, "invalid_target"),
    ],
)
def test_a_code_is_good_for_what_it_was_made_for_alone(
    oauth: OAuthStore, ada: ApiKey, other: dict[str, str], error: str
) -> None:
    client, code = allow(oauth, ada)
    assert error_of(lambda: exchange(oauth, client, code, **other)) == error
    assert oauth.find(exchange(oauth, client, code).access) is not None


def test_a_code_that_comes_twice_ends_what_it_gave(oauth: OAuthStore, ada: ApiKey, trail: AuditLog) -> None:
    client, code = allow(oauth, ada)
    issued = exchange(oauth, client, code)
    assert error_of(lambda: exchange(oauth, client, code)) == "invalid_grant"
    assert oauth.find(issued.access) is None
    assert error_of(lambda: oauth.refresh(issued.refresh, client_id=client.id)) == "invalid_grant"
    assert oauth.grants() == ()
    assert [(event.action, event.outcome) for event in trail.events(limit=1)] == [("oauth.reuse", "refused")]


def test_of_those_who_come_at_once_with_a_code_one_gets_tokens_and_loses_them(oauth: OAuthStore, ada: ApiKey) -> None:
    client, code = allow(oauth, ada)

    def attempt(_: int) -> object:
        try:
            return exchange(oauth, client, code)
        except AuthorizationRefused as error:
            return error.details["oauth_error"]

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(attempt, range(4)))
    (issued,) = [end for end in ends if isinstance(end, IssuedTokens)]
    assert ends.count("invalid_grant") == 3
    assert oauth.find(issued.access) is None


def test_a_code_a_token_and_a_grant_last_as_long_as_they_should(oauth: OAuthStore, ada: ApiKey, clock: Clock) -> None:
    client, code = allow(oauth, ada)
    clock.goes_on(minutes=5)
    assert error_of(lambda: exchange(oauth, client, code)) == "invalid_grant"
    issued = exchange(oauth, *allow(oauth, ada, client))
    clock.goes_on(minutes=59)
    assert oauth.find(issued.access) is not None
    clock.goes_on(minutes=1)
    assert oauth.find(issued.access) is None
    clock.goes_on(days=29)
    renewed = oauth.refresh(issued.refresh, client_id=client.id)
    assert oauth.find(renewed.access) is not None
    clock.goes_on(days=30)
    assert oauth.grants() == ()
    assert error_of(lambda: oauth.refresh(renewed.refresh, client_id=client.id)) == "invalid_grant"


def test_a_refresh_token_is_another_each_time_and_the_old_one_ends_all(oauth: OAuthStore, ada: ApiKey) -> None:
    client, code = allow(oauth, ada)
    first = exchange(oauth, client, code)
    second = oauth.refresh(first.refresh, client_id=client.id, resource=f"{RESOURCE}/")
    assert oauth.find(first.access) is None
    assert oauth.find(second.access) is not None
    assert error_of(lambda: oauth.refresh(second.refresh, client_id="client_other")) == "invalid_grant"
    assert oauth.find(second.access) is not None
    assert error_of(lambda: oauth.refresh(first.refresh, client_id=client.id)) == "invalid_grant"  # somebody has a copy
    assert oauth.find(second.access) is None
    assert error_of(lambda: oauth.refresh(second.refresh, client_id=client.id)) == "invalid_grant"


def test_a_client_may_ask_for_less_and_never_for_more(oauth: OAuthStore, ada: ApiKey) -> None:
    client, code = allow(oauth, ada)
    issued = oauth.refresh(exchange(oauth, client, code).refresh, client_id=client.id, scopes=["skills:read"])
    assert issued.scopes == ("skills:read",)
    assert oauth.find(issued.access) == (ada, ("skills:read",))
    assert error_of(lambda: oauth.refresh(issued.refresh, client_id=client.id, scopes=["admin"])) == "invalid_scope"
    assert len(oauth.refresh(issued.refresh, client_id=client.id).scopes) == 2  # what was allowed has not become less


def test_a_grant_ends_with_its_key(oauth: OAuthStore, ada: ApiKey, keys: Keys, database: Database) -> None:
    client, code = allow(oauth, ada)
    issued = exchange(oauth, client, code)
    _, unused = allow(oauth, ada, client)
    keys.revoke(ada.id)
    assert oauth.find(issued.access) is None
    assert error_of(lambda: exchange(oauth, client, unused)) == "invalid_grant"
    assert error_of(lambda: oauth.refresh(issued.refresh, client_id=client.id)) == "invalid_grant"
    with database.read() as connection:
        assert connection.execute(select(oauth_grants)).all() == []


def test_a_key_passes_on_what_it_may_itself_and_never_the_management(oauth: OAuthStore, keys: Keys) -> None:
    assert permitted_scopes((), ["admin"]) == ("skills:read", "runs:execute")
    assert permitted_scopes(("admin", "runs:execute"), ["admin"]) == ("skills:read", "runs:execute")
    assert permitted_scopes((), ["runs:execute"]) == ()  # who may not read can do nothing there
    assert permitted_scopes(("runs:execute", "skills:read"), ["skills:read", "skills:write"]) == ("skills:read",)
    assert permitted_scopes(("skills:write", "unheard"), ["admin"]) == ()
    reader = keys.create("reader", ["skills:read"])[0]
    client, code = allow(oauth, reader)
    assert oauth.find(exchange(oauth, client, code).access) == (reader, ("skills:read",))


@pytest.mark.parametrize("which", ["access", "refresh"])
def test_a_token_that_is_given_back_takes_the_other_with_it(oauth: OAuthStore, ada: ApiKey, which: str) -> None:
    client, code = allow(oauth, ada)
    issued = exchange(oauth, client, code)
    for token, client_id in ((getattr(issued, which), "client_other"), ("nonsense", client.id), ("", client.id)):
        oauth.revoke_token(token, client_id)
    assert oauth.find(issued.access) is not None
    oauth.revoke_token(getattr(issued, which), client.id)
    assert oauth.find(issued.access) is None
    assert error_of(lambda: oauth.refresh(issued.refresh, client_id=client.id)) == "invalid_grant"


def test_a_person_ends_what_they_allowed_and_nobody_elses(oauth: OAuthStore, ada: ApiKey, keys: Keys, trail: AuditLog) -> None:
    client, code = allow(oauth, ada)
    issued = exchange(oauth, client, code)
    keys.create("bob", ["skills:read"])
    (grant,) = oauth.grants()
    for reach in (("default", "bob"), ("acme", None), ("acme", "ada")):
        assert oauth.grants(*reach) == ()
        with pytest.raises(RecordNotFound):
            oauth.revoke(grant.id, *reach)
    assert oauth.find(issued.access) is not None
    assert oauth.revoke(grant.id, "default", "ada") == grant
    assert oauth.find(issued.access) is None
    assert [event.action for event in trail.events()][:2] == ["oauth.revoke", "keys.create"]


UNSAFE = [
    "javascript:alert(1)", "javascript://x/%0aalert(1)", "JavaScript:alert(1)", "data:text/html,x", "file:///etc/passwd",
    "vbscript:x",    "http://evil.example/cb", "http://127.0.0.1.evil.example/cb", "http://localhost@evil.example/cb", "https://a.example/cb#x",
    "https://user@a.example/cb", "https://", "https:///cb", "//a.example/cb", "/cb", "", "a b://c", "https://a.example/\ncb",
    "https://a.example\\@b.example/", "ms-msdt:/id", "intent://x", "cursor:callback", "https://a.example/" + "x" * 500,
    "http://127.0.0.1:99999/cb", "https://ä.example/cb", None, 7, ["https://a.example"],
]  # fmt: skip


@pytest.mark.parametrize("address", UNSAFE)
def test_nobody_is_sent_to_an_address_that_acts_or_cannot_be_told_apart(oauth: OAuthStore, address: object) -> None:
    assert error_of(lambda: oauth.register("x", ["https://a.example/cb", address])) == "invalid_redirect_uri"


def test_addresses_of_programs_are_taken_as_they_were_written(oauth: OAuthStore) -> None:
    fine = [
        "https://a.example/cb?x=1",
        "http://localhost:33418/",
        "http://[::1]:1/cb",
        "cursor://anysphere.cursor/cb",
        "com.a.b:/cb",
    ]
    assert check_addresses(fine) == tuple(fine)
    assert [is_local(one) for one in fine] == [False, True, True, True, True]
    for many in ([], ["https://a.example/cb"] * 11):
        assert error_of(lambda many=many: oauth.register("x", many)) == "invalid_redirect_uri"


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ("http://127.0.0.1:9/cb", True),
        ("http://127.0.0.1/cb", True),
        ("http://localhost:9/cb", False),
        ("http://127.0.0.1:9/cb/", False),
        ("http://127.0.0.1:9/cb?x=1", False),
        ("https://127.0.0.1:9/cb", False),
        ("http://127.0.0.1:9@evil.example/cb", False),
        ("http://x@127.0.0.1:9/cb", False),
        ("http://127.0.0.1:9/cb#x", False),
        ("http://127.0.0.1:0/cb", False),
        ("http://127.0.0.1:bad/cb", False),
        ("https://a.example:444/cb", False),
        ("https://a.example/cb", True),
        ("https://A.example/cb", False),
        (None, False),
    ],
)
def test_only_the_port_of_this_very_machine_may_be_another(oauth: OAuthStore, given: str | None, fits: bool) -> None:
    client = oauth.register("x", ["http://127.0.0.1:1/cb", "https://a.example/cb"])
    if fits:
        assert client.address(given) == given
    else:
        assert error_of(lambda: client.address(given)) == "invalid_request"
    assert oauth.register("x", [BACK]).address(None) == BACK


def test_a_name_cannot_pass_for_another_or_fill_the_page(oauth: OAuthStore) -> None:
    names = {
        "Cla\u202eude\u200b\n<script>\x1b[31m": "Claude <script>[31m",
        "": "a program without a name",
        "\u200b \n": "a program without a name",
    }
    for given, shown in names.items():
        assert oauth.register(given, [BACK]).name == shown
    assert len(oauth.register("x" * 10_000, [BACK]).name) <= 80


def test_clients_that_nobody_uses_are_forgotten_and_make_room(
    oauth: OAuthStore, ada: ApiKey, clock: Clock, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillyard.access.oauth_store._MOST_UNUSED", 5)
    used, _ = allow(oauth, ada)
    flood = []
    for number in range(9):
        clock.goes_on(seconds=1)
        flood.append(oauth.register(f"bot {number}", [BACK]))
    assert [oauth.client(one.id) is not None for one in flood] == [False] * 4 + [True] * 5
    assert oauth.client(used.id) is not None
    clock.goes_on(days=1)
    oauth.register("late", [BACK])
    with database.read() as connection:
        assert set(connection.execute(select(oauth_clients.c.name)).scalars()) == {"Claude", "late"}
    clock.goes_on(days=90)
    last = oauth.register("last", [BACK])
    assert [oauth.client(one.id) is not None for one in (used, last)] == [False, True]


def test_of_a_key_the_grants_that_are_used_stay(
    oauth: OAuthStore, ada: ApiKey, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillyard.access.oauth_store._MOST_GRANTS", 3)
    issued = []
    for _ in range(4):
        clock.goes_on(minutes=2)
        if issued:
            assert oauth.find(issued[0].access) is not None  # which notes that it is used
        issued.append(exchange(oauth, *allow(oauth, ada)))
    assert [oauth.find(one.access) is not None for one in issued] == [True, False, True, True]


def test_a_document_about_a_client_is_read_again_under_the_same_id(oauth: OAuthStore, clock: Clock) -> None:
    address = "https://a.example/client.json"
    first = oauth.keep_document(address, "A", [BACK])
    clock.goes_on(hours=2)
    oauth.keep_document(address, "B", ["https://a.example/cb"])
    found = oauth.client(address)
    assert found is not None
    assert (found.name, found.redirect_uris, found.created_at) == ("B", ("https://a.example/cb",), first.created_at)
    assert found.fetched_at == clock()
    with pytest.raises(SkillyardError):
        oauth.keep_document(address, "B", ["javascript:x"])


def test_resources_are_told_apart_by_what_matters() -> None:
    assert same_resource("HTTP://LOCALHOST:1/mcp/", "http://localhost:1/mcp")
    for other in (
        "http://localhost:2/mcp",
        "http://localhost:1/mcp/x",
        "http://localhost:1",
        "http://localhost:1/MCP",
        "http://[",
    ):
        assert not same_resource(other, "http://localhost:1/mcp")
