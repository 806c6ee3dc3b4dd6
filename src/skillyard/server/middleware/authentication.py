"""Who may send a request: the Host and Origin check, then the API key or session cookie, which becomes a `Caller`.

A page that somebody visits must not reach the server through the visitor's browser: neither under a name of its own that
leads here (DNS rebinding: the `Host` header must name this server), nor by a request from elsewhere (the `Origin` must be the
server itself). Following a link to a page of the server is no such request. Programs send no `Origin`.

A key is looked up in the database and cached for a second, so that a revoked one is valid no longer than that. Routes that say
`OPEN` need no key on any server, every other needs one, unknown ones too. But a browser that mistyped the address of a page is
shown the page, which says so, and asks for a key by itself.
"""

from __future__ import annotations

import base64
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.routing import Mount, Route

from skillyard.access import (
    KEY_PREFIX,
    OAUTH_SCOPES,
    SCOPES,
    TOKEN_PREFIX,
    Actor,
    ApiKey,
    Keys,
    OAuthStore,
    SignInSessions,
    acting_as,
    hash_secret,
)
from skillyard.errors import PermissionDenied, SignInRequired, SkillyardError, TooManyRequests
from skillyard.server.authorization import ANONYMOUS, CLIENT, LOCAL_USER, OPEN, READ_METHODS, WEBHOOK, Caller
from skillyard.server.middleware.request_limits import TokenBucket
from skillyard.server.responses import problem_response
from skillyard.server.server_settings import RateLimit

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillyard.database import Database
    from skillyard.server.server_settings import AccessPolicy


_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"),
)
"""Unless an answer says otherwise: our own page has a policy that its scripts pass, and nothing else has scripts."""


