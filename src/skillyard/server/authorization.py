"""Authorization: who calls, for which organisation, and which scope each route requires."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request

from skillyard.access import DEFAULT_ORGANISATION, SCOPES, Scope
from skillyard.errors import NotYours, PermissionDenied, SignInRequired
from skillyard.server.server_settings import LOOPBACK, host_name

WEBHOOK: Final[dict[str, Any]] = {"security": [{"signature": []}, {"secret": []}]}
"""The `openapi_extra` of a route that checks its callers by itself: a signature or secret of their own in place of a key."""
READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN: Final[dict[str, Any]] = {"security": []}
"""The `openapi_extra` of a route that needs no key, wherever the server listens: for data about nobody's skills."""


CLIENT: Final[dict[str, Any]] = {"security": [{}]}
"""The `openapi_extra` of a route of OAuth for clients: what they show is in the body, and no header of theirs is looked at."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: `name` is for the audit log, `organisation` has the skills, runs and memories that are used.

    `key` is the id of the API key, None for the local user; `session` means that a page signed in with it.
    """

    name: str
    organisation: str
    scopes: frozenset[Scope]
    key: str | None = None
    session: bool = False

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; `admin` has every one."""
        return scope in self.scopes or "admin" in self.scopes


LOCAL_USER: Final = Caller("local user", DEFAULT_ORGANISATION, frozenset(SCOPES))
ANONYMOUS: Final = Caller("nobody", DEFAULT_ORGANISATION, frozenset())
"""A caller without a key where one is required: only `OPEN` routes see it."""


async def _caller(request: Request) -> Caller:
    caller = request.scope["state"]["caller"]
    assert isinstance(caller, Caller)  # noqa: S101 # AuthenticationMiddleware puts it there
    return caller


CurrentCaller = Annotated[Caller, Depends(_caller)]


def require_scope(scope: Scope) -> Any:
    """The dependency of a route, or of all routes of a router, that only callers with `scope` may use.

    Raises:
        SignInRequired: at the request, when there is no authenticated caller.
        PermissionDenied: at the request, when the caller has not got the scope.
    """

    async def check(request: Request) -> None:
        caller = await _caller(request)  # itself, for each dependency of a dependency costs every request
        if caller == ANONYMOUS:
            raise SignInRequired("this needs a key", hint="send it as `Authorization: Bearer …`")
        if not caller.may(scope):
            request.state.refused = scope  # the audit log keeps who tried
            raise PermissionDenied(f"this needs the scope {scope}", hint="use a key that has it")

    check.scope = scope  # type: ignore[attr-defined] # for the description of the route
    return Depends(check)


def require_own(what: str, own: bool, caller: Caller) -> None:
    """Return when it is the caller's own, or the caller has the scope `admin`.

    Raises:
        NotYours: it is neither.
    """
    if not own and not caller.may("admin"):
        raise NotYours(f"the {what} is somebody else's", hint="ask them, or use a key with the scope admin")


def sits_here(request: Request, caller: Caller) -> bool:
    """Whether the caller is the local user, whose requests nobody passes on, and comes from this very machine."""
    peer = request.client.host if request.client else ""
    return caller == LOCAL_USER and peer in LOOPBACK and host_name(request.headers.get("host", "")) in LOOPBACK


def folder_here(request: Request, caller: Caller, folder: str | None) -> str | None:
    """A folder of the server's machine that the caller wants to work in.

    Raises:
        PermissionDenied: one is named by somebody who does not sit there.
    """
    if folder is not None and not sits_here(request, caller):
        raise PermissionDenied(
            "a folder of the server's machine is worked in only by who sits there",
            hint="leave out `folder`: then it is the server's own",
        )
    return folder


async def _folder(
    request: Request,
    caller: CurrentCaller,
    folder: Annotated[
        str | None, Query(min_length=1, max_length=4096, description="a project folder of this machine, whose skills are used")
    ] = None,
) -> str | None:
    return folder_here(request, caller, folder)


ProjectFolder = Annotated[str | None, Depends(_folder)]
"""The folder that a query names, whose project's skills are meant; None for the server's own."""


def scopes_of(dependencies: Iterable[Any]) -> list[Scope]:
    """The scopes that the dependencies of a route require."""
    return sorted({scope for dependency in dependencies if (scope := getattr(dependency.dependency, "scope", None))})


async def _server_admin(request: Request) -> None:
    if (await _caller(request)).organisation != DEFAULT_ORGANISATION:
        request.state.refused = "admin"
        raise PermissionDenied("this needs an admin key of the server itself", hint="one of the organisation `default`")


async def _unrecorded(request: Request) -> None:
    request.state.unrecorded = True


SERVER_ADMIN: Final = Depends(_server_admin)
"""The dependency of a route about all organisations, beside `require_scope("admin")`: not for admins of a single one."""

UNRECORDED: Final = Depends(_unrecorded)
"""The dependency of a route that is no `GET` and yet only looks, or changes only what its caller sees, or whose service writes
the audit log itself."""
