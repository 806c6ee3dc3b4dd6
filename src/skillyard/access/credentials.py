"""Credentials of callers: API keys with an organisation and scopes, sign-in sessions of pages, and webhooks with their secrets.

Secrets are made here with 256 random bits, so a fast hash is enough for keys: a slow one is for passwords. They are shown once
and kept as a hash. A person who signs in on a page gets a cookie instead of the key, so that no script of a page ever holds
it; the session ends when its time is over, when somebody signs out, and when its key is revoked or expires.

Webhooks are addresses at which services without an API key report events. A service signs the body of its request with the
secret (HMAC-SHA256, as GitHub does) or sends the secret itself. To check a signature the secret has to be known, so it is kept
as it is, not as a hash: with it somebody can report this one event and nothing else. Every method of either is one transaction
in the main database of the server, and blocks.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import string
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from skillyard.access.audit_log import DEFAULT_ORGANISATION, record_audit
from skillyard.access.organisations import require_organisation
from skillyard.database import api_keys, api_sessions, oauth_grants, take_global_lock, webhooks
from skillyard.errors import InvalidInput, PermissionDenied, RecordExists, RecordNotFound, SignInRequired
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.database import Database

_LETTERS: Final = string.digits + string.ascii_letters
_LENGTH: Final = 43  # 62 ** 43 is more than 2 ** 256
_LONGEST: Final = 200


def new_secret(prefix: str = "") -> str:
    """43 random letters and digits after `prefix`: one word, whole on a double click."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def hash_secret(secret: str) -> str:
    """What is kept of a secret, as hex; the same for everything that is longer than any secret."""
    return hashlib.sha256(secret[:_LONGEST].encode("utf-8", "surrogatepass")).hexdigest()


def same_hash(left: str, right: str) -> bool:
    """Compare two hashes in constant time."""
    return secrets.compare_digest(left, right)


Scope = Literal["skills:read", "skills:write", "skills:approve", "runs:execute", "workspaces:use", "admin"]
"""`skills:read` looks at skills and runs, `skills:write` changes skills and agents, `skills:approve` approves versions that
wait for it, `runs:execute` starts runs and keeps memories, `workspaces:use` works with commands and files in workspaces,
`admin` may all of that and manages keys, approvals and the audit log."""

