"""OAuth as clients of MCP speak it: they read where to go, register, exchange codes and refresh tokens, and give them back.

A person decides in between, on the page at `/oauth/authorize` (`routes/credential_routes.py`). Clients are public: they have no
secret but the one of each code (PKCE). Nothing of it is there where nobody needs a key, or where the operator switched it off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from skillyard.access import OAUTH_SCOPES, SCOPES, IssuedTokens
from skillyard.access.oauth_store import ACCESS_LIFETIME, refused
from skillyard.errors import FileTooLarge, NotOffered, TooManyRequests
from skillyard.plain_json import read_json
from skillyard.server.authorization import CLIENT, OPEN
from skillyard.server.file_transfers import read_body
from skillyard.server.middleware.authentication import MCP, RESOURCE_METADATA, address_of
from skillyard.server.middleware.error_formats import OAUTH
from skillyard.server.responses import READ_PROBLEMS
from skillyard.server.server_state import CurrentState, ServerState

metadata_routes: Final = APIRouter(tags=["OAuth"])

_SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
NO_STORE: Final = {"Cache-Control": "no-store"}
_LARGEST: Final = 16 * 1024
_MOST_FIELDS: Final = 50  # of a form


class ProtectedResource(BaseModel):
    """How a client of MCP authenticates (RFC 9728): with a key as bearer token, or a token of a server that is named."""

    resource: str
    resource_name: str = "Skillyard"
    authorization_servers: list[str] | None = None
    bearer_methods_supported: list[str] = ["header"]
    scopes_supported: list[str] = list(SCOPES)


class AuthorizationServer(BaseModel):
    """What this authorization server can do, and where (RFC 8414)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    revocation_endpoint: str
    scopes_supported: list[str] = list(OAUTH_SCOPES)
    response_types_supported: list[str] = ["code"]
    response_modes_supported: list[str] = ["query"]
    grant_types_supported: list[str] = ["authorization_code", "refresh_token"]
    token_endpoint_auth_methods_supported: list[str] = ["none"]
    revocation_endpoint_auth_methods_supported: list[str] = ["none"]
    code_challenge_methods_supported: list[str] = ["S256"]
    authorization_response_iss_parameter_supported: bool = True
    client_id_metadata_document_supported: bool


@metadata_routes.get(RESOURCE_METADATA, responses=READ_PROBLEMS, openapi_extra=OPEN, response_model_exclude_none=True)
async def protected_server(request: Request, response: Response) -> ProtectedResource:
    """How clients authenticate to this server: with a key."""
    response.headers.update(NO_STORE)
    return ProtectedResource(resource=issuer(request))


@metadata_routes.get(RESOURCE_METADATA + MCP, responses=READ_PROBLEMS, openapi_extra=OPEN, response_model_exclude_none=True)
async def protected_mcp(request: Request, response: Response, state: CurrentState) -> ProtectedResource:
    """How MCP clients authenticate, and which server issues tokens."""
    response.headers.update(NO_STORE)
    own = issuer(request)
    if not state.offers_oauth:
        return ProtectedResource(resource=own + MCP)
    return ProtectedResource(resource=own + MCP, authorization_servers=[own], scopes_supported=list(OAUTH_SCOPES))


@metadata_routes.get(_SERVER_METADATA, responses=READ_PROBLEMS, openapi_extra=OPEN)
@metadata_routes.get(_SERVER_METADATA + MCP, responses=READ_PROBLEMS, openapi_extra=OPEN, include_in_schema=False)
async def authorization_server(request: Request, response: Response, state: CurrentState) -> AuthorizationServer:
    """The endpoints for registration, authorization and tokens."""
    require_offered(state)
    response.headers.update(NO_STORE)
    own = issuer(request)
    return AuthorizationServer(
        issuer=own,
        authorization_endpoint=f"{own}/oauth/authorize",
        token_endpoint=f"{own}/oauth/token",
        registration_endpoint=f"{own}/oauth/register",
        revocation_endpoint=f"{own}/oauth/revoke",
        client_id_metadata_document_supported=state.settings.oauth.client_documents,
    )


def issuer(request: Request) -> str:
    """The address of this server as the client wrote it; the `Host` has been checked."""
    return str(request.base_url).rstrip("/")


def require_offered(state: ServerState) -> None:
    """Return where clients can sign in.

    Raises:
        NotOffered: nobody needs a key here, or the operator switched it off.
    """
    if not state.offers_oauth:
        raise NotOffered("clients do not sign in here", hint="without keys nobody needs to; with keys send one as bearer token")


client_routes: Final = APIRouter(prefix="/oauth", tags=["clients: OAuth"])


class ClientRegistration(BaseModel):
    """What a client says of itself (RFC 7591); what is not named here is ignored."""

    redirect_uris: list[str] = Field(max_length=100)
    client_name: str = ""
    grant_types: list[str] = Field(default=["authorization_code"], max_length=20)
    response_types: list[str] = Field(default=["code"], max_length=20)


class RegisteredClient(BaseModel):
    """A client that was registered; every client is public, whatever it asked for."""

    client_id: str
    client_id_issued_at: int
    client_name: str
    redirect_uris: list[str]
    grant_types: list[str] = ["authorization_code", "refresh_token"]
    response_types: list[str] = ["code"]
    token_endpoint_auth_method: str = "none"  # noqa: S105 # not a secret
    scope: str = " ".join(OAUTH_SCOPES)


