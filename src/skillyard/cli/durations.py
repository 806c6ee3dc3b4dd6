"""Times on a command line."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import UTC, datetime, timedelta

__all__ = ["lifetime", "milliseconds", "moment"]


def milliseconds(text: str) -> int:
    """`5` and `5s` as 5000, `500ms` as 500."""
    number, unit = (text[:-2], 1) if text.endswith("ms") else (text.removesuffix("s"), 1000)
    with suppress(ValueError, OverflowError):
        given = int(float(number) * unit)
        if 1 <= given <= 600_000:
            return given
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1ms to 600s; write it as 5, 5s or 500ms")


def lifetime(text: str) -> timedelta:
    """`90d`, `12h` or `4w`."""
    units = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
    with suppress(ValueError, KeyError, OverflowError):
        found = int(text[:-1]) * units[text[-1:]]
        if timedelta(hours=1) <= found <= timedelta(days=3650):
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1h to 3650d; write it as 12h, 90d or 4w")


def moment(text: str) -> datetime:
    """`2026-01-31`, `2026-01-31T08:00`, or `7d` for that long ago; without a zone it is UTC."""
    with suppress(argparse.ArgumentTypeError):
        return datetime.now(UTC) - lifetime(text)
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    raise argparse.ArgumentTypeError(f"{text!r} is no time; write it as 2026-01-31, 2026-01-31T08:00Z, or 7d for a week ago")
