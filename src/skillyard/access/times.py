"""Times as people and programs read them."""

from __future__ import annotations

from datetime import datetime

from skillyard.times import utc_text

__all__ = ["moment"]


def moment(at: datetime | None) -> str | None:
    """A time in UTC, to the second: `2026-01-31T08:00:00Z`."""
    return None if at is None else utc_text(at, to="seconds")