KeyState = Literal["usable", "expired", "revoked"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
KEY_PREFIX: Final = "sky_"
"""The prefix of every key, by which people and scanners for leaked secrets recognise one."""

_SHOWN: Final = 10  # letters of a key that stay readable: too few to be of use
_NAME: Final = 80
_NOTED_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ApiKey(WireForm, also=("state",), times="seconds"):
    """A key as it is stored: never the key itself."""

    id: str
    name: str
    organisation: str
    scopes: tuple[Scope, ...]
    prefix: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def state(self) -> KeyState:
        """Whether it is valid now."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= datetime.now(UTC) else "usable"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one server; `database` gives its main database, opened.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nobody is let in by that.
    """

    database: Callable[[], Database]

    def create(
        self, name: str, scopes: Collection[str], *, organisation: str = DEFAULT_ORGANISATION, lifetime: timedelta | None = None
    ) -> tuple[ApiKey, str]:
        """A new key, and the secret that is its only copy; without a `lifetime` it is valid until it is revoked.

        Raises:
            InvalidInput: no name, no scope or an unknown one, or a lifetime that is none.
            RecordNotFound: there is no such organisation.
            RecordExists: a usable key of the organisation has that name.
        """
        secret, now = new_secret(KEY_PREFIX), datetime.now(UTC)
        key = ApiKey(
            f"key_{time.time_ns() // 1_000_000:012x}{os.urandom(5).hex()}", _checked_name(name), organisation,
            _checked_scopes(scopes), secret[:_SHOWN], now, _end(now, lifetime),
        )  # fmt: skip
        with self.database().write() as connection:
            take_global_lock(connection)
            require_organisation(connection, organisation)
            others = _find(connection, organisation=organisation)
            if any(other.name == key.name and other.state == "usable" for other in others):
                raise RecordExists(f"there is a key {key.name!r} already", hint="choose another name, or revoke that one first")
            row = {column: getattr(key, column) for column in _COLUMNS}
            connection.execute(insert(api_keys).values(row | {"scopes": list(key.scopes), "hash": hash_secret(secret)}))
            record_audit(connection, "keys.create", key.id, details={"name": key.name, "organisation": organisation})
        return key, secret

    def all(self, organisation: str | None = None) -> tuple[ApiKey, ...]:
        """Every key, of one organisation or of all, also those that are no longer valid, the newest first."""
        with self.database().read() as connection:
            return tuple(_find(connection, **({} if organisation is None else {"organisation": organisation})))

    def revoke(self, key_id: str, organisation: str | None = None) -> ApiKey:
        """Revoke a key, the sessions that were opened with it and what was allowed with it; once more changes nothing.

        Raises:
            RecordNotFound: there is no such key, in that organisation when one is given.
        """
        which = {"id": key_id} | ({} if organisation is None else {"organisation": organisation})
        with self.database().write() as connection:
            if not _find(connection, **which):
                raise RecordNotFound(f"there is no key {single_line(key_id)!r}", hint="`skillyard keys list` shows their ids")
            revoked = func.coalesce(api_keys.c.revoked_at, datetime.now(UTC))
            connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=revoked))
            for table in (api_sessions, oauth_grants):
                connection.execute(delete(table).where(table.c.key_id == key_id))
            revoked_key = _find(connection, id=key_id)[0]
            record_audit(connection, "keys.revoke", key_id, details={"name": revoked_key.name})
            return revoked_key

    def find(self, secret: str) -> ApiKey | None:
        """The usable key that `secret` is; None for everything else. Notes that it was used, at most once a minute."""
        hashed = hash_secret(secret)
        with self.database().read() as connection:
            found = _find(connection, hash=hashed)
        if not found or found[0].state != "usable":
            return None
        self._note_use(found[0])
        return found[0]

    def was_issued(self, secret: str) -> bool:
        """Whether `secret` is a key, or was one before it ended."""
        with self.database().read() as connection:
            return bool(_find(connection, hash=hash_secret(secret)))

    def has_admin(self) -> bool:
        """Whether the server can be managed: there is a usable key of the default organisation with the scope `admin`."""
        return any(key.state == "usable" and "admin" in key.scopes for key in self.all(DEFAULT_ORGANISATION))

    def _note_use(self, key: ApiKey) -> None:
        now = datetime.now(UTC)
        if key.last_used_at is None or now - key.last_used_at >= _NOTED_EVERY:
            with self.database().write() as connection:
                connection.execute(update(api_keys).where(api_keys.c.id == key.id).values(last_used_at=now))


def key_from_row(row: Mapping[str, Any] | RowMapping) -> ApiKey:
    """The key that a row of the table is."""
    values: dict[str, Any] = {column: row[column] for column in _COLUMNS}
    return ApiKey(**values | {"scopes": tuple(scope for scope in SCOPES if scope in row["scopes"])})


def key_problem(made_by: str, key: ApiKey | None) -> str | None:
    """Why nothing is begun any more for who made a schedule or webhook with that key; None while the key lets it."""
    if key is None:
        return f"the key of {made_by} no longer exists"
    if key.state != "usable":
        return f"the key of {made_by} {'was revoked' if key.state == 'revoked' else 'has expired'}"
    if not {"runs:execute", "admin"} & set(key.scopes):
        return f"the key of {made_by} lacks the scope runs:execute"
    return None


_COLUMNS: Final = tuple(ApiKey.__dataclass_fields__)


def _find(connection: Connection, **which: str) -> list[ApiKey]:
    query = select(api_keys).order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc())
    for column, value in which.items():
        query = query.where(api_keys.c[column] == value)
    rows = connection.execute(query).mappings().all()
    return [key_from_row(row) for row in rows if "hash" not in which or same_hash(row["hash"], which["hash"])]


def _checked_name(name: str) -> str:
    checked = single_line(name).strip()
    if not checked or len(checked) > _NAME:
        raise InvalidInput(f"a key needs a name of at most {_NAME} characters", hint="name it after who or what will use it")
    return checked


