"""Webhooks: addresses at which services without an API key report events, each with a secret of its own.

A service signs the body of its request with the secret (HMAC-SHA256, as GitHub does) or sends the secret itself. To check a
signature the secret has to be known, so it is kept as it is, not as a hash: with it somebody can report this one event and
nothing else. Every method is one transaction in the server's main database, and blocks.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, delete, insert, select, update

from skillyard.access.audit_log import DEFAULT_ORGANISATION, record_audit
from skillyard.access.keys import Keys, key_problem, new_secret
from skillyard.access.organisations import require_organisation
from skillyard.database import take_global_lock, webhooks
from skillyard.errors import InvalidInput, PermissionDenied, RecordExists, RecordNotFound, SignInRequired
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.database import Database


_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
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
        if not _NAME.fullmatch(name):
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
            if _find(connection, name=name):
                raise RecordExists(f"there is a webhook {name!r} already", hint="choose another name, or remove that one first")
            if len(_find(connection, organisation=organisation)) >= _FULL:
                raise InvalidInput(f"{organisation} has {_FULL} webhooks", hint="remove one that is not used any more")
            connection.execute(insert(webhooks).values({column: getattr(made, column) for column in _COLUMNS}))
            record_audit(connection, "webhooks.create", name, details={"event": event, "organisation": organisation})
        return made, made.secret

    def all(self, organisation: str | None = None) -> tuple[Webhook, ...]:
        """Every webhook by name, of one organisation or of all."""
        with self.database().read() as connection:
            return tuple(_find(connection, **({} if organisation is None else {"organisation": organisation})))

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
            found = _find(connection, name=name)
        known = found[0].secret if found else new_secret(_PREFIX)
        if signature is not None:
            right = _SIGNED + hmac.new(known.encode(), body, hashlib.sha256).hexdigest()
            valid = hmac.compare_digest(right.encode(), signature.strip().lower().encode("utf-8", "replace"))
        else:
            valid = hmac.compare_digest(known.encode(), (secret or "").encode("utf-8", "replace"))
        if not found or not valid:
            hint = "sign the body with the webhook's secret in X-Hub-Signature-256, or send the secret as bearer"
            raise SignInRequired("the signature or secret does not fit this address", hint=hint)
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
            raise PermissionDenied(f"the webhook {hook.name} is held: {problem}", hint="make it again with a key that holds")


_COLUMNS: Final = tuple(Webhook.__dataclass_fields__)


def _find(connection: Connection, **which: str) -> list[Webhook]:
    query = select(webhooks).order_by(webhooks.c.name)
    for column, value in which.items():
        query = query.where(webhooks.c[column] == value)
    return [Webhook(**{column: row[column] for column in _COLUMNS}) for row in connection.execute(query).mappings()]