class TokenAnswer(BaseModel):
    """The tokens that a client gets (RFC 6749, 5.1)."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 # not a secret
    expires_in: int = int(ACCESS_LIFETIME.total_seconds())
    refresh_token: str
    scope: str

    @classmethod
    def of(cls, issued: IssuedTokens) -> TokenAnswer:
        """The tokens in this shape."""
        return cls(access_token=issued.access, refresh_token=issued.refresh, scope=" ".join(issued.scopes))


def _takes(media_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return CLIENT | {"requestBody": {"content": {media_type: {"schema": schema}}, "required": True}}


def _form(*fields: str, **kinds: str) -> dict[str, Any]:
    named = {name: {"type": "string"} for name in (*fields, *kinds)}
    return _takes("application/x-www-form-urlencoded", {"type": "object", "properties": named, "required": list(fields)})


_CLIENT_JSON: Final = _takes("application/json", ClientRegistration.model_json_schema())


@client_routes.post("/register", status_code=201, responses=OAUTH, openapi_extra=_CLIENT_JSON)
async def register(request: Request, response: Response, state: CurrentState) -> RegisteredClient:
    """Register a client, which anybody may; one that nobody allows anything within a day is forgotten."""
    require_offered(state)
    request.state.unrecorded = True
    address = address_of(request.scope)
    if state.credentials.registrations.take(address)[0] < 0:
        wait = state.credentials.registrations.wait(address)
        raise TooManyRequests(
            "too many clients were registered from this address", hint="wait, then try again", retry_after=wait
        )
    try:
        registration = ClientRegistration.model_validate(read_json((await _body(request)).decode()))
    except ValueError as error:
        said = "; ".join(str(fault["msg"]) for fault in error.errors()[:3]) if isinstance(error, ValidationError) else "no JSON"
        raise refused("invalid_client_metadata", f"this describes no client: {said}") from None
    if "authorization_code" not in registration.grant_types or "code" not in registration.response_types:
        raise refused("invalid_client_metadata", "clients use the grant authorization_code with the response type code")
    client = await run_in_threadpool(state.credentials.oauth.register, registration.client_name, registration.redirect_uris)
    response.headers.update(NO_STORE)
    return RegisteredClient(
        client_id=client.id,
        client_id_issued_at=int(client.created_at.timestamp()),
        client_name=client.name,
        redirect_uris=list(client.redirect_uris),
    )


_TOKEN_FORM: Final = _form(
    "grant_type", "client_id", code="", redirect_uri="", code_verifier="", refresh_token="", scope="", resource=""
)


@client_routes.post("/token", responses=OAUTH, openapi_extra=_TOKEN_FORM)
async def token(request: Request, response: Response, state: CurrentState) -> TokenAnswer:
    """Exchange a code, or a refresh token, for new tokens."""
    require_offered(state)
    request.state.unrecorded = True
    form, oauth = await _fields(request), state.credentials.oauth
    client_id = _needed(form, "client_id")
    if (grant := form.get("grant_type")) == "authorization_code":
        code, verifier = _needed(form, "code"), _needed(form, "code_verifier")
        issued = await run_in_threadpool(
            oauth.exchange,
            code,
            client_id=client_id,
            redirect_uri=form.get("redirect_uri"),
            verifier=verifier,
            resource=form.get("resource"),
        )
    elif grant == "refresh_token":
        given, scopes = _needed(form, "refresh_token"), form.get("scope", "").split()
        issued = await run_in_threadpool(
            oauth.refresh, given, client_id=client_id, scopes=scopes, resource=form.get("resource")
        )
    else:
        raise refused("unsupported_grant_type", "the grant types are authorization_code and refresh_token")
    response.headers.update(NO_STORE | {"Pragma": "no-cache"})
    return TokenAnswer.of(issued)


@client_routes.post("/revoke", responses=OAUTH, openapi_extra=_form("token", "client_id", token_type_hint=""))
async def revoke_token(request: Request, state: CurrentState) -> Response:
    """Revoke a token and all tokens of its grant; an unknown token counts as revoked (RFC 7009)."""
    require_offered(state)
    request.state.unrecorded = True
    form = await _fields(request)
    await run_in_threadpool(state.credentials.oauth.revoke_token, _needed(form, "token"), _needed(form, "client_id"))
    state.credentials.forget()
    return Response(headers=NO_STORE)


async def _body(request: Request) -> bytes:
    return await read_body(request, _LARGEST, FileTooLarge(f"the request is over {_LARGEST >> 10} KiB", hint="send less"))


async def _fields(request: Request) -> dict[str, str]:
    """The fields of the form in the body; the query of the address is not looked at."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise refused("invalid_request", "the body must be application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl((await _body(request)).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise refused("invalid_request", "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise refused("invalid_request", "a field of the form is given twice")
    return {name: value for name, value in fields.items() if value}


def _needed(form: Mapping[str, str], name: str) -> str:
    if name not in form:
        raise refused("invalid_request", f"the field {name} is missing")
    return form[name]