def _checked_scopes(scopes: Collection[str]) -> tuple[Scope, ...]:
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        message = f"{unknown[0]!r} is not a scope" if unknown else "a key needs at least one scope"
        raise InvalidInput(message, hint=f"scopes are {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in scopes)


def _end(now: datetime, lifetime: timedelta | None) -> datetime | None:
    if lifetime is None:
        return None
    try:
        end = now + lifetime
    except OverflowError:
        end = now
    if end <= now:
        raise InvalidInput("that is not a valid lifetime for a key", hint="give a number of days, such as 90")
    return end


_KEPT: Final = timedelta(days=1)  # the clock of the server that forgets may be ahead of the one that let somebody in


@dataclass(frozen=True, slots=True)
class SignInSessions:
    """The sessions of one server; `database` gives its main database, opened. Its methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nobody is let in by that.
    """

    database: Callable[[], Database]

    def open(self, key: ApiKey, lifetime: timedelta) -> tuple[str, datetime]:
        """A new session of the key: the secret for a cookie, and when it ends; what ended a day ago is forgotten."""
        secret, now = new_secret(), datetime.now(UTC)
        ends = min(now + lifetime, key.expires_at or now + lifetime)
        with self.database().write() as connection:
            connection.execute(delete(api_sessions).where(api_sessions.c.expires_at <= now - _KEPT))
            row = {"hash": hash_secret(secret), "key_id": key.id, "created_at": now, "expires_at": ends}
            connection.execute(insert(api_sessions).values(row))
        return secret, ends

    def find(self, secret: str) -> ApiKey | None:
        """The usable key whose session `secret` is; None for everything else."""
        hashed = hash_secret(secret)
        query = (
            select(api_keys, api_sessions.c.hash.label("session"), api_sessions.c.expires_at.label("ends"))
            .join(api_sessions, api_sessions.c.key_id == api_keys.c.id)
            .where(api_sessions.c.hash == hashed)
        )
        with self.database().read() as connection:
            row = connection.execute(query).mappings().first()
        if row is None or not same_hash(row["session"], hashed) or row["ends"] <= datetime.now(UTC):
            return None
        key = key_from_row(row)
        return key if key.state == "usable" else None

    def close(self, secret: str) -> None:
        """End a session; one that is not there is none."""
        with self.database().write() as connection:
            connection.execute(delete(api_sessions).where(api_sessions.c.hash == hash_secret(secret)))


_WEBHOOK_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_FIELD: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_FULL: Final = 200  # webhooks of one organisation
_PREFIX: Final = "whs_"
_SIGNED: Final = "sha256="


@dataclass(frozen=True, slots=True)
class Webhook(WireForm, times="seconds"):
    """An address for one source of events: what it reports happens as `event`, for `owner`, in the `organisation`.

    `id_field` names the field at the top of a body that has the id of the event; without one the body's digest is the id.
    `made_by` made it with the API key `key_id`, None at the server's machine.
    """

    name: str
    event: str
    organisation: str
    owner: str
    made_by: str
    created_at: datetime
    id_field: str | None = None
    key_id: str | None = None
    last_used_at: datetime | None = None
    secret: str = field(default="", repr=False, metadata=wire(hidden=True))

    def event_id(self, body: bytes, data: dict[str, object]) -> str:
        """The id of the event that a body reports: of what is signed, so that a repeated request is the same event.

        Raises:
            InvalidInput: the body has not got the field that is to have the id.
        """
        if self.id_field is None:
            return f"{self.name}:{hashlib.sha256(body).hexdigest()[:40]}"
        value = data.get(self.id_field)
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if not text or len(text) > 100 or not text.isprintable():
            raise InvalidInput(
                f"the body has no id of 1 to 100 characters in {self.id_field!r}",
                hint="send one, or make the webhook without a field",
            )
        return f"{self.name}:{text}"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks of one server; `database` gives its main database, opened.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used.
    """

    database: Callable[[], Database]

    def create(
        self,
        name: str,
        event: str,
        *,
        owner: str,
        made_by: str,
        organisation: str = DEFAULT_ORGANISATION,
        key_id: str | None = None,
        id_field: str | None = None,
    ) -> tuple[Webhook, str]:
        """A new webhook, and its secret, which is never shown again. The caller has checked that `event` is a type of events.

        Raises:
            InvalidInput: the name or the field cannot be one, or the organisation has two hundred.
            RecordNotFound: there is no such organisation.
            RecordExists: a webhook of the server has that name.
        """
        if not _WEBHOOK_NAME.fullmatch(name):
            hint = "lower-case letters, digits and single dashes inside, at most 63: github-main"
            raise InvalidInput(f"{single_line(name)[:60]!r} is not a valid name for a webhook", hint=hint)
        if id_field is not None and not _FIELD.fullmatch(id_field):
            raise InvalidInput("that is not the name of a field", hint="one at the top of the body: letters, digits, _ and -")
        made = Webhook(
            name, event, organisation, owner, made_by, datetime.now(UTC), id_field, key_id, secret=new_secret(_PREFIX)
        )
        with self.database().write() as connection:
            take_global_lock(connection)
            require_organisation(connection, organisation)
            if _find_webhooks(connection, name=name):
                raise RecordExists(f"there is a webhook {name!r} already", hint="choose another name, or remove that one first")
            if len(_find_webhooks(connection, organisation=organisation)) >= _FULL:
                raise InvalidInput(f"{organisation} has {_FULL} webhooks", hint="remove one that is not used any more")
            connection.execute(insert(webhooks).values({column: getattr(made, column) for column in _WEBHOOK_COLUMNS}))
            record_audit(connection, "webhooks.create", name, details={"event": event, "organisation": organisation})
        return made, made.secret

    def all(self, organisation: str | None = None) -> tuple[Webhook, ...]:
        """Every webhook by name, of one organisation or of all."""
        with self.database().read() as connection:
            return tuple(_find_webhooks(connection, **({} if organisation is None else {"organisation": organisation})))

    def get(self, name: str, organisation: str | None = None) -> Webhook:
        """One of them.

        Raises:
            RecordNotFound: there is no such webhook, in that organisation when one is given.
        """
        found = [one for one in self.all(organisation) if one.name == name]
        if not found:
            raise RecordNotFound(f"there is no webhook {single_line(name)[:60]!r}", hint="`skillyard webhooks` lists them")
        return found[0]

    def remove(self, name: str, organisation: str | None = None) -> Webhook:
        """Take nothing any more from that address; events that were reported stay in the records.

        Raises:
            RecordNotFound: there is no such webhook, in that organisation when one is given.
        """
        removed = self.get(name, organisation)
        with self.database().write() as connection:
            connection.execute(delete(webhooks).where(webhooks.c.name == name))
            record_audit(connection, "webhooks.remove", name, details={"organisation": removed.organisation})
        return removed

    def authenticated(self, name: str, body: bytes, *, signature: str | None, secret: str | None) -> Webhook:
        """The webhook that a request is for: `signature` is `sha256=` and the HMAC of the body as hex, or the secret was sent.

        Raises:
            SignInRequired: neither is right, or there is no such webhook: nobody learns which.
            PermissionDenied: the key with which it was made does not hold any more.
        """
        with self.database().read() as connection:
            found = _find_webhooks(connection, name=name)
        known = found[0].secret if found else new_secret(_PREFIX)
        if signature is not None:
            right = _SIGNED + hmac.new(known.encode(), body, hashlib.sha256).hexdigest()
            valid = hmac.compare_digest(right.encode(), signature.strip().lower().encode("utf-8", "replace"))
        else:
            valid = hmac.compare_digest(known.encode(), (secret or "").encode("utf-8", "replace"))
        if not found or not valid:
            hint = "sign the body with the webhook's secret in X-Hub-Signature-256, or send the secret as bearer"
            raise SignInRequired("the signature or secret is not valid for this address", hint=hint)
        self._require_maker(found[0])
        with self.database().write() as connection:
            used = update(webhooks).where(webhooks.c.name == name).values(last_used_at=datetime.now(UTC))
            connection.execute(used)
        return found[0]

    def _require_maker(self, hook: Webhook) -> None:
        if hook.key_id is None:
            return
        keys = {key.id: key for key in Keys(self.database).all(hook.organisation)}
        if problem := key_problem(hook.made_by, keys.get(hook.key_id)):
            raise PermissionDenied(
                f"the webhook {hook.name} is held: {problem}", hint="create it again with a key that is valid"
            )


_WEBHOOK_COLUMNS: Final = tuple(Webhook.__dataclass_fields__)


def _find_webhooks(connection: Connection, **which: str) -> list[Webhook]:
    query = select(webhooks).order_by(webhooks.c.name)
    for column, value in which.items():
        query = query.where(webhooks.c[column] == value)
    return [Webhook(**{column: row[column] for column in _WEBHOOK_COLUMNS}) for row in connection.execute(query).mappings()]
