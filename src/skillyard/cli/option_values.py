"""Values of options: whole numbers, durations, points in time, JSON objects; each is parsed or refused with an example."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from skillyard.cli.failures import UsageProblem
from skillyard.plain_json import read_json


def parse_milliseconds(text: str) -> int:
    """`5` and `5s` as 5000, `500ms` as 500."""
    number, unit = (text[:-2], 1) if text.endswith("ms") else (text.removesuffix("s"), 1000)
    with suppress(ValueError, OverflowError):
        given = int(float(number) * unit)
        if 1 <= given <= 600_000:
            return given
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1ms to 600s; write it as 5, 5s or 500ms")


def parse_lifetime(text: str) -> timedelta:
    """`90d`, `12h` or `4w`."""
    units = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
    with suppress(ValueError, KeyError, OverflowError):
        span = int(text[:-1]) * units[text[-1:]]
        if timedelta(hours=1) <= span <= timedelta(days=3650):
            return span
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1h to 3650d; write it as 12h, 90d or 4w")


def parse_moment(text: str) -> datetime:
    """`2026-01-31`, `2026-01-31T08:00`, or `7d` for that long ago; without a zone it is UTC."""
    with suppress(argparse.ArgumentTypeError):
        return datetime.now(UTC) - parse_lifetime(text)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    raise argparse.ArgumentTypeError(f"{text!r} is no time; write it as 2026-01-31, 2026-01-31T08:00Z, or 7d for a week ago")


def parse_context(given: str) -> dict[str, Any]:
    """The context of a run as `--context` gives it; without a user it is the local user's, whose memories are kept."""
    from skillyard.cli.openers import LOCAL_OWNER

    return {"userId": LOCAL_OWNER} | parse_json_object("--context", given)


def parse_json_object(option: str, given: str) -> dict[str, Any]:
    """The JSON object in the text itself, in a file (`@path`) or on standard input (`-`)."""
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        text = _file_text(option, given[1:])
    else:
        text = given
    try:
        value = read_json(text)
    except ValueError as error:
        raise UsageProblem(
            f"{option} is not JSON: {error}", hint=f"""for example {option} '{{"text": "hello"}}', or {option} @input.json"""
        ) from None
    if not isinstance(value, dict):
        raise UsageProblem(
            f"{option} must be a JSON object, not a {type(value).__name__}",
            hint=f"""for example {option} '{{"text": "hello"}}'""",
        )
    return value


def _file_text(option: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageProblem(f"{option} @{path} cannot be read: {reason}", hint="name a file with a JSON object") from None


def parse_positive(text: str) -> int:
    """A whole number above 0, for `type=` of an option.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    if text.isascii() and text.isdigit() and int(text[:18]) > 0:
        return int(text[:18])
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
