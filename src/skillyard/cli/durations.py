"""Times on a command line."""

from __future__ import annotations

import argparse

__all__ = ["milliseconds"]


def milliseconds(text: str) -> int:
    """`5` and `5s` as 5000, `500ms` as 500."""
    number, unit = (text[:-2], 1) if text.endswith("ms") else (text.removesuffix("s"), 1000)
    milliseconds = int(float(number) * unit)
    if not 1 <= milliseconds <= 600_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1ms to 600s")
    return milliseconds
