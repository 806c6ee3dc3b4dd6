"""OAuth for clients of MCP: which clients there are, what people allowed them, and the codes and tokens of that.

A client registers by itself, or its id is the address of a document about it. Somebody who has a key allows it some scopes:
that is a grant. Its code is exchanged once for an access token, which lives an hour, and a refresh token, which is another
after each use. What comes a second time (a code, or a refresh token that was replaced) was stolen from somebody: then the
grant ends, and with it all that was given out for it. A grant ends with its key, too, and permits no more than the key does.

The database has only hashes of codes and tokens. The oldest client that nobody ever allowed anything makes room for a new one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from skillyard.access.audit_log import record_audit
from skillyard.access.credentials import SCOPES, ApiKey, Scope, hash_secret, key_from_row, new_secret, same_hash
from skillyard.database import api_keys, insert_if_new, oauth_clients, oauth_grants, take_global_lock
from skillyard.errors import AuthorizationRefused, RecordNotFound
from skillyard.text import sanitize, shorten, single_line
from skillyard.times import utc_now
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.database import Database

OAUTH_SCOPES: Final[tuple[Scope, ...]] = ("skills:read", "runs:execute")
"""What a client may be allowed: all that MCP offers. No token manages keys or changes skills."""
TOKEN_PREFIX: Final = "syt_"  # noqa: S105 # not a secret
"""The prefix of every access token."""
ACCESS_LIFETIME: Final = timedelta(hours=1)
_CODE_PREFIX: Final = "syc_"
_REFRESH_PREFIX: Final = "syr_"
_CODE_LIFETIME: Final = timedelta(minutes=5)
_REFRESH_LIFETIME: Final = timedelta(days=30)
_UNUSED: Final = timedelta(days=1)  # a client that nobody allowed anything
_FORGOTTEN: Final = timedelta(days=90)  # one that somebody did
_MOST_UNUSED: Final = 1_000
_MOST_GRANTS: Final = 50  # of one key
_NOTED_EVERY: Final = timedelta(minutes=1)
_FAMILY: Final = 22  # random letters that all refresh tokens of a grant begin with: 131 bits

_MOST_ADDRESSES: Final = 10
_LONGEST: Final = 500
_NAME: Final = 80
_ADDRESS: Final = re.compile(r"[!-~]+")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{1,60}")
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ACTIVE_SCHEMES: Final = frozenset({
    "about", "blob", "chrome", "data", "feed", "file", "filesystem", "ftp", "intent", "jar", "javascript", "mailto", "mhtml",
    "mocha", "resource", "search-ms", "shell", "sms", "ssh", "tel", "telnet", "vbscript", "view-source", "ws", "wss",
})  # fmt: skip
"""Schemes that a browser or the system acts upon by itself; those of Windows that begin with `ms-` too."""
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


@dataclass(frozen=True, slots=True)
class OAuthClient(WireForm, times="seconds"):
    """A program that may ask people to let it sign in; nothing in it is proven but the host of an `id` that is an address."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    created_at: datetime
    fetched_at: datetime | None = None
    used_at: datetime | None = None

    def address(self, given: str | None) -> str:
        """The address to which an answer goes: exactly one of the client's; on this very machine the port may be another.

        Raises:
            AuthorizationRefused: it is none of them, or there are several and none was given.
        """
        if given is None and len(self.redirect_uris) == 1:
            return self.redirect_uris[0]
        if given is not None and (given in self.redirect_uris or any(_same_but_port(one, given) for one in self.redirect_uris)):
            return given
        raise refused("invalid_request", "the client has not registered this redirect address")


@dataclass(frozen=True, slots=True)
class OAuthGrant(WireForm, times="seconds"):
    """What a person allowed a client, with which key."""

    id: str
    client_id: str
    client_name: str
    redirect_uri: str
    scopes: tuple[Scope, ...]
    key_id: str
    key_name: str
    organisation: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class IssuedTokens(NamedTuple):
    """An access token, the refresh token that gives the next one, and what the first is good for."""

    access: str
    refresh: str
    scopes: tuple[Scope, ...]


class AuthorizationTerms(NamedTuple):
    """What is allowed: the scopes, at which address the tokens are used, where the code goes, and the client's challenge."""

    scopes: tuple[Scope, ...]
    resource: str
    redirect_uri: str
    challenge: str


def refused(error: str, message: str) -> AuthorizationRefused:
    """The error of OAuth with that code, such as `invalid_grant`."""
    return AuthorizationRefused(message, hint="let the client sign in again", oauth_error=error)


