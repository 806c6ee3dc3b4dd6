"""The clock of the schedules: those of every organisation are looked at when their next run comes due.

Every server process looks. That a run of a schedule is begun once is in its id, so none has to know of another.
How long to wait is measured without the wall clock, which may be set back while one waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from skillyard.access import DEFAULT_ORGANISATION, Keys
from skillyard.engine import ScheduleOwners
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable, SkillyardError
from skillyard.times import utc_now

if TYPE_CHECKING:
    from skillyard.server.organisation_services import OrganisationPool


_log = logging.getLogger(__name__)


class ScheduleClock:
    """Begins the runs of all schedules of one server."""

    def __init__(self, homes: OrganisationPool) -> None:
        self._homes, self._timing = homes, homes.main.catalog.timing
        self._looks: dict[str, float] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at the clock as long as the block lasts; a look that has begun is finished before it ends."""
        leaving = asyncio.Event()
        going = asyncio.create_task(self._go(leaving))
        yield
        leaving.set()
        await asyncio.wait([going])

    async def _go(self, leaving: asyncio.Event) -> None:
        while not leaving.is_set():
            try:
                for name in await asyncio.to_thread(self._names):
                    if self._looks.get(name, 0.0) <= time.monotonic() and not leaving.is_set():
                        await self._look(name)
            except DatabaseDamaged as error:
                _log.error("looking at the schedules failed: %s", error.sentence)  # our own words say it all
            except DatabaseUnavailable:
                pass  # `readyz` says so
            except Exception:
                _log.exception("looking at the schedules failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.schedules_tick_s):
                    await leaving.wait()

    def wake(self, organisation: str) -> None:
        """Look at the schedules of an organisation at the next tick: they have been changed."""
        self._looks.pop(organisation, None)

    def _names(self) -> list[str]:
        if self._looks and min(self._looks.values()) > time.monotonic():
            return []
        return [organisation.name for organisation in self._homes.organisations.all()]

    async def _look(self, name: str) -> None:
        """Begin what has come due in one organisation."""
        self._looks[name] = time.monotonic() + self._timing.schedules_look_s
        try:
            async with self._homes.of(name) as service:
                scheduler = service.catalog.scheduler(service.runs.begin, ScheduleOwners(Keys(self._homes.database), name))
                await scheduler.begin_due()
                following = await scheduler.next_at()
        except DatabaseUnavailable:
            raise
        except SkillyardError as error:
            if name == DEFAULT_ORGANISATION:
                _log.warning("the schedules of %s: %s", name, error.message)
            return
        if following is not None:
            self._looks[name] = min(self._looks[name], time.monotonic() + (following - utc_now()).total_seconds())
