"""The report: what became of skills in a span of days, by skill, version, agent, caller, interface or model, and its prices.

Prices are the user's settings: `[insights.prices]` with `"openai:gpt-5" = { input = 1.25, output = 10 }`.

The time that runs took is known by buckets, each 1.6 times the one before: a percentile is mostly exact to an eighth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, get_args

from sqlalchemy import func, select

from skillyard.database import USAGE_BUCKETS, USAGE_MEASURES, usage_totals
from skillyard.errors import InvalidInput
from skillyard.insights.totals import BUCKET_BOUNDS_MS, count_usage
from skillyard.settings_reader import Setting, Settings, SettingsReader, table_of, text
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Row

    from skillyard.catalog import Configuration
    from skillyard.database import Database


Dimension = Literal["skill", "version", "agent", "caller", "interface", "model"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
UsagePeriod = Literal["day", "week", "all"]
MOST_DAYS: Final = 366
_SINCE_EPOCH: Final = date(1970, 1, 1).toordinal()
_BUCKETS: Final = tuple(f"took_{number}" for number in range(USAGE_BUCKETS))
_NAMES: Final = (*USAGE_MEASURES, *_BUCKETS)
_SUMS: Final = [func.sum(usage_totals.c[name]).label(name) for name in _NAMES]
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
            raise InvalidInput(f"{since} to {until} is no span of days", hint=hint)
        complete = count_usage(self._database, seconds=seconds)
        starts = _starts(since, until, period)
        everything, rows = _Sum(len(starts), self._settings), dict[tuple[str, str | None], _Sum]()
        for row in self._read(by, since, until, skill):
            at = _position(row.day + _SINCE_EPOCH, starts)
            everything.add(row, at)
            if row.key or by != "skill":  # what concerns no skill is in the total only
                rows.setdefault((row.key, row.skill_id or None), _Sum(len(starts), self._settings)).add(row, at)
        shown = {key: total.offered if unused else total.use for key, total in rows.items() if not unused or total.unused}
        ranked = sorted(shown, key=lambda key: (-shown[key], key))
        return InsightReport(
            by, since, until, period, self._settings.currency, complete, starts if period != "all" else (),
            everything.row("", None, periods=period != "all"),
            tuple(rows[key].row(*key, periods=period != "all") for key in ranked[: max(1, limit)]),
        )  # fmt: skip

    def _read(self, by: Dimension, since: date, until: date, skill: str | None) -> Sequence[Row[Any]]:
        table = usage_totals.c
        key: ColumnElement[str] = table.skill_id if by == "skill" else table[by]
        of_skill = table.skill_id if by == "version" else None
        days = table.day.between(since.toordinal() - _SINCE_EPOCH, until.toordinal() - _SINCE_EPOCH)
        groups = [table.day, key, table.model, *([of_skill] if of_skill is not None else [])]
        columns = [
            table.day,
            key.label("key"),
            table.model,
            (table.skill_id if by == "version" else func.min("")).label("skill_id"),
        ]
        query = select(*columns, *_SUMS).where(days, table.interface.not_in(("test", "eval"))).group_by(*groups)
        if skill is not None:
            query = query.where(table.skill_id == skill)
        if by == "version":
            query = query.where(table.skill_id != "", table.runs > 0)
        with self._database.read() as connection:
            return connection.execute(query).all()


class _Sum:
    """The figures of one row, for each period."""

    def __init__(self, periods: int, settings: InsightSettings) -> None:
        self._periods: list[list[int] | None] = [None] * periods
        self._costs: list[float | None] = [None] * periods
        self._settings = settings

    def add(self, row: Row[Any], at: int) -> None:
        values = [int(value) for value in row[-len(_SUMS) :]]
        before = self._periods[at]
        self._periods[at] = values if before is None else [*map(add, before, values)]
        price = self._settings.prices.get(row.model)
        if price is not None and (row.input_tokens or row.output_tokens):
            self._costs[at] = (self._costs[at] or 0.0) + price.cost(int(row.input_tokens), int(row.output_tokens))

    @property
    def use(self) -> int:
        """How often it was used, for the order."""
        return self._count("runs", "loaded", "turns")

    @property
    def offered(self) -> int:
        """In how many conversations it was offered."""
        return self._count("offered")

    @property
    def unused(self) -> bool:
        """Whether it was offered and nothing came of it."""
        return self.offered > 0 and not self._count("loaded", "followed", "runs")

    def _count(self, *names: str) -> int:
        at = [_NAMES.index(name) for name in names]
        return sum(values[number] for values in self._periods if values is not None for number in at)

    def row(self, key: str, skill: str | None, *, periods: bool) -> InsightRow:
        """The row of a report."""
        there = [values for values in self._periods if values is not None]
        costs = [cost for cost in self._costs if cost is not None]
        whole = _figures([sum(column) for column in zip(*there, strict=True)] if there else None, sum(costs) if costs else None)
        each = tuple(map(_figures, self._periods, self._costs)) if periods else ()
        return InsightRow(key, skill, whole, each)


def _figures(values: Sequence[int] | None, cost: float | None) -> UsageFigures:
    if values is None:
        return _NOTHING
    counts = dict(zip(_COUNTS, values, strict=False))
    buckets = values[len(USAGE_MEASURES) :]
    return UsageFigures(
        **counts,
        p50_ms=percentile(buckets, 0.5),
        p95_ms=percentile(buckets, 0.95),
        cost=None if cost is None else round(cost, 6),
    )


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


def _starts(since: date, until: date, period: UsagePeriod) -> tuple[date, ...]:
    """The first day of each period; weeks end with the last day."""
    if period == "all":
        return (since,)
    step = 1 if period == "day" else 7
    first = until - timedelta(days=step * ((until - since).days // step) + step - 1) if step > 1 else since
    return tuple(first + timedelta(days=step * number) for number in range((until - first).days // step + 1))


def _position(ordinal: int, starts: Sequence[date]) -> int:
    step = (starts[1] - starts[0]).days if len(starts) > 1 else MOST_DAYS
    return max(0, (ordinal - starts[0].toordinal()) // step)