def permitted_scopes(asked: Iterable[str], key_scopes: Collection[Scope]) -> tuple[Scope, ...]:
    """Those of the asked scopes that a key can pass on; all that it can when none was asked for.

    Who may not read skills can do nothing at MCP, so `skills:read` is among them, or there are none.
    """
    asked = frozenset(asked)
    held = OAUTH_SCOPES if "admin" in key_scopes else key_scopes
    if "skills:read" not in held or (asked and asked.isdisjoint(OAUTH_SCOPES)):
        return ()
    return tuple(scope for scope in OAUTH_SCOPES if scope == "skills:read" or (scope in held and (not asked or scope in asked)))


def check_challenge(challenge: str | None, method: str | None) -> str:
    """The challenge of a request, which must be one of PKCE with S256.

    Raises:
        AuthorizationRefused: there is none, or another method.
    """
    if method != "S256" or not challenge or not _CHALLENGE.fullmatch(challenge):
        raise refused("invalid_request", "the request needs a code_challenge of PKCE with the method S256")
    return challenge


def _same_but_port(registered: str, given: str) -> bool:
    """Whether both are one address of this very machine, at whatever port (RFC 8252, 7.3)."""
    try:
        one, other = urlsplit(registered), urlsplit(given)
        ports = (one.port, other.port)
    except ValueError:
        return False
    if one.scheme != "http" or one.hostname not in _LOOPBACK or 0 in ports or not _is_plain(other, given):
        return False
    return one._replace(netloc=one.hostname) == other._replace(netloc=other.hostname or "")


def _is_plain(parts: SplitResult, address: str) -> bool:
    return "@" not in parts.netloc and not parts.fragment and len(address) <= _LONGEST and bool(_ADDRESS.fullmatch(address))


def is_local(address: str) -> bool:
    """Whether an address that was checked is one of the machine on which the person's browser is."""
    parts = urlsplit(address)
    return parts.scheme != "https" and (parts.scheme != "http" or parts.hostname in _LOOPBACK)


def check_addresses(addresses: Iterable[object]) -> tuple[str, ...]:
    """The addresses to which a client may be sent back, checked.

    Raises:
        AuthorizationRefused: there are none or too many, or one would be unsafe.
    """
    listed = list(addresses)
    if not 0 < len(listed) <= _MOST_ADDRESSES:
        raise refused("invalid_redirect_uri", f"a client needs 1 to {_MOST_ADDRESSES} redirect_uris")
    for address in listed:
        if not isinstance(address, str) or (problem := _address_problem(address)):
            problem = problem if isinstance(address, str) else "it is not text"
            raise refused("invalid_redirect_uri", f"one of the redirect_uris cannot be used: {problem}")
    return tuple(str(address) for address in listed)