class HostOriginCheck:
    """Passes only requests that name this server and come from no foreign page, and puts the headers of safety on answers."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # no protocol here is spoken over one
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", ())
                names = {name for name, _ in given}
                message["headers"] = [*given, *(header for header in _HEADERS if header[0] not in names)]
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        await (problem_response(refusal) if refusal else self._app)(scope, receive, safely)

    def _refusal(self, scope: Scope, headers: Headers) -> PermissionDenied | None:
        host = headers.get("host", "")
        if not self._policy.answers_to(host) or len(headers.getlist("host")) != 1:
            hint = "use the address that the server printed, or start it with --allowed-host and this name"
            return PermissionDenied("the Host header does not name this server", hint=hint)
        origin = headers.get("origin")
        foreign = origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower()
        if foreign or (headers.get("sec-fetch-site") == "cross-site" and not _is_navigation(scope, headers)):
            return PermissionDenied("requests from other sites are refused", hint="call it from a program of your own")
        return None


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """Whether it is a top-level navigation from another site."""
    return (
        scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


COOKIE: Final = "skillyard_session"
CSRF: Final = "x-skillyard-csrf"
"""What a page sends with a change, any value: no page from elsewhere can send it here unasked."""

SCHEMES: Final[dict[str, dict[str, str]]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "an API key, `sky_…`"},
    "basic": {"type": "http", "scheme": "basic", "description": "an API key as name or password, for git"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "the same, for clients that send it so"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "of a page that signed in"},
}
"""The ways to authenticate, as OpenAPI security schemes."""
SIGNATURE: Final = "X-Hub-Signature-256"
WEBHOOK_SCHEMES: Final[dict[str, dict[str, str]]] = {
    "signature": {"type": "apiKey", "in": "header", "name": SIGNATURE, "description": "sha256= and the HMAC of the body"},
    "secret": {"type": "http", "scheme": "bearer", "description": "the secret of the webhook"},
}
"""The same of the addresses for events of others."""

MCP: Final = "/mcp"
RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
"""Where clients learn how to authenticate (RFC 9728); the path of what they want follows."""
_UNAUTHORIZED: Final = 401
_FRESH_S: Final = 1.0
_REMEMBERED: Final = 1024
_WRONG: Final = RateLimit(10, 60)  # wrong keys from one address, per minute
_WRONG_TOKENS: Final = RateLimit(120, 60)  # the same of tokens: each client of an address comes with one that has expired
_REGISTRATIONS: Final = RateLimit(60, 3600)  # clients of OAuth from one address, per hour
_PROXY_HEADERS: Final = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip",
)  # fmt: skip
_SIGN_IN: Final = "send a key as `Authorization: Bearer …`; `skillyard keys create` makes one on the server"


class CredentialStore:
    """The callers of keys and sessions."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self.keys = Keys(database)
        self.sessions = SignInSessions(database)
        self.oauth = OAuthStore(database)
        self._cache: OrderedDict[str, tuple[float, Caller]] = OrderedDict()
        self._lock = threading.Lock()
        self._wrong = TokenBucket(_WRONG)
        self._wrong_tokens = TokenBucket(_WRONG_TOKENS)
        self.registrations = TokenBucket(_REGISTRATIONS)

    async def by_key(self, secret: str, address: str) -> Caller:
        """The caller whose key `secret` is.

        Raises:
            SignInRequired: nobody's, or it is not valid any more.
            TooManyRequests: too many wrong ones came from the address.
        """
        hashed = hash_secret(secret)
        if (caller := self._remembered(hashed)) is not None:
            return caller
        if hashed not in self._cache and (wait := self._wrong.wait(address) or self._wrong.wait(hashed)):
            raise TooManyRequests("too many invalid keys came from this address", hint="wait, then try again", retry_after=wait)
        key = await run_in_threadpool(self.keys.find, secret)
        if key is None:
            self._cache.pop(hashed, None)
            was_one = await run_in_threadpool(self.keys.was_issued, secret)  # who goes on with it guesses nothing
            self._wrong.take(hashed if was_one else address)
            raise SignInRequired("the key is unknown, expired or revoked", hint="`skillyard keys list` shows the valid ones")
        return self._remember(hashed, key, session=False)

    async def by_token(self, token: str, address: str) -> Caller:
        """The caller whom a client acts for with this access token.

        Raises:
            SignInRequired: it is nobody's, or has ended: the client renews it.
            TooManyRequests: too many wrong ones came from the address.
        """
        hashed = f"token {hash_secret(token)}"
        if (caller := self._remembered(hashed)) is not None:
            return caller
        if wait := self._wrong_tokens.wait(address):
            raise TooManyRequests(
                "too many invalid tokens came from this address", hint="wait, then try again", retry_after=wait
            )
        found = await run_in_threadpool(self.oauth.find, token)
        if found is None:
            self._cache.pop(hashed, None)
            self._wrong_tokens.take(address)
            raise SignInRequired("the token is unknown, has expired or was revoked", hint="renew it, or sign in again")
        key, scopes = found
        return self._keep(hashed, Caller(key.name, key.organisation, frozenset(scopes), key.id))

    async def by_session(self, secret: str) -> Caller | None:
        """Whose session it is; None when it has ended."""
        hashed = f"session {hash_secret(secret)}"
        if (caller := self._remembered(hashed)) is not None:
            return caller
        key = await run_in_threadpool(self.sessions.find, secret)
        if key is None:
            self._cache.pop(hashed, None)
            return None
        return self._remember(hashed, key, session=True)

    async def sign_in(self, secret: str, address: str, lifetime: timedelta) -> tuple[Caller, str, datetime]:
        """Open a session with a key: whose it is, the secret for the cookie, and when it ends.

        Raises:
            SignInRequired, TooManyRequests: as `by_key`.
        """
        caller = await self.by_key(secret, address)
        key = await run_in_threadpool(self.keys.find, secret)
        if key is None:
            raise SignInRequired("the key was revoked or has expired", hint="ask for another")
        cookie, ends = await run_in_threadpool(self.sessions.open, key, lifetime)
        return caller, cookie, ends

    def forget(self) -> None:
        """Look everything up again: something was revoked here."""
        with self._lock:
            self._cache.clear()

    def _remembered(self, hashed: str) -> Caller | None:
        cached = self._cache.get(hashed)
        return cached[1] if cached and time.monotonic() - cached[0] < _FRESH_S else None

    def _remember(self, hashed: str, key: ApiKey, *, session: bool) -> Caller:
        return self._keep(hashed, Caller(key.name, key.organisation, frozenset(key.scopes), key.id, session))

    def _keep(self, hashed: str, caller: Caller) -> Caller:
        with self._lock:  # routes that revoke are in other threads
            self._cache[hashed] = (time.monotonic(), caller)
            self._cache.move_to_end(hashed)
            if len(self._cache) > _REMEMBERED:
                self._cache.popitem(last=False)
        return caller


