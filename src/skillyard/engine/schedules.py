"""Schedules: which skill runs when, with what parameters, and what happens to occurrences that were missed.

Each occurrence is one run whose id follows from the schedule and the moment: however many servers see it come due, the
records take that id once. So an occurrence is neither lost nor doubled. Cron expressions have five fields in a time zone:
what happens at an hour of the day happens once a day, also where summer time begins or ends; what happens every so many
minutes continues.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from sqlalchemy import delete, func, insert, select, update

from skillyard.access import record_audit
from skillyard.database import schedules
from skillyard.engine.run_call import check_priority
from skillyard.engine.run_files import RunFiles, delete_files, schedule_subject, write_files
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound
from skillyard.execution import WorkFile, check_travelling
from skillyard.plain_json import redacted_arguments, to_plain_json, to_redacted_json, with_redacted
from skillyard.times import utc_now, utc_text
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from sqlalchemy import Row

    from skillyard.database import Database


_LONGEST: Final = 200
_WRITTEN: Final = re.compile(
    r"(?:[0-9*/,#\s-]|l(?=[\s,0-9]|$)|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)+"
)
_FIELDS: Final = 5
_HINT: Final = "five fields: minute, hour, day, month, weekday; '0 8 * * mon-fri' is eight o'clock on working days"
_YEARS: Final = 8  # a 29th of February comes


def zone_of(name: str) -> ZoneInfo:
    """The time zone of that name.

    Raises:
        InvalidInput: there is none here.
    """
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        hint = "as Europe/Berlin or UTC; `pip install tzdata` where the system knows no time zones"
        raise InvalidInput(f"there is no time zone {name[:60]!r}", hint=hint) from None


def check_cron(expression: str) -> str:
    """The expression with single spaces between its fields.

    Raises:
        InvalidInput: it is none, or such a moment never comes.
    """
    parts = expression.split()
    if len(parts) != _FIELDS or len(expression) > _LONGEST or not _WRITTEN.fullmatch(expression.lower()):
        raise InvalidInput(f"{expression[:60]!r} is not a valid cron expression", hint=_HINT)
    normalized = " ".join(parts)
    next_occurrence(normalized, zone_of("UTC"), datetime.now(UTC))
    return normalized


def next_occurrence(expression: str, zone: ZoneInfo, after: datetime) -> datetime:
    """The first moment later than `after`, in UTC.

    Raises:
        InvalidInput: the expression is none, or such a moment never comes.
    """
    if expression.split()[1].startswith("*"):  # every hour: the clock's jumps do not matter
        offset = after.astimezone(zone).utcoffset() or timedelta()
        return _next(expression, (after + offset).replace(tzinfo=None)).replace(tzinfo=UTC) - offset
    wall = after.astimezone(zone).replace(tzinfo=None)
    while True:
        wall = _next(expression, wall)
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
        if moment > after:
            return moment


def _next(expression: str, wall: datetime) -> datetime:
    from croniter import croniter

    try:
        following = croniter(expression, wall, ret_type=datetime, max_years_between_matches=_YEARS).get_next()
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{expression!r} is not a cron expression that ever comes due: {error}", hint=_HINT) from None
    assert isinstance(following, datetime)  # noqa: S101 # it was asked for
    return following


EVENT_PREFIX: Final = "event:"
"""What a schedule of an event has before its type, where others name a skill."""
MissedRunPolicy = Literal["skip", "once", "all"]
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LATE: Final = timedelta(seconds=60)  # what is not more than that behind was not missed
_MOST: Final = 100  # of those that were missed, the newest
_FULL: Final = 1000  # schedules of one organisation
_GOING: Final = (schedules.c.paused.is_(False), schedules.c.held.is_(None))


@dataclass(frozen=True, slots=True)
class Schedule(WireForm):
    """One schedule: `skill` runs at every moment that `cron` means in `time_zone`, or once at `next_at`.

    Where `skill` is `event:TYPE`, the moment is an event of that type with the `parameters` as its data, and what waits for it
    runs; `last_run` is then the id of the event.
    Of the moments that were `missed`, because no server was there, none (`skip`), the last one (`once`) or each of the last
    hundred (`all`) is made up for. `entry`, `arguments`, `packages` and `workspace` are as of a `RunRequest`, `files` names
    those that each run is given. With `digest` nothing runs but exactly that content. `next_at` is None when it has ended.
    `made_by` is who made it, or has taken it over, with the API key `key_id`, or at this machine where that is None; `held` is
    why nothing is begun for them any more (see `ScheduleOwners`). Its plain data is for people: without what stands under a
    secret's name, as in the records of its runs.
    """

    name: str
    skill: str
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False, metadata=wire(write=to_redacted_json))
    context: Mapping[str, object] = field(default_factory=dict, hash=False, metadata=wire(hidden=True))
    cron: str | None = None
    time_zone: str = "UTC"
    missed: MissedRunPolicy = "once"
    priority: int = 0
    digest: str | None = None
    paused: bool = False
    created_at: datetime = field(default_factory=utc_now)
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_run: str | None = None
    made_by: str | None = None
    key_id: str | None = field(default=None, metadata=wire(hidden=True))
    held: str | None = None
    entry: str | None = None
    arguments: tuple[str, ...] = field(default=(), metadata=wire(write=redacted_arguments))
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    workspace: str | None = None

    @property
    def event(self) -> str | None:
        """The type of the event that it fires; None when it runs a skill."""
        return self.skill.removeprefix(EVENT_PREFIX) if self.skill.startswith(EVENT_PREFIX) else None

    def run_id(self, moment: datetime) -> str:
        """The id of the run of that moment."""
        text = f"{self.name}\n{self.created_at.isoformat()}\n{moment.isoformat()}"
        return f"run_{int(moment.timestamp() * 1e9):016x}{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def due(self, now: datetime) -> tuple[datetime, ...]:
        """The times that are due, including missed ones to run late, oldest first."""
        moments = self._passed(now)
        if self.missed == "skip":
            return tuple(moment for moment in moments if now - moment <= _LATE)
        return moments if self.missed == "all" else moments[-1:]

    def after(self, now: datetime) -> datetime | None:
        """When it comes due next, after `now`; None when it never does again."""
        if self.cron is None:
            return None
        zone = zone_of(self.time_zone)
        try:
            return next_occurrence(self.cron, zone, now)
        except InvalidInput:  # a day of the month that is a certain weekday comes again after more years than are looked at
            return None

    def _passed(self, now: datetime) -> tuple[datetime, ...]:
        if self.next_at is None or self.next_at > now:
            return ()
        if self.cron is None:
            return (self.next_at,)
        moments = [self.next_at]
        if now - self.next_at > timedelta(days=366):  # nobody walks through years of minutes
            moments = [self.after(now - timedelta(days=366)) or self.next_at]
        while (later := self.after(moments[-1])) is not None and later <= now:
            moments = [*moments[1 - _MOST :], later]
        return tuple(moment for moment in moments if moment <= now)


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules in one database, which `database` gives, opened; the methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used.
    """

    database: Callable[[], Database]

    def add(self, schedule: Schedule, *, at: datetime | None = None, files: Sequence[WorkFile] = ()) -> Schedule:
        """Keep a new schedule: a recurring one with its `cron`, or one that comes due once, `at` that moment.

        Each of its runs is given a copy of the `files`.

        Raises:
            InvalidInput: its name, time, zone, priority or parameters cannot be meant, the moment is in the past, or there are
                a thousand schedules.
            RecordExists: there is one of that name.
        """
        check_travelling(schedule.arguments, schedule.packages, files)
        _check(schedule)
        kept = replace(_timed(schedule, at), files=tuple(file.name for file in files))
        row = _row(kept)
        try:
            with self.database().write() as connection:
                if connection.execute(select(func.count()).select_from(schedules)).scalar_one() >= _FULL:
                    raise InvalidInput(
                        f"there are {_FULL:,} schedules already", hint="remove schedules that have no more times"
                    )
                connection.execute(insert(schedules).values(row))
                write_files(connection, schedule_subject(kept.name), "given", files)
        except RecordExists as error:
            raise RecordExists(
                f"there is a schedule {kept.name!r} already", hint="remove it, or choose another name"
            ) from error
        return kept

    def all(self) -> tuple[Schedule, ...]:
        """Every schedule, by name."""
        with self.database().read() as connection:
            return tuple(map(_schedule, connection.execute(select(schedules).order_by(schedules.c.name))))

    def get(self, name: str) -> Schedule:
        """The schedule of that name.

        Raises:
            RecordNotFound: there is none.
        """
        with self.database().read() as connection:
            row = connection.execute(select(schedules).where(schedules.c.name == name)).first()
        if row is None:
            raise RecordNotFound(f"there is no schedule {name[:60]!r}", hint="`skillyard schedule list` lists them")
        return _schedule(row)

    def given(self, schedule: Schedule) -> tuple[WorkFile, ...]:
        """The files that each run of the schedule is given."""
        return RunFiles(self.database).of(schedule_subject(schedule.name), "given") if schedule.files else ()

    def change(
        self, name: str, *, at: datetime | None = None, files: Sequence[WorkFile] | None = None, **values: Any
    ) -> Schedule:
        """Change the fields `values` of a schedule, from now on; `at` makes it one that comes due once.

        What it is given stays where `files` is None. A parameter or argument that reads `[redacted]`, as a schedule shows it,
        stays what it is.

        Raises:
            InvalidInput: as of `add`.
            RecordNotFound: there is none of that name.
        """
        before = self.get(name)
        for field_name in ("parameters", "arguments"):
            if field_name in values:
                values[field_name] = with_redacted(values[field_name], getattr(before, field_name))
        if at is not None:
            values.setdefault("cron", None)
        changed = replace(before, **values)
        if files is not None:
            changed = replace(changed, files=tuple(file.name for file in files))
        changed = replace(changed, arguments=tuple(changed.arguments), packages=tuple(changed.packages))
        check_travelling(changed.arguments, changed.packages, files or ())
        _check(changed)
        if at is not None or "cron" in values or (changed.cron is not None and changed.time_zone != before.time_zone):
            changed = _timed(changed, at)
        elif changed.paused < before.paused and changed.cron is not None:
            changed = replace(changed, next_at=changed.after(utc_now()))
        same = (schedules.c.name == name, schedules.c.created_at == before.created_at)
        with self.database().write() as connection:
            if connection.execute(update(schedules).where(*same).values(_row(changed))).rowcount != 1:
                raise RecordNotFound(f"{name!r} was removed meanwhile", hint="`skillyard schedule list` lists them")
            if files is not None:
                delete_files(connection, schedule_subject(name))
                write_files(connection, schedule_subject(name), "given", files)
        return changed

    def note_run(self, name: str, run_id: str) -> None:
        """Note a run that somebody began now as the last one of the schedule; when it comes due next stays."""
        with self.database().write() as connection:
            connection.execute(update(schedules).where(schedules.c.name == name).values(last_at=utc_now(), last_run=run_id))

    def remove(self, name: str) -> Schedule:
        """Remove a schedule; its runs stay in the records.

        Raises:
            RecordNotFound: there is none.
        """
        removed = self.get(name)
        with self.database().write() as connection:
            connection.execute(delete(schedules).where(schedules.c.name == name))
            delete_files(connection, schedule_subject(name))
        return removed

    def pause(self, name: str, *, paused: bool) -> Schedule:
        """Pause a schedule, or resume it from now on: times in between are skipped.

        Raises:
            RecordNotFound: there is none.
        """
        schedule = self.get(name)
        following = schedule.next_at if paused or schedule.cron is None else schedule.after(utc_now())
        with self.database().write() as connection:
            changed = update(schedules).where(schedules.c.name == name)
            connection.execute(changed.values(paused=paused, next_at=following))
        return replace(schedule, paused=paused, next_at=following)

    def hold(self, schedule: Schedule, reason: str) -> None:
        """Hold a schedule until somebody takes it over; the audit log records it."""
        same = (schedules.c.name == schedule.name, schedules.c.created_at == schedule.created_at)
        changed = (
            update(schedules)
            .where(*same, schedules.c.key_id.is_not_distinct_from(schedule.key_id), schedules.c.held.is_(None))
            .values(held=reason)
        )
        with self.database().write() as connection:
            if connection.execute(changed).rowcount:
                detail = {"reason": reason}
                record_audit(connection, "schedules.hold", schedule.name, "refused", detail, fallback=schedule.made_by)

    def take_over(
        self, name: str, *, made_by: str, key_id: str | None = None, context: Mapping[str, object] | None = None
    ) -> Schedule:
        """Resume a schedule from now for another person, whom `context` names to the skill.

        Raises:
            RecordNotFound: there is none.
        """
        schedule = self.get(name)
        following = schedule.next_at if schedule.cron is None else schedule.after(utc_now())
        values: dict[str, Any] = {"made_by": made_by, "key_id": key_id, "context": to_plain_json(dict(context or {}))}
        values |= {"held": None, "paused": False, "next_at": following}
        with self.database().write() as connection:
            connection.execute(update(schedules).where(schedules.c.name == name).values(values))
        return replace(schedule, **values)

    def due(self, now: datetime) -> tuple[Schedule, ...]:
        """Those that have come due, the one that waits for longest first."""
        query = select(schedules).where(schedules.c.next_at <= now, *_GOING)
        with self.database().read() as connection:
            return tuple(map(_schedule, connection.execute(query.order_by(schedules.c.next_at))))

    def next_at(self) -> datetime | None:
        """When the next one comes due."""
        with self.database().read() as connection:
            earliest: datetime | None = connection.execute(
                select(func.min(schedules.c.next_at, type_=schedules.c.next_at.type)).where(*_GOING)
            ).scalar()
        return earliest

    def advance(self, schedule: Schedule, now: datetime, *, ran: tuple[datetime, ...]) -> bool:
        """Note that the moments up to `now` are done; False when somebody else has noted it meanwhile."""
        values: dict[str, Any] = {"next_at": schedule.after(now)}
        if ran:
            values |= {"last_at": ran[-1], "last_run": schedule.run_id(ran[-1])}
        same = (schedules.c.created_at == schedule.created_at, schedules.c.next_at == schedule.next_at)
        with self.database().write() as connection:
            changed = update(schedules).where(schedules.c.name == schedule.name, *same).values(values)
            return connection.execute(changed).rowcount == 1