def _address_problem(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return "it is not an address"
    if not _is_plain(parts, address) or not _SCHEME.fullmatch(parts.scheme) or "\\" in address:
        return f"an address has at most {_LONGEST} plain characters, no user and no fragment"
    if parts.scheme == "https":
        return None if parts.hostname else "it names no host"
    if parts.scheme == "http":
        return None if parts.hostname in _LOOPBACK else "http is for this very machine alone, use https"
    if parts.scheme in _ACTIVE_SCHEMES or parts.scheme.startswith("ms-"):
        return f"{parts.scheme}: is not an address of a program"
    return None if address[len(parts.scheme) :].startswith(":/") else "write it as scheme://place"


@dataclass(frozen=True, slots=True)
class OAuthStore:
    """The clients and grants of one server; `database` gives its main database, opened, and `now` the time.

    Its methods block. Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nobody is let in by that.
    """

    database: Callable[[], Database]
    now: Callable[[], datetime] = utc_now

    def register(self, name: str, redirect_uris: Iterable[object]) -> OAuthClient:
        """A new client, as it describes itself.

        Raises:
            AuthorizationRefused: one of its addresses would be unsafe.
        """
        client = OAuthClient(_new_id("client"), _client_name(name), check_addresses(redirect_uris), self.now())
        with self.database().write() as connection:
            self._prune(connection)
            connection.execute(insert(oauth_clients).values(_client_row(client)))
        return client

    def keep_document(self, address: str, name: str, redirect_uris: Iterable[object]) -> OAuthClient:
        """The client whose document is at `address`, as it was read now. Raises as `register`."""
        client = OAuthClient(address, _client_name(name), check_addresses(redirect_uris), self.now(), self.now())
        row = _client_row(client)
        with self.database().write() as connection:
            self._prune(connection)
            known = update(oauth_clients).where(oauth_clients.c.id == address)
            changed = {column: row[column] for column in ("name", "redirect_uris", "fetched_at")}
            if not connection.execute(known.values(changed)).rowcount:
                insert_if_new(connection, oauth_clients, [row])  # another process may have read it meanwhile
        return client

    def client(self, client_id: str) -> OAuthClient | None:
        """The client with that id; None when there is none, or it was forgotten."""
        with self.database().read() as connection:
            row = connection.execute(select(oauth_clients).where(oauth_clients.c.id == client_id)).mappings().first()
        return None if row is None else _client_of(row)

    def allow(self, client: OAuthClient, key_id: str, terms: AuthorizationTerms) -> tuple[str, str]:
        """Allow a client something with a key: the id of the grant, and its code, which is good once, for five minutes."""
        code, now = new_secret(_CODE_PREFIX), self.now()
        grant_id = _new_id("grant")
        row = terms._asdict() | {"scopes": list(terms.scopes), "id": grant_id, "client_id": client.id, "key_id": key_id}
        row |= {"code_hash": hash_secret(code), "created_at": now, "expires_at": now + _CODE_LIFETIME}
        with self.database().write() as connection:
            self._prune(connection)
            take_global_lock(connection)
            _make_room(connection, key_id)
            connection.execute(insert(oauth_grants).values(row))
            connection.execute(update(oauth_clients).where(oauth_clients.c.id == client.id).values(used_at=now))
            record_audit(connection, "oauth.allow", grant_id, details=_audit_details(client, terms))
        return grant_id, code

    def refuse(self, client: OAuthClient, terms: AuthorizationTerms) -> None:
        """Write down that somebody refused."""
        with self.database().write() as connection:
            record_audit(connection, "oauth.refuse", client.id, "refused", _audit_details(client, terms))

    def exchange(
        self, code: str, *, client_id: str, redirect_uri: str | None, verifier: str, resource: str | None
    ) -> IssuedTokens:
        """The tokens for a code.

        Raises:
            AuthorizationRefused: it is not this client's, has expired or was used, or something else than was asked for.
        """
        with self.database().write() as connection:
            row = _grant_row(connection, "code_hash", hash_secret(code), change=True)
            if row is None or not _is_usable(row, client_id):
                raise refused("invalid_grant", "the code is not valid")
            if row["code_used_at"] is None:
                self._check_exchange(row, redirect_uri, verifier, resource)
                return self._issue(connection, row, row["scopes"], new_secret()[:_FAMILY])
            _end_stolen(connection, row, "a code")
        raise refused("invalid_grant", "the code was used before: what was allowed with it has ended")

    def _check_exchange(self, row: RowMapping, redirect_uri: str | None, verifier: str, resource: str | None) -> None:
        if row["expires_at"] <= self.now():
            raise refused("invalid_grant", "the code has expired")
        if redirect_uri is not None and redirect_uri != row["redirect_uri"]:
            raise refused("invalid_grant", "the redirect_uri is another than that of the code")
        proof = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("utf-8", "replace")).digest()).decode().rstrip("=")
        if not _VERIFIER.fullmatch(verifier) or not same_hash(proof, row["challenge"]):
            raise refused("invalid_grant", "the code_verifier does not match the code")
        _check_resource(row, resource)

    def refresh(self, token: str, *, client_id: str, scopes: Collection[str] = (), resource: str | None = None) -> IssuedTokens:
        """New tokens for a refresh token, which is of no use any more then.

        Raises:
            AuthorizationRefused: it is not this client's, has ended or was used, or more is asked for than was allowed.
        """
        family = _family(token)
        with self.database().write() as connection:
            row = _grant_row(connection, "family_hash", hash_secret(family), change=True)
            if (
                row is None
                or row["client_id"] != client_id
                or row["expires_at"] <= self.now()
                or _key_of(row).state != "usable"
            ):
                raise refused("invalid_grant", "the refresh token is not valid any more")
            if same_hash(row["refresh_hash"], hash_secret(token)):
                if not set(scopes) <= set(row["scopes"]):
                    raise refused("invalid_scope", "the requested scopes exceed those that were allowed")
                _check_resource(row, resource)
                return self._issue(connection, row, [one for one in row["scopes"] if not scopes or one in scopes], family)
            _end_stolen(connection, row, "a refresh token")
        raise refused("invalid_grant", "the refresh token was used before: what was allowed with it has ended")

    def _issue(self, connection: Connection, row: RowMapping, scopes: Collection[str], family: str) -> IssuedTokens:
        """New tokens of a grant, in its row."""
        now, access = self.now(), new_secret(TOKEN_PREFIX)
        refresh = f"{_REFRESH_PREFIX}{family}{new_secret()}"
        values = {
            "code_used_at": row["code_used_at"] or now,
            "family_hash": hash_secret(family), "refresh_hash": hash_secret(refresh), "access_hash": hash_secret(access),
            "access_scopes": list(scopes), "access_expires_at": now + ACCESS_LIFETIME,
            "expires_at": now + _REFRESH_LIFETIME, "last_used_at": now,
        }  # fmt: skip
        connection.execute(update(oauth_grants).where(oauth_grants.c.id == row["id"]).values(values))
        connection.execute(update(oauth_clients).where(oauth_clients.c.id == row["client_id"]).values(used_at=now))
        return IssuedTokens(access, refresh, tuple(scope for scope in SCOPES if scope in scopes))

    def find(self, token: str) -> tuple[ApiKey, tuple[Scope, ...]] | None:
        """The key that an access token acts for, and the scopes that it has; None for everything else."""
        with self.database().read() as connection:
            row = _grant_row(connection, "access_hash", hash_secret(token))
        now = self.now()
        if row is None or row["access_expires_at"] <= now or (key := _key_of(row)).state != "usable":
            return None
        if row["last_used_at"] is None or now - row["last_used_at"] >= _NOTED_EVERY:
            with self.database().write() as connection:
                connection.execute(update(oauth_grants).where(oauth_grants.c.id == row["id"]).values(last_used_at=now))
        return key, permitted_scopes(row["access_scopes"], key.scopes)

    def revoke_token(self, token: str, client_id: str) -> None:
        """End the grant of an access or refresh token of that client; any other text changes nothing (RFC 7009)."""
        with self.database().write() as connection:
            row = _grant_row(connection, "access_hash", hash_secret(token))
            row = row or _grant_row(connection, "family_hash", hash_secret(_family(token)))
            if row is not None and row["client_id"] == client_id:
                _end(connection, row)

    def grants(self, organisation: str | None = None, key_name: str | None = None) -> tuple[OAuthGrant, ...]:
        """What is allowed now, of one organisation or of all, with keys of that name or with any; the newest first."""
        query = _GRANTS.where(oauth_grants.c.expires_at > self.now(), oauth_grants.c.family_hash.is_not(None))
        for column, value in ((api_keys.c.organisation, organisation), (api_keys.c.name, key_name)):
            if value is not None:
                query = query.where(column == value)
        with self.database().read() as connection:
            rows = connection.execute(query.order_by(oauth_grants.c.created_at.desc(), oauth_grants.c.id)).mappings().all()
        return tuple(_grant_of(row) for row in rows if _key_of(row).state == "usable")

    def revoke(self, grant_id: str, organisation: str | None = None, key_name: str | None = None) -> OAuthGrant:
        """End a grant: its tokens are refused from now on.

        Raises:
            RecordNotFound: there is none with that id, of that organisation and key name when they are given.
        """
        found = [one for one in self.grants(organisation, key_name) if one.id == grant_id]
        if not found:
            raise RecordNotFound(
                f"there is no signed-in client {single_line(grant_id)[:60]!r}",
                hint="`skillyard keys clients` lists them",
            )
        with self.database().write() as connection:
            row = _grant_row(connection, "id", grant_id)
            if row is not None:
                _end(connection, row)
        return found[0]

    def _prune(self, connection: Connection) -> None:
        """Forget what has ended a day ago, and clients that nobody uses."""
        now, client = self.now(), oauth_clients.c
        connection.execute(delete(oauth_grants).where(oauth_grants.c.expires_at <= now - _UNUSED))
        connection.execute(delete(oauth_clients).where(client.used_at.is_(None), client.created_at <= now - _UNUSED))
        connection.execute(delete(oauth_clients).where(client.used_at <= now - _FORGOTTEN))
        unused = select(client.id).where(client.used_at.is_(None))
        if connection.execute(select(func.count()).select_from(unused.subquery())).scalar_one() >= _MOST_UNUSED:
            kept = unused.order_by(client.created_at.desc(), client.id.desc()).limit(_MOST_UNUSED - 1)
            newest = frozenset(connection.execute(kept).scalars())
            oldest = [one for one in connection.execute(unused).scalars() if one not in newest]
            connection.execute(delete(oauth_clients).where(client.id.in_(oldest)))


