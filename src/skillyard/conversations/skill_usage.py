"""The usage of skills in conversations: offered, loaded, read, run, how the turn ended; a report, and the turns behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from sqlalchemy import case, false, func, insert, literal, select

from skillyard.conversations.conversation import TurnState
from skillyard.database import conversations, skill_usage, turns
from skillyard.times import utc_now
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select

    from skillyard.database import Database


SkillUsageKind = Literal["offered", "loaded", "read", "run", "ruled", "outcome"]
UsageStage = Literal["offered", "loaded", "followed", "succeeded", "refused"]
USAGE_STAGES: Final[tuple[UsageStage, ...]] = get_args(UsageStage)
_STAGES: Final[dict[UsageStage, tuple[SkillUsageKind, ...]]] = {
    "offered": ("offered",),
    "loaded": ("loaded",),
    "followed": ("read", "run"),
    "succeeded": ("outcome",),
    "refused": ("ruled",),
}
_MOST_OF_REQUEST: Final = 300
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
    """The usage of one skill in all conversations.

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


@dataclass(frozen=True, slots=True)
class TurnFilter:
    """Which turns of a person's conversations: where a skill got to a `stage`, of an agent, with a model, in some time.

    As insights count, a conversation is at a stage of a skill once: in the turn that got there first. Each refusal counts.
    Without a `stage` every turn counts once, with a `skill` those in which it was loaded, read or run; `failed` are those that
    ended badly. The time is that of the stage, else of the turn, from `since` and before `until`.
    """

    owner: str
    skill: str | None = None
    stage: UsageStage | None = None
    agent: str | None = None
    model: str | None = None
    failed: bool = False
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnSummary(WireForm):
    """One turn in a list: where it is, what was asked for, how it ended; the skill that got to a stage in it, and when."""

    conversation_id: str
    title: str
    agent: str | None
    model: str | None
    turn_id: str | None
    number: int | None
    replaced: bool
    state: TurnState | None
    request: str
    skill_id: str | None
    detail: str | None
    at: datetime = field(metadata=wire(write=lambda moment: moment.isoformat(timespec="milliseconds")))


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

    def turns(self, only: TurnFilter, *, limit: int = 50, offset: int = 0) -> tuple[int, tuple[TurnSummary, ...]]:
        """How many turns there are, and the newest of them, newest first; the request of each cut to 300 characters."""
        query, newest = _turns_at_stage(only, only.stage) if only.stage else _turns(only)
        with self._database().read() as connection:
            total = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
            rows = connection.execute(query.order_by(*(column.desc() for column in newest)).limit(limit).offset(offset))
            return int(total), tuple(TurnSummary(**row._mapping) for row in rows)

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


def _turns_at_stage(only: TurnFilter, stage: UsageStage) -> tuple[Select[Any], tuple[ColumnElement[Any], ...]]:
    """The turns in which skills got to the stage first, and what they are ordered by."""
    used = skill_usage.c
    reached: list[ColumnElement[bool]] = [
        used.event.in_(_STAGES[stage]),
        used.ok.is_(stage != "refused"),
        used.skill_id.is_not(None),
    ]
    if only.skill is not None:
        reached = [*reached, used.skill_id == only.skill]
    query = select(*_summary(), used.skill_id, used.detail, used.at).select_from(
        skill_usage.join(conversations, conversations.c.id == used.conversation_id).outerjoin(turns, turns.c.id == used.turn_id)
    )
    if stage == "refused":
        query = query.where(*reached)
    else:
        own = select(conversations.c.id).where(*_whose(only))
        first = select(func.min(used.number)).where(*reached).group_by(used.skill_id, used.conversation_id)
        query = query.where(used.number.in_(first if only.skill else first.where(used.conversation_id.in_(own))))
    if only.failed:
        query = query.where(turns.c.state == "failed")
    return query.where(*_whose(only), *_in_time(only, used.at)), (used.at, used.number)


def _turns(only: TurnFilter) -> tuple[Select[Any], tuple[ColumnElement[Any], ...]]:
    """The turns that have ended, with or without use of skills, and what they are ordered by."""
    begun = turns.c.created_at
    nothing = (literal(None).label("skill_id"), literal(None).label("detail"))
    query = select(*_summary(), *nothing, begun.label("at")).select_from(turns.join(conversations))
    query = query.where(*_whose(only), *_in_time(only, begun), turns.c.state.in_(("failed",) if only.failed else _ENDED))
    if only.skill is not None:
        events = ("loaded", "read", "run")
        used = select(skill_usage.c.turn_id).where(skill_usage.c.skill_id == only.skill, skill_usage.c.event.in_(events))
        query = query.where(turns.c.id.in_(used))
    return query, (begun, turns.c.id)


_ENDED: Final = ("done", "failed", "stopped", "interrupted")


def _summary() -> tuple[ColumnElement[Any], ...]:
    """The columns of a turn and its conversation in a list."""
    return (
        conversations.c.id.label("conversation_id"), conversations.c.title, conversations.c.agent,
        func.coalesce(turns.c.model, conversations.c.model).label("model"), turns.c.id.label("turn_id"), turns.c.number,
        func.coalesce(turns.c.replaced, false()).label("replaced"), turns.c.state,
        func.coalesce(func.substr(turns.c.request, 1, _MOST_OF_REQUEST), "").label("request"),
    )  # fmt: skip


def _whose(only: TurnFilter) -> list[ColumnElement[bool]]:
    conditions = [conversations.c.owner == only.owner]
    if only.agent is not None:
        conditions.append(conversations.c.agent == only.agent)
    return conditions


def _in_time(only: TurnFilter, moment: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    conditions = []
    if only.model is not None:
        conditions.append(func.coalesce(turns.c.model, conversations.c.model) == only.model)
    if only.since is not None:
        conditions.append(moment >= only.since)
    if only.until is not None:
        conditions.append(moment < only.until)
    return conditions


def _times(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
