"""Which requests need no key on any server: those whose route says so with `OPEN`. Every other needs one, unknown ones too.

But for a browser that mistyped the address of a page: it is shown the page, which says so, and asks for a key by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Mount, Route

from skillyard.server.authorization import OPEN

if TYPE_CHECKING:
    import re

    from starlette.routing import BaseRoute
    from starlette.types import Scope


PAGE: Final = "page"
"""The name of a mount with files of our own page: they need no key either."""

_API_PREFIXES: Final = ("/api", "/assets", "/.well-known", "/.claude-plugin", "/anthropic", "/openai", "/mirror", "/mcp")
"""Below these nobody but programs asks; what is not there is told to them in their own words."""


class _RouteAccess(NamedTuple):
    path: re.Pattern[str]
    methods: frozenset[str] | None
    open: bool


class PublicRoutes:
    """Asks the routes, in their order: the first that fits a request says whether it is open."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._seen = [seen for route in routes if (seen := _route_access(route))]

    def holds(self, scope: Scope) -> bool:
        """Whether the request needs no key."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._seen:
            if (route.methods is None or method in route.methods) and route.path.match(scope["path"]):
                return route.open
        return is_page_request(scope)


def is_page_request(scope: Scope) -> bool:
    """Whether somebody looks with a browser for what, if no route fits, can only be a page that is none."""
    path = scope["path"]
    if scope["method"] not in ("GET", "HEAD") or any(path == name or path.startswith(f"{name}/") for name in _API_PREFIXES):
        return False
    return any("text/html" in accepted.lower() for accepted in Headers(scope=scope).getlist("accept"))


def _route_access(route: BaseRoute) -> _RouteAccess | None:
    if isinstance(route, APIRoute):
        said = route.openapi_extra or {}
        return _RouteAccess(route.path_regex, frozenset(route.methods or ()), said.get("security") == OPEN["security"])
    if isinstance(route, Mount):
        return _RouteAccess(route.path_regex, None, route.name == PAGE)
    if isinstance(route, Route):
        return _RouteAccess(route.path_regex, frozenset(route.methods) if route.methods else None, False)
    return None