_KEY_COLUMNS: Final = tuple(ApiKey.__dataclass_fields__)
_GRANTS: Final = (
    select(
        oauth_grants,
        oauth_clients.c.name.label("client_name"),
        *(api_keys.c[name].label(f"of_key_{name}") for name in _KEY_COLUMNS),
    )
    .join(oauth_clients, oauth_clients.c.id == oauth_grants.c.client_id)
    .join(api_keys, api_keys.c.id == oauth_grants.c.key_id)
)


def _grant_row(connection: Connection, column: str, value: str, *, change: bool = False) -> RowMapping | None:
    """The grant with that value, its client and its key; with `change` nobody else changes it before this transaction ends."""
    query = _GRANTS.where(oauth_grants.c[column] == value)
    row = connection.execute(query.with_for_update(of=oauth_grants) if change else query).mappings().first()
    return row if row is not None and same_hash(row[column], value) else None


def _is_usable(row: RowMapping, client_id: str) -> bool:
    return row["client_id"] == client_id and _key_of(row).state == "usable"


def _key_of(row: RowMapping) -> ApiKey:
    return key_from_row({name: row[f"of_key_{name}"] for name in _KEY_COLUMNS})


def _grant_of(row: RowMapping) -> OAuthGrant:
    key = _key_of(row)
    scopes = permitted_scopes(row["scopes"], key.scopes)
    return OAuthGrant(
        row["id"], row["client_id"], row["client_name"], row["redirect_uri"], scopes, key.id, key.name, key.organisation,
        row["created_at"], row["expires_at"], row["last_used_at"],
    )  # fmt: skip


