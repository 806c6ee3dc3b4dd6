"""Which requests need no key on any server: those whose route says so with `OPEN`. Every other needs one, unknown ones too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from skillyard.server.callers import OPEN

if TYPE_CHECKING:
    import re

    from starlette.routing import BaseRoute
    from starlette.types import Scope

__all__ = ["PAGE", "Openness"]

PAGE: Final = "page"
"""The name of a mount with files of our own page: they need no key either."""


class _Seen(NamedTuple):
    path: re.Pattern[str]
    methods: frozenset[str] | None
    open: bool


class Openness:
    """Asks the routes, in their order: the first that fits a request says whether it is open."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._seen = [seen for route in routes if (seen := _seen(route))]

    def holds(self, scope: Scope) -> bool:
        """Whether the request needs no key."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._seen:
            if (route.methods is None or method in route.methods) and route.path.match(scope["path"]):
                return route.open
        return False


def _seen(route: BaseRoute) -> _Seen | None:
    if isinstance(route, APIRoute):
        said = route.openapi_extra or {}
        return _Seen(route.path_regex, frozenset(route.methods or ()), said.get("security") == OPEN["security"])
    if isinstance(route, Mount):
        return _Seen(route.path_regex, None, route.name == PAGE)
    if isinstance(route, Route):
        return _Seen(route.path_regex, frozenset(route.methods) if route.methods else None, False)
    return None
