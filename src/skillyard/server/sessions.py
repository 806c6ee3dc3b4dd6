"""Who the page speaks for: it asks here first, signs in with a key where one is needed, and signs out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import Trail, acting
from skillyard.server.authentication import COOKIE, Identities, address_of
from skillyard.server.callers import LOCAL_USER, NOBODY, OPEN, UNRECORDED, Asking, Caller, Scope
from skillyard.server.problems import READING, WRITING
from skillyard.server.shapes import Answer, RequestBody

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/session", tags=["session"], dependencies=[UNRECORDED])


class SignIn(RequestBody):
    """The key to sign in with."""

    key: str = Field(min_length=1, max_length=200)


class Session(BaseModel):
    """Who asks. `caller` is null for nobody: then the page lets somebody sign in.

    `local` is the user of the server's machine, who needs no key; `session` says that a cookie is in use, to be signed out of.
    """

    caller: str | None
    organisation: str | None
    scopes: list[Scope]
    local: bool
    session: bool
    expires_at: datetime | None = None


@routes.get("", responses=READING, openapi_extra=OPEN)
async def who_am_i(caller: Asking, response: Response) -> Answer[Session]:
    """Who asks, for which organisation, and with which scopes."""
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=_told(caller))


@routes.post("", status_code=201, responses=WRITING, openapi_extra=OPEN)
async def sign_in(request: Request, response: Response, body: SignIn) -> Answer[Session]:
    """Exchange a key for a cookie that scripts cannot read; a change with it needs `Origin` or `X-Skillyard-CSRF`."""
    identities: Identities = request.app.state.identities
    lifetime = request.app.state.settings.session
    caller, secret, ends = await identities.sign_in(body.key.strip(), address_of(request.scope), lifetime)
    with acting(replace(request.state.actor, name=caller.name, organisation=caller.organisation)):
        trail = Trail(request.app.state.homes.database)
        await run_in_threadpool(trail.record, "session.open", caller.key or caller.name)
    seconds = round((ends - datetime.now(UTC)).total_seconds())
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, secret, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=_told(replace(caller, session=True), ends))


@routes.delete("", responses=READING, openapi_extra=OPEN)
async def sign_out(request: Request, response: Response) -> Answer[None]:
    """End the session of the cookie; without one nothing happens."""
    if secret := request.cookies.get(COOKIE):
        identities: Identities = request.app.state.identities
        await run_in_threadpool(identities.sessions.close, secret)
        identities.forget()
    response.delete_cookie(COOKIE, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return Answer(data=None)


def _told(caller: Caller, ends: datetime | None = None) -> Session:
    known = caller != NOBODY
    return Session(
        caller=caller.name if known else None,
        organisation=caller.organisation if known else None,
        scopes=sorted(caller.scopes),
        local=caller == LOCAL_USER,
        session=caller.session,
        expires_at=ends.replace(microsecond=0) if ends else None,
    )
