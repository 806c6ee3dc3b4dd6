"""Adding up what has ended: runs, turns and the usage of skills, each once, by day and combination, and by day and dimension.

`read_uses` says of skills how often and when last they were used, as lists of skills show it.

Rows of one dimension alone are few however many runs there are, and most reports need no others.
A row of the records that is added is marked in the same transaction, so that nothing is counted twice or left out, however
late it was written and whichever process counts. Days are those of UTC.
"""

from __future__ import annotations

import hashlib
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import case, func, select, update

from skillyard.database import (
    USAGE_BUCKETS,
    USAGE_DIMENSIONS,
    USAGE_MEASURES,
    conversations,
    insert_or_add,
    runs,
    skill_usage,
    take_global_lock,
    turns,
    usage_by_dimension,
    usage_totals,
)
from skillyard.execution.skill_call import TRIAL_INTERFACES
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row, Select

    from skillyard.database import Database


BUCKET_BOUNDS_MS: Final = tuple(round(5 * 1.6**number) for number in range(USAGE_BUCKETS - 1))
"""A run that took as long or less is in the bucket of the first such bound, 5 ms to 155 s; a longer one in the last bucket."""

REFUSALS: Final = ("PERMISSION_DENIED", "APPROVAL_REJECTED")
"""The error codes of runs that a rule or a person refused."""
_BATCH: Final = 2_000
_SUMS: Final = (*USAGE_MEASURES, *(f"took_{number}" for number in range(USAGE_BUCKETS)))
_ALONE: Final = ("agent", "caller", "interface", "model")
_KEY: Final = tuple(column.name for column in usage_by_dimension.primary_key)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def count_usage(database: Database, *, seconds: float | None = None, conversation: str | None = None) -> bool:
    """Add what has ended since the last time; False when there is more than could be added in so many seconds. Blocks.

    With the id of a `conversation` only its turns and the usage of skills in it. Each batch is a transaction of its own, so
    that others wait for a few hundredths of a second at most.

    Raises:
        DatabaseUnavailable: the database cannot be written.
    """
    until = None if seconds is None else time.monotonic() + seconds
    for source in _SOURCES if conversation is None else _SOURCES[1:]:
        while source.count_batch(database, conversation) == _BATCH:
            if until is not None and time.monotonic() > until:
                return False
    return True


