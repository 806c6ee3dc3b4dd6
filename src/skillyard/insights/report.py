"""The report: usage of skills in a span of days, by skill, version, agent, caller, interface or model, and its prices.

Prices are the user's settings: `[insights.prices]` with `"openai:gpt-5" = { input = 1.25, output = 10 }`.

The time that runs took is known by buckets, each 1.6 times the one before: a percentile is mostly exact to an eighth. That of
few runs is exact, because those are read themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from math import ceil, isfinite
from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, get_args

from sqlalchemy import func, literal, select, tuple_

from skillyard.database import USAGE_BUCKETS, USAGE_MEASURES, runs, usage_by_dimension, usage_totals
from skillyard.errors import InvalidInput
from skillyard.execution.skill_call import TRIAL_INTERFACES
from skillyard.insights.totals import BUCKET_BOUNDS_MS, REFUSALS, count_usage
from skillyard.settings_reader import Setting, Settings, SettingsReader, table_of, text
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row, Select

    from skillyard.catalog import Configuration
    from skillyard.database import Database


Dimension = Literal["skill", "version", "agent", "caller", "interface", "model"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
UsagePeriod = Literal["day", "week", "all"]
MOST_DAYS: Final = 366
_LONG: Final = 45
"""Days of a span from which on the index that is ordered by use is quicker than that by day, for 10,000 skills."""
_SINCE_EPOCH: Final = date(1970, 1, 1).toordinal()
_BUCKETS: Final = tuple(f"took_{number}" for number in range(USAGE_BUCKETS))
_NAMES: Final = (*USAGE_MEASURES, *_BUCKETS)
_Key = tuple[str, str]  # with the skill of a version, else empty
_COUNTS: Final = USAGE_MEASURES[:-1]  # without the time that all runs took together


class ModelPrice(NamedTuple):
    """What a million tokens cost that a model reads and writes."""

    input: float
    output: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost."""
        return (self.input * input_tokens + self.output * output_tokens) / 1_000_000


def _is_price(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"input", "output"} and all(map(_is_amount, value.values()))


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0


_SETTINGS: Final[Settings] = {
    "currency": text("the name of a currency, such as USD"),
    "prices": table_of(
        Setting(
            "a table with `input` and `output`, what a million tokens cost",
            _is_price,
            convert=lambda price: ModelPrice(float(price["input"]), float(price["output"])),
        ),
        "a table of models, each with its price",
        quoted=True,
    ),
}


@dataclass(frozen=True, slots=True)
class InsightSettings:
    """The prices of models by their names, in one currency."""

    currency: str = "USD"
    prices: Mapping[str, ModelPrice] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """The settings of the user's file.

        Raises:
            InvalidConfiguration: a key or a price is none.
        """
        file = configuration.user_file or "skillyard.toml"
        return cls(**SettingsReader(file).read(_SETTINGS, configuration.insights, "insights"))


