"""When a recurring run comes due: cron expressions of five fields in a time zone, with summer time as people mean it.

What happens at an hour of the day happens once a day: where the clock jumps over that hour it happens right after, and where
the hour comes twice, the first time. What happens every so many minutes goes on through both.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = ["check_cron", "next_moment", "zone_of"]

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
    words = expression.split()
    if len(words) != _FIELDS or len(expression) > _LONGEST or not _WRITTEN.fullmatch(expression.lower()):
        raise InvalidInput(f"{expression[:60]!r} is no cron expression", hint=_HINT)
    found = " ".join(words)
    next_moment(found, zone_of("UTC"), datetime.now(UTC))
    return found


def next_moment(expression: str, zone: ZoneInfo, after: datetime) -> datetime:
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
        found = croniter(expression, wall, ret_type=datetime, max_years_between_matches=_YEARS).get_next()
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{expression!r} is no cron expression that ever comes due: {error}", hint=_HINT) from None
    assert isinstance(found, datetime)  # noqa: S101 # it was asked for
    return found