_LISTS: Final = ("arguments", "packages", "files")


def _row(schedule: Schedule) -> dict[str, Any]:
    row = {name: getattr(schedule, name) for name in Schedule.__dataclass_fields__}
    row |= {name: list(getattr(schedule, name)) or None for name in _LISTS}
    return row | {"parameters": to_plain_json(dict(schedule.parameters)), "context": to_plain_json(dict(schedule.context))}


def _schedule(row: Row[Any]) -> Schedule:
    return Schedule(**dict(row._mapping) | {name: tuple(row._mapping[name] or ()) for name in _LISTS})


def next_times(cron: str | None, at: datetime | None, time_zone: str, *, count: int = 5) -> tuple[datetime, ...]:
    """When a schedule that is added now would come due: the first `count` moments, in UTC.

    Raises:
        InvalidInput: such a time cannot be meant, or is in the past.
    """
    timed = _timed(Schedule(name="", skill="", cron=cron, time_zone=time_zone), at)
    times: list[datetime] = []
    moment = timed.next_at
    while moment is not None and len(times) < count:
        times.append(moment)
        moment = timed.after(moment)
    return tuple(times)


def _check(schedule: Schedule) -> None:
    if not _NAME.fullmatch(schedule.name):
        hint = "lower-case letters, digits and single dashes inside, at most 63: nightly-report"
        raise InvalidInput(f"{schedule.name[:60]!r} is not a valid name for a schedule", hint=hint)
    if schedule.missed not in get_args(MissedRunPolicy):
        raise InvalidInput(f"{schedule.missed!r} is not a policy for missed runs", hint="skip, once or all")
    check_priority(schedule.priority)
    if schedule.event is not None:
        from skillyard.engine.events import Event

        Event(schedule.event)
        if schedule.entry or schedule.arguments or schedule.packages or schedule.files or schedule.workspace:
            raise InvalidInput("an event has data, and no script, files or packages", hint="give parameters alone")


def _timed(schedule: Schedule, at: datetime | None) -> Schedule:
    """The schedule with the moment at which it comes due first; a moment without an offset is one of its time zone."""
    if (schedule.cron is None) == (at is None):
        raise InvalidInput(
            "a schedule has either a cron expression or one time", hint="give a cron expression for a recurring run"
        )
    zone, now = zone_of(schedule.time_zone), utc_now()
    if schedule.cron is not None:
        kept = replace(schedule, cron=check_cron(schedule.cron))
        return replace(kept, next_at=kept.after(now))
    assert at is not None  # noqa: S101 # one of the two
    try:
        moment = (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        raise InvalidInput("that time does not exist", hint="write it as 2026-01-31T08:00:00Z") from None
    if moment <= now:
        raise InvalidInput(f"{utc_text(moment)} is in the past", hint="give a time in the future")
    return replace(schedule, next_at=moment)
