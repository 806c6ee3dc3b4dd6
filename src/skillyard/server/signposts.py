"""Which router a request is for, told by how its address begins: two hundred routes are not asked one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.routing import Match

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["Signposted"]


class Signposted(APIRouter):
    """The routes of another router, which are only asked about addresses that begin as one of theirs does."""

    def __init__(self, router: APIRouter) -> None:
        super().__init__(routes=router.routes)
        self._beginnings = tuple({str(getattr(route, "path", "")).partition("{")[0] for route in router.routes})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As its routes say, when they are asked at all."""
        return super().matches(scope) if scope["path"].startswith(self._beginnings) else (Match.NONE, {})
