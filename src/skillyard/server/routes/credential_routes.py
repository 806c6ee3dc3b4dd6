"""API keys, browser sessions and allowed clients: keys are made and revoked, pages sign in, people decide about clients of MCP.

Administrators of the server manage all keys, those of an organisation its own. Who let a client sign in (OAuth) sees it, and
revokes it. A request of a client that has a fault is never sent back to it without a person's doing, for anybody can register
an address: the page shows the fault, and a link.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import (
    DEFAULT_ORGANISATION,
    OAUTH_SCOPES,
    SCOPES,
    ApiKey,
    AuditLog,
    AuthorizationTerms,
    OAuthClient,
    OAuthGrant,
    acting_as,
)
from skillyard.access.credentials import Scope
from skillyard.access.oauth_store import check_challenge, is_local, permitted_scopes, refused, same_resource
from skillyard.errors import AuthorizationRefused, InvalidInput, PermissionDenied, SkillyardError
from skillyard.network import guarded_request
from skillyard.plain_json import read_json
from skillyard.server.authorization import ANONYMOUS, LOCAL_USER, OPEN, UNRECORDED, Caller, CurrentCaller, require_scope
from skillyard.server.clients.oauth_endpoints import NO_STORE, issuer, require_offered
from skillyard.server.middleware.authentication import COOKIE, MCP, address_of
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.server_state import CurrentState, ServerState
from skillyard.server.shapes import Answer, Listed, RequestBody, ResponseShape, listed

key_routes: Final = APIRouter(prefix="/api/v1/keys", tags=["keys"], dependencies=[require_scope("admin")])


class NewKey(RequestBody):
    """What a new key is for; without `expires_in_days` it holds until it is revoked."""

    name: str = Field(min_length=1, max_length=80)
    scopes: list[Scope] = Field(min_length=1, max_length=len(SCOPES))
    organisation: str | None = Field(default=None, max_length=60)
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)


class CreatedKey(BaseModel):
    """A new key; `secret` is never shown again."""

    key: ApiKey
    secret: str


@key_routes.get("", responses=READ_PROBLEMS)
def list_keys(
    state: CurrentState,
    caller: CurrentCaller,
    organisation: Annotated[str | None, Query(max_length=60)] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listed[ApiKey]:
    """Every key, also expired and revoked ones, newest first, without secrets."""
    keys = state.credentials.keys.all(_reach(caller, organisation))
    return listed(list(keys), page, limit)


@key_routes.post("", status_code=201, responses=WRITE_PROBLEMS)
def create(
    state: CurrentState, response: Response, service: CurrentServices, caller: CurrentCaller, body: NewKey
) -> Answer[CreatedKey]:
    """Create a key. The response has its only copy."""
    organisation = _reach(caller, body.organisation) or DEFAULT_ORGANISATION
    lifetime = None if body.expires_in_days is None else timedelta(days=body.expires_in_days)
    key, secret = state.credentials.keys.create(body.name, body.scopes, organisation=organisation, lifetime=lifetime)
    _record(service, caller, "keys.create", key.id)
    response.headers["Cache-Control"] = "no-store"
    return Answer(data=CreatedKey(key=key, secret=secret))


@key_routes.delete("/{id}", responses=WRITE_PROBLEMS)
def revoke(
    state: CurrentState,
    service: CurrentServices,
    caller: CurrentCaller,
    id: str,  # noqa: A002 # as in every other path
) -> Answer[ApiKey]:
    """Revoke a key, and every session that was opened with it."""
    key = state.credentials.keys.revoke(id, None if caller.organisation == DEFAULT_ORGANISATION else caller.organisation)
    state.credentials.forget()
    _record(service, caller, "keys.revoke", key.id)
    return Answer(data=key)


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
    """End the session of the cookie, if there is one."""
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


oauth_routes: Final = APIRouter(prefix="/api/v1/oauth", tags=["OAuth"], dependencies=[require_scope("skills:read")])


class AuthorizationQuery(BaseModel):
    """The request with which a client sends a person here (RFC 6749, 4.1.1); fields that are not named are ignored."""

    client_id: str = Field(max_length=500)
    redirect_uri: str | None = Field(default=None, max_length=500)
    response_type: str | None = Field(default=None, max_length=100)
    code_challenge: str | None = Field(default=None, max_length=200)
    code_challenge_method: str | None = Field(default=None, max_length=20)
    scope: str | None = Field(default=None, max_length=2000)
    state: str | None = Field(default=None, max_length=4096)
    resource: str | None = Field(default=None, max_length=500)


class AuthorizationDetail(ResponseShape):
    """Who asks for what: `client_host` is proven, all else is what the client says of itself.

    The answer goes to `redirect_uri`, which is `local` when it is an address of the person's own machine. With a `problem`
    nothing can be allowed, and `redirect_to` is where the client learns of it.
    """

    client_id: str
    client_name: str
    client_host: str | None
    registered_at: datetime
    redirect_uri: str
    local: bool
    scopes: list[Scope]
    problem: str | None = None
    redirect_to: str | None = None


class AuthorizationDecision(RequestBody):
    """What a person decided; `scopes` are those of the request that are allowed, all of them when there are none."""

    request: AuthorizationQuery
    allow: bool
    scopes: list[Scope] = Field(default=[], max_length=len(SCOPES))


class AuthorizationAnswer(BaseModel):
    """Where the person's browser goes now."""

    redirect_to: str


