"""API keys and sessions: shown once, kept as hashes, and of no use when they have ended."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from skillyard.access import AuditLog, Keys, Organisations, SignInSessions
from skillyard.database import ALL_TABLES, Database, api_keys
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound


def test_a_key_is_found_by_its_secret_and_by_nothing_else(keys: Keys) -> None:
    made, secret = keys.create("ci", ["skills:read", "runs:execute"])
    assert re.fullmatch(r"sky_[0-9A-Za-z]{43}", secret)
    found = keys.find(secret)
    assert found is not None
    assert (found.id, found.scopes) == (made.id, ("skills:read", "runs:execute"))
    for wrong in ("", "sky_", secret[:-1], secret + "x", secret.lower(), made.id, "\0", "\udcff" * 300):
        assert keys.find(wrong) is None


def test_the_database_holds_nothing_that_lets_somebody_in(keys: Keys, sessions: SignInSessions, database: Database) -> None:
    key, secret = keys.create("ci", ["admin"])
    cookie, _ = sessions.open(key, timedelta(hours=1))
    with database.read() as connection:
        kept = "\n".join(str(connection.execute(select(table)).all()) for table in ALL_TABLES.sorted_tables)
    assert secret not in kept
    assert cookie not in kept
    assert key.prefix in kept
    assert len(key.prefix) <= 10


@pytest.mark.parametrize("lifetime", [None, timedelta(days=1)])
def test_a_key_that_was_revoked_holds_no_more_and_neither_do_its_sessions(
    keys: Keys, sessions: SignInSessions, lifetime: timedelta | None
) -> None:
    key, secret = keys.create("ci", ["skills:read"], lifetime=lifetime)
    cookie, _ = sessions.open(key, timedelta(hours=1))
    assert sessions.find(cookie) is not None
    assert keys.revoke(key.id).state == "revoked"
    assert keys.find(secret) is None
    assert sessions.find(cookie) is None
    first = keys.all()[0].revoked_at
    assert keys.revoke(key.id).revoked_at == first


def test_a_key_holds_until_its_time_is_over(keys: Keys, sessions: SignInSessions, database: Database) -> None:
    key, secret = keys.create("ci", ["skills:read"], lifetime=timedelta(days=1))
    cookie, ends = sessions.open(key, timedelta(days=30))
    assert ends == key.expires_at
    assert keys.find(secret) is not None
    with database.write() as connection:
        connection.execute(update(api_keys).values(expires_at=datetime.now(UTC)))
    assert keys.find(secret) is None
    assert sessions.find(cookie) is None
    assert keys.all()[0].state == "expired"
    assert keys.create("ci", ["skills:read"])[0].name == "ci"


def test_a_use_is_noted_at_most_once_a_minute(keys: Keys, database: Database) -> None:
    _, secret = keys.create("ci", ["skills:read"])
    assert keys.all()[0].last_used_at is None
    keys.find(secret)
    first = keys.all()[0].last_used_at
    assert first is not None
    keys.find(secret)
    assert keys.all()[0].last_used_at == first
    with database.write() as connection:
        connection.execute(update(api_keys).values(last_used_at=first - timedelta(seconds=61)))
    keys.find(secret)
    assert (keys.all()[0].last_used_at or first) >= first


@pytest.mark.parametrize(
    ("name", "scopes", "days"),
    [("", ["admin"], 1), ("  ", ["admin"], 1), ("x" * 81, ["admin"], 1), ("c", [], 1), ("c", ["root"], 1), ("c", ["admin"], 0)],
)  # fmt: skip
def test_what_cannot_be_a_key_is_refused_and_leaves_nothing(keys: Keys, name: str, scopes: list[str], days: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        keys.create(name, scopes, lifetime=timedelta(days=days))
    assert refused.value.hint
    assert keys.all() == ()


def test_a_name_stands_for_one_usable_key_of_an_organisation(keys: Keys, organisations: Organisations) -> None:
    organisations.create("acme")
    first, _ = keys.create("ci", ["skills:read"])
    keys.create("ci", ["skills:read"], organisation="acme")
    with pytest.raises(RecordExists):
        keys.create("ci", ["admin"])
    keys.revoke(first.id)
    keys.create("ci", ["admin"])
    assert [key.organisation for key in keys.all("acme")] == ["acme"]
    assert len(keys.all()) == 3


def test_a_key_is_revoked_only_by_its_own_organisation(keys: Keys, organisations: Organisations) -> None:
    organisations.create("acme")
    key, secret = keys.create("ci", ["skills:read"])
    for organisation, key_id in (("acme", key.id), (None, "key_none"), (None, "' OR 1=1 --")):
        with pytest.raises(RecordNotFound):
            keys.revoke(key_id, organisation)
    assert keys.find(secret) is not None


def test_only_an_admin_of_the_server_counts_as_one(keys: Keys, organisations: Organisations) -> None:
    organisations.create("acme")
    keys.create("a", ["admin"], organisation="acme")
    keys.create("b", ["skills:write"])
    assert not keys.has_admin()
    key, _ = keys.create("c", ["admin"])
    assert keys.has_admin()
    keys.revoke(key.id)
    assert not keys.has_admin()


def test_a_session_ends_with_its_time_and_when_somebody_signs_out(keys: Keys, sessions: SignInSessions) -> None:
    key, _ = keys.create("ci", ["skills:read"])
    cookie, _ = sessions.open(key, timedelta(hours=1))
    over, _ = sessions.open(key, timedelta(0))
    assert sessions.find(cookie) == key
    assert sessions.find(over) is None
    assert sessions.find("") is None
    sessions.close(cookie)
    sessions.close(cookie)
    assert sessions.find(cookie) is None


def test_keys_leave_a_trail(keys: Keys, trail: AuditLog) -> None:
    key, _ = keys.create("ci", ["skills:read"])
    keys.revoke(key.id)
    assert [(event.action, event.subject) for event in trail.events()] == [("keys.revoke", key.id), ("keys.create", key.id)]