def _client_row(client: OAuthClient) -> dict[str, Any]:
    row = {name: getattr(client, name) for name in OAuthClient.__dataclass_fields__}
    return row | {"redirect_uris": list(client.redirect_uris)}


def _client_of(row: RowMapping) -> OAuthClient:
    return OAuthClient(**dict(row) | {"redirect_uris": tuple(row["redirect_uris"])})


def _client_name(name: str) -> str:
    """What a client calls itself, as one short line without invisible characters."""
    return shorten(single_line(sanitize(name[:_LONGEST])).strip(), _NAME) or "a program without a name"


def _audit_details(client: OAuthClient, terms: AuthorizationTerms) -> dict[str, object]:
    return {"client": client.name, "redirect_uri": terms.redirect_uri, "scopes": list(terms.scopes)}


def _check_resource(row: RowMapping, resource: str | None) -> None:
    if resource is not None and not same_resource(resource, row["resource"]):
        raise refused("invalid_target", "the resource is another than the one that was allowed")


def same_resource(left: str, right: str) -> bool:
    """Whether two addresses name one resource: the case of a host and a slash at the end make no difference (RFC 8707)."""
    try:
        one, other = urlsplit(left), urlsplit(right)
    except ValueError:
        return False
    return one._replace(netloc=one.netloc.lower(), path=one.path.rstrip("/")) == other._replace(
        netloc=other.netloc.lower(), path=other.path.rstrip("/")
    )


def _make_room(connection: Connection, key_id: str) -> None:
    """End the grants of a key that were not used for longest, when it has too many."""
    of_key = select(oauth_grants.c.id).where(oauth_grants.c.key_id == key_id)
    recent = func.coalesce(oauth_grants.c.last_used_at, oauth_grants.c.created_at)
    kept = connection.execute(of_key.order_by(recent.desc()).limit(_MOST_GRANTS - 1)).scalars().all()
    connection.execute(delete(oauth_grants).where(oauth_grants.c.key_id == key_id, oauth_grants.c.id.not_in(kept)))


def _end_stolen(connection: Connection, row: RowMapping, what: str) -> None:
    connection.execute(delete(oauth_grants).where(oauth_grants.c.id == row["id"]))
    details = {"client": row["client_name"], "key": row["of_key_name"], "organisation": row["of_key_organisation"]}
    record_audit(connection, "oauth.reuse", row["id"], "refused", details | {"reason": f"{what} was used a second time"})


def _end(connection: Connection, row: RowMapping) -> None:
    connection.execute(delete(oauth_grants).where(oauth_grants.c.id == row["id"]))
    record_audit(connection, "oauth.revoke", row["id"], details={"client": row["client_name"], "key": row["of_key_name"]})


def _family(refresh_token: str) -> str:
    return refresh_token.removeprefix(_REFRESH_PREFIX)[:_FAMILY]


def _new_id(kind: str) -> str:
    return f"{kind}_{time.time_ns() // 1_000_000:012x}{os.urandom(8).hex()}"
