"""Moments as the records keep them and as plain data shows them: always UTC, always with an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime


def utc_now() -> datetime:
    """This moment."""
    from datetime import UTC, datetime  # only needed by who writes

    return datetime.now(UTC)


def utc_text(moment: datetime, *, to: Literal["seconds", "milliseconds"] = "milliseconds") -> str:
    """A moment as text, in UTC.

    >>> from datetime import datetime
    >>> utc_text(datetime.fromisoformat("2026-01-31T09:00:00+01:00"), to="seconds")
    '2026-01-31T08:00:00Z'
    """
    from datetime import UTC

    return moment.astimezone(UTC).isoformat(timespec=to).replace("+00:00", "Z")
