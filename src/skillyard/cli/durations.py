"""Times on a command line."""

from __future__ import annotations

import argparse
from contextlib import suppress

__all__ = ["milliseconds"]


def milliseconds(text: str) -> int:
    """`5` and `5s` as 5000, `500ms` as 500."""
    number, unit = (text[:-2], 1) if text.endswith("ms") else (text.removesuffix("s"), 1000)
    with suppress(ValueError, OverflowError):
        given = int(float(number) * unit)
        if 1 <= given <= 600_000:
            return given
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1ms to 600s; write it as 5, 5s or 500ms")