@oauth_routes.get("/authorization", responses=READ_PROBLEMS)
async def authorization_request(
    request: Request,
    response: Response,
    state: CurrentState,
    caller: CurrentCaller,
    query: Annotated[AuthorizationQuery, Query()],
) -> Answer[AuthorizationDetail]:
    """The authorization request of a client; reading it allows nothing."""
    client = await _client(state, query.client_id)
    address, terms, problem, back = client.address(query.redirect_uri), None, None, None
    try:
        terms = _terms(request, caller, client, query)
    except AuthorizationRefused as error:
        problem = error.message
        back = _sent_back(request, address, query, error=error.details["oauth_error"], error_description=error.message)
    response.headers.update(NO_STORE)
    host = urlsplit(client.id).hostname if client.fetched_at else None
    return Answer(
        data=AuthorizationDetail(
            client_id=client.id,
            client_name=client.name,
            client_host=host,
            registered_at=client.created_at,
            redirect_uri=address,
            local=is_local(address),
            scopes=list(terms.scopes) if terms else [],
            problem=problem,
            redirect_to=back,
        )
    )


@oauth_routes.post("/authorization", responses=WRITE_PROBLEMS)
async def decide(
    request: Request,
    response: Response,
    state: CurrentState,
    service: CurrentServices,
    caller: CurrentCaller,
    body: AuthorizationDecision,
) -> Answer[AuthorizationAnswer]:
    """Allow or refuse the request of a client, which gets the decision at its redirect address."""
    client, query = await _client(state, body.request.client_id), body.request
    terms = _terms(request, caller, client, query)
    if body.scopes:
        terms = terms._replace(scopes=permitted_scopes(body.scopes, terms.scopes))
    if not terms.scopes or caller.key is None:
        raise InvalidInput("none of these scopes was requested", hint=f"allow some of {', '.join(OAUTH_SCOPES)}, or refuse")
    oauth = state.credentials.oauth
    response.headers.update(NO_STORE)
    if body.allow:
        subject, code = await run_in_threadpool(oauth.allow, client, caller.key, terms)
        await run_in_threadpool(_record, service, caller, "oauth.allow", subject)
        back = _sent_back(request, terms.redirect_uri, query, code=code)
    else:
        await run_in_threadpool(oauth.refuse, client, terms)
        await run_in_threadpool(_record, service, caller, "oauth.refuse", client.id)
        back = _sent_back(request, terms.redirect_uri, query, error="access_denied")
    return Answer(data=AuthorizationAnswer(redirect_to=back))


def _terms(request: Request, caller: Caller, client: OAuthClient, query: AuthorizationQuery) -> AuthorizationTerms:
    """What the request asks this caller for.

    Raises:
        AuthorizationRefused: it asks in a way, or for something, that nobody can allow.
    """
    address = client.address(query.redirect_uri)
    if query.response_type != "code":
        raise refused("unsupported_response_type", "the response_type must be code")
    challenge = check_challenge(query.code_challenge, query.code_challenge_method)
    resource = issuer(request) + MCP
    if query.resource is not None and not same_resource(query.resource, resource):
        raise refused("invalid_target", f"tokens are for {resource} alone")
    scopes = permitted_scopes((query.scope or "").split(), caller.scopes)
    if not scopes:
        raise refused("invalid_scope", f"your key can pass on none of the scopes asked for: {', '.join(OAUTH_SCOPES)}")
    return AuthorizationTerms(scopes, resource, address, challenge)


