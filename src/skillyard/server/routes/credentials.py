"""API keys and browser sessions: keys are listed, made and revoked; a page signs in with one, and signs out.

Administrators of the server manage all keys, those of an organisation its own.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import DEFAULT_ORGANISATION, SCOPES, AuditLog, KeyState, acting_as
from skillyard.access.credentials import Scope
from skillyard.errors import PermissionDenied
from skillyard.server.authorization import ANONYMOUS, LOCAL_USER, OPEN, UNRECORDED, Caller, CurrentCaller, require_scope
from skillyard.server.middleware.authentication import COOKIE, address_of
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.server_state import CurrentState
from skillyard.server.shapes import Answer, Listed, RequestBody, ResponseShape, listed

key_routes: Final = APIRouter(prefix="/api/v1/keys", tags=["keys"], dependencies=[require_scope("admin")])


class NewKey(RequestBody):
    """What a new key is for; without `expires_in_days` it holds until it is revoked."""

    name: str = Field(min_length=1, max_length=80)
    scopes: list[Scope] = Field(min_length=1, max_length=len(SCOPES))
    organisation: str | None = Field(default=None, max_length=60)
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)


class KeyDetail(ResponseShape):
    """A key without its secret; `prefix` are its first letters."""

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


class CreatedKey(BaseModel):
    """A new key; `secret` is never shown again."""

    key: KeyDetail
    secret: str


@key_routes.get("", responses=READ_PROBLEMS)
def list_keys(
    state: CurrentState,
    caller: CurrentCaller,
    organisation: Annotated[str | None, Query(max_length=60)] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listed[KeyDetail]:
    """Every key, also those that do not hold any more, the newest first; none of them with its secret."""
    keys = state.credentials.keys.all(_reach(caller, organisation))
    return listed([KeyDetail.of(key) for key in keys], page, limit)


@key_routes.post("", status_code=201, responses=WRITE_PROBLEMS)
def create(
    state: CurrentState, response: Response, service: CurrentServices, caller: CurrentCaller, body: NewKey
) -> Answer[CreatedKey]:
    """Make a key. The answer holds its only copy."""
    organisation = _reach(caller, body.organisation) or DEFAULT_ORGANISATION
    lifetime = None if body.expires_in_days is None else timedelta(days=body.expires_in_days)
    key, secret = state.credentials.keys.create(body.name, body.scopes, organisation=organisation, lifetime=lifetime)
    _record(service, caller, "keys.create", key.id)
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=CreatedKey(key=KeyDetail.of(key), secret=secret))


@key_routes.delete("/{id}", responses=WRITE_PROBLEMS)
def revoke(
    state: CurrentState,
    service: CurrentServices,
    caller: CurrentCaller,
    id: str,  # noqa: A002 # as in every other path
) -> Answer[KeyDetail]:
    """Let a key hold no more, and every session that was opened with it."""
    key = state.credentials.keys.revoke(id, None if caller.organisation == DEFAULT_ORGANISATION else caller.organisation)
    state.credentials.forget()
    _record(service, caller, "keys.revoke", key.id)
    return Answer(data=KeyDetail.of(key))


def _reach(caller: Caller, organisation: str | None) -> str | None:
    """The organisation whose keys are meant: of the server's admins the one they name, of others their own."""
    if caller.organisation == DEFAULT_ORGANISATION:
        return organisation
    if organisation not in (None, caller.organisation):
        raise PermissionDenied("this key manages the keys of its own organisation only", hint=f"leave {organisation!r} out")
    return caller.organisation


def _record(service: OrganisationServices, caller: Caller, action: str, subject: str) -> None:
    """The audit log of the server has it with the change; an organisation reads of it in its own."""
    if caller.organisation != DEFAULT_ORGANISATION:
        service.audit_log.record(action, subject)


session_routes: Final = APIRouter(prefix="/api/v1/session", tags=["session"], dependencies=[UNRECORDED])


class SignIn(RequestBody):
    """The key to sign in with."""

    key: str = Field(min_length=1, max_length=200)


class Session(BaseModel):
    """The caller; `caller` is null without one: then the page offers to sign in.

    `local` is the user of the server's machine, who needs no key; `session` means that a cookie is in use; signing out ends it.
    """

    caller: str | None
    organisation: str | None
    scopes: list[Scope]
    local: bool
    session: bool
    expires_at: datetime | None = None


@session_routes.get("", responses=READ_PROBLEMS, openapi_extra=OPEN)
async def who_am_i(caller: CurrentCaller, response: Response) -> Answer[Session]:
    """The caller, the organisation and the scopes."""
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=_session_shape(caller))


@session_routes.post("", status_code=201, responses=WRITE_PROBLEMS, openapi_extra=OPEN)
async def sign_in(request: Request, state: CurrentState, response: Response, body: SignIn) -> Answer[Session]:
    """Exchange a key for a cookie that scripts cannot read; a change with it needs `Origin` or `X-Skillyard-CSRF`."""
    address, lifetime = address_of(request.scope), state.settings.session
    caller, secret, ends = await state.credentials.sign_in(body.key.strip(), address, lifetime)
    with acting_as(replace(request.state.actor, name=caller.name, organisation=caller.organisation)):
        await run_in_threadpool(AuditLog(state.pool.database).record, "session.open", caller.key or caller.name)
    seconds = round((ends - datetime.now(UTC)).total_seconds())
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, secret, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=_session_shape(replace(caller, session=True), ends))


@session_routes.delete("", responses=READ_PROBLEMS, openapi_extra=OPEN)
async def sign_out(request: Request, state: CurrentState, response: Response) -> Answer[None]:
    """End the session of the cookie; without one nothing happens."""
    if secret := request.cookies.get(COOKIE):
        await run_in_threadpool(state.credentials.sessions.close, secret)
        state.credentials.forget()
    response.delete_cookie(COOKIE, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return Answer(data=None)


def _session_shape(caller: Caller, ends: datetime | None = None) -> Session:
    signed_in = caller != ANONYMOUS
    return Session(
        caller=caller.name if signed_in else None,
        organisation=caller.organisation if signed_in else None,
        scopes=sorted(caller.scopes),
        local=caller == LOCAL_USER,
        session=caller.session,
        expires_at=ends.replace(microsecond=0) if ends else None,
    )
