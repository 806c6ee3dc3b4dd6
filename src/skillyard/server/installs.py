"""The installs that go on after their request was answered: carried out here, known to every process of the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

from skillyard.database import forget_happenings, happenings_of, tell_happenings
from skillyard.engine import Owner
from skillyard.errors import SkillyardError

if TYPE_CHECKING:
    from skillyard.database import Database

__all__ = ["Failure", "InstallDesk"]

_GONE: Final = "the process that worked on it is gone; nothing was changed"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an install failed before it had a log of its own."""

    code: str
    message: str


class InstallDesk:
    """Carries installs out in threads; that one goes on, or why it failed, is a happening of the operation for a day."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._going: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Whether one goes on here."""
        return bool(self._going)

    async def begin(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        """Do the work in a thread; what it needs is let go of when it is done.

        Raises:
            DatabaseUnavailable: nobody could be told; nothing was begun.
        """
        async with held:
            await run_in_threadpool(self._tell, operation_id, {"begun": str(Owner.current())})
            task = self._going[operation_id] = asyncio.create_task(self._done(operation_id, work, held.pop_all()))
        task.add_done_callback(lambda _: self._going.pop(operation_id, None))

    def known(self, operation_id: str) -> tuple[bool, Failure | None]:
        """Whether an operation goes on, in whatever process, and why it failed when it did. Blocks."""
        with self._database().read() as connection:
            told = happenings_of(connection, operation_id)
        last = told[-1].body if told else {}
        if "failed" in last:
            return False, Failure(**last["failed"])
        if "begun" not in last:
            return False, None
        owner = Owner.read(last["begun"])
        gone = owner is None or owner.alive() is False
        return not gone, Failure("interrupted", _GONE) if gone else None

    async def close(self) -> None:
        """Wait for what goes on: an install cannot be cut off in the middle, only killed."""
        if self._going:
            await asyncio.wait(tuple(self._going.values()))

    async def _done(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        failed = None
        async with held:
            try:
                await run_in_threadpool(work)
            except SkillyardError as error:
                failed = Failure(error.code, error.message)
            except Exception as error:
                _log.exception("the operation %s failed", operation_id)
                failed = Failure(SkillyardError.code, f"something went wrong in the server: {type(error).__name__}")
        try:
            await run_in_threadpool(self._end, operation_id, failed)
        except SkillyardError:
            _log.exception("how the operation %s ended could not be told", operation_id)

    def _end(self, operation_id: str, failed: Failure | None) -> None:
        if failed is not None:
            self._tell(operation_id, {"failed": {"code": failed.code, "message": failed.message}})
            return
        with self._database().write() as connection:
            forget_happenings(connection, operation_id)

    def _tell(self, operation_id: str, body: object) -> None:
        with self._database().write() as connection:
            tell_happenings(connection, operation_id, [body])