def _sent_back(request: Request, address: str, query: AuthorizationQuery, **parameters: Any) -> str:
    """The client's address with an answer, which says who gave it (RFC 9207)."""
    answer = parameters | ({} if query.state is None else {"state": query.state}) | {"iss": issuer(request)}
    parts = urlsplit(address)
    return parts._replace(query="&".join(filter(None, (parts.query, urlencode(answer))))).geturl()


_DOCUMENT_LASTS: Final = timedelta(hours=1)
_DOCUMENT_BYTES: Final = 10 * 1024
_DOCUMENT_S: Final = 5.0


async def _client(state: ServerState, client_id: str) -> OAuthClient:
    """The client with that id; the document of one that is an address is read again after an hour.

    Raises:
        NotOffered: clients do not sign in here.
        AuthorizationRefused: there is no such client, or its document cannot be read.
    """
    require_offered(state)
    oauth = state.credentials.oauth
    known = await run_in_threadpool(oauth.client, client_id)
    if not client_id.startswith("https://"):
        if known is None:
            raise refused("invalid_client", "the client is not registered, or was forgotten")
        return known
    if not state.settings.oauth.client_documents:
        raise refused("invalid_client", "clients register here, documents about them are not read")
    if known is not None and known.fetched_at is not None and oauth.now() - known.fetched_at < _DOCUMENT_LASTS:
        return known
    name, redirect_uris = await _document(client_id)
    return await run_in_threadpool(oauth.keep_document, client_id, name, redirect_uris)


async def _document(address: str) -> tuple[str, list[object]]:
    """The name and the addresses in the document about a client (OAuth Client ID Metadata Document).

    Addresses of this machine and of private networks are never asked, and no redirect is followed.
    """
    try:
        parts = urlsplit(address)
        plain = parts.hostname and "@" not in parts.netloc and not parts.fragment and len(parts.path) > 1
        if not plain or any(part in (".", "..") for part in parts.path.split("/")):
            raise refused("invalid_client", "the client_id is not an address of a document")
        answer = await guarded_request(
            "GET",
            address,
            allow=[parts.netloc],
            headers={"Accept": "application/json"},
            timeout_s=_DOCUMENT_S,
            max_bytes=_DOCUMENT_BYTES,
        )
        document = read_json(answer.body.decode()) if answer.status == 200 else None
    except AuthorizationRefused:
        raise
    except (SkillyardError, ValueError) as error:
        said = error.message if isinstance(error, SkillyardError) else "it is not JSON"
        raise refused("invalid_client", f"the document about the client cannot be read: {said}") from None
    if (
        not isinstance(document, dict)
        or document.get("client_id") != address
        or not isinstance(document.get("redirect_uris"), list)
    ):
        raise refused("invalid_client", "the document at the client_id is not about that client")
    name = document.get("client_name")
    return name if isinstance(name, str) else str(parts.hostname), document["redirect_uris"]


@oauth_routes.get("/grants", responses=READ_PROBLEMS)
def list_grants(
    state: CurrentState,
    caller: CurrentCaller,
    everybody: Annotated[bool, Query(description="for an admin: those of all keys")] = False,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listed[OAuthGrant]:
    """The OAuth clients that the caller allowed, newest first."""
    if everybody and not caller.may("admin"):
        raise PermissionDenied("what others allowed is for an admin", hint="leave out everybody")
    found = state.credentials.oauth.grants(*_whose(caller, everybody))
    return listed(list(found), page, limit)


@oauth_routes.delete("/grants/{id}", responses=WRITE_PROBLEMS)
def revoke_grant(
    state: CurrentState,
    service: CurrentServices,
    caller: CurrentCaller,
    id: Annotated[str, InPath(max_length=100)],  # noqa: A002 # as in every other path
) -> Answer[OAuthGrant]:
    """Revoke the grant of a client; its tokens are refused at once."""
    grant = state.credentials.oauth.revoke(id, *_whose(caller, caller.may("admin")))
    state.credentials.forget()
    _record(service, caller, "oauth.revoke", grant.id)
    return Answer(data=grant)


def _whose(caller: Caller, everybody: bool) -> tuple[str | None, str | None]:
    """The organisation and the name of the keys whose grants are meant: the caller's, or all that an admin sees."""
    return (_reach(caller, None), None) if everybody else (caller.organisation, caller.name)
