"""Pages of the list of skills, kept as the bytes that are sent, for as long as the catalog is the same."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from fastapi import Request, Response
from pydantic import BaseModel

from skillyard.catalog import Skill

__all__ = ["Prepared", "PreparedPages"]

_KEPT: Final = 256


class Prepared(NamedTuple):
    """One answer: its JSON and the tag that changes with it."""

    data: bytes
    etag: str

    @classmethod
    def of(cls, answer: BaseModel) -> Prepared:
        """The answer as it is sent."""
        data = answer.model_dump_json().encode()
        return cls(data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')

    def response(self, request: Request) -> Response:
        """The whole, or 304 for who has it already."""
        headers = {"ETag": self.etag, "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match", "").removeprefix("W/") == self.etag:
            return Response(status_code=304, headers=headers)
        return Response(self.data, headers=headers, media_type="application/json")


class PreparedPages:
    """The pages that were asked for lately, of one tuple of skills: with another tuple all are forgotten."""

    def __init__(self) -> None:
        self._skills: tuple[Skill, ...] = ()
        self._pages: OrderedDict[bytes, Prepared] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, skills: tuple[Skill, ...], query: bytes) -> Prepared | None:
        """The page for a query string, if it is of exactly these skills."""
        with self._lock:
            return self._pages.get(query) if self._skills is skills else None

    def put(self, skills: tuple[Skill, ...], query: bytes, make: Callable[[], BaseModel]) -> Prepared:
        """Prepare a page and keep it."""
        page = Prepared.of(make())
        with self._lock:
            if self._skills is not skills:
                self._skills = skills
                self._pages.clear()
            self._pages[query] = page
            while len(self._pages) > _KEPT:
                self._pages.popitem(last=False)
        return page
