"""The usage of skills in conversations: offered, loaded, read, run, and how the turn ended; and a report of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import func, insert, select

from skillyard.database import skill_usage
from skillyard.times import utc_now
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.database import Database


SkillUsageKind = Literal["offered", "loaded", "read", "run", "ruled", "outcome"]
_COLUMNS: Final = [column for column in skill_usage.c if column.name not in ("number", "counted")]
_OFTEN: Final = 0.3
_AT_LEAST: Final = 2
_ENOUGH: Final = 10  # conversations; most of them are about something else


@dataclass(frozen=True, slots=True)
class SkillUsageEvent(WireForm):
    """One thing that happened to a skill: `detail` is a file, a run, or how the turn ended; its cost in tokens and time.

    `ruled` is a call of a tool that a rule has decided about: `detail` says which rule of whom, the skill is there when it is
    that skill's own.
    """

    conversation_id: str = field(metadata=wire(name="conversation"))
    turn_id: str = field(metadata=wire(name="turn"))
    event: SkillUsageKind
    skill_id: str | None = field(metadata=wire(name="skill"))
    detail: str | None = None
    ok: bool = True
    tokens: int = 0
    duration_ms: int = 0
    at: datetime = field(default_factory=utc_now, metadata=wire(write=lambda moment: moment.isoformat(timespec="milliseconds")))


@dataclass(frozen=True, slots=True)
class SkillUsage(WireForm, also=("never_used", "fails_often")):
    """What became of one skill in all conversations.

    `offered` and `loaded` count conversations, the others calls; `unfollowed` counts conversations that loaded it and then
    neither read a file of it nor ran it.
    """

    skill_id: str
    offered: int = 0
    loaded: int = 0
    read: int = 0
    run: int = 0
    failed: int = 0
    unfollowed: int = 0
    tokens: int = 0
    duration_ms: int = 0

    @property
    def fails_often(self) -> bool:
        """Whether three in ten of its runs fail, two at least."""
        return self.failed >= _AT_LEAST and self.failed >= _OFTEN * self.run

    @property
    def never_used(self) -> bool:
        """Whether it was offered in ten conversations at least, and nothing of it was ever loaded, read or run.

        Fewer say nothing: most skills are for something else than what is talked about.
        """
        return self.offered >= _ENOUGH and not (self.loaded or self.read or self.run)


@dataclass(frozen=True, slots=True)
class SkillUsageReport:
    """The use of every skill that was ever offered, and those that somebody should look at."""

    skills: tuple[SkillUsage, ...]

    @property
    def never_used(self) -> tuple[str, ...]:
        """The skills that were offered often enough and never used."""
        return tuple(use.skill_id for use in self.skills if use.never_used)

    @property
    def fails_often(self) -> tuple[str, ...]:
        """The skills whose runs often fail."""
        return tuple(use.skill_id for use in self.skills if use.fails_often)

    def not_followed(self, with_more: Collection[str]) -> tuple[str, ...]:
        """Of the skills that have more than their text (`with_more`), those that are loaded and mostly not followed."""
        return tuple(
            use.skill_id
            for use in self.skills
            if use.skill_id in with_more and use.unfollowed and 2 * use.unfollowed >= use.loaded
        )


class SkillUsageLog:
    """The usage of skills in one database. Its methods block."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    def add(self, steps: Sequence[SkillUsageEvent]) -> None:
        """Write down what happened."""
        if not steps:
            return
        rows = [{column.name: getattr(step, column.name) for column in _COLUMNS} for step in steps]
        with self._database().write() as connection:
            connection.execute(insert(skill_usage), rows)

    def of(self, *, conversation: str | None = None, skill: str | None = None, limit: int = 200) -> tuple[SkillUsageEvent, ...]:
        """The newest steps, in the order they happened; of one conversation, of one skill."""
        query = select(*_COLUMNS).order_by(skill_usage.c.number.desc()).limit(limit)
        if conversation is not None:
            query = query.where(skill_usage.c.conversation_id == conversation)
        if skill is not None:
            query = query.where(skill_usage.c.skill_id == skill)
        with self._database().read() as connection:
            rows = connection.execute(query).all()
        return tuple(SkillUsageEvent(**row._mapping) for row in reversed(rows))

    def report(self) -> SkillUsageReport:
        """The use of every skill, by its id."""
        counted = select(
            skill_usage.c.skill_id,
            skill_usage.c.event,
            skill_usage.c.conversation_id,
            skill_usage.c.ok,
            func.count().label("times"),
            func.sum(skill_usage.c.tokens).label("tokens"),
            func.sum(skill_usage.c.duration_ms).label("duration_ms"),
        ).where(skill_usage.c.skill_id.is_not(None), skill_usage.c.event != "outcome")
        counted = counted.group_by(skill_usage.c.skill_id, skill_usage.c.event, skill_usage.c.conversation_id, skill_usage.c.ok)
        with self._database().read() as connection:
            rows = connection.execute(counted).all()
        by_skill: dict[str, list[Any]] = {}
        for row in rows:
            by_skill.setdefault(row.skill_id, []).append(row)
        return SkillUsageReport(tuple(_use(skill, by_skill[skill]) for skill in sorted(by_skill)))


def _use(skill_id: str, rows: Sequence[Any]) -> SkillUsage:
    where = {event: {row.conversation_id for row in rows if row.event == event and row.ok} for event in ("offered", "loaded")}
    times = {event: sum(row.times for row in rows if row.event == event) for event in ("read", "run")}
    followed = {row.conversation_id for row in rows if row.event in ("read", "run")}
    return SkillUsage(
        skill_id,
        offered=len(where["offered"]),
        loaded=len(where["loaded"]),
        read=times["read"],
        run=times["run"],
        failed=sum(row.times for row in rows if row.event == "run" and not row.ok),
        unfollowed=len(where["loaded"] - followed),
        tokens=sum(row.tokens or 0 for row in rows),
        duration_ms=sum(row.duration_ms or 0 for row in rows),
    )