class AuthenticationMiddleware:
    """Puts the `caller` into the state of each request, or refuses it."""

    def __init__(
        self, app: ASGIApp, credentials: CredentialStore, policy: AccessPolicy, public_routes: PublicRoutes, *, oauth: bool
    ) -> None:
        self._app = app
        self._oauth = oauth
        self._credentials = credentials
        self._policy = policy
        self._public_routes = public_routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate the caller, and pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope, Headers(scope=scope))
        except SkillyardError as error:
            answer = problem_response(error)
            if error.status == _UNAUTHORIZED and scope["path"] == MCP:
                answer.headers["www-authenticate"] += self._way_in(scope, Headers(scope=scope))
            await answer(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["caller"] = caller
        known = Actor(
            caller.name, caller.organisation, state.get("request_id"), address_of(scope),
            member=caller.key is not None, manages=caller.may("admin"), scopes=[one for one in SCOPES if caller.may(one)],
        )  # fmt: skip
        with acting_as(known) as actor:
            state["actor"] = actor
            await self._app(scope, receive, send)

    def _way_in(self, scope: Scope, headers: Headers) -> str:
        """Where a client of MCP reads how to sign in, and the scopes that it asks for then (RFC 9728, RFC 6750)."""
        way = f', resource_metadata="{scope["scheme"]}://{headers.get("host", "")}{RESOURCE_METADATA}{MCP}"'
        if self._oauth:
            way += f', scope="{" ".join(OAUTH_SCOPES)}"'
        return f'{way}, error="invalid_token"' if _secret(headers) else way

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        if self._public_routes.checks_itself(scope):
            return ANONYMOUS
        local = not self._policy.keys_required and not any(name in headers for name in _PROXY_HEADERS)
        secret = _secret(headers)
        if self._oauth and secret and secret.startswith(TOKEN_PREFIX):
            if scope["path"] != MCP:
                raise SignInRequired("the token is for /mcp alone", hint=_SIGN_IN)
            return await self._credentials.by_token(secret, address_of(scope))
        if secret and (secret.startswith(KEY_PREFIX) or not local):  # clients of other services send keys of those
            return await self._credentials.by_key(secret, address_of(scope))
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if session and (caller := await self._credentials.by_session(session)):
            return _check_csrf(caller, scope, headers)
        if local:
            return LOCAL_USER
        if self._public_routes.holds(scope) and not _takes_page_for_skill(scope):
            return ANONYMOUS
        raise SignInRequired("this server needs a key", hint=_SIGN_IN)


def _takes_page_for_skill(scope: Scope) -> bool:
    """Whether a program wants what is at the bare address, as `npx skills add` does where it finds no list: no page, then.

    It shows the status of a refusal, and of a page only that it is no skill.
    """
    return scope["path"] == "/" and not is_page_request(scope)


def address_of(scope: Scope) -> str:
    """The address a request came from."""
    client = scope.get("client")
    return client[0] if client else "unknown"


def _secret(headers: Headers) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        return _basic_key(value)
    return (value.strip() if scheme.lower() == "bearer" else None) or headers.get("x-api-key", "").strip() or None


def _basic_key(value: str) -> str | None:
    """The key that git and others send as name and password: as the one or the other, whichever looks like a key."""
    try:
        name, _, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return name if name.startswith(KEY_PREFIX) else password or name or None


def _check_csrf(caller: Caller, scope: Scope, headers: Headers) -> Caller:
    """Browsers send cookies also for pages from elsewhere: a change must say that it comes from a page of this server.

    A foreign `Origin` has been refused by the Host and Origin check already.
    """
    if scope["method"] in READ_METHODS or "origin" in headers or headers.get(CSRF):
        return caller
    raise PermissionDenied("a change with a session cookie needs an Origin or CSRF header", hint=f"send Origin, or {CSRF}: 1")


PAGE: Final = "page"
"""The name of a mount with files of our own page: they need no key either."""

_API_PREFIXES: Final = (
    "/api",
    "/assets",
    "/.well-known",
    "/.claude-plugin",
    "/anthropic",
    "/openai",
    "/ard",
    "/mirror",
    MCP,
)
"""Below these only programs send requests; a missing path is reported in their own format."""


class _RouteAccess(NamedTuple):
    path: re.Pattern[str]
    methods: frozenset[str] | None
    open: bool
    checks_itself: bool = False


class PublicRoutes:
    """Tries the routes in their order: the first that fits a request decides whether it is open."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._seen = [seen for route in routes if (seen := _route_access(route))]
        self._checking = [route for route in self._seen if route.checks_itself]

    def holds(self, scope: Scope) -> bool:
        """Whether the request needs no key."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._seen:
            if (route.methods is None or method in route.methods) and route.path.match(scope["path"]):
                return route.open
        return is_page_request(scope)

    def checks_itself(self, scope: Scope) -> bool:
        """Whether the route checks by itself who sends the request, whatever that brings in place of a key."""
        return any(scope["method"] in (route.methods or ()) and route.path.match(scope["path"]) for route in self._checking)


def is_page_request(scope: Scope) -> bool:
    """Whether somebody looks with a browser for what, if no route fits, can only be a page that is none."""
    path = scope["path"]
    if scope["method"] not in ("GET", "HEAD") or any(path == name or path.startswith(f"{name}/") for name in _API_PREFIXES):
        return False
    return any("text/html" in accepted.lower() for accepted in Headers(scope=scope).getlist("accept"))


def _route_access(route: BaseRoute) -> _RouteAccess | None:
    if isinstance(route, APIRoute):
        extra = route.openapi_extra or {}
        security = extra.get("security")
        methods = frozenset(route.methods or ())
        by_itself = security in (WEBHOOK["security"], CLIENT["security"])
        return _RouteAccess(route.path_regex, methods, security == OPEN["security"], by_itself)
    if isinstance(route, Mount):
        return _RouteAccess(route.path_regex, None, route.name == PAGE)
    if isinstance(route, Route):
        return _RouteAccess(route.path_regex, frozenset(route.methods) if route.methods else None, False)
    return None
