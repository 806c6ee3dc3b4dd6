"""API keys over HTTP: list, make and revoke them. Admins of the server manage all keys, those of an organisation its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from skillyard.access import DEFAULT, SCOPES, ApiKey, KeyState, Trail
from skillyard.errors import PermissionDenied
from skillyard.server.authentication import Identities
from skillyard.server.callers import Asking, Caller, Scope, needs
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer, Listed, RequestBody, listed

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/keys", tags=["keys"], dependencies=[needs("admin")])


class NewKey(RequestBody):
    """What a new key is for; without `expires_in_days` it holds until it is revoked."""

    name: str = Field(min_length=1, max_length=80)
    scopes: list[Scope] = Field(min_length=1, max_length=len(SCOPES))
    organisation: str | None = Field(default=None, max_length=60)
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)


class KeyDetail(BaseModel):
    """What is known of a key; `prefix` are its first letters."""

    id: str
    name: str
    organisation: str
    scopes: list[Scope]
    prefix: str
    state: KeyState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class MadeKey(BaseModel):
    """A new key; `secret` is never shown again."""

    key: KeyDetail
    secret: str


@routes.get("", responses=READING)
def list_keys(
    request: Request,
    caller: Asking,
    organisation: Annotated[str | None, Query(max_length=60)] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listed[KeyDetail]:
    """Every key, also those that do not hold any more, the newest first; none of them with its secret."""
    keys = _identities(request).keys.all(_reach(caller, organisation))
    return listed([_detail(key) for key in keys], page, limit)


@routes.post("", status_code=201, responses=WRITING)
def create(request: Request, response: Response, service: Served, caller: Asking, body: NewKey) -> Answer[MadeKey]:
    """Make a key. The answer holds its only copy."""
    organisation = _reach(caller, body.organisation) or DEFAULT
    lifetime = None if body.expires_in_days is None else timedelta(days=body.expires_in_days)
    key, secret = _identities(request).keys.create(body.name, body.scopes, organisation=organisation, lifetime=lifetime)
    _tell(service, caller, "keys.create", key.id)
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=MadeKey(key=_detail(key), secret=secret))


@routes.delete("/{id}", responses=WRITING)
def revoke(
    request: Request,
    service: Served,
    caller: Asking,
    id: str,  # noqa: A002 # as in every other path
) -> Answer[KeyDetail]:
    """Let a key hold no more, and every session that was opened with it."""
    identities = _identities(request)
    key = identities.keys.revoke(id, None if caller.organisation == DEFAULT else caller.organisation)
    identities.forget()
    _tell(service, caller, "keys.revoke", key.id)
    return Answer(data=_detail(key))


def _detail(key: ApiKey) -> KeyDetail:
    return KeyDetail.model_validate(key.to_dict())


def _identities(request: Request) -> Identities:
    found: Identities = request.app.state.identities
    return found


def _reach(caller: Caller, wanted: str | None) -> str | None:
    """The organisation whose keys are meant: of the server's admins the one they name, of others their own."""
    if caller.organisation == DEFAULT:
        return wanted
    if wanted not in (None, caller.organisation):
        raise PermissionDenied("this key manages the keys of its own organisation only", hint=f"leave {wanted!r} out")
    return caller.organisation


def _tell(service: Service, caller: Caller, action: str, subject: str) -> None:
    """The trail of the server has it with the change; an organisation reads of it in its own."""
    if caller.organisation != DEFAULT:
        Trail(lambda: service.catalog.records().database).record(action, subject)