@dataclass(frozen=True, slots=True)
class UsageFigures(WireForm):
    """What was counted.

    `offered`, `loaded`, `followed` (a file of it read, or run) and `succeeded` (a turn that used it ended well) count
    conversations; `runs` are those of scripts, of which `runs_cached` gave a kept result, without tests and evaluations of
    skills, which are no use of them; `refused` counts what a rule or a person refused. Times are in milliseconds, of runs that
    really ran; None without one. Tokens are those of turns and those that skills report. `cost` is None where no price of a
    model with tokens is known.
    """

    offered: int = 0
    loaded: int = 0
    followed: int = 0
    succeeded: int = 0
    runs: int = 0
    runs_succeeded: int = 0
    runs_failed: int = 0
    runs_cancelled: int = 0
    runs_cached: int = 0
    refused: int = 0
    turns: int = 0
    turns_failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    p50_ms: int | None = None
    p95_ms: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class InsightRow(WireForm):
    """One skill, version, agent, … (`key`; empty where nobody knows), the `skill` of a version, and its figures by period."""

    key: str
    skill: str | None
    figures: UsageFigures
    periods: tuple[UsageFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class InsightReport(WireForm):
    """The rows, those with most use first, and everything together.

    `periods` are the first days of the periods that each row has figures for. Without `complete` there are records that are
    not added up yet: ask again.
    """

    by: Dimension
    since: date
    until: date
    period: UsagePeriod
    currency: str
    complete: bool
    periods: tuple[date, ...]
    total: InsightRow
    rows: tuple[InsightRow, ...] = field(default=())


class Insights:
    """The reports of one database. Its methods block."""

    def __init__(self, database: Database, settings: InsightSettings | None = None) -> None:
        self._database = database
        self._settings = settings or InsightSettings()

    def report(
        self,
        by: Dimension = "skill",
        *,
        since: date | None = None,
        until: date | None = None,
        period: UsagePeriod = "day",
        skill: str | None = None,
        unused: bool = False,
        limit: int = 100,
        seconds: float | None = 1.0,
    ) -> InsightReport:
        """What happened from the day `since` to the day `until`, both included and those of UTC: the last 14 days by default.

        With a `skill`, its id, only what concerns it; with `unused` the rows of what was offered and neither loaded nor run,
        those most offered first. At most `seconds` are spent on adding up what is new; None waits for all.

        Raises:
            InvalidInput: no such dimension or period, the days are in the wrong order, or more than a year.
            DatabaseUnavailable: the database cannot be used.
        """
        if by not in DIMENSIONS or period not in get_args(UsagePeriod):
            raise InvalidInput(
                f"no report by {by!r} and {period!r}",
                hint=f"by one of {', '.join(DIMENSIONS)}; periods are {', '.join(get_args(UsagePeriod))}",
            )
        until = until or datetime.now(UTC).date()
        since = since or until - timedelta(days=13)
        if not 0 <= (until - since).days < MOST_DAYS:
            hint = f"give a first and a last day in this order, at most {MOST_DAYS} days"
            raise InvalidInput(f"{since} to {until} is not a span of days", hint=hint)
        complete = count_usage(self._database, seconds=seconds)
        starts = period_starts(since, until, period)
        span = _Span(since, until, starts)
        with self._database.read() as connection:
            everything = self._sums(connection, _ReportRows.of_all(skill), span)
            source = _ReportRows.by(by, skill)
            keys = source.keys(connection, span, unused=unused, limit=max(1, limit))
            rows = self._sums(connection, source, span, keys) if keys else {}
            _measure_few(connection, None, span, everything, skill)
            _measure_few(connection, by, span, rows, skill)
        total = everything.get(("", ""), _Sum(len(starts), self._settings))
        return InsightReport(
            by, since, until, period, self._settings.currency, complete, starts if period != "all" else (),
            total.row("", None, periods=period != "all"),
            tuple(rows[key].row(key[0], key[1] or None, periods=period != "all") for key in keys),
        )  # fmt: skip

    def _sums(
        self, connection: Connection, source: _ReportRows, span: _Span, keys: Sequence[_Key] | None = None
    ) -> dict[_Key, _Sum]:
        """The figures of these keys; of everything together without any."""
        sums: dict[_Key, _Sum] = {}
        for row in connection.execute(source.figures(span, keys)):
            one = sums.setdefault((row.key, row.skill_id), _Sum(len(span.starts), self._settings))
            one.add(row, row.position)
        return sums


class _Span(NamedTuple):
    """The days of a report, both included, and the first day of each of its periods."""

    since: date
    until: date
    starts: Sequence[date]

    @property
    def step(self) -> int:
        """How many days a period has."""
        return (self.starts[1] - self.starts[0]).days if len(self.starts) > 1 else MOST_DAYS

    @property
    def is_long(self) -> bool:
        """Whether reading all days key by key, in an index that has them in this order, is quicker than sorting its own."""
        return (self.until - self.since).days >= _LONG

    def position(self, day: ColumnElement[int]) -> ColumnElement[int]:
        """The number of the period in which a day is, from 0; numbers in the text, so that it can be grouped by."""
        first = self.starts[0].toordinal() - _SINCE_EPOCH
        return (day - literal(first, literal_execute=True)) // literal(self.step, literal_execute=True)

    def position_of(self, moment: datetime) -> int:
        """The number of the period in which a moment is."""
        return (moment.date() - self.starts[0]).days // self.step

    def holds(self, day: ColumnElement[int]) -> ColumnElement[bool]:
        """Whether a day belongs to it."""
        return day.between(self.since.toordinal() - _SINCE_EPOCH, self.until.toordinal() - _SINCE_EPOCH)


class _ReportRows(NamedTuple):
    """The rows that a report adds: their table, what is a key there, the skill of a key, and which of them."""

    table: Any
    key: ColumnElement[str]
    skill: ColumnElement[str]
    where: tuple[ColumnElement[bool], ...]

    @classmethod
    def by(cls, by: Dimension, skill: str | None) -> Self:
        """Those of a dimension, with a `skill` only what concerns it."""
        rows, empty = usage_by_dimension.c, literal("", literal_execute=True)
        if skill is None or by in ("skill", "version"):
            of_skill = () if skill is None else ((rows.skill_id if by == "version" else rows.key) == skill,)
            return cls(rows, rows.key, rows.skill_id, (rows.dimension == by, *of_skill))
        return cls(
            usage_totals.c,
            usage_totals.c[by],
            empty,
            (usage_totals.c.skill_id == skill, usage_totals.c.interface.not_in(TRIAL_INTERFACES)),
        )

    @classmethod
    def of_all(cls, skill: str | None) -> Self:
        """Those in which everything is once."""
        empty = literal("", literal_execute=True)
        return cls.by("interface" if skill is None else "skill", skill)._replace(key=empty, skill=empty)

    def keys(self, connection: Connection, span: _Span, *, unused: bool, limit: int) -> tuple[_Key, ...]:
        """Those with most use, or with `unused` those most offered of which nothing came."""
        table = self.table
        use = func.sum(table.runs + table.loaded + table.turns)
        by = [self.key, self.skill] if self.table is usage_by_dimension.c else [self.key]
        query = select(self.key.label("key"), self.skill.label("skill_id")).group_by(*by)
        day = table.day + 0 if span.is_long else table.day  # the index by day is not taken for an expression
        query = query.where(span.holds(day), *self.where)
        if unused:
            use = func.sum(table.offered)
            query = query.having(use > 0, func.sum(table.loaded + table.followed + table.runs) == 0)
        query = query.order_by(use.desc(), *by).limit(limit)
        return tuple((row.key, row.skill_id) for row in connection.execute(query))

    def figures(self, span: _Span, keys: Sequence[_Key] | None) -> Select[Any]:
        """The sums by period and model, of these keys or of everything together."""
        table, position = self.table, span.position(self.table.day)
        columns = [position.label("position"), self.key.label("key"), self.skill.label("skill_id"), table.model]
        query = select(*columns, *(func.sum(table[name]).label(name) for name in _NAMES)).where(
            span.holds(table.day), *self.where
        )
        by = [position, table.model]
        if keys is not None:
            by += [self.key, self.skill] if self.table is usage_by_dimension.c else [self.key]
            query = query.where(self.key.in_({key for key, _ in keys}))
            if any(skill for _, skill in keys):
                query = query.where(self.skill.in_({skill for _, skill in keys}))
        return query.group_by(*by)


_FEW: Final = 200  # runs of one row whose times are read themselves
_READ: Final = 2_000  # of all rows of a report together
_WAITED: Final = timedelta(hours=6)  # between request and end; where a run took longer, the figures of its row are estimates


def _measure_few(
    connection: Connection, by: Dimension | None, span: _Span, sums: Mapping[_Key, _Sum], skill: str | None
) -> None:
    """Give the rows of few runs the time that each of these took; without `by` the row is about all runs."""
    few, left = dict[_Key, _Sum](), _READ
    for key, one in sorted(sums.items(), key=lambda item: item[1].measured):
        left -= one.measured
        if one.measured > _FEW or left < 0:
            break
        if one.measured:
            few[key] = one
    if few:
        for row in connection.execute(_times(by, span, few, skill)):
            key = (row.key or "", row.skill_id if by == "version" else "")
            if key in few:
                few[key].add_time(span.position_of(row.moment), row.duration_ms)


def _times(by: Dimension | None, span: _Span, keys: Collection[_Key], skill: str | None) -> Select[Any]:
    """How long the runs of a span took that `count_usage` puts into buckets, those of these keys."""
    moment = func.coalesce(runs.c.finished_at, runs.c.created_at)
    begin, end = (datetime.combine(day, time.min, UTC) for day in (span.since, span.until + timedelta(days=1)))
    conditions = [
        runs.c.created_at >= begin - _WAITED, runs.c.created_at < end, moment >= begin, moment < end,
        runs.c.counted.is_(True), runs.c.state.in_(("succeeded", "failed")), runs.c.cache_hit.is_(False),
        runs.c.duration_ms > 0, func.coalesce(runs.c.error_code, "").not_in(REFUSALS),
        func.coalesce(runs.c.interface, "").not_in(TRIAL_INTERFACES),
    ]  # fmt: skip
    key: ColumnElement[str] = literal("")  # of what runs have none of, or of all of them
    if by not in (None, "model"):
        key = runs.c["skill_id" if by == "skill" else by]
        names = {name for name, _ in keys}
        conditions.append(key.in_(names) | key.is_(None) if "" in names else key.in_(names))
        if by == "version":  # of many skills there is a version 1.0.0: the skill leads to its few runs
            conditions.append(runs.c.skill_id.in_({of for _, of in keys}))
            conditions.append(tuple_(func.coalesce(key, ""), runs.c.skill_id).in_(keys))
    if skill is not None:
        conditions.append(runs.c.skill_id == skill)
    return select(key.label("key"), runs.c.skill_id, runs.c.duration_ms, moment.label("moment")).where(*conditions)


class _Sum:
    """The figures of one row, for each period."""

    def __init__(self, periods: int, settings: InsightSettings) -> None:
        self._times: list[list[int]] = [[] for _ in range(periods)]
        self._periods: list[list[int] | None] = [None] * periods
        self._costs: list[float | None] = [None] * periods
        self._settings = settings

    def add(self, row: Row[Any], at: int) -> None:
        values = [int(value) for value in row[-len(_NAMES) :]]
        before = self._periods[at]
        self._periods[at] = values if before is None else [*map(add, before, values)]
        price = self._settings.prices.get(row.model)
        if price is not None and (row.input_tokens or row.output_tokens):
            self._costs[at] = (self._costs[at] or 0.0) + price.cost(int(row.input_tokens), int(row.output_tokens))

    @property
    def measured(self) -> int:
        """How many runs have a time."""
        return sum(sum(values[len(USAGE_MEASURES) :]) for values in self._periods if values is not None)

    def add_time(self, position: int, duration_ms: int) -> None:
        """Note how long one run of a period took."""
        self._times[position].append(duration_ms)

    def row(self, key: str, skill: str | None, *, periods: bool) -> InsightRow:
        """The row of a report."""
        there = [values for values in self._periods if values is not None]
        costs = [cost for cost in self._costs if cost is not None]
        sums = [sum(column) for column in zip(*there, strict=True)] if there else None
        whole = _figures(sums, sum(costs) if costs else None, [*chain.from_iterable(self._times)])
        each = tuple(map(_figures, self._periods, self._costs, self._times)) if periods else ()
        return InsightRow(key, skill, whole, each)


def _figures(values: Sequence[int] | None, cost: float | None, times: Sequence[int]) -> UsageFigures:
    """The figures of the sums; percentiles are exact where the `times` are those of all runs."""
    if values is None:
        return _NOTHING
    counts = dict(zip(_COUNTS, values, strict=False))
    buckets = values[len(USAGE_MEASURES) :]
    exact = sorted(times) if len(times) == sum(buckets) else None
    p50, p95 = (percentile(buckets, share) if exact is None else exact_percentile(exact, share) for share in (0.5, 0.95))
    return UsageFigures(**counts, p50_ms=p50, p95_ms=p95, cost=None if cost is None else round(cost, 6))


_NOTHING: Final = UsageFigures()


def percentile(buckets: Sequence[int], share: float) -> int | None:
    """The milliseconds that this share of runs did not exceed, from how many are in each bucket; None of none."""
    total = sum(buckets)
    if not total:
        return None
    before, rank = 0, share * total
    for number, count in enumerate(buckets):
        if count and before + count >= rank:
            low = BUCKET_BOUNDS_MS[number - 1] if number else 0
            high = BUCKET_BOUNDS_MS[number] if number < len(BUCKET_BOUNDS_MS) else 2 * BUCKET_BOUNDS_MS[-1]
            return round(low + (high - low) * (rank - before) / count)
        before += count
    raise AssertionError("a share above 1")


def exact_percentile(times: Sequence[int], share: float) -> int | None:
    """The milliseconds that this share of runs did not exceed, of the sorted times of all; None of none."""
    return times[max(0, ceil(share * len(times)) - 1)] if times else None


def period_starts(since: date, until: date, period: UsagePeriod) -> tuple[date, ...]:
    """The first day of each period of a span of days, both included; weeks end with the last day."""
    if period == "all":
        return (since,)
    step = 1 if period == "day" else 7
    first = until - timedelta(days=step * ((until - since).days // step) + step - 1) if step > 1 else since
    return tuple(first + timedelta(days=step * number) for number in range((until - first).days // step + 1))
