"""The scheduler: begins the runs of schedules that have come due, each once, however many processes look.

`ScheduleOwners` decides for whom no runs are begun any more: what was planted with a stolen key ends with that key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from skillyard.access import key_problem
from skillyard.engine.run_lifecycle import run_error
from skillyard.engine.run_record import RunRecord
from skillyard.errors import ApprovalRejected, DatabaseUnavailable, PermissionDenied, RecordExists, SkillyardError
from skillyard.execution import RunOrigin, RunRequest, new_run_id
from skillyard.times import utc_now

if TYPE_CHECKING:
    from skillyard.access import Keys
    from skillyard.catalog import Skill
    from skillyard.engine.journal import Journal
    from skillyard.engine.local_engine import StartedRun
    from skillyard.engine.pool_engine import PoolEngine
    from skillyard.engine.schedules import Schedule, Schedules
    from skillyard.execution import RunError
    from skillyard.permissions import PermissionGate


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScheduleOwners:
    """Those who make schedules in one organisation, known by the `keys` of the server."""

    keys: Keys
    organisation: str

    def held(self, schedules: Iterable[Schedule]) -> tuple[Schedule, ...]:
        """The current schedules; those whose maker may not start runs any more have the reason in `held`.

        Raises:
            DatabaseUnavailable: the keys cannot be read.
        """
        listed = tuple(schedules)
        if all(one.key_id is None for one in listed):  # made at this machine
            return listed
        keys = {key.id: key for key in self.keys.all(self.organisation)}
        return tuple(
            one
            if one.held or one.key_id is None
            else replace(one, held=key_problem(one.made_by or "somebody", keys.get(one.key_id)))
            for one in listed
        )


class Scheduler:
    """Begins what `schedules` say is due with `begin`, which is given the schedule and the id of the run, and gives the runs.

    What cannot be begun, because the skill was removed or denied, is recorded in `journal` as failed. What `makers` report as
    held is not begun, and is paused from then on.
    """

    def __init__(
        self,
        schedules: Schedules,
        journal: Callable[[], Journal],
        begin: Callable[[Schedule, str], Awaitable[Sequence[StartedRun]]],
        makers: ScheduleOwners | None = None,
    ) -> None:
        self._schedules, self._journal, self._begin, self._makers = schedules, journal, begin, makers

    async def next_at(self) -> datetime | None:
        """When the next one comes due.

        Raises:
            DatabaseUnavailable: the records cannot be read.
        """
        return await asyncio.to_thread(self._schedules.next_at)

    async def begin_due(self, now: datetime | None = None) -> tuple[StartedRun, ...]:
        """Begin every run that has come due and that nobody else has begun; gives those.

        Raises:
            DatabaseUnavailable: the records cannot be used; what was not begun comes due again.
        """
        now = now or utc_now()
        begun: list[StartedRun] = []
        for schedule in await asyncio.to_thread(self._schedules.due, now):
            try:
                begun.extend(await self._moments(schedule, now))
            except DatabaseUnavailable:
                raise
            except SkillyardError as error:  # its time zone is not known here: the others come due all the same
                _log.warning("the schedule %s: %s", schedule.name, error.message)
        return tuple(begun)

    async def begin_now(self, name: str) -> tuple[str, tuple[StartedRun, ...]]:
        """Begin a run of a schedule now, beside those at its times; gives its id, of an event that of the event.

        Raises:
            RecordNotFound: there is no such schedule.
            PermissionDenied: it is held, or its skill may not be used.
            SkillyardError: it cannot be begun.
        """
        schedule = await asyncio.to_thread(self._schedules.get, name)
        held = await asyncio.to_thread(self._makers.held, (schedule,)) if self._makers else (schedule,)
        if held[0].held is not None:
            raise PermissionDenied(f"the schedule {name!r} is held: {held[0].held}", hint="take it over first")
        run_id = new_run_id()
        begun = await self._begin(schedule, run_id)
        await asyncio.to_thread(self._schedules.note_run, name, run_id)
        return run_id, tuple(begun)

    async def _moments(self, schedule: Schedule, now: datetime) -> list[StartedRun]:
        """The runs of one schedule that have come due, begun."""
        if await asyncio.to_thread(self._held, schedule):
            return []
        moments = await asyncio.to_thread(schedule.due, now)  # a year of minutes takes seconds
        begun = [run for moment in moments for run in await self._once(schedule, schedule.run_id(moment))]
        await asyncio.to_thread(self._schedules.advance, schedule, now, ran=moments)
        return begun

    def _held(self, schedule: Schedule) -> bool:
        """Whether no runs are begun for its maker any more; recorded."""
        reason = self._makers.held((schedule,))[0].held if self._makers else None
        if reason is not None:
            _log.warning("the schedule %s is held: %s", schedule.name, reason)
            self._schedules.hold(schedule, reason)
        return reason is not None

    async def _once(self, schedule: Schedule, run_id: str) -> Sequence[StartedRun]:
        """What was begun; nothing when somebody has, or when it cannot be."""
        try:
            return await self._begin(schedule, run_id)
        except RecordExists:
            return ()
        except DatabaseUnavailable:
            raise
        except SkillyardError as error:
            _log.warning("the schedule %s: %s", schedule.name, error.message)
            await asyncio.to_thread(self._failed, schedule, run_id, run_error(error))
            return ()

    def _failed(self, schedule: Schedule, run_id: str, error: RunError) -> None:
        """Record a run that could not be begun."""
        record = RunRecord(
            id=run_id,
            skill_id=schedule.skill,
            skill_name=schedule.skill,
            kind="direct",
            state="queued",
            created_at=utc_now(),
            parameters=schedule.parameters,
            context=schedule.context,
            priority=schedule.priority,
            schedule=schedule.name,
            entry=schedule.entry,
            arguments=schedule.arguments,
            packages=schedule.packages,
        )
        journal = self._journal()
        try:
            journal.queue(record)
        except RecordExists:
            return
        journal.stop(run_id, "failed", error)


async def begin_scheduled(
    schedule: Schedule,
    run_id: str,
    *,
    schedules: Schedules,
    find: Callable[[str, str | None], Skill],
    gate: PermissionGate,
    engine: Callable[[], PoolEngine],
) -> StartedRun:
    """Begin the run of a schedule, without anybody to approve it; `find` gives the skill, where it can with that digest.

    Raises:
        SkillNotFound, AmbiguousSkill: `find` does not give the skill.
        PermissionDenied, SkillUnusable: it may not be used.
        ApprovalRejected: a rule requires an approval, and none was given when the schedule was made.
    """
    skill = await asyncio.to_thread(find, schedule.skill, schedule.digest)
    gate.check(skill)
    if schedule.digest is None and gate.rules.decide(skill) == "ask":
        raise ApprovalRejected("a rule requires approval first", hint="create the schedule again and approve it")
    files = await asyncio.to_thread(schedules.given, schedule)
    request = RunRequest(
        skill, schedule.parameters, schedule.context, schedule.entry, schedule.digest, schedule.arguments, schedule.packages,
        files, schedule.workspace, run_id=run_id, priority=schedule.priority, schedule=schedule.name,
        origin=RunOrigin("schedule"),
    )  # fmt: skip
    return await engine().begin(request)
