"""The homes of one server: each organisation's own rooms, opened when somebody of it first asks, let go of when long unused."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool

from skillyard.access import DEFAULT, Organisations
from skillyard.database import Database
from skillyard.server.service import Service

__all__ = ["Homes"]

_KEPT: Final = 16


@dataclass(slots=True)
class _Home:
    service: Service
    users: int = 0
    following: asyncio.Task[None] | None = None

    async def close(self, grace_s: float) -> None:
        """Let go of everything; what goes on may go on for `grace_s` seconds."""
        if self.following is not None:
            await _end(self.following)
        await self.service.close(grace_s)
        await run_in_threadpool(self.service.registry.close)
        await run_in_threadpool(self.service.catalog.records().close)


class Homes:
    """Gives the `Service` of an organisation; that of the default one is the server's own, `main`.

    At most `kept` others stay open beside those that are in use.
    """

    def __init__(self, main: Service, *, kept: int = _KEPT) -> None:
        self._main = _Home(main)
        self._kept = kept
        self._open: OrderedDict[str, _Home] = OrderedDict()
        self._lock = threading.Lock()  # held for moments only
        self._opening = threading.Lock()

    @property
    def main(self) -> Service:
        """The rooms of the default organisation."""
        return self._main.service

    @contextlib.asynccontextmanager
    async def running(self, grace_s: Callable[[], float]) -> AsyncIterator[None]:
        """Let the catalog of `main` follow what others do to its folders; at the end let go of every home.

        What goes on then may go on for `grace_s` seconds, asked when it is time.
        """
        following = asyncio.create_task(self.main.follow())
        yield
        await _end(following)
        await self.close(grace_s())

    def stop_asking(self) -> None:
        """Close the questions that are put from here: a server that stops would wait for their answers in vain."""
        with self._lock:
            homes = [*self._open.values(), self._main]
        for home in homes:
            home.service.questions.close()

    @property
    def organisations(self) -> Organisations:
        """Which there are."""
        return Organisations(self.database)

    def database(self) -> Database:
        """The server's main database: keys, sessions and organisations are in it."""
        return self.main.catalog.records().database

    @contextlib.asynccontextmanager
    async def of(self, organisation: str) -> AsyncIterator[Service]:
        """The rooms of an organisation, open as long as the block lasts.

        Raises:
            RecordNotFound: there is no such organisation.
            DatabaseUnavailable: its records cannot be opened.
        """
        if organisation == DEFAULT:
            yield self.main
            return
        while (home := self._taken(organisation)) is None:
            await run_in_threadpool(self._opened, organisation)  # not counted there: the caller may have gone meanwhile
        if home.following is None or home.following.done():
            home.following = asyncio.create_task(home.service.follow())
        try:
            yield home.service
        finally:
            for unused in self._given_back(home):
                await unused.close(0)

    async def close(self, grace_s: float) -> None:
        """Let go of every home; what goes on there may go on for `grace_s` seconds."""
        with self._lock:
            homes = [*self._open.values(), self._main]
            self._open.clear()
        await asyncio.gather(*(home.close(grace_s) for home in homes))

    def _taken(self, organisation: str) -> _Home | None:
        """The home, counted as in use; None when it is not open."""
        with self._lock:
            home = self._open.get(organisation)
            if home is not None:
                home.users += 1
                self._open.move_to_end(organisation)
            return home

    def _opened(self, organisation: str) -> None:
        with self._opening:
            if organisation not in self._open:
                made = _Home(self._service(organisation))
                with self._lock:
                    self._open[organisation] = made

    def _service(self, name: str) -> Service:
        catalog = self.organisations.catalog(name, self.main.catalog)
        registry = self.main.registry.beside(catalog)
        _ = registry.ledger  # what a killed server left there is put in order
        return Service(catalog, registry)

    def _given_back(self, home: _Home) -> list[_Home]:
        """Count a home as used by one less; what is to be let go of for that."""
        with self._lock:
            home.users -= 1
            idle = [name for name, other in self._open.items() if not (other.users or other.service.busy)]
            return [self._open.pop(name) for name in idle[: max(0, len(self._open) - self._kept)]]


async def _end(following: asyncio.Task[None]) -> None:
    if not following.done():
        following.cancel()
        await asyncio.wait([following])
