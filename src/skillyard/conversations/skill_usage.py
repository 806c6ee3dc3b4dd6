"""The usage of skills in conversations: offered, loaded, read, run, and how the turn ended; and a report of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import case, func, insert, select

from skillyard.database import skill_usage
from skillyard.times import utc_now
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

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
        event, ok = skill_usage.c.event, skill_usage.c.ok
        where = select(
            skill_usage.c.skill_id,
            _times((event == "offered") & ok).label("offered"),
            _times((event == "loaded") & ok).label("loaded"),
            _times(event == "read").label("read"),
            _times(event == "run").label("run"),
            _times((event == "run") & ok.is_(False)).label("failed"),
            func.sum(skill_usage.c.tokens).label("tokens"),
            func.sum(skill_usage.c.duration_ms).label("duration_ms"),
        ).where(skill_usage.c.skill_id.is_not(None), event != "outcome")
        each = where.group_by(skill_usage.c.skill_id, skill_usage.c.conversation_id).subquery().c
        counted = select(
            each.skill_id,
            _times(each.offered > 0).label("offered"),
            _times(each.loaded > 0).label("loaded"),
            *(func.sum(each[name]).label(name) for name in ("read", "run", "failed")),
            _times((each.loaded > 0) & (each.read + each.run == 0)).label("unfollowed"),
            *(func.sum(each[name]).label(name) for name in ("tokens", "duration_ms")),
        ).group_by(each.skill_id)
        with self._database().read() as connection:
            rows = connection.execute(counted.order_by(each.skill_id)).all()
        return SkillUsageReport(tuple(SkillUsage(skill, *(int(number or 0) for number in numbers)) for skill, *numbers in rows))


def _times(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