class _Totals:
    """The sums of one batch: by day and all dimensions, and by day and each of them alone."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], dict[str, int]] = {}
        self._alone: dict[tuple[Any, ...], dict[str, int]] = {}

    def add(self, moment: datetime, dimensions: Mapping[str, Any], measures: Mapping[str, int]) -> None:
        day, named = (moment - _EPOCH).days, {name: dimensions.get(name) or "" for name in USAGE_DIMENSIONS}
        _add(self._sums, (day, *named.values()), measures)
        if named["interface"] in TRIAL_INTERFACES:
            return
        skill, model = named["skill_id"], named["model"]
        for name in _ALONE:
            _add(self._alone, (name, day, named[name], "", model), measures)
        if skill:
            _add(self._alone, ("skill", day, skill, "", model), measures)
            if "runs" in measures:
                _add(self._alone, ("version", day, named["version"], skill, model), measures)

    def write(self, connection: Connection) -> None:
        rows = [
            {"id": hashlib.sha256(repr(key).encode()).hexdigest(), "day": key[0]}
            | dict(zip(USAGE_DIMENSIONS, key[1:], strict=True))
            | sums
            for key, sums in self._sums.items()
        ]
        insert_or_add(connection, usage_totals, rows, sums=_SUMS)
        alone = [dict(zip(_KEY, key, strict=True)) | sums for key, sums in self._alone.items()]
        insert_or_add(connection, usage_by_dimension, alone, sums=_SUMS)


def _add(to: dict[tuple[Any, ...], dict[str, int]], key: tuple[Any, ...], measures: Mapping[str, int]) -> None:
    sums = to.setdefault(key, dict.fromkeys(_SUMS, 0))
    for name, value in measures.items():
        sums[name] += value


class _Source:
    """Rows of the records that are counted: those that `query` gives, by their `key`."""

    def __init__(
        self, query: Select[Any], key: ColumnElement[Any], add: Callable[[Connection, Sequence[Row[Any]], _Totals], None]
    ) -> None:
        self._query = query.where(key.table.c.counted.is_(False))
        self._key = key
        self._add = add

    def count_batch(self, database: Database, conversation: str | None) -> int:
        """Count up to 2,000 rows, those of one conversation or all; gives how many."""
        query, table = self._query, self._key.table
        if conversation is not None:
            query = query.where(table.c.conversation_id == conversation)
        with database.read() as connection:  # mostly there is none, which is seen without a lock
            if connection.execute(query.limit(1)).first() is None:
                return 0
        with database.write() as connection:
            take_global_lock(connection)
            rows = connection.execute(query.limit(_BATCH)).all()
            if rows:
                totals = _Totals()
                self._add(connection, rows, totals)
                totals.write(connection)
                marked = update(table).where(self._key.in_([row.key for row in rows])).values(counted=True)
                connection.execute(marked)
            return len(rows)


def _add_runs(_: Connection, rows: Sequence[Row[Any]], totals: _Totals) -> None:
    for row in rows:
        measures = {"runs": 1, **read_tokens(row.token_usage)}
        if row.error_code in REFUSALS:
            measures["refused"] = 1
        elif row.cache_hit:
            measures["runs_cached"] = measures["runs_succeeded"] = 1
        else:
            measures[f"runs_{row.state}" if row.state in ("succeeded", "failed") else "runs_cancelled"] = 1
            if row.duration_ms and row.state in ("succeeded", "failed"):
                measures |= {"duration_ms": row.duration_ms, f"took_{bisect_left(BUCKET_BOUNDS_MS, row.duration_ms)}": 1}
        totals.add(row.moment, dict(row._mapping), measures)


def read_tokens(usage: object) -> dict[str, int]:
    """The tokens that a skill says it used, in any of the usual spellings; a lone number counts as output."""
    given = usage if isinstance(usage, Mapping) else {"output_tokens": usage}
    counts = {}
    for name, spellings in _TOKEN_SPELLINGS.items():
        value = next((given[spelling] for spelling in spellings if given.get(spelling) is not None), 0)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MOST_TOKENS:
            counts[name] = int(value)
    return counts


_MOST_TOKENS: Final = 10**12  # a skill may say anything
_TOKEN_SPELLINGS: Final = {
    "input_tokens": ("input_tokens", "inputTokens", "input", "prompt_tokens", "promptTokens"),
    "output_tokens": ("output_tokens", "outputTokens", "output", "completion_tokens", "completionTokens", "total"),
}


def _add_turns(_: Connection, rows: Sequence[Row[Any]], totals: _Totals) -> None:
    for row in rows:
        measures = {"turns": 1, "turns_failed": int(row.state == "failed"), **read_tokens(row.usage or {})}
        totals.add(row.moment, {**row._mapping, "interface": "chat"}, measures)


_FUNNEL: Final = {"offered": "offered", "loaded": "loaded", "read": "followed", "run": "followed", "outcome": "succeeded"}


def _add_usage(connection: Connection, rows: Sequence[Row[Any]], totals: _Totals) -> None:
    """Each stage of a skill counts once for a conversation: when it first got there."""
    seen = select(skill_usage.c.conversation_id, skill_usage.c.skill_id, skill_usage.c.event).distinct()
    seen = seen.where(skill_usage.c.counted.is_(True), skill_usage.c.ok.is_(True), skill_usage.c.skill_id.is_not(None))
    seen = seen.where(skill_usage.c.conversation_id.in_({row.conversation_id for row in rows}))
    reached = {(row.conversation_id, row.skill_id, _FUNNEL.get(row.event)) for row in connection.execute(seen)}
    for row in rows:
        measures = {}
        stage = _FUNNEL.get(row.event)
        if row.event == "ruled" and not row.ok:
            measures["refused"] = 1
        elif row.ok and stage and (mark := (row.conversation_id, row.skill_id, stage)) not in reached:
            reached.add(mark)
            measures[stage] = 1
        if measures and row.skill_id:
            totals.add(row.moment, {**row._mapping, "interface": "chat"}, measures)


_BY: Final = (conversations.c.agent, conversations.c.owner.label("caller"))
_SOURCES: Final = (
    _Source(
        select(
            runs.c.id.label("key"), func.coalesce(runs.c.finished_at, runs.c.created_at).label("moment"),
            runs.c.skill_id, runs.c.version, runs.c.agent, runs.c.caller, runs.c.interface,
            runs.c.state, runs.c.error_code, runs.c.cache_hit, runs.c.duration_ms, runs.c.token_usage,
        )
        .where(runs.c.state.in_(("succeeded", "failed", "cancelled", "interrupted")))
        .order_by(runs.c.created_at),
        runs.c.id,
        _add_runs,
    ),
    _Source(
        select(
            turns.c.id.label("key"), func.coalesce(turns.c.finished_at, turns.c.created_at).label("moment"),
            turns.c.state, turns.c.usage, func.coalesce(turns.c.model, conversations.c.model).label("model"), *_BY,
        )
        .join_from(turns, conversations)
        .where(turns.c.state.in_(("done", "failed", "stopped", "interrupted")))
        .order_by(turns.c.created_at),
        turns.c.id,
        _add_turns,
    ),
    _Source(
        select(
            skill_usage.c.number.label("key"), skill_usage.c.at.label("moment"), skill_usage.c.conversation_id,
            skill_usage.c.skill_id, skill_usage.c.event, skill_usage.c.ok, *_BY,
        )
        .join_from(skill_usage, conversations)
        .order_by(skill_usage.c.number),
        skill_usage.c.number,
        _add_usage,
    ),
)  # fmt: skip


USED_DAYS: Final = 30
"""Over how many days the uses of a skill are counted, today included."""
_REMEMBERED_DAYS: Final = 366
_ADDING_S: Final = 0.2  # of what is new, before uses are read


@dataclass(frozen=True, slots=True)
class SkillUse(WireForm):
    """How often a skill was run or loaded into a conversation in the last 30 days, and the last day (of UTC) in a year."""

    skill: str
    uses: int = 0
    last_used: date | None = None


def read_uses(database: Database, skills: Collection[str] | None = None, *, today: date | None = None) -> dict[str, SkillUse]:
    """The use of these skills, by id, or of all; those that were not used in a year are not in it. Blocks.

    Raises:
        DatabaseUnavailable: the database cannot be used.
    """
    count_usage(database, seconds=_ADDING_S)
    last = ((today or datetime.now(UTC).date()) - _EPOCH.date()).days
    table = usage_by_dimension.c
    use = table.runs + table.loaded
    recent = case((table.day > last - USED_DAYS, use), else_=0)
    query = select(table.key, func.sum(recent).label("uses"), func.max(table.day).label("day")).group_by(table.key)
    query = query.where(table.dimension == "skill", table.day.between(last - _REMEMBERED_DAYS + 1, last), use > 0)
    if skills is not None:
        query = query.where(table.key.in_(skills))
    with database.read() as connection:
        rows = connection.execute(query).all()
    return {row.key: SkillUse(row.key, int(row.uses), _EPOCH.date() + timedelta(days=row.day)) for row in rows}
